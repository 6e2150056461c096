"""torchrun on an emulated node without an accelerator: the real one, if PyTorch is here, for this machine has CPUs too.

All nodes are this one machine, so the port that the job names would be everyone's. The first node takes a free one
instead and leaves it in a file, named after the attempt, for the others.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from trnctl.sandbox.neuron.emulation import cluster_folder

_LOOPBACK = "127.0.0.1"
_JOIN_SECONDS = 120.0  # of a machine that has other things to do
_FIRST, _LAST = 12_000, 31_900  # below the range from which Linux takes the ports of outgoing connections
MISSING = "torchrun: PyTorch is not installed where the sandbox runs: pip install 'trnctl[trainer]'"


def runs_here(instance_type: str) -> bool:
    """Whether what such a node would do can really be done on this machine."""
    from trnctl.specs.instances import instance  # dataclasses would slow down the start of every tool

    facts = instance(instance_type)
    return facts is not None and facts.kind == "cpu"


def become(options: argparse.Namespace) -> NoReturn:
    """Become the real torchrun, which then gets the signals. SystemExit with 69 when PyTorch is not here."""
    program, port = _program(), _port(options.node_rank)
    words = [
        f"--nnodes={options.nnodes}",
        f"--nproc_per_node={options.nproc_per_node}",
        f"--node_rank={options.node_rank}",
        f"--master_addr={_LOOPBACK}",
        f"--master_port={port}",
        f"--local_addr={_LOOPBACK}",
        f"--rdzv_conf=timeout={_JOIN_SECONDS:g}",
        options.training_script,
        *options.training_script_args,
    ]
    print(f"torchrun: the real one, on this machine's CPU, over {_LOOPBACK}:{port}", file=sys.stderr, flush=True)
    # This machine's own name may stand for an address that other machines can reach.
    variables = {**os.environ, "GLOO_SOCKET_IFNAME": _loopback_interface(os.environ)}
    os.execve(program, [program, *words], variables)  # noqa: S606  no shell is wanted


def _program() -> str:
    """The one beside this Python, else the first on PATH that is not the cluster's own."""
    own = str(cluster_folder() / "bin")
    folders = [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each != own]
    found = shutil.which("torchrun", path=os.pathsep.join([str(Path(sys.executable).parent), *folders]))
    if found is None:
        print(MISSING, file=sys.stderr)
        sys.exit(69)
    return found


def _port(rank: int) -> int:
    """The port of this attempt of this step; the first node chooses it."""
    names = ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_STEP_ID")
    attempt = "-".join(os.environ.get(name, "0") for name in names)
    file = cluster_folder() / "run" / f"torchrun-{attempt}"
    if rank == 0:
        port = next(filter(_is_free, random.sample(range(_FIRST, _LAST), 1000)))
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_suffix(".new")
        beside.write_text(str(port), encoding="utf-8")
        beside.replace(file)
        return port
    until = time.monotonic() + _JOIN_SECONDS
    while not file.is_file():
        if time.monotonic() > until:
            sys.exit(f"torchrun: the first node named no port within {_JOIN_SECONDS:g} seconds")
        time.sleep(0.05)
    return int(file.read_text(encoding="utf-8"))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _loopback_interface(environment: Mapping[str, str]) -> str:
    return environment.get("GLOO_SOCKET_IFNAME") or ("lo0" if sys.platform == "darwin" else "lo")
