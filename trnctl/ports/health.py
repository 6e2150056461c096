"""The door to the nodes' health: a small job that looks at them, and draining; and the records of what it finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trnctl.findings import Level
from trnctl.ports.queue import File


@dataclass(frozen=True)
class HealthCheck:
    """One check. `count` nodes that Slurm chooses, and starts if it must; None: all of the queue that are up and idle.
    `constraint` is a feature that they must have ('' for any). `wait_s` is how long the nodes may take to come,
    `limit_s` how long the check itself may take, both in seconds. `folder` is absolute and on shared storage."""

    folder: str
    files: tuple[File, ...]
    queue: str
    count: int | None
    wait_s: float
    limit_s: float
    constraint: str = ""


@dataclass(frozen=True)
class CheckProgress:
    """How far a check is: its job, Slurm's word for the job's state and reason, how many of its nodes have reported."""

    job: str
    state: str
    reason: str
    nodes: int
    reports: int


@dataclass(frozen=True)
class NodeFinding:
    """What is wrong with a node; `node` '' when it is about no single one. An error: it should not be used."""

    code: str
    level: Level
    node: str
    message: str


@dataclass(frozen=True)
class Link:
    """The all-reduce of two nodes: its bus bandwidth in GB/s, or what became of it instead."""

    nodes: tuple[str, str]
    busbw: float | None
    error: str = ""


@dataclass(frozen=True)
class HealthReport:
    """What a check found. `reports` holds each node's own words (devices, efa, disks, versions, …); a node without one
    was silent. `failed` are the nodes with an error; `systemic`: they are so many that no node is to blame. `not_had`
    says of nodes why they could not be looked at; `why`, when there is no result at all, what became of the job."""

    job: str
    nodes: tuple[str, ...] = ()
    reports: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    findings: tuple[NodeFinding, ...] = ()
    failed: tuple[str, ...] = ()
    systemic: bool = False
    not_had: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class Drained:
    """The nodes that were drained, and what Slurm said of those that it would not drain."""

    nodes: tuple[str, ...]
    refused: Mapping[str, str]


class NodeHealth(Protocol):
    """Checks and drains a cluster's nodes. Every method is one connection."""

    def check(self, wanted: HealthCheck) -> Iterator[CheckProgress | HealthReport]:
        """Run the check, telling how far it is, the report last. Whoever stops listening ends the job. RefusedError
        when no node is there to be looked at; ToolError when Slurm refuses the job."""

    def drain(self, reasons: Mapping[str, str]) -> Drained:
        """Drain nodes, each for its reason: no job starts on them any more."""
