"""A broken Neuron device of an emulated node: written down by what breaks it, told by neuron-monitor and the kernel's
log until the node is another instance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple


class Broken(NamedTuple):
    """A device with an error that cannot be corrected: its index, the ECC counter that tells it, and the kernel's
    line, as Neuron's guide to troubleshooting shows it."""

    device: int
    counter: str
    kernel_line: str


def _path(cluster: Path, node: str) -> Path:
    return cluster / "run" / "neuron" / f"{node}.broken"


def break_device(cluster: Path, node: str, broken: Broken) -> None:
    """Break a device of a node."""
    path = _path(cluster, node)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(broken._asdict()), encoding="utf-8")


def broken_device(cluster: Path, node: str) -> Broken | None:
    """The broken device of a node; None when all are well."""
    try:
        return Broken(**json.loads(_path(cluster, node).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return None


def mend(cluster: Path, node: str) -> None:
    """The node is another instance now."""
    _path(cluster, node).unlink(missing_ok=True)
