"""What the emulated tools obey: clusters/NAME/emulation.json, and which emulated node this process runs on."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

CLUSTER_VARIABLE = "TRNCTL_SANDBOX_CLUSTER"
NOTICE = "emulated by the trnctl sandbox"

FAULTS = {
    "compile-failure": "one graph does not compile; neuron_parallel_compile exits with the number of failed graphs",
    "compile-failure-exit-0": "the same, but the exit code is 0, as before Neuron 2.23",
    "compile-killed": "the compiler is killed in the middle and leaves its lock in the cache",
    "training-crash": "the last node's process runs out of device memory halfway",
    "hardware-error": "a Neuron device of the last node breaks halfway, once: the runtime, the kernel and "
    "neuron-monitor say so",
    "full-disk": "the shared file system is full: the next checkpoint cannot be written",
    "hung-collective": "the last node stops taking part in collectives halfway, and says nothing",
    "missing-device": "one node, the second of the first queue, has lost a Neuron device",
    "slow-link": "that node is slow in all-reduces with other nodes",
    "hung-link": "an all-reduce with that node never ends",
    "old-driver": "that node has the driver of an older Neuron release",
}


class Emulation(NamedTuple):
    """The content of emulation.json; a key that is missing has the default given here.

    `steps`: how many optimizer steps one start of a training does. `step_seconds`: seconds a step, None = the
    published pace. `compile_seconds`: seconds to compile one graph. `steps_per_shard`: how long an emulated data
    shard lasts; the public script checkpoints at their ends. `neuron_sdk` decides versions and flags of the tools.
    `instance_types`: node name without its trailing number -> instance type; `instance_ids`: node name -> id.
    `struck`: the node that faults of a single node strike.
    """

    steps: int = 20
    step_seconds: float | None = None
    compile_seconds: float = 2.0
    steps_per_shard: int = 10
    neuron_sdk: str = "2.31.1"
    instance_types: Mapping[str, str] = {}
    instance_ids: Mapping[str, str] = {}
    faults: frozenset[str] = frozenset()
    struck: str = ""

    def strikes(self, fault: str, *nodes: str) -> bool:
        """Whether a fault of a single node is switched on, and one of these is that node."""
        return fault in self.faults and self.struck in nodes

    def has(self, fault: str) -> bool:
        """Whether a fault, a key of FAULTS, is switched on."""
        return fault in self.faults


class Node(NamedTuple):
    """The emulated computer that this process runs on; `instance_type` is '' on a head node."""

    name: str
    instance_type: str
    instance_id: str


def cluster_folder() -> Path:
    """The clusters/NAME folder, from the variable that the wrappers set. Ends the program when it is not set."""
    folder = os.environ.get(CLUSTER_VARIABLE)
    if not folder:
        raise SystemExit(f"trnctl sandbox: {CLUSTER_VARIABLE} is not set — start this tool through the cluster's bin/")
    return Path(folder)


def read_emulation() -> Emulation:
    """Read emulation.json of this cluster; without the file, the defaults. Ends the program when it is not valid."""
    path = cluster_folder() / "emulation.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return _emulation(content)
    except FileNotFoundError:
        return Emulation()
    except (ValueError, TypeError, AttributeError) as problem:
        raise SystemExit(f"trnctl sandbox: {path} cannot be used: {problem}") from problem


def _emulation(content: Mapping[str, Any]) -> Emulation:
    known = {key: content[key] for key in Emulation._fields if key in content}
    # The file also carries keys for other tools; faults of theirs are kept and mean nothing here.
    known["faults"] = frozenset(content.get("faults", ()))
    for key in ("compile_seconds", "step_seconds"):
        if known.get(key) is not None:
            known[key] = float(known[key])
    for key in ("steps", "steps_per_shard"):
        if key in known:
            known[key] = max(1, int(known[key]))
    return Emulation(**known)


def this_node(emulation: Emulation) -> Node:
    """The node of this process: Slurm's name for it, else the hostname (emulated nodes may have their own)."""
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    return Node(name, instance_type(emulation, name), emulation.instance_ids.get(name, ""))


def instance_type(emulation: Emulation, node: str) -> str:
    """The instance type of a node by its Slurm name; '' for one that is no compute node."""
    stem = node.rstrip("0123456789")
    for key in (node, stem, stem.removesuffix("-")):
        if key in emulation.instance_types:
            return emulation.instance_types[key]
    return ""


def node_local(path: str) -> Path:
    """Where a path of this node really lies: /tmp and /var/tmp are a node's own disk on AWS, but shared by all
    emulated nodes here, so what lies there moves to clusters/NAME/local/NODE. Other paths stay."""
    given = Path(path).expanduser().absolute()
    cluster = cluster_folder()
    home = cluster.parent.parent  # the sandbox's home may itself lie in /tmp
    own_disk = given.is_relative_to("/tmp") or given.is_relative_to("/var/tmp")  # noqa: S108  the node's, not ours
    if not own_disk or given.is_relative_to(home):
        return given
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    return cluster / "local" / name / given.relative_to("/")
