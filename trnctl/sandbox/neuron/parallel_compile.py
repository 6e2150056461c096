"""neuron_parallel_compile: trace a short run of the training, then compile the graphs that the cache lacks.

Commands, lines, result files and exit codes follow the tool's documentation and its published source. One
difference: that source passes over a graph that another process has locked and ends; the documented behaviour, and
that of releases in the field, is to wait for it, and waiting is what this one does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from trnctl.sandbox.neuron.cache import Cache, Entry, open_cache
from trnctl.sandbox.neuron.compiler import Outcome, compile_entry, wait_for_lock
from trnctl.sandbox.neuron.devices import hardware
from trnctl.sandbox.neuron.emulation import NOTICE, Emulation, node_local, read_emulation, this_node
from trnctl.sandbox.neuron.graphs import read_flags
from trnctl.sandbox.neuron.log_lines import library_line, show
from trnctl.sandbox.neuron.program import start

TAG = "NEURON_PARALLEL_COMPILE"
COMMANDS = (
    "collect-and-compile", "collect", "compile", "clear-locks", "clear-neffs", "clean", "scan", "scan-with-failed",
    "analyze",
)  # fmt: skip
_GIB_PER_COMPILER = 64


def _say(message: str, *, level: str = "INFO") -> None:
    show(library_line(TAG, message, level=level))


def parse(argv: Sequence[str], default_workers: int) -> tuple[argparse.Namespace, list[str], argparse.ArgumentParser]:
    """The tool's own options; everything else is the command to run."""
    parser = argparse.ArgumentParser(
        prog="neuron_parallel_compile",
        description=f"Trace a training script and compile its graphs ({NOTICE}).",
    )
    parser.add_argument("--command", choices=COMMANDS, default="collect-and-compile")
    parser.add_argument("--num_parallel", type=int, default=default_workers)
    parser.add_argument("--node_id", type=int, default=0)
    parser.add_argument("--world_size", type=int, default=None)
    parser.add_argument("--static_schedule", action="store_true")
    parser.add_argument("--analyze-output", default="./")
    parser.add_argument("--analyze-verbosity", choices=["1", "2"], default="2")
    user = os.environ.get("USER", "no-user")
    parser.add_argument("--parallel_compile_workdir", default=f"/tmp/{user}/parallel_compile_workdir")  # noqa: S108
    parser.add_argument("--log_level", choices=["INFO", "DEBUG", "ERROR", "WARNING"], default="INFO")
    options, command = parser.parse_known_args(argv)
    return options, command, parser


def run_training_script(command: list[str], workdir: Path, cache: Cache) -> list[Entry]:
    """Run the training with graph extraction on, show what it prints, and return the graphs that it announced.

    Ends the program with 1 when the script fails, unless NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE is set.
    """
    if "torchrun" in command and any("--redirect" in word for word in command):
        _say("neuron_parallel_compile is currently incompatible with torchrun redirect.", level="ERROR")
        raise SystemExit(1)
    _say("Running trial run (add option to terminate trial run early; also ignore trial run's generated outputs)")
    _say(f"Running cmd: {command}")
    log = workdir / f"trial_run_pid{os.getpid()}_log.txt"
    if _trial_run(command, log) != 0:
        _say("There was an error in the training script.", level="ERROR")
        if not os.environ.get("NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE"):
            raise SystemExit(1)
        _say("NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE is set, continuing to compile")
    return announced_graphs(log, cache)


def _trial_run(command: list[str], log: Path) -> int:
    environment = {**os.environ, "NEURON_EXTRACT_GRAPHS_ONLY": "1"}
    try:
        with (
            log.open("wb") as copy,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as child,
        ):
            assert child.stdout is not None  # noqa: S101  a pipe was asked for
            while piece := os.read(child.stdout.fileno(), 65536):
                sys.stdout.buffer.write(piece)
                sys.stdout.flush()
                copy.write(piece)
            return child.wait()
    except OSError as problem:
        _say(str(problem), level="ERROR")
        return -1


def announced_graphs(log: Path, cache: Cache) -> list[Entry]:
    """The cache entries that a trial run announced in its output, each once, by name."""
    text = log.read_text(encoding="utf-8", errors="ignore")
    announced = [line.split("Extracting graphs (")[1].split(")")[0] for line in text.splitlines() if _announces(line)]
    joined = "\n\t".join(announced)
    _say(f"New graph list from script {len(announced)}: {joined}")
    return [cache.entry_at(path) for path in sorted(set(announced))]


def _announces(line: str) -> bool:
    return "Extracting graphs (" in line


