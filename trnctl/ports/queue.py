"""The door to Slurm on the head node, and the records of runs, jobs and nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from trnctl.ports.cache import CacheWish, Compile, Lock
from trnctl.ports.ledger import FleetLedger

Stage = Literal["prepare", "compile", "train"]
# One word per state that a person needs to tell apart; Slurm's own words are mapped onto them in one table.
JobState = Literal[
    "held", "pending", "configuring", "running", "completing", "completed",
    "failed", "cancelled", "timeout", "node-fail", "requeued", "suspended", "preparing", "unknown",
]  # fmt: skip


ENDED: frozenset[JobState] = frozenset({"completed", "failed", "cancelled", "timeout", "node-fail"})


@dataclass(frozen=True)
class File:
    """A text file that is written into a run's folder; `name` is relative and has no `..`. A `secret` one can be read
    by its owner alone, and is shown nowhere."""

    name: str
    text: str
    executable: bool = False
    secret: bool = False


@dataclass(frozen=True)
class Need:
    """A path on shared storage without which a run cannot work: what it is, and how a person gets it there.

    `check` is what must lie there: {"files": at least so many, "match": with such names}. `fetch` is how the preparer
    on the head node gets it, empty where only a person can: {"kind": git | archive | file | folder | environment | hub,
    "target": what it makes, and what that kind needs} (see templates/node/prepare.py).
    """

    path: str
    what: str
    remedy: str
    check: Mapping[str, object] = field(default_factory=dict)
    fetch: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Submission:
    """One run, ready to be submitted: everything that the head node needs, in one message.

    `folder` is absolute and on shared storage. With several stages, each waits for the one before it (afterok). With
    `cache`, the head node leaves the compile stage out when the cache holds all its graphs.
    """

    run: str
    folder: str
    files: tuple[File, ...]
    stages: tuple[Stage, ...]  # in order; each is `<stage>.sbatch` among the files
    sbatch_args: tuple[str, ...] = ()
    hold: bool = False
    cache: CacheWish | None = None
    from_run: str = ""
    from_recipes: tuple[str, ...] = ()  # whose runs `from_run` may be; empty: any
    from_step: int | None = None  # how many steps it must have done; None: any number
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True)
class Submitted:
    """What the queue answered: one job id per stage. `again` is True when the run had already been submitted.

    `prepare` is the process on the head node that fetches what the run needs, `preparing` what that is; None when all
    is there. `compile` is what became of the compile stage, `why` the reason in words; `freed` are locks that compilers
    which no longer run had left in the cache, and that were removed: the run would have waited for them without end.
    """

    run: str
    folder: str
    jobs: Mapping[Stage, str]
    again: bool = False
    compile: Compile = "skipped"
    why: str = ""
    freed: tuple[Lock, ...] = ()
    prepare: int | None = None
    preparing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resumed:
    """What became of a run that was resumed: the new jobs, the checkpoint that it goes on from ('' = the beginning),
    nodes that are left out because they are down or drained, and `short` when they are not because the partition has
    too few others, so that the run waits for them. `freed` and `prepare` as in `Submitted`."""

    run: str
    folder: str
    jobs: Mapping[Stage, str]
    checkpoint: str
    excluded: tuple[str, ...]
    short: bool = False
    freed: tuple[Lock, ...] = ()
    prepare: int | None = None


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
    saved: Mapping[str, object] | None = None  # its newest checkpoint: name, age_s
    preparing: Mapping[str, object] | None = None  # what fetches what it needs: alive, words, done, total, seconds
    refused: str = ""  # Slurm's words when the last try to submit it was refused
    quiet_s: Mapping[str, int] = field(default_factory=dict)  # by log: seconds since it was last written


@dataclass(frozen=True)
class QueuePicture:
    """One look at the head node, taken in one call: jobs, nodes and runs at the same moment. `fleet` is what the head
    node has counted, None where nothing on it counts."""

    at: datetime
    jobs: tuple[Job, ...]
    nodes: tuple[NodeGroup, ...]
    runs: tuple[RunRecord, ...]
    slurm_version: str = ""
    fleet: FleetLedger | None = None


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


@dataclass(frozen=True)
class LineLost:
    """The connection broke, and is tried again in `pause_s` seconds; nothing is lost or repeated."""

    why: str
    pause_s: float


FollowEvent = LogLine | StageState | RunOver | LineLost


class JobQueue(Protocol):
    """Slurm on the head node. Every method is one connection."""

    def submit(self, submission: Submission) -> Submitted:
        """Write the folder and submit its jobs. Safe to repeat: the same run is never submitted twice."""

    def resume(self, run: str, runs_folder: str, *, hold: bool = False) -> Resumed:
        """Submit the stages again that a run has not done, in its own folder. NotFoundError when there is no such run,
        RefusedError when it lives or is complete."""

    def observe(self, runs_folder: str, *, run: str = "", newest: int = 20, tail_bytes: int = 16000) -> QueuePicture:
        """Jobs, nodes and the newest runs, or the one named `run`, in whole.

        `runs_folder` may be patterns with `*`, separated by colons, where the mount is not known. `tail_bytes` of each
        log come along for runs that live: a shard of BERT's begins with 5 KB of lines that tell no step."""

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
        last: int | None = None,
        since: datetime | None = None,
    ) -> Iterator[FollowEvent]:
        """Log lines and state changes of a run as they come; ends with RunOver once its jobs are over.

        `stage` '' means every stage. `node` None means the batch script's log and that of node 0, a number only
        that node's log. With `from_start` False only the last lines of what is there come first, with `last` so many
        of each log, with `since` what was written from then on, as far as the lines tell their time; with `wait` False
        it ends at once after what is there. Raises NotFoundError when there is no such run."""
