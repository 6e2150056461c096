"""A broken Neuron device of an emulated node: written down by what breaks it, told by neuron-monitor and the kernel's
log until the node is another instance."""

from __future__ import annotations

import json
import os
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


def sram_error(device: int, node: str, instance: str) -> Broken:
    """An uncorrectable error of a device's SRAM, for which the instance must be replaced."""
    line = (
        f"neuron{device}: NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR instance-id={instance} hostname={node} "
        f"nd-id={device} nc-id=0 serial-num=0000000000000000 action=TERMINATE_INSTANCE"
    )
    return Broken(device, "sram_ecc_uncorrected", line)


def break_device_once(cluster: Path, node: str, broken: Broken) -> bool:
    """Break a device of a node, unless the fault has struck a node of this cluster already; whether it did."""
    path = _path(cluster, node)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(_struck(cluster), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    path.write_text(json.dumps(broken._asdict()), encoding="utf-8")
    return True


def _struck(cluster: Path) -> Path:
    return cluster / "run" / "neuron" / "hardware-error.struck"


def strike_again(cluster: Path) -> None:
    """The fault was set anew: it may strike once more."""
    _struck(cluster).unlink(missing_ok=True)


def broken_device(cluster: Path, node: str) -> Broken | None:
    """The broken device of a node; None when all are well."""
    try:
        return Broken(**json.loads(_path(cluster, node).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return None


def mend(cluster: Path, node: str) -> None:
    """The node is another instance now."""
    _path(cluster, node).unlink(missing_ok=True)
