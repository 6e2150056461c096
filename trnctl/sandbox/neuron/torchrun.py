"""torchrun on an emulated node: its arguments, the static rendezvous, and one process that stands for all workers.

The real one starts a process for each NeuronCore; the processes here would have nothing to do, so one is started a
node, told how many it stands for (LOCAL_WORLD_SIZE) and of which the first is (RANK). Unlike the real one, which
ends with 1 whenever a worker fails, this one ends as its process ended. On a node that has neither Neuron devices nor
GPUs the real one runs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from trnctl.sandbox.neuron.devices import hardware
from trnctl.sandbox.neuron.emulation import NOTICE, cluster_folder, read_emulation, this_node
from trnctl.sandbox.neuron.log_lines import runtime_line
from trnctl.sandbox.neuron.program import start
from trnctl.sandbox.neuron.real_torchrun import become, runs_here
from trnctl.sandbox.neuron.rendezvous import Endpoint, RendezvousError, endpoint, gather

STORE_VARIABLE = "TRNCTL_SANDBOX_STORE"  # loopback address:port, for the process that stands for the workers
_JOIN_SECONDS = 600.0  # torch's default for the static rendezvous
_EXIT_BARRIER_SECONDS = 30.0
_DEATH_SECONDS = 30.0  # how long the real one waits for workers after SIGTERM
_TAKEN_AND_IGNORED = (
    "rdzv-backend", "rdzv-endpoint", "rdzv-id", "max-restarts", "monitor-interval", "start-method", "role", "log-dir",
    "redirects", "tee", "local-ranks-filter", "local-addr", "logs-specs",
)  # fmt: skip
_FLAGS = ("standalone", "module", "no-python", "run-path")
_SHORT = {"redirects": "-r", "tee": "-t", "module": "-m"}


def _names(option: str) -> list[str]:
    """Both spellings that torchrun takes, and the short one where there is one."""
    names = [f"--{option}", f"--{option.replace('-', '_')}"]
    return list(dict.fromkeys([*([_SHORT[option]] if option in _SHORT else []), *names]))


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Torchrun's command line; as there, PET_<OPTION> in the environment gives a default."""
    parser = argparse.ArgumentParser(prog="torchrun", description=f"Torch Distributed Elastic Training ({NOTICE})")
    given = {"nnodes": "1:1", "nproc-per-node": "1", "node-rank": "0", "master-addr": "127.0.0.1"}
    given |= {"master-port": "29500", "rdzv-conf": ""} | dict.fromkeys(_TAKEN_AND_IGNORED, "")
    for option, default in given.items():
        variable = f"PET_{option.replace('-', '_').upper()}"
        parser.add_argument(*_names(option), default=os.environ.get(variable, default))
    for flag in _FLAGS:
        parser.add_argument(*_names(flag), action="store_true")
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    for option, known in (("rdzv_backend", ("", "static")), ("max_restarts", ("", "0"))):
        if getattr(options, option) not in known:
            parser.error(f"--{option}={getattr(options, option)} is not {NOTICE}; it knows {known[-1]}")
    for flag in ("module", "no_python", "run_path"):
        if getattr(options, flag):
            parser.error(f"--{flag} is not {NOTICE}")
    for number in ("node_rank", "master_port"):
        setattr(options, number, _number(parser, number, getattr(options, number)))
    options.nproc_per_node = _number(parser, "nproc_per_node", options.nproc_per_node)
    options.nnodes = _number(parser, "nnodes", options.nnodes.rpartition(":")[2])
    return options


def _number(parser: argparse.ArgumentParser, option: str, text: str) -> int:
    if not text.isdigit():
        parser.error(f"argument --{option}: invalid int value: {text!r}")
    return int(text)


