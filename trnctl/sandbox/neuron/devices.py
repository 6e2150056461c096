"""What each Trainium instance type holds, as a table: chips, cores, memory, links, EFA devices, worker counts."""

from __future__ import annotations

import os
from typing import NamedTuple


class Hardware(NamedTuple):
    """One instance type. `cores` is NeuronCores a chip as programs count them, after grouping by `logical`
    (the logical NeuronCore configuration: physical cores in one logical core). Memory in GiB, the chip's own."""

    chips: int
    cores: int
    logical: int
    chip_gib: int
    efa: int
    vcpus: int
    host_gib: int
    chip: str
    core_version: str
    workers: tuple[int, ...] = ()  # the legal numbers of workers; () = any number up to the cores

    @property
    def all_cores(self) -> int:
        """NeuronCores of the node as programs count them."""
        return self.chips * self.cores


# EC2's instance pages and Neuron's hardware pages, 2026; worker counts of trn1 from Neuron's BERT tutorial. For
# Trainium2 EC2 reports 512 GiB a chip, Neuron 96: Neuron's is right. LNC is 2 by default on trn2.
HARDWARE = {
    "trn1.2xlarge": Hardware(1, 2, 1, 32, 0, 8, 32, "trainium", "v2", (1, 2)),
    "trn1.32xlarge": Hardware(16, 2, 1, 32, 8, 128, 512, "trainium", "v2", (1, 2, 8, 32)),
    "trn1n.32xlarge": Hardware(16, 2, 1, 32, 16, 128, 512, "trainium", "v2", (1, 2, 8, 32)),
    "trn2.3xlarge": Hardware(1, 4, 2, 96, 1, 12, 128, "trainium2", "v3d"),
    "trn2.48xlarge": Hardware(16, 4, 2, 96, 16, 192, 2048, "trainium2", "v3d"),
    "trn2u.48xlarge": Hardware(16, 4, 2, 96, 16, 192, 2048, "trainium2", "v3d"),
}

# PCI addresses of trn1.32xlarge as Neuron's documentation shows them; those of other types are made up.
_TRN1_ADDRESSES = (
    "10:1c", "10:1d", "a0:1c", "a0:1d", "20:1b", "20:1c", "90:1b", "90:1c",
    "20:1d", "20:1e", "90:1d", "90:1e", "10:1e", "10:1b", "a0:1e", "a0:1b",
)  # fmt: skip

# The compiler and the runtime library of each SDK release, from the release notes.
_COMPILERS = {
    "2.28": ("2.23.6484.0", "2.30.51.0"),
    "2.29": ("2.24.8799.0", "2.31.24.0"),
    "2.30": ("2.25.3371.0", "2.32.31.0"),
    "2.31": ("2.26.6360.0", "2.33.10.0"),
    "2.32": ("2.27.5334.0", "2.34.10.0"),
    "2.33": ("2.28.7631.0", "2.35.30.0"),
}


def hardware(instance_type: str) -> Hardware | None:
    """The hardware of an instance type, None when it has no Neuron device; NEURON_LOGICAL_NC_CONFIG=1 splits the
    logical cores of Trainium2, as it does there."""
    found = HARDWARE.get(instance_type)
    if found and found.logical == 2 and os.environ.get("NEURON_LOGICAL_NC_CONFIG") == "1":
        return found._replace(cores=found.cores * 2, logical=1, core_version="v3")
    return found


def connected(index: int, chips: int) -> list[int] | None:
    """The neighbours of a chip: up, left, down, right in a 4 x 4 torus; None when it is alone."""
    if chips == 1:
        return None
    row, column = divmod(index, 4)
    return [
        (row - 1) % 4 * 4 + column,
        row * 4 + (column - 1) % 4,
        (row + 1) % 4 * 4 + column,
        row * 4 + (column + 1) % 4,
    ]


def pci_address(index: int, kit: Hardware) -> str:
    """The PCI address (domain:bus:device.function) of a chip."""
    if kit.chip == "trainium" and kit.chips == 16:
        return f"0000:{_TRN1_ADDRESSES[index]}.0"
    return f"0000:{0x33 + index:02x}:00.0"


def cpu_affinity(index: int, kit: Hardware) -> tuple[str, str]:
    """The CPUs near a chip and its NUMA node; large instances have two sockets with half of the chips each."""
    if kit.chips == 1:
        return f"0-{kit.vcpus - 1}", "-1"
    quarter = kit.vcpus // 4
    socket = index * 2 // kit.chips
    low, high = socket * quarter, (socket + 2) * quarter
    return f"{low}-{low + quarter - 1},{high}-{high + quarter - 1}", str(socket)


def sdk_at_least(sdk: str, release: str) -> bool:
    """Whether an SDK version is at or after a release, both like 2.31 or 2.31.1."""
    return _numbers(sdk)[:2] >= _numbers(release)[:2]


def compiler_version(sdk: str) -> str:
    """neuronx-cc's version in an SDK release; a release that the table lacks has that of its newest older one."""
    return _row(sdk)[0]


def runtime_version(sdk: str) -> str:
    """The runtime library's version in an SDK release, chosen as `compiler_version` chooses."""
    return _row(sdk)[1]


def _row(sdk: str) -> tuple[str, str]:
    older = [release for release in _COMPILERS if sdk_at_least(sdk, release)]
    return _COMPILERS[older[-1] if older else "2.28"]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
