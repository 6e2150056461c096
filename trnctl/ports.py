"""The doors to the outside, as Protocols, and the plain records that pass through them.

Actions know only this module. What stands behind a door is chosen in `targets`: a real adapter, or a fake
from the tests. Nothing that passes a door carries a foreign type: times are aware `datetime`s in UTC, states
are our own words, failures are `TrnctlError`s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from trnctl.errors import ToolError
from trnctl.findings import Finding

# --------------------------------------------------------------------------------------------- Shell


@dataclass(frozen=True)
class Completed:
    """The outcome of one command; `returncode` is negative when a signal ended it."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class CommandFailed(ToolError):
    """A streamed command ended with a failure, after its last line; `completed` says how (its stdout is '')."""

    def __init__(self, message: str, *, remedy: str, completed: Completed) -> None:
        super().__init__(message, remedy=remedy)
        self.completed = completed


class Shell(Protocol):
    """Runs commands somewhere: on this machine, or on the head node over ssh."""

    def run(self, argv: Sequence[str], *, stdin: str | None = None, timeout: float) -> Completed:
        """Run to the end. Raises WaitedTooLong after `timeout` seconds, ToolError when it cannot start,
        ConnectionLost when the way there broke (a remote exit code is returned, not raised)."""

    def stream(self, argv: Sequence[str], *, stdin: str | None = None) -> Iterator[str]:
        """Yield stdout line by line, without line ends, as they come; closing the iterator ends the command (a
        remote one when it writes its next line: sshd sends no signal).
        Raises CommandFailed after the last line when the command failed, ConnectionLost when the way broke."""

    def interact(self, argv: Sequence[str]) -> int:
        """Hand over the terminal; returns the exit code. An empty `argv` is a login shell."""


# --------------------------------------------------------------------------------------- Provisioner


@dataclass(frozen=True)
class StackEvent:
    """One CloudFormation event; `resource_type` is the CloudFormation name, `reason` is '' when none."""

    at: datetime
    logical_id: str
    resource_type: str
    status: str
    reason: str = ""
    physical_id: str = ""


@dataclass(frozen=True)
class Change:
    """One line of an update's change set: what is different from the running cluster."""

    path: str
    current: str
    requested: str


@dataclass(frozen=True)
class ClusterSummary:
    """One row of `cluster list`."""

    name: str
    region: str
    status: str
    version: str


class Provisioner(Protocol):
    """Makes and unmakes clusters (ParallelCluster's CLI). `document` is a whole ParallelCluster YAML file."""

    def create(self, name: str, document: str) -> None:
        """Start creating; returns when CloudFormation has accepted. RefusedError carries validation findings."""

    def check(self, name: str, document: str) -> list[Finding]:
        """The provisioner's own dry run: nothing is created; its verdicts as findings (empty = it would pass)."""

    def update(self, name: str, document: str) -> list[Change]:
        """Start updating; the change set that was accepted ([] = nothing to change)."""

    def check_update(self, name: str, document: str) -> tuple[list[Change], list[Finding]]:
        """What an update would change, and what forbids it."""

    def clusters(self) -> list[ClusterSummary]:
        """All clusters of the region."""

    def describe(self, name: str) -> Mapping[str, object]:
        """The provisioner's own description, as it gives it. NotFoundError when there is none."""

    def events(self, name: str) -> list[StackEvent]:
        """Stack events, oldest first. NotFoundError when there is no such cluster."""

    def set_fleet(self, name: str, running: bool) -> None:
        """Ask the compute fleet to start or to stop; returns at once."""

    def delete(self, name: str) -> None:
        """Start deleting the stack; silent if it is already gone or going."""


# --------------------------------------------------------------------------------------------- Cloud

Phase = Literal["creating", "running", "create-failed", "updating", "update-failed", "deleting", "delete-failed"]


@dataclass(frozen=True)
class Stack:
    """A cluster's CloudFormation stack. `status` is CloudFormation's word, `phase` ours."""

    name: str
    status: str
    phase: Phase
    created: datetime
    reason: str = ""
    version: str = ""


