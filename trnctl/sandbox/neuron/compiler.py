"""One compilation as the wrapper around neuronx-cc does it: lines, lock, result in the cache, faults on demand."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import NamedTuple

from trnctl.sandbox.neuron.cache import Cache, Entry
from trnctl.sandbox.neuron.emulation import NOTICE, Emulation
from trnctl.sandbox.neuron.graphs import STEP_GRAPHS, CompilerFlags, Graph
from trnctl.sandbox.neuron.log_lines import Say, library_line

WRAPPER = "NEURON_CC_WRAPPER"
_LOOK_SECONDS = 0.05
_REMIND_SECONDS = 60.0  # the real one repeats its line once a minute


class Outcome(NamedTuple):
    """How one compilation went: whether it worked, how often it was tried again, and its seconds."""

    succeeded: bool
    retries: int
    seconds: float


def tracing() -> bool:
    """Whether this process only traces graphs, as under neuron_parallel_compile."""
    return bool(os.environ.get("NEURON_EXTRACT_GRAPHS_ONLY"))


def compile_entry(entry: Entry, emulation: Emulation, say: Say) -> Outcome:
    """Compile one graph whose lock the caller holds, and record the result in the cache."""
    retries_left = int(os.environ.get("NEURON_PARALLEL_COMPILE_MAX_RETRIES") or 0)
    started, retries = time.monotonic(), 0
    while not _run_compiler(entry, emulation, say):
        if retries >= retries_left:
            say(library_line(WRAPPER, f"Compilation failed for {entry.hlo} after {retries} retries", level="ERROR"))
            return Outcome(False, retries, time.monotonic() - started)
        retries += 1
    return Outcome(True, retries, time.monotonic() - started)


def _run_compiler(entry: Entry, emulation: Emulation, say: Say) -> bool:
    command = _command(entry)
    say(library_line(WRAPPER, f"Call compiler with cmd: {command}"))
    struck = entry.graph.get("graph") in STEP_GRAPHS
    if struck and emulation.has("compile-killed"):
        time.sleep(emulation.compile_seconds / 2)
        os.kill(os.getpid(), signal.SIGKILL)  # the lock stays, as when the kernel runs out of memory
    time.sleep(emulation.compile_seconds)
    if struck and (emulation.has("compile-failure") or emulation.has("compile-failure-exit-0")):
        _record_failure(entry, command, say)
        return False
    entry.succeed(json.dumps({"neff of": entry.name, "note": NOTICE}).encode())
    say("....\nCompiler status PASS")
    say(library_line(WRAPPER, f"Compilation Successfully Completed for model.{entry.name}.hlo_module.pb"))
    return True


def _record_failure(entry: Entry, command: str, say: Say) -> None:
    reason = (
        f"Failed compilation with {command.split()}: "
        f"[TEN404] Internal tensorizer error in {entry.name} ({entry.graph.get('graph')}; {NOTICE})"
    )
    entry.fail(reason + "\n")
    say("....\nCompiler status ERROR")
    say(library_line(WRAPPER, reason, level="ERROR"))


def _command(entry: Entry) -> str:
    work = f"/tmp/{os.environ.get('USER', 'no-user')}/neuroncc_compile_workdir"  # noqa: S108  only printed
    module = f"{work}/{os.getpid()}/model.{entry.name}"
    flags = " ".join([*entry.flags, "--verbose=35"])
    return f"neuronx-cc compile --framework=XLA {module}.hlo_module.pb --output {module}.neff --target=trn1 {flags}"


def wait_for_lock(entry: Entry, say: Say) -> None:
    """Wait until nobody compiles this graph; a lock that a killed compiler left makes this wait without end."""
    started = time.monotonic()
    reminded = -_REMIND_SECONDS
    while entry.state() == "locked":
        waited = time.monotonic() - started
        if waited - reminded >= _REMIND_SECONDS:
            text = f"Another process must be compiling {entry.neff}, been waiting for: {waited / 60:.1f} minutes"
            say(library_line("NEURON_CACHE", text))
            reminded = waited
        time.sleep(_LOOK_SECONDS)


def trace(cache: Cache, graph: Graph, flags: CompilerFlags, say: Say) -> None:
    """Meet a graph while tracing: what the cache lacks is put into it and announced, nothing is compiled."""
    entry = cache.entry(graph, flags)
    state = entry.state()
    if state == "done":
        say(_cached(entry))
    elif state == "failed" and not flags.retry_failed:
        say(_cached_failure(entry))
    else:
        entry = cache.add(graph, flags)
        text = f"Extracting graphs ({entry.hlo}) for ahead-of-time parallel compilation. No compilation was done."
        say(library_line(WRAPPER, text))


def load(cache: Cache, graph: Graph, flags: CompilerFlags, emulation: Emulation, say: Say) -> bool:
    """Meet a graph in a real run: from the cache, or compiled now while others wait. False when it has failed."""
    entry = cache.add(graph, flags)
    while True:
        wait_for_lock(entry, say)
        if entry.compiled():
            say(_cached(entry))
            return True
        if entry.state() == "failed" and not flags.retry_failed:
            say(_cached_failure(entry))
            return False
        if entry.take_lock():
            try:
                return entry.compiled() or compile_entry(entry, emulation, say).succeeded
            finally:
                entry.release_lock()


def _cached(entry: Entry) -> str:
    return library_line(WRAPPER, f"Using a cached neff at {entry.neff}")


def _cached_failure(entry: Entry) -> str:
    text = (
        f"Got a cached failed neff at {entry.neff}. Will skip compilation, "
        "please set --retry_failed_compilation for recompilation."
    )
    return library_line(WRAPPER, text, level="ERROR")