def check_workers(workers: int, instance_type: str) -> str:
    """What Neuron's runtime would say to this number of workers on this node; '' when it would start them."""
    kit = hardware(instance_type)
    if kit is None:
        return runtime_line("NRT:nrt_init", "Unable to determine Neuron Driver version: no Neuron device on this node.")
    if workers > kit.all_cores:
        text = f"NeuronCore(s) not available - Requested:{workers} Available:{kit.all_cores}"
        return runtime_line("NRT:nrt_allocate_neuron_cores", text)
    if kit.workers and workers not in kit.workers:
        counts = f"{', '.join(str(count) for count in kit.workers[:-1])} or a multiple of {kit.workers[-1]}"
        text = f"Unsupported topology. Supported number of Neuron Cores is {counts}."
        return runtime_line("NRT:nrt_load_collectives", text)
    return ""


def environment(options: argparse.Namespace, where: Endpoint) -> dict[str, str]:
    """What torchrun tells its workers, for the first worker of this node."""
    workers, nodes, node = options.nproc_per_node, options.nnodes, options.node_rank
    told: dict[str, object] = {
        "RANK": node * workers,
        "WORLD_SIZE": nodes * workers,
        "LOCAL_RANK": 0,
        "LOCAL_WORLD_SIZE": workers,
        "GROUP_RANK": node,
        "GROUP_WORLD_SIZE": nodes,
        "ROLE_RANK": node * workers,
        "ROLE_WORLD_SIZE": nodes * workers,
        "MASTER_ADDR": where.host,
        "MASTER_PORT": where.port,
        "TORCHELASTIC_RUN_ID": options.rdzv_id or "none",
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        STORE_VARIABLE: f"{where.address}:{where.port}",
    }
    return {**os.environ, **{name: str(value) for name, value in told.items()}}


def run_worker(command: list[str], variables: dict[str, str]) -> int:
    """Run the process to its end, passing SIGTERM, SIGINT and SIGUSR1 on; its exit code, 128 + n for a signal."""
    with subprocess.Popen(command, env=variables) as worker:
        told_to_end: list[float] = []

        def forward(number: int, _frame: FrameType | None) -> None:
            worker.send_signal(number)
            if number != signal.SIGUSR1:
                told_to_end.append(time.monotonic())

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            # What the job ignores stays ignored, here and, by inheritance, in the worker.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, forward)
        while True:
            try:
                code = worker.wait(timeout=1.0)
                return code if code >= 0 else 128 - code
            except subprocess.TimeoutExpired:
                if told_to_end and time.monotonic() - told_to_end[0] > _DEATH_SECONDS:
                    worker.kill()


def _rendezvous_seconds(configuration: str) -> float:
    pairs = dict(pair.partition("=")[::2] for pair in configuration.split(",") if pair)
    return float(pairs.get("timeout", _JOIN_SECONDS))


def main(argv: Sequence[str]) -> int:
    """Run torchrun; the exit code is that of the training process."""
    options = parse(argv)
    node = this_node(read_emulation())
    if runs_here(node.instance_type):
        become(options)
    print(
        f"torchrun: {NOTICE}: one process stands for the {options.nproc_per_node} workers of {node.name}",
        file=sys.stderr,
        flush=True,
    )
    if problem := check_workers(options.nproc_per_node, node.instance_type):
        print(problem, file=sys.stderr)
        return 1
    script = Path(options.training_script)
    if not script.is_file():
        text = f"can't open file '{script.absolute()}': [Errno 2] No such file or directory"
        print(f"{sys.executable}: {text}", file=sys.stderr)
        return 2  # Python's own code for it
    where = endpoint(options.master_addr, options.master_port, options.nnodes, cluster_folder())
    try:
        member = gather(where, options.node_rank, options.nnodes, _rendezvous_seconds(options.rdzv_conf))
    except RendezvousError as problem:
        print(f"torch.distributed.DistNetworkError: {problem}", file=sys.stderr)
        return 1
    command = [sys.executable, "-u", str(script), *options.training_script_args]
    code = run_worker(command, environment(options, where))
    if code == 0:
        # The store must outlive the others' last question, as in torchrun's exit barrier.
        member.reach("left", _EXIT_BARRIER_SECONDS if options.node_rank == 0 else 0.1)
    else:
        print(f"torchrun: failed (exitcode: {code}) local_rank: 0 of binary: {sys.executable}", file=sys.stderr)
    return code


if __name__ == "__main__":
    start(main)
