"""What the stand-ins for training scripts share: graphs, a node's cores, the faults of a training, the exit code."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from trnctl.sandbox.neuron import running
from trnctl.sandbox.neuron.cache import open_cache
from trnctl.sandbox.neuron.checkpoints import CheckpointError
from trnctl.sandbox.neuron.collective import RuntimeFailure, World
from trnctl.sandbox.neuron.compiler import load, trace, tracing
from trnctl.sandbox.neuron.emulation import Emulation, cluster_folder, this_node
from trnctl.sandbox.neuron.graphs import read_flags, training_graphs
from trnctl.sandbox.neuron.hardware_faults import break_device_once, sram_error
from trnctl.sandbox.neuron.log_lines import library_line, runtime_line, show

COMPILE_PATIENCE = 7 * 24 * 3600.0  # seconds; ranks wait for one that compiles "forever", as Neuron's guide says
Tell = Callable[[int, bool], None]


class ScriptError(Exception):
    """The script ends here with exit code 1; the text is its own."""


def meet_graphs(accumulation: int, facts: Mapping[str, object], emulation: Emulation, *, flags: str = "") -> None:
    """Trace the training's graphs, or take them from the cache, or compile them; `flags` are those that the script
    adds to NEURON_CC_FLAGS. Raises ScriptError."""
    given = read_flags(f"{os.environ.get('NEURON_CC_FLAGS', '')} {flags}")
    cache = open_cache(given, emulation.neuron_sdk)
    show(library_line("NEURON_CACHE", f"Compile cache path: {cache.url}"))
    for graph in training_graphs(accumulation, facts):
        if tracing():
            trace(cache, graph, given, show)
        elif not load(cache, graph, given, emulation, show):
            raise ScriptError("RuntimeError: RunNeuronCCImpl: error condition error != 0: neuronx-cc failed with 70")


@contextmanager
def cores_of(whole: World, emulation: Emulation) -> Iterator[Tell]:
    """Hold the cores of this node inside the block; the value tells how the training goes: its step, and whether the
    cores are busy. Raises RuntimeFailure when another process has them."""
    node, cluster = this_node(emulation).name, cluster_folder()
    if running.trainings(cluster, node):
        text = f"NeuronCore(s) not available - Requested:{whole.local} Available:0"
        raise RuntimeFailure(runtime_line("NRT:nrt_allocate_neuron_cores", text))
    command, tag = " ".join(["python3", *sys.argv]), os.environ.get("NEURON_PROCESS_TAG", "")
    own = running.Training(os.getpid(), command, whole.local, tag, running.now())
    with running.holding_cores(cluster, node, own) as tell:
        yield lambda step, busy: tell(own._replace(step=step, busy=busy))


def strike(step: int, fault_step: int, whole: World, emulation: Emulation, tell: Tell) -> None:
    """The faults of training: the last node crashes, breaks or hangs at one step. Raises RuntimeFailure."""
    if step != fault_step or not whole.is_last_node:
        return
    if emulation.has("training-crash"):
        text = "Failed to allocate 1024.000MB (alignment: none, usage: tensors) on ND 3:NC 1"
        raise RuntimeFailure(runtime_line("TDRV:dmem_alloc_internal", text))
    if emulation.has("hardware-error") and _breaks(emulation):
        text = (
            "(FATAL-RT-UNDEFINED-STATE) encountered uncorrectable memory error on Neuron Device 3. Please "
            "terminate or start/stop this instance to recover from bad hardware. status=1202"
        )
        raise RuntimeFailure(runtime_line("TDRV:exec_consume_infer_status_notifications", text))
    if emulation.has("hung-collective"):
        tell(step, False)
        while True:
            time.sleep(3600)


def _breaks(emulation: Emulation) -> bool:
    """Break a device of this node, if none of the cluster has broken yet."""
    node, cluster = this_node(emulation), cluster_folder()
    return break_device_once(cluster, node.name, sram_error(3, node.name, node.instance_id))


def exit_code(train: Callable[[], None]) -> int:
    """Run a script to its end; the exit code is Python's for a script that raised: 1."""
    try:
        train()
    except (ScriptError, CheckpointError, RuntimeFailure) as problem:
        print(problem, file=sys.stderr, flush=True)
        return 1
    return 0