class ParallelCompilation:
    """A pool of compilers over one list of graphs; counts only what this process compiled itself."""

    def __init__(self, cache: Cache, emulation: Emulation) -> None:
        self._cache = cache
        self._emulation = emulation
        self._began = time.time()
        self.outcomes: dict[str, Outcome] = {}

    @property
    def failed(self) -> int:
        """Graphs that did not compile."""
        return sum(not outcome.succeeded for outcome in self.outcomes.values())

    def run(self, tasks: list[Entry], workers: int) -> None:
        """Compile all tasks; those that others compile are waited for, and compiled here if they gave up."""
        show(library_line("NEURON_CACHE", f"Compile cache path: {self._cache.url}"))
        self._progress()
        # Daemons, so that an interrupted tool ends at once and leaves its locks, as the real one does.
        threads = [threading.Thread(target=self._work, args=(i, tasks), daemon=True) for i in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while others := [entry for entry in tasks if self._wanted(entry)]:
            for entry in others:
                wait_for_lock(entry, show)
            self._work(workers, others)
        self._progress()

    def _wanted(self, entry: Entry) -> bool:
        """Whether this process still has an interest in a graph: a failure that another node has met since this
        one began is that node's to report, an older one is here to be tried again."""
        if entry.hlo in self.outcomes or entry.compiled():
            return False
        return entry.failed_at() < self._began

    def _work(self, number: int, tasks: list[Entry]) -> None:
        done = 0
        for entry in tasks:
            if not self._wanted(entry) or not entry.take_lock():
                continue
            try:
                # Somebody may have finished it, here or on another node, between the look and the lock.
                if self._wanted(entry):
                    self.outcomes[entry.hlo] = compile_entry(entry, self._emulation, show)
                    done += 1
            finally:
                entry.release_lock()
            self._progress()
        if done:
            _say(f"worker {number} finished with num of tasks {done}....")

    def _progress(self) -> None:
        states = self._cache.by_state()
        counts = {state: len(entries) for state, entries in states.items()}
        text = (
            f"Current remaining items are {counts['todo']}, locked are {counts['locked']}, "
            f"failed are {counts['failed']}, done are {counts['done']}, total is {sum(counts.values())}"
        )
        show(library_line("NEURON_CACHE", text))


def compile_graphs(cache: Cache, tasks: list[Entry], workers: int, emulation: Emulation) -> int:
    """Compile a list of graphs, print the summary; the number that failed here. Nothing to do prints no summary."""
    if not tasks:
        _say("No todo hlos found in cache or hlo_tasklist, parallel_compile return before spawning workers....")
        return 0
    started = time.time()
    pool = ParallelCompilation(cache, emulation)
    pool.run(tasks, min(workers, len(tasks)))
    _report(pool, started)
    _say(f"Total graphs: {len(pool.outcomes)}")
    _say(f"Total successful compilations: {len(pool.outcomes) - pool.failed}")
    _say(f"Total failed compilations: {pool.failed}")
    return 0 if emulation.has("compile-failure-exit-0") else pool.failed


def _report(pool: ParallelCompilation, started: float) -> None:
    results = [outcome.succeeded for outcome in pool.outcomes.values()]
    report = {
        "compilation_summary": {json.dumps(result): results.count(result) for result in set(results)},
        "compilation_report": {
            path: {"status": outcome.succeeded, "retry": outcome.retries, "compile_time": outcome.seconds}
            for path, outcome in pool.outcomes.items()
        },
        "start_time": started,
        "compilation_time": time.time() - started,
    }
    _say(json.dumps(report, indent=4))
    if os.environ.get("NEURON_PARALLEL_COMPILE_DUMP_RESULTS"):
        total = {"total_neuron_parallel_compile_time": time.time() - started}
        for name, content in (("", report), ("total_", total)):
            path = Path(f"{name}neuron_parallel_compile_results_{time.time()}.json")
            path.write_text(json.dumps(content, indent=4), encoding="utf-8")


def _scan(cache: Cache) -> None:
    lines = [f"cache scan for {cache.url}: "]
    for state, entries in cache.by_state().items():
        lines.append(f"\t{state}[{len(entries)}]: {[entry.hlo for entry in entries]}")
    _say("\n".join(lines))


def _tend_cache(command: str, cache: Cache) -> None:
    """The commands that neither trace nor compile."""
    if command == "clean":
        cache.clean()
        _say("Cleanup done.")
    elif command == "clear-locks":
        cache.clear_locks()
        _say("Cleanup locks done.")
    elif command == "clear-neffs":
        for entry in cache.entries():
            entry.forget()
        _say("Cleanup neffs done.")
    else:
        _scan(cache)


def _prepare_workdir(path: str) -> Path:
    workdir = node_local(path)
    if workdir.exists():
        _say(f"Removing existing workdir {path}")
        shutil.rmtree(workdir)
    workdir.mkdir(parents=True)
    return workdir


def main(argv: Sequence[str]) -> int:
    """Run the tool; the exit code is 0, 1 when the training script failed, or the number of failed graphs."""
    emulation = read_emulation()
    kit = hardware(this_node(emulation).instance_type)
    options, command, parser = parse(argv, max(1, (kit.host_gib if kit else 1) // _GIB_PER_COMPILER))
    if options.command == "analyze":
        raise SystemExit("trnctl sandbox: --command analyze is not emulated")
    print(f"neuron_parallel_compile: {NOTICE}", file=sys.stderr, flush=True)
    flags = read_flags(os.environ.get("NEURON_CC_FLAGS", ""))
    cache = open_cache(flags, emulation.neuron_sdk)
    workdir = _prepare_workdir(options.parallel_compile_workdir)
    failed = 0
    if options.command in ("collect", "collect-and-compile"):
        if not command:
            parser.print_help()
            return 0
        tasks = run_training_script(command, workdir, cache)
        if options.command == "collect-and-compile":
            failed = compile_graphs(cache, tasks, options.num_parallel, emulation)
    elif options.command == "compile":
        failed = compile_graphs(cache, cache.by_state()["todo"], options.num_parallel, emulation)
    else:
        _tend_cache(options.command, cache)
    return failed % 256


if __name__ == "__main__":
    start(main)
