"""All doors at once, over one clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.account import InMemoryCloud, InMemoryProvisioner
from tests.fakes.cache import InMemoryCache
from tests.fakes.clock import HandWoundClock
from tests.fakes.evidence import InMemoryEvidence
from tests.fakes.export import InMemoryExport
from tests.fakes.files import FolderFiles
from tests.fakes.health import InMemoryHealth
from tests.fakes.holdings import InMemoryAccount
from tests.fakes.monitor import InMemoryMonitor
from tests.fakes.queue import InMemoryQueue
from tests.fakes.shell import ScriptedShell
from trnctl.ports import (
    Allocation,
    Allocator,
    CompileCache,
    HeadEvidence,
    HeadFiles,
    Instance,
    JobQueue,
    LoadMonitor,
    NodeHealth,
    RunExport,
    Services,
    Shell,
)


@dataclass
class InMemoryHead:
    """The head node's door: always the same queue, shell and caches; `asked` lists the instances asked for."""

    queue_behind: JobQueue
    shell_behind: Shell
    cache_behind: CompileCache
    evidence_behind: HeadEvidence
    monitor_behind: LoadMonitor
    allocator_behind: Allocator
    health_behind: NodeHealth
    export_behind: RunExport
    files_behind: HeadFiles
    asked: list[Instance] = field(default_factory=list)

    def shell(self, head: Instance) -> Shell:
        """The Shell on the head node."""
        self.asked.append(head)
        return self.shell_behind

    def queue(self, head: Instance) -> JobQueue:
        """The queue on the head node."""
        self.asked.append(head)
        return self.queue_behind

    def cache(self, head: Instance) -> CompileCache:
        """The compile caches beside it."""
        self.asked.append(head)
        return self.cache_behind

    def export(self, head: Instance) -> RunExport:
        """The copies that it makes."""
        self.asked.append(head)
        return self.export_behind

    def files(self, head: Instance) -> HeadFiles:
        """What lies on it."""
        self.asked.append(head)
        return self.files_behind

    def evidence(self, head: Instance) -> HeadEvidence:
        """What it has written down."""
        self.asked.append(head)
        return self.evidence_behind

    def monitor(self, head: Instance) -> LoadMonitor:
        """What its nodes say of their load."""
        self.asked.append(head)
        return self.monitor_behind

    def allocator(self, head: Instance) -> Allocator:
        """Nodes for a person."""
        self.asked.append(head)
        return self.allocator_behind

    def health(self, head: Instance) -> NodeHealth:
        """The health of the nodes behind it."""
        self.asked.append(head)
        return self.health_behind


class InMemoryAllocator:
    """Notes what is asked for; the shell on the first node ends with `code`."""

    def __init__(self) -> None:
        self.code = 0
        self.asked: list[Allocation] = []

    def shell(self, wish: Allocation) -> int:
        """Nobody sits here."""
        self.asked.append(wish)
        return self.code


class World:
    """All doors at once, over one clock; `services` bundles them."""

    def __init__(self, *, mount_prefix: str = "", notice: str = "", files: Path | None = None) -> None:
        self.clock = HandWoundClock()
        self.cloud = InMemoryCloud(self.clock)
        self.account = InMemoryAccount(self.cloud)
        self.provisioner = InMemoryProvisioner(self.cloud)
        self.queue = InMemoryQueue(self.clock)
        self.local = ScriptedShell()
        self.head_shell = ScriptedShell()
        self.cache = InMemoryCache(self.clock)
        self.evidence = InMemoryEvidence()
        self.monitor = InMemoryMonitor(self.clock)
        self.allocator = InMemoryAllocator()
        self.health = InMemoryHealth()
        self.export = InMemoryExport()
        self.files = FolderFiles(files or Path("/nonexistent"))
        self.head = InMemoryHead(
            self.queue,
            self.head_shell,
            self.cache,
            self.evidence,
            self.monitor,
            self.allocator,
            self.health,
            self.export,
            self.files,
        )
        self._mount_prefix, self._notice = mount_prefix, notice

    def services(self) -> Services:
        """The doors as actions take them."""
        return Services(
            provisioner=self.provisioner,
            cloud=self.cloud,
            account=self.account,
            clock=self.clock,
            local=self.local,
            head=self.head,
            mount_prefix=self._mount_prefix,
            notice=self._notice,
        )