@dataclass(frozen=True)
class Fleet:
    """The compute fleet's status as ParallelCluster records it, in its word in lower case
    (`running`, `stopped`, `stopping`, `protected`, `start_requested`, …)."""

    status: str
    at: datetime | None


@dataclass(frozen=True)
class Instance:
    """An EC2 instance that carries the cluster's tag; `role` is ParallelCluster's node-type tag."""

    id: str
    type: str
    state: str
    role: Literal["head", "compute", "login", "other"]
    public_ip: str = ""
    private_ip: str = ""
    queue: str = ""
    compute_resource: str = ""
    capacity: Literal["on-demand", "spot", "capacity-block"] = "on-demand"
    launched: datetime | None = None


@dataclass(frozen=True)
class FileSystem:
    """A file system or volume that is or was mounted by the cluster. `gib` is its provisioned size (0 = elastic)."""

    id: str
    kind: Literal["fsx-lustre", "efs", "ebs"]
    gib: int
    state: str
    deployment: str = ""


@dataclass(frozen=True)
class Resource:
    """Anything in the account that still carries the cluster's tag or name."""

    kind: str
    id: str
    detail: str = ""
    monthly_usd: float | None = None


@dataclass(frozen=True)
class Observed:
    """What AWS says about one cluster, asked side by side in one go."""

    stack: Stack | None
    fleet: Fleet | None
    instances: tuple[Instance, ...]


class Cloud(Protocol):
    """The handful of questions that trnctl asks AWS itself. All raise CloudError when AWS refuses."""

    def observe(self, cluster: str) -> Observed:
        """Stack, fleet and living instances of a cluster (terminated ones are left out), asked in parallel."""

    def stack_events(self, cluster: str) -> list[StackEvent]:
        """Stack events of the newest stack of that name (also just after its deletion), oldest first, [] when none."""

    def template(self, cluster: str) -> Mapping[str, object] | None:
        """The CloudFormation template of a cluster's stack (its `Resources` by logical id); None when there is none."""

    def file_systems(self, cluster: str) -> list[FileSystem]:
        """File systems and volumes that carry the cluster's tag."""

    def delete_file_system(self, file_system: FileSystem) -> None:
        """Start deleting one; silent if it is already gone."""

    def delete_beside(self, resource: Resource) -> bool:
        """Delete a security group or network interface that a retained file system kept alive, once that is gone;
        True when it is gone. Other kinds are left alone, and so is what AWS says is still in use."""

    def leftovers(self, cluster: str) -> list[Resource]:
        """Everything outside a living stack that still carries the cluster's tag or name and could cost or block:
        instances, volumes, interfaces, security groups, placement groups, file systems, log groups,
        hosted zones, roles."""

    def looked_for(self) -> tuple[str, ...]:
        """The kinds that `leftovers` looks for, in words, for the proof that teardown prints."""


# ------------------------------------------------------------------------------------------ JobQueue

Stage = Literal["prepare", "compile", "train"]
# One word per state that a person needs to tell apart; Slurm's own words are mapped onto them in one table.
JobState = Literal[
    "held", "pending", "configuring", "running", "completing", "completed",
    "failed", "cancelled", "timeout", "node-fail", "requeued", "suspended", "unknown",
]  # fmt: skip


ENDED: frozenset[JobState] = frozenset({"completed", "failed", "cancelled", "timeout", "node-fail"})


@dataclass(frozen=True)
class File:
    """A text file that is written into a run's folder; `name` is relative and has no `..`."""

    name: str
    text: str
    executable: bool = False


@dataclass(frozen=True)
class Submission:
    """One run, ready to be submitted: everything that the head node needs, in one message.

    `folder` is absolute and on shared storage. With several stages, each waits for the one before it (afterok).
    """

    run: str
    folder: str
    files: tuple[File, ...]
    stages: tuple[Stage, ...]  # in order; each is `<stage>.sbatch` among the files
    sbatch_args: tuple[str, ...] = ()
    hold: bool = False


@dataclass(frozen=True)
class Submitted:
    """What the queue answered: one job id per stage. `again` is True when the run had already been submitted."""

    run: str
    folder: str
    jobs: Mapping[Stage, str]
    again: bool = False


