"""The compute nodes of one cluster: power, death, and what ParallelCluster's clustermgtd does about it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trnctl.errors import ToolError
from trnctl.sandbox.machines.daemon_logs import DaemonLogs
from trnctl.sandbox.machines.names import Scheduling
from trnctl.sandbox.machines.sent_logs import SentLogs
from trnctl.sandbox.machines.slurm import Slurm, tool
from trnctl.sandbox.machines.slurm_conf import Site, node_conf
from trnctl.sandbox.neuron.hardware_faults import mend
from trnctl.sandbox.ports import Account, NodeInstance, Refusal
from trnctl.sandbox.processes import Process, Register, end, with_environment

log = logging.getLogger(__name__)
# Wordings of aws-parallelcluster-node (recalled, not compared with a living cluster).
REFUSED = "(Code:{code})Failure when resuming nodes"
RECOVERED = "Enabling node since insufficient capacity timeout expired"
UNHEALTHY = "Scheduler health check failed"
_STATIC_RETRY = 8.0  # seconds; longer than SuspendTimeout, before which slurmctld will not power up again
_HEALTH_CHECK = 8.0  # seconds until a dead node is powered down, and until that is asked for again


_DRAINED_LOOK = 2.0  # seconds between two looks for drained nodes


@dataclass
class _Node:
    """A node that has an instance; `slurmd` is None while it boots."""

    instance: NodeInstance
    spool: Path
    slurmd: Process | None = None


class Nodes:
    """Powers nodes when slurmctld asks, and looks after them in `tick`, which its owner calls about twice a second.

    `capacity_seconds` is clustermgtd's insufficient_capacity_timeout (600 there). `changed` is called with the
    instances of all powered nodes whenever these are others.
    """

    def __init__(
        self,
        cluster: str,
        site: Site,
        scheduling: Scheduling,
        *,
        account: Account,
        register: Register,
        environment: Mapping[str, str],
        boot_seconds: float,
        capacity_seconds: float,
        changed: Callable[[list[NodeInstance]], None],
        sent: SentLogs,
    ) -> None:
        self.site, self.scheduling, self.active = site, scheduling, True
        self.boots_fail = False  # a fault: the set-up of every node that boots fails
        self._sent = sent
        self._cluster, self._account, self._register = cluster, account, register
        self._environment = dict(environment)
        self._boot_seconds, self._capacity_seconds = boot_seconds, capacity_seconds
        self._changed = changed
        self._slurm = Slurm(site.conf)
        self._logs = DaemonLogs(site.folder)
        self._lock = threading.Lock()
        self._nodes: dict[str, _Node] = {}
        self._refused: dict[str, float] = {}  # node -> when it may be tried again (monotonic)
        self._dead: set[str] = set()  # slurmd ended by itself, and slurmctld has not noticed yet
        self._down_since: dict[str, float] = {}  # dead node -> when it was seen down, or told to power down (monotonic)
        self._next_drained = 0.0
        self._drained_since: dict[str, float] = {}  # when it was first seen drained, or down (monotonic)
        self._kept: set[str] = set()  # powered down soon, but not their instances
        self._next_static = 0.0
        self._spools = 0

    def powered(self) -> list[str]:
        """Names of the nodes that have an instance."""
        with self._lock:
            return list(self._nodes)

    def power_up(self, names: Iterable[str]) -> None:
        """Launch instances, wait for them to boot, start their slurmd; nodes that EC2 refuses are set down."""
        resources = {name: self.scheduling.resource(name) for name in names}
        wishes = [resource.wish(name) for name, resource in resources.items() if resource is not None]
        answers = self._account.launch(self._cluster, wishes)
        refusals = [answer for answer in answers if isinstance(answer, Refusal)]
        self._refuse(refusals)
        granted = [answer for answer in answers if isinstance(answer, NodeInstance)]
        booting = {answer.name: self._add(answer) for answer in granted}
        self._tell()
        time.sleep(self._boot_seconds)
        if self.boots_fail:
            self._fail_boots(granted)
            return
        with self._lock:
            for name, node in booting.items():
                if self._nodes.get(name) is node and node.slurmd is None:  # not powered down meanwhile
                    node.slurmd = self._start_slurmd(name, node.spool)

    def _fail_boots(self, instances: list[NodeInstance]) -> None:
        """The set-up of these nodes fails, and they shut themselves down; `tick` then does what clustermgtd does."""
        names = [each.name for each in instances]
        if not names:
            return
        for each in instances:
            self._sent.failed_boot(each, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
        self._account.shut_down(self._cluster, names)
        self._logs.boot_failed(names)
        with self._lock:
            self._dead.update(names)

    def power_down(self, names: Iterable[str]) -> None:
        """Cut the power: slurmd and everything that runs on the nodes is killed, the instances are terminated."""
        gone = list(names)
        with self._lock:
            nodes = {name: self._nodes.pop(name) for name in gone if name in self._nodes}
            self._dead.difference_update(gone)
            self._down_since = {name: when for name, when in self._down_since.items() if name not in gone}
        self._kill(nodes)
        for name, node in nodes.items():
            self._conf(name).unlink(missing_ok=True)
            shutil.rmtree(node.spool, ignore_errors=True)
            mend(self.site.folder, name)
        self._tell()
        kept = self._kept & set(gone)
        self._kept -= kept
        self._account.abandon(self._cluster, sorted(kept))
        self._account.terminate(self._cluster, gone)

    def instances(self) -> list[NodeInstance]:
        """The instances of the nodes that have one."""
        with self._lock:
            return [node.instance for node in self._nodes.values()]

    def kill_one(self, *, first: bool = False) -> str | None:
        """Let one node die, the last or the `first` of those that run a job, if any does: its processes end, its
        instance stays. Its name, None when no node is up."""
        with self._lock:
            running = [name for name, node in self._nodes.items() if node.slurmd is not None]
        busy = [name for name in self._slurm.busy_nodes() if name in running]
        if not running:
            return None
        name = (busy or running)[0 if first else -1]
        with self._lock:
            nodes = {name: self._nodes[name]} if name in self._nodes else {}
        self._kill(nodes)
        return name

    def abandon_one(self) -> str | None:
        """Let Slurm lose an idle node, while its instance runs on. Its name, None when no node is idle."""
        idle = sorted(self._slurm.nodes_in("idle") & set(self.powered()))
        if not idle:
            return None
        self._kept.add(idle[-1])
        self._slurm.update_nodes(idle[-1:], "power_down_force", "the sandbox loses sight of its instance")
        return idle[-1]

    def tick(self) -> None:
        """Notice nodes that died, give refused nodes another chance when it is time, keep static nodes on."""
        now = time.monotonic()
        with self._lock:
            fallen = [name for name, node in self._nodes.items() if node.slurmd and not node.slurmd.alive]
            if fresh := [name for name in fallen if name not in self._dead]:
                self._logs.unhealthy(fresh)
            self._dead.update(fallen)
            for name in fallen:  # nobody can reach it any more
                self._conf(name).unlink(missing_ok=True)
            due = [name for name, when in self._refused.items() if when <= now]
            for name in due:
                del self._refused[name]
            dead = set(self._dead)
        with _logged():
            self._slurm.update_nodes(due, "power_down", RECOVERED)
        if dead:
            with _logged():
                # One that died before it ever answered is still awaited by slurmctld, for ResumeTimeout.
                self._slurm.update_nodes(sorted(dead & self._slurm.nodes_in("powering_up")), "down", UNHEALTHY)
                self._power_down_dead(dead, now)
        with _logged():
            self._replace_drained(now)
        if self.active and now >= self._next_static:
            self.power_up_static()

    def _replace_drained(self, now: float) -> None:
        """Power nodes down that are drained, and whose jobs have ended, or that Slurm has set down although they live,
        as for a reboot that it did not expect: clustermgtd takes them for unhealthy, and the next job that needs them
        gets other instances. Nodes of a stopped fleet are left alone."""
        powered = set(self.powered())
        if not (self.active and powered) or now < self._next_drained:
            return
        self._next_drained = now + _DRAINED_LOOK
        drained = self._slurm.nodes_in("drained") & powered
        unfit = drained | (self._slurm.nodes_in("down") & powered - self._dead)
        self._drained_since = {name: self._drained_since.get(name, now) for name in unfit}
        due = sorted(name for name, since in self._drained_since.items() if now >= since + _HEALTH_CHECK)
        if due and not self._slurm.jobs_complete():
            self._slurm.update_nodes(due, "power_down", UNHEALTHY)
            self._slurm.update_nodes([name for name in due if name in drained], "undrain")

    def _power_down_dead(self, dead: set[str], now: float) -> None:
        """Let slurmctld power dead nodes down: some time after it has noticed, as clustermgtd does, which looks once a
        minute; and not before the jobs that ran there have left all other nodes.

        Otherwise slurmctld 22.05 takes the node for idle when the requeued job has it again, and the job hangs; or its
        late words to the job's first attempt end the second.

        The other nodes take a minute and more for that: slurmstepd waits for the last word of its children in the tree
        of a step, one of which is dead, for 60 s and 3 more for each level below (constants of Slurm's, no setting).
        """
        down = dead & self._slurm.nodes_in("down")
        due = {name for name in down if now >= self._down_since.setdefault(name, now) + _HEALTH_CHECK}
        if due and not self._slurm.jobs_complete():
            self._slurm.update_nodes(sorted(due), "power_down", UNHEALTHY)
            self._down_since.update(dict.fromkeys(due, now))

    def power_up_static(self) -> None:
        """Ask slurmctld to power up the static nodes that are off."""
        self._next_static = time.monotonic() + _STATIC_RETRY
        with self._lock:
            missing = [
                name for name in self.scheduling.static_nodes() if name not in self._nodes and name not in self._refused
            ]
        with _logged():
            self._slurm.update_nodes(missing, "power_up")

    def _add(self, instance: NodeInstance) -> _Node:
        with self._lock:
            known = self._nodes.get(instance.name)
            if known is not None and known.slurmd is not None and known.slurmd.alive:
                return known
            self._spools += 1
            node = _Node(instance, self.site.runtime / str(self._spools))
            self._nodes[instance.name] = node
            self._dead.discard(instance.name)
            return node

    def _start_slurmd(self, name: str, spool: Path) -> Process:
        spool.mkdir(exist_ok=True)
        conf = self._conf(name)
        conf.write_text(node_conf(self.site, name, spool))
        return self._register.start(
            # -b: as after a boot; without it slurmctld takes the node to be powering up for ever.
            [tool("slurmd"), "-D", "-b", "-N", name, "-f", str(conf)],
            what=f"slurmd {name}",
            cluster=self._cluster,
            environment={**self._environment, "SLURM_CONF": str(conf), "SLURMD_NODENAME": name},
            log=self.site.folder / "log" / "slurmd.out",
        )

    def _conf(self, name: str) -> Path:
        """What the slurmd of a node reads; there while the node is up, which is how `reach` knows."""
        return self.site.folder / "etc" / "nodes" / f"{name}.conf"

    def _refuse(self, refusals: list[Refusal]) -> None:
        codes: dict[str, list[str]] = {}
        messages = {refusal.code: refusal.message for refusal in refusals}
        for refusal in refusals:
            codes.setdefault(refusal.code, []).append(refusal.name)
            log.warning("%s: EC2 refuses %s: %s: %s", self._cluster, refusal.name, refusal.code, refusal.message)
        with self._lock:
            self._refused.update({each.name: time.monotonic() + self._capacity_seconds for each in refusals})
        for code, names in codes.items():
            self._logs.refused(names, code, messages[code])
            with _logged():
                self._slurm.update_nodes(names, "down", REFUSED.format(code=code))

    def _kill(self, nodes: Mapping[str, _Node]) -> None:
        if not nodes:
            return
        folder = str(self.site.folder)

        def runs_there(environment: Mapping[str, str]) -> bool:
            there = environment.get("SLURM_CONF", "").startswith(folder + "/")
            return there and environment.get("SLURMD_NODENAME") in nodes

        daemons = [node.slurmd for node in nodes.values() if node.slurmd is not None]
        end(daemons, patience=0)  # first, so that it starts nothing more
        # All others together: a step that saw its task end would tell slurmctld that the job has failed.
        end(with_environment(runs_there), patience=0)
        self._register.reap()

    def _tell(self) -> None:
        with self._lock:
            self._changed([node.instance for node in self._nodes.values()])


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """What slurmctld refuses is worth a line in world.log, not the end of looking after the nodes."""
    try:
        yield
    except ToolError as error:
        log.warning("%s", error.message)
