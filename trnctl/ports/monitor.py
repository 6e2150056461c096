"""The door to what the nodes of running runs say of their own load, and the records of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class NodeLoad:
    """One report of neuron-monitor on one node, all processes together.

    `cores` is the utilisation of each NeuronCore in percent over the last period. `errors` and `outcomes` count the
    executions of that period by kind (`hardware`, `timed_out`, …; zeros are left out). `ecc` counts memory errors since
    the driver was loaded, by device and counter (`3 mem_ecc_uncorrected`). Sizes are in bytes. `latency_s` is the
    median of one execution on the device. `problem` says why there are no figures ('' when there are); `emulated` says
    what makes them up when no device is behind them.
    """

    node: str
    at: datetime
    instance_type: str = ""
    devices: int = 0
    cores: tuple[float, ...] = ()
    device_used: int = 0
    device_total: int = 0
    host_used: int = 0
    host_total: int = 0
    cpu: float | None = None
    ecc: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    outcomes: Mapping[str, int] = field(default_factory=dict)
    latency_s: float | None = None
    processes: int = 0
    problem: str = ""
    emulated: str = ""


@dataclass(frozen=True)
class JobLoad:
    """One job that runs: the names of its nodes, and the last report of each that has sent one. `said` is what Slurm
    said when it would not let us look."""

    run: str
    stage: str
    job: str
    elapsed_s: int
    names: tuple[str, ...]
    loads: tuple[NodeLoad, ...]
    said: str = ""


@dataclass(frozen=True)
class LoadPicture:
    """All jobs at one moment of the head node's clock."""

    at: datetime
    jobs: tuple[JobLoad, ...]


class LoadMonitor(Protocol):
    """Looks at the nodes of runs from inside their own jobs; one connection, and never an allocation."""

    def watch(
        self, runs_folder: str, *, run: str = "", period: float = 5.0, once: bool = False
    ) -> Iterator[LoadPicture]:
        """A picture every `period` seconds until the run's job ends ('' = every run that runs, without end); with
        `once` one picture, when all nodes have reported or will not.

        Raises NotFoundError when there is no such run, RefusedError when it does not run now, ConnectionLost when the
        way there broke (the caller may call again: nothing is lost but time), ToolError when Slurm does not answer.
        """