@dataclass(frozen=True)
class Job:
    """A job in the queue. `run` and `stage` are '' for jobs that are not ours. Times are UTC."""

    id: str
    run: str
    stage: Stage | Literal[""]
    state: JobState
    reason: str
    nodes: int
    user: str = ""
    partition: str = ""
    elapsed_s: int = 0
    starts: datetime | None = None
    node_list: str = ""
    restarts: int = 0

    @property
    def ended(self) -> bool:
        """Whether it will never run again."""
        return self.state in ENDED


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one partition in one state: `states` are our words (idle, allocated, mixed, powered-down, powering-up,
    powering-down, down, drained, draining, completing, unknown); `hostlist` is Slurm's compressed list.
    `available` is the partition's own state in Slurm's word (`up`, `inactive`, `drain`, `down`): ParallelCluster's
    protected mode makes it inactive while the nodes look idle."""

    partition: str
    state: str
    count: int
    hostlist: str
    reason: str = ""
    available: str = "up"


@dataclass(frozen=True)
class RunRecord:
    """What a run's folder holds: the manifest (run.json), the ids (submitted.json), the results, the ends of its logs.

    `logs` maps a log's name (`compile.log`, `train/node-0.log`) to its last few kilobytes;
    `ended` maps a stage to what its exit trap wrote (`{"exit_code": 0, "at": ...}`); where the trap could not run
    (a lost node, a job cancelled before it started) the head node writes `{"state": ..., "by": "slurm"}` there instead,
    with the state in our words, because Slurm itself forgets a job some minutes after its end.
    """

    run: str
    folder: str
    manifest: Mapping[str, object]
    jobs: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, object] | None = None
    logs: Mapping[str, str] = field(default_factory=dict)
    ended: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    refused: str = ""  # Slurm's words when the last try to submit it was refused


@dataclass(frozen=True)
class QueuePicture:
    """One look at the head node, taken in one call: jobs, nodes and runs at the same moment."""

    at: datetime
    jobs: tuple[Job, ...]
    nodes: tuple[NodeGroup, ...]
    runs: tuple[RunRecord, ...]
    slurm_version: str = ""


@dataclass(frozen=True)
class LogLine:
    """One line of a run's log; `log` is the log's name as in `RunRecord.logs`."""

    stage: str
    log: str
    text: str


@dataclass(frozen=True)
class StageState:
    """A stage's job changed its state (the first look at it counts as a change)."""

    stage: str
    job: str
    state: JobState
    reason: str = ""


@dataclass(frozen=True)
class RunOver:
    """The last event of a followed run: the final state of each stage that was followed."""

    states: Mapping[str, JobState]


FollowEvent = LogLine | StageState | RunOver


class JobQueue(Protocol):
    """Slurm on the head node. Every method is one connection."""

    def submit(self, submission: Submission) -> Submitted:
        """Write the folder and submit its jobs. Safe to repeat: the same run is never submitted twice."""

    def observe(self, runs_folder: str, *, run: str = "", newest: int = 20, tail_bytes: int = 6000) -> QueuePicture:
        """Jobs, nodes and the newest runs (or the one named `run`, in whole)."""

    def cancel(self, run: str, runs_folder: str) -> list[str]:
        """Cancel all jobs of a run; the ids that were cancelled ([] when none was alive)."""

    def follow(
        self,
        run: str,
        runs_folder: str,
        *,
        stage: str = "",
        node: int | None = None,
        from_start: bool = True,
        wait: bool = True,
    ) -> Iterator[FollowEvent]:
        """Log lines and state changes of a run as they come; ends with RunOver once its jobs are over.

        `stage` '' means every stage. `node` None means the batch script's log and that of node 0, a number only
        that node's log. With `from_start` False only the last lines of what is there come first; with `wait` False
        it ends at once after what is there. Raises NotFoundError when there is no such run."""


# ------------------------------------------------------------------------------------------- Clock


class Clock(Protocol):
    """Time, so that tests can wind it by hand."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


# ---------------------------------------------------------------------------------------- Services


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
