"""Time, the way to head nodes, and all doors bundled for one cluster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from trnctl.ports.account import Account
from trnctl.ports.allocation import Allocator
from trnctl.ports.cache import CompileCache
from trnctl.ports.cloud import Cloud, Instance
from trnctl.ports.evidence import HeadEvidence
from trnctl.ports.export import RunExport
from trnctl.ports.files import HeadFiles
from trnctl.ports.health import NodeHealth
from trnctl.ports.monitor import LoadMonitor
from trnctl.ports.provisioner import Provisioner
from trnctl.ports.queue import JobQueue
from trnctl.ports.shell import Shell


class Clock(Protocol):
    """Time, so that tests can wind it by hand."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


@dataclass(frozen=True)
class Services:
    """The doors, bundled for one cluster.

    `head` opens the way to the head node once AWS has told its address. `mount_prefix` stands before every mount
    directory on the head node: '' on AWS; the sandbox, which may not write to `/fsx` on the user's machine, keeps
    the cluster's file systems below its own folder. `notice` is a sentence shown with every result when what
    answers is not AWS ('' otherwise).
    """

    provisioner: Provisioner
    cloud: Cloud
    account: Account
    clock: Clock
    local: Shell
    head: HeadDoor
    mount_prefix: str = ""
    notice: str = ""


class HeadDoor(Protocol):
    """Opens the way to a cluster's head node once its address is known."""

    def shell(self, head: Instance) -> Shell:
        """A Shell on that head node; nothing is connected before the first command."""

    def queue(self, head: Instance) -> JobQueue:
        """The Slurm that runs there."""

    def files(self, head: Instance) -> HeadFiles:
        """Copies between this machine and that head node."""

    def cache(self, head: Instance) -> CompileCache:
        """The compile caches that lie on its shared storage."""

    def evidence(self, head: Instance) -> HeadEvidence:
        """What it has written down: the ends of its logs, and Slurm's words."""

    def monitor(self, head: Instance) -> LoadMonitor:
        """What the nodes of its runs say of their load."""

    def allocator(self, head: Instance) -> Allocator:
        """Nodes of its queues for a person at a terminal."""

    def health(self, head: Instance) -> NodeHealth:
        """The health of the nodes behind it."""

    def export(self, head: Instance) -> RunExport:
        """Copies what lies on its shared storage to a bucket."""
