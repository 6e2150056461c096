"""Which operating system, Neuron SDK, instance type and PyTorch go together, and which pair does instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trnctl.findings import Finding
from trnctl.specs.sdk_rows import ROWS, SdkRow

__all__ = [
    "DEFAULT",
    "PROVEN_OS",
    "ROWS",
    "SdkRow",
    "nearest",
    "nearest_sure",
    "pairing",
    "row",
    "software_of",
    "unknown_sdk",
]

DEFAULT = "2.31.1"  # the last release with PyTorch/XLA training that is not in doubt
PROVEN_OS = "ubuntu2404"
_XLA_NEEDS_GLIBC = (2, 35)  # PyTorch 2.9 of Neuron (its manual setup page)


@dataclass(frozen=True)
class SystemSoftware:
    """What an operating system brings: its name, the version of `python3`, and of its C library."""

    title: str
    python: str
    glibc: tuple[int, int]


# The distributions' own release notes.
_SYSTEMS: Mapping[str, SystemSoftware] = {
    "ubuntu2404": SystemSoftware("Ubuntu 24.04", "3.12", (2, 39)),
    "ubuntu2204": SystemSoftware("Ubuntu 22.04", "3.10", (2, 35)),
    "ubuntu2004": SystemSoftware("Ubuntu 20.04", "3.8", (2, 31)),
    "alinux2023": SystemSoftware("Amazon Linux 2023", "3.9", (2, 34)),
    "alinux2": SystemSoftware("Amazon Linux 2", "3.7", (2, 26)),
}


def row(version: str) -> SdkRow | None:
    """The release of that version; None when the table does not know it."""
    return next((one for one in ROWS if one.version == version), None)


def software_of(system: str) -> SystemSoftware | None:
    """What an operating system (ParallelCluster's word) brings; None when the table does not know it."""
    return _SYSTEMS.get(system)


def nearest(version: str) -> SdkRow:
    """The release that is nearest to a version that does not exist, by number: 2.31 and 2.31.7 mean 2.31.1."""
    wanted = _numbers(version)

    def distance(one: SdkRow) -> tuple[int, ...]:
        pairs = zip(_numbers(one.version), wanted, strict=True)
        return tuple(abs(has - wants) for has, wants in pairs)

    return min(ROWS, key=distance)


def _numbers(version: str) -> tuple[int, int, int]:
    """Three numbers. A part that is missing is far above any, so that the newest of the series is nearest."""
    found = [int(part) for part in re.findall(r"\d+", version)[:3]]
    first, second, third = (found + [10**6] * 3)[:3]
    return first, second, third


def unknown_sdk(version: str) -> Finding:
    """The finding for a release that does not exist."""
    return Finding(
        "unknown-value",
        "error",
        f"trnctl knows no Neuron SDK {version}",
        f'Did you mean "{nearest(version).version}"? Known: {", ".join(one.version for one in ROWS)}.',
    )


def pairing(
    system: str, sdk: str, instance_types: Iterable[str] = (), *, torch_xla: bool, torch_native: bool = False
) -> list[Finding]:
    """What is wrong with an operating system (ParallelCluster's word) and a Neuron SDK together.

    `torch_xla` says that something trains with PyTorch/XLA (every Trn1 recipe), `torch_native` with TorchNeuron.
    Errors are pairs that cannot work, each with the pair that can; `sdk-unproven` is a warning about one that nobody
    has shown to work. The findings name no place: the caller knows where the words stand.
    """
    release = row(sdk)
    if release is None:
        return [unknown_sdk(sdk)]
    families = sorted({name.partition(".")[0].rstrip("nu") for name in instance_types if name.startswith("trn")})
    found = list(_system_findings(system, release))
    if torch_xla:
        found += _xla_findings(system, release) if not found else []
    if torch_native:
        found += _native_findings(release, families)
    return found + list(_doubts(release, torch_xla, torch_native))


def _system_findings(system: str, release: SdkRow) -> Iterator[Finding]:
    """Whether the driver and the tools are for this system at all."""
    if system in release.systems:
        return
    known = software_of(system)
    title = known.title if known else system
    others = [one.version for one in ROWS if system in one.systems]
    older = f"; {title} was last in {others[0]}" if others else ""
    yield Finding(
        "sdk-os-mismatch",
        "error",
        f"Neuron SDK {release.version} is not for {title}{older}",
        _instead(release, f"Write `os: {PROVEN_OS}`"),
    )


def _xla_findings(system: str, release: SdkRow) -> Iterator[Finding]:
    """Whether PyTorch/XLA can be installed and imported there."""
    if release.xla_listed is False:
        yield Finding(
            "sdk-no-torch-xla",
            "error",
            f"Neuron SDK {release.version} has no PyTorch/XLA, which training on Trn1 needs",
            f'Write `neuron_sdk: "{DEFAULT}"` with `os: {PROVEN_OS}`: the last release that has it.',
        )
        return
    brings = software_of(system)
    if brings is None:
        return
    if brings.glibc < _XLA_NEEDS_GLIBC:
        has, needs = (".".join(map(str, version)) for version in (brings.glibc, _XLA_NEEDS_GLIBC))
        yield Finding(
            "os-no-torch-xla",
            "error",
            f"PyTorch 2.9 for Neuron needs glibc {needs}, and {brings.title} has {has}",
            _instead(release, f"Write `os: {PROVEN_OS}`"),
        )
    elif brings.python not in release.python:
        yield Finding(
            "os-no-torch-xla",
            "error",
            f"Neuron SDK {release.version} is for Python {', '.join(release.python)}, and {brings.title} has "
            f"{brings.python}",
            _instead(release, f"Write `os: {PROVEN_OS}`"),
        )
    elif system != PROVEN_OS:
        yield Finding(
            "sdk-unproven",
            "warning",
            f"Neuron SDK {release.version} has wheels for the Python of {brings.title}, but its images for that system "
            "have ended, and nobody has shown that training works on it with ParallelCluster",
            _instead(release, f"Write `os: {PROVEN_OS}`"),
        )


def _native_findings(release: SdkRow, families: list[str]) -> Iterator[Finding]:
    """Whether TorchNeuron is in the release, and runs on these families."""
    with_it = next(one for one in ROWS if one.native)
    if not release.native and not release.doubt:
        yield Finding(
            "sdk-no-torch-native",
            "error",
            f"Neuron SDK {release.version} has no TorchNeuron",
            f'Write `neuron_sdk: "{with_it.version}"` with `os: {PROVEN_OS}`.',
        )
    for family in families:
        if family not in with_it.native_devices:
            yield Finding(
                "sdk-device-mismatch",
                "error",
                f"TorchNeuron runs on {' and '.join(with_it.native_devices)}, not on {family}",
                f'Train there with PyTorch/XLA: `neuron_sdk: "{DEFAULT}"` with `os: {PROVEN_OS}`.',
            )


def _doubts(release: SdkRow, torch_xla: bool, torch_native: bool) -> Iterator[Finding]:
    """One warning for a release where what is used here is not established."""
    wanted = (release.doubt, release.xla_doubt if torch_xla else "", release.native_doubt if torch_native else "")
    doubts = [doubt for doubt in wanted if doubt]
    if not doubts:
        return
    sure = nearest_sure(release, torch_native=torch_native)
    yield Finding(
        "sdk-unproven",
        "warning",
        f"Neuron SDK {release.version} is unproven here: {'; '.join(doubts)}",
        "Try it on one node before you count on it."
        if sure is release
        else f'The pair that is known: `neuron_sdk: "{sure.version}"` with `os: {PROVEN_OS}`.',
    )


def nearest_sure(release: SdkRow, *, torch_native: bool = False) -> SdkRow:
    """The nearest release whose packages are all established, and that has the PyTorch that is wanted."""

    def fits(one: SdkRow) -> bool:
        has_torch = bool(one.native) if torch_native else bool(one.torch_xla) and not one.xla_doubt
        return one.packaged and has_torch

    place = ROWS.index(release)
    return min(filter(fits, ROWS), key=lambda one: abs(ROWS.index(one) - place))


def _instead(release: SdkRow, change: str) -> str:
    """The change of system, and of the release as well where that one is not for the proven system either."""
    if PROVEN_OS in release.systems:
        return f'{change}: it goes with `neuron_sdk: "{release.version}"`.'
    return f'{change} and `neuron_sdk: "{DEFAULT}"`.'
