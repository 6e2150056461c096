"""The text of slurm.conf: what ParallelCluster would write, on emulated nodes of one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trnctl.sandbox.machines.addresses import Address
from trnctl.sandbox.machines.names import ComputeResource, Queue, Scheduling

# From ParallelCluster's cookbook (slurm.conf.erb, slurm_parallelcluster.conf), except where a comment says otherwise.
_PARALLELCLUSTER = {
    "SlurmctldParameters": "idle_on_node_suspend,power_save_min_interval=1,power_save_interval=1,"
    "node_reg_mem_percent=1",  # the intervals are 30 and 10 there; the memory is not really there
    "TreeWidth": "65533",
    "SuspendTimeout": "5",  # 120 there: nothing really has to shut down here
    "ResumeTimeout": "1800",
    "PrivateData": "cloud",
    "ResumeRate": "0",
    "SuspendRate": "0",
    "ReconfigFlags": "KeepPartState",
    "SlurmctldTimeout": "300",
    "SlurmdTimeout": "10",  # 180 there: a dead node is noticed in half a minute instead of minutes
    "InactiveLimit": "0",
    "MinJobAge": "300",
    "KillWait": "30",
    "MessageTimeout": "20",  # 60 there
    "EnforcePartLimits": "ALL",
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": "nohold_on_prolog_fail,sched_interval=1,bf_interval=1",  # 60 and 30 by default
    "ReturnToService": "1",
    "MpiDefault": "none",
    "SelectType": "select/cons_tres",
    "SlurmctldDebug": "info",
    "SlurmdDebug": "info",
    "JobCompType": "jobcomp/none",
}
_CRED_EXPIRE = 5  # seconds that a requeued job waits before it may start again; 70 in ParallelCluster


@dataclass(frozen=True)
class Site:
    """Where one emulated cluster lives: `folder` is clusters/NAME, `runtime` the short one for sockets; `ports` maps
    node names to the ports of their slurmd."""

    folder: Path
    runtime: Path
    user: str
    address: Address
    controller_port: int
    ports: Mapping[str, int]
    idle_seconds: int | None = None  # in place of ScaledownIdletime

    @property
    def conf(self) -> Path:
        """slurm.conf."""
        return self.folder / "etc" / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        """Unix sockets need short paths: 107 bytes at most."""
        return self.runtime / "munge.sock"

    @property
    def hooks(self) -> Path:
        """What slurmd runs on a node before and after each job lies below it, as ParallelCluster has it."""
        return self.folder / "root" / "opt" / "slurm" / "etc" / "scripts"

    def program(self, name: str) -> Path:
        """One of the programs that slurmctld runs."""
        return self.folder / "etc" / "programs" / name


def slurm_conf(scheduling: Scheduling, site: Site, *, active: bool = True) -> str:
    """The whole file. `active` False writes all partitions as inactive (the fleet is stopped)."""
    fixed = _fixed(scheduling, site)
    owned = {name.lower() for name in fixed}
    custom = {name: value for name, value in scheduling.settings.items() if name.lower() not in owned}
    replaced = {name.lower() for name in custom}
    defaults = {name: value for name, value in _PARALLELCLUSTER.items() if name.lower() not in replaced}
    lines = [f"{name}={value}" for settings in (fixed, defaults, custom) for name, value in settings.items()]
    for queue in scheduling.queues:
        lines += ["", *_node_lines(queue, site)]
    lines += [""] + [_partition(queue, queue is scheduling.queues[0], active) for queue in scheduling.queues]
    return "\n".join(lines) + "\n"


def ignored_settings(scheduling: Scheduling, site: Site) -> list[str]:
    """CustomSlurmSettings that the sandbox cannot follow, since its own machinery hangs on them."""
    owned = {name.lower() for name in _fixed(scheduling, site)}
    return [name for name in scheduling.settings if name.lower() in owned]


def node_conf(site: Site, node: str, spool: Path) -> str:
    """The file that one slurmd reads: the cluster's, and a spool folder whose path is short enough for the sockets
    `<spool>/<node>_<job>.<step>` of its steps."""
    return f"# {node}\ninclude {site.conf}\nSlurmdSpoolDir={spool}\n"


def _fixed(scheduling: Scheduling, site: Site) -> dict[str, str]:
    ip, log, run = site.address.ip, site.folder / "log", site.folder / "run"
    idle = scheduling.idle_seconds if site.idle_seconds is None else site.idle_seconds
    fixed = {
        "ClusterName": "parallelcluster",
        "SlurmctldHost": f"{site.address.hostname}({ip})",
        "SlurmUser": site.user,
        "SlurmdUser": site.user,
        "SlurmctldPort": str(site.controller_port),
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={site.munge_socket},cred_expire={_CRED_EXPIRE}",
        "StateSaveLocation": str(site.folder / "state"),
        "SlurmctldPidFile": str(run / "slurmctld.pid"),
        "SlurmdPidFile": str(run / "slurmd-%n.pid"),
        "SlurmctldLogFile": str(log / "slurmctld.log"),
        "SlurmdLogFile": str(log / "slurmd-%n.log"),
        "ProctrackType": "proctrack/linuxproc",  # cgroups are not ours to make
        "SelectTypeParameters": "CR_CPU_Memory" if scheduling.memory_based else "CR_CPU",
        "SlurmdParameters": "config_overrides",  # 128 CPUs on a machine that has two
        "DebugFlags": "NO_CONF_HASH",  # each slurmd has a file of its own that includes this one
        "ResumeProgram": str(site.program("resume")),
        "SuspendProgram": str(site.program("suspend")),
        "ResumeFailProgram": str(site.program("suspend")),
        "PrologSlurmctld": str(site.program("wait-for-nodes")),
        "Prolog": f"{site.hooks}/prolog.d/*",
        "Epilog": f"{site.hooks}/epilog.d/*",
        "SuspendTime": str(idle),
    }
    if site.address.bound:
        fixed["CommunicationParameters"] = "NoInAddrAny,NoCtldInAddrAny"
    if static := [group for queue in scheduling.queues for group in queue.groups() if "-st-" in group[0]]:
        fixed["SuspendExcNodes"] = ",".join(f"{name}-[1-{count}]" for name, count in static)
    return fixed


def _node_lines(queue: Queue, site: Site) -> list[str]:
    return [
        _node_line(resource, group, first, last, site)
        for resource in queue.resources
        for group, count in resource.groups()
        for first, last in _runs([site.ports[f"{group}-{number}"] for number in range(1, count + 1)])
    ]


def _node_line(resource: ComputeResource, group: str, first: int, last: int, site: Site) -> str:
    """One line for nodes whose ports follow each other."""
    port = site.ports[f"{group}-{first}"]
    weight = 1 if group.startswith(f"{resource.queue}-st-") else 1000
    settings = "".join(f" {name}={value}" for name, value in resource.settings.items())
    return (
        f"NodeName={group}-[{first}-{last}] NodeAddr={site.address.ip} Port=[{port}-{port + last - first}]"
        f" CPUs={resource.vcpus} RealMemory={resource.memory} State=CLOUD"
        f" Feature={','.join(resource.features(group))} Weight={weight}{settings}"
    )


def _runs(ports: list[int]) -> list[tuple[int, int]]:
    """Numbers (from 1) of the first and last node of each stretch of consecutive ports."""
    runs: list[tuple[int, int]] = []
    for number, port in enumerate(ports, start=1):
        if runs and port == ports[number - 2] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _partition(queue: Queue, default: bool, active: bool) -> str:
    nodes = ",".join(f"{name}-[1-{count}]" for name, count in queue.groups())
    state = "UP" if active else "INACTIVE"
    words = [f"PartitionName={queue.name}", f"Nodes={nodes}", "MaxTime=INFINITE", f"State={state}"]
    if default:
        words.append("Default=YES")
    if queue.exclusive:
        words.append("OverSubscribe=EXCLUSIVE")
    words += [f"{name}={value}" for name, value in queue.settings.items()]
    return " ".join(words)
