"""The Neuron SDK releases 2.28 to 2.33 as a table: which versions belong together, and what is doubtful about each.

Nothing here was tried on Trainium: the versions are those that the documentation lists for the release. What it does
not list is None, and is neither guessed nor installed.
"""

from __future__ import annotations

from dataclasses import dataclass

_ARTIFACTS = "AWS Neuron documentation, release artifacts of the release (Trn1 packages)"


@dataclass(frozen=True)
class SdkRow:
    """One release. `date` is ISO. Versions are those of the apt packages aws-neuronx-dkms (`driver`), -runtime-lib,
    -collectives and -tools, and of the pip packages neuronx-cc (`compiler`), torch-neuronx built on PyTorch/XLA
    (`torch_xla`: a version, a prefix `2.9.0.2.12.*` where the last part is not established, or None) and
    neuronx_distributed (`nxd`).

    `xla_listed` tells a release that has no XLA build (False) from one of which that is not established (None).
    `native` is TorchNeuron, the stack without XLA, which runs on `native_devices`. `python` are the versions that the
    release's wheels are for, `systems` the operating systems in ParallelCluster's words that its setup pages name
    for the driver and the tools, `devices` the families. `doubt`, `xla_doubt` and `native_doubt` say what is not
    established about the release, its XLA build and its TorchNeuron; `source` is where the row was read.
    """

    version: str
    date: str
    driver: str | None = None
    runtime: str | None = None
    collectives: str | None = None
    tools: str | None = None
    compiler: str | None = None
    torch_xla: str | None = None
    xla_listed: bool | None = True
    nxd: str | None = None
    native: tuple[str, ...] = ()
    native_devices: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("trn1", "trn2", "trn3")
    doubt: str = ""
    xla_doubt: str = ""
    native_doubt: str = ""
    source: str = _ARTIFACTS

    @property
    def packaged(self) -> bool:
        """Whether the versions of all four apt packages are established, so that nodes can be given exactly them."""
        return None not in (self.driver, self.runtime, self.collectives, self.tools)


_OLD_PYTHONS = ("3.10", "3.11", "3.12")
_NEW_PYTHONS = ("3.11", "3.12", "3.13")
_HOSTS = ("ubuntu2404", "alinux2023")
_HOSTS_WITH_2204 = ("ubuntu2404", "ubuntu2204", "alinux2023")  # its images and containers ended with 2.30

ROWS: tuple[SdkRow, ...] = (
    SdkRow(
        "2.33.1", "2026-11-11",
        xla_listed=None,
        python=("3.12", "3.13", "3.14"),
        systems=_HOSTS,
        doubt="the versions in it are not established: it is known as a release of bug fixes to 2.33.0",
        source="GitHub release page of aws-neuron-sdk, read as an excerpt",
    ),
    SdkRow(
        "2.33.0", "2026-10-19", "2.31.7.0", "2.35.30.0", "2.35.43.0", "2.33.38.0", "2.28.7631.0", "2.9.0.2.15.32035",
        native=("2.13.3.0", "2.14.3.0"),
        native_devices=("trn2", "trn3"),
        python=("3.12", "3.13", "3.14"),
        systems=_HOSTS,  # TorchNeuron's are Ubuntu 24.04 and 26.04; that 2023's Amazon Linux has ended is said nowhere
        xla_doubt="its Trn1 list names the PyTorch/XLA build of 2.31 again, and nobody has shown that this build works "
        "with its compiler and runtime",
        native_doubt="TorchNeuron is a beta, and its wheels are said to be for Ubuntu 26.04 only in one place, for "
        "24.04 too in another",
        source=f"{_ARTIFACTS}, read as an excerpt",
    ),
    SdkRow(
        "2.32.0", "2026-08-17", "2.30.2.0", "2.34.10.0", "2.34.10.0", "2.32.28.0", "2.27.5334.0", None,
        xla_listed=False,
        python=_NEW_PYTHONS,
        systems=_HOSTS,
    ),
    SdkRow(
        "2.31.1", "2026-08-12", "2.29.0.0", "2.33.10.0", "2.33.10.0", "2.31.15.0", "2.26.6360.0", "2.9.0.2.15.32035",
        nxd="0.19.28492", python=_NEW_PYTHONS, systems=_HOSTS,
    ),
    SdkRow(
        "2.31.0", "2026-07-07", "2.29.0.0", "2.33.10.0", "2.33.10.0", "2.31.13.0", "2.26.6360.0", "2.9.0.2.15.32035",
        nxd="0.19.28492", python=_NEW_PYTHONS, systems=_HOSTS,
    ),
    SdkRow(
        "2.30.0", "2026-05-21", "2.28.0.0", "2.32.31.0", "2.32.28.0", "2.30.10.0", "2.25.3371.0", "2.9.0.2.14.27725",
        nxd="0.19.28093", python=_NEW_PYTHONS, systems=_HOSTS,
    ),
    SdkRow(
        "2.29.1", "2026-05-01", "2.27.4.0", "2.31.24.0", "2.31.24.0", "2.29.22.0", "2.24.8799.0", "2.9.0.2.13.26312",
        nxd="0.18.27753", python=_OLD_PYTHONS, systems=_HOSTS_WITH_2204,
    ),
    SdkRow(
        "2.29.0", "2026-04-09", "2.27.4.0", "2.31.24.0", "2.31.24.0", "2.29.18.0", "2.24.5133.0", None,
        xla_doubt="the version of its torch-neuronx is not established",
        nxd="0.18.27753", python=_OLD_PYTHONS, systems=_HOSTS_WITH_2204,
    ),
    SdkRow(
        "2.28.1", "2026-03-13",
        python=_OLD_PYTHONS, systems=_HOSTS_WITH_2204,
        doubt="the versions in it are not established: it brings a driver for kernel 6.18 to 2.28.0",
        source="AWS Neuron documentation, release notes of 2.28.1",
    ),
    SdkRow(
        "2.28.0", "2026-02-26", "2.26.5.0", "2.30.51.0", "2.30.59.0", "2.28.23.0", "2.23.6484.0", "2.9.0.2.12.*",
        nxd="0.17.26814", python=_OLD_PYTHONS, systems=_HOSTS_WITH_2204,
    ),
)  # fmt: skip
