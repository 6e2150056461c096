"""One look at everything: stack, fleet, nodes, runs and money, from AWS side by side and one call to the head node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from trnctl.actions.alerts import block_alerts, fleet_alerts, instance_alerts, node_alerts
from trnctl.actions.idle import idle_alerts, ttl_words
from trnctl.actions.runs import OpenCluster
from trnctl.actions.stack import cause_of_failure
from trnctl.actions.why import explain_failure
from trnctl.errors import CloudError, NotFoundError, ToolError
from trnctl.findings import Finding
from trnctl.plan.cap import GRACE_S
from trnctl.plan.cost import Spent, living, run_usage, spent
from trnctl.plan.progress import parse_progress
from trnctl.plan.words import of_bytes
from trnctl.ports import ENDED, Instance, Job, NodeGroup, Observed, QueuePicture, RunRecord, Stack
from trnctl.specs.cluster import ClusterSpec

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class RunStatus:
    """One run as it stands. `state` is the state of the stage that matters now; `eta_s` is measured, not planned."""

    run: str
    workload: str
    stage: str
    state: str
    reason: str
    nodes: int
    elapsed_s: int
    step: int | None
    steps: int | None
    throughput: float | None
    unit: str
    eta_s: int | None
    jobs: Mapping[str, str]
    cost_usd: float | None = None
    max_cost_usd: float | None = None
    recent: tuple[float, ...] = ()  # the throughput of its last steps, oldest first
    quiet_s: int = 0  # since when its log has been silent
    step_s: float | None = None  # what a step takes, measured
    saved: str = ""  # its newest checkpoint
    at_risk_s: int | None = None  # seconds of training that a stop would lose now; None where none would be lost

    @property
    def over(self) -> bool:
        """Whether nothing of it will run again."""
        return self.state in ENDED

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {
            "run": self.run, "workload": self.workload, "stage": self.stage, "state": self.state,
            "reason": self.reason, "nodes": self.nodes, "elapsed_s": self.elapsed_s, "step": self.step,
            "steps": self.steps, "throughput": self.throughput, "unit": self.unit, "eta_s": self.eta_s,
            "jobs": dict(self.jobs), "cost_usd": self.cost_usd, "max_cost_usd": self.max_cost_usd,
            "recent_throughput": list(self.recent), "quiet_s": self.quiet_s,
            "checkpoint": self.saved or None, "at_risk_s": self.at_risk_s,
        }  # fmt: skip


@dataclass(frozen=True)
class ClusterStatus:
    """One look at a cluster. `groups` and `runs` are empty when the queue could not be asked (an alert says why), or
    those of an earlier look, at `slurm_at`, and so is the cost then. `ttl` is when the head node stops the fleet, in
    words, '' when it never does."""

    name: str
    region: str
    at: datetime
    seen: Observed
    cost: Spent
    groups: tuple[NodeGroup, ...]
    runs: tuple[RunStatus, ...]
    alerts: tuple[Finding, ...]
    notice: str = ""
    ttl: str = ""
    slurm_at: datetime | None = None

    @property
    def head(self) -> Instance | None:
        """The head node."""
        return self.seen.head

    @property
    def nodes(self) -> dict[str, int]:
        """Compute nodes by state; a node in two partitions counts once."""
        counted: dict[str, dict[str, int]] = {}
        for group in self.groups:
            counted.setdefault(group.state, {})[group.hostlist] = group.count
        return {state: sum(lists.values()) for state, lists in sorted(counted.items())}

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        head = self.head
        return {
            "cluster": {
                "name": self.name,
                "region": self.region,
                "phase": self.seen.stack.phase if self.seen.stack else None,
                "fleet": self.seen.fleet.status if self.seen.fleet else None,
                "head_node": {
                    "id": head.id, "type": head.type, "state": head.state,
                    "public_ip": head.public_ip, "private_ip": head.private_ip,
                } if head else {},
                "ttl": self.ttl or None,
                "capacity_blocks": {
                    block: {"ends": ends.isoformat(timespec="seconds"), "left_s": int((ends - self.at).total_seconds())}
                    for block, ends in self.seen.blocks.items()
                },
            },
            "nodes": self.nodes,
            "cost": {
                "per_hour_usd": round(self.cost.per_hour.usd, 4),
                "so_far_usd": self.cost.so_far_usd,
                "basis": self.cost.basis,
                "known_from": self.cost.known_from.isoformat() if self.cost.known_from else None,
            },
            "runs": [run.as_json() for run in self.runs],
            "alerts": [alert.as_json() for alert in self.alerts],
            "notice": self.notice,
            "at": self.at.isoformat(timespec="seconds"),
            "slurm_at": (self.slurm_at or self.at).isoformat(timespec="seconds"),
        }  # fmt: skip


def status(opened: OpenCluster, *, newest: int = 20) -> ClusterStatus:
    """Ask AWS, then the head node. NotFoundError when there is no such cluster."""
    cluster, region, services = opened.cluster, opened.region, opened.services
    seen = services.cloud.observe(cluster, blocks=blocks_of(opened.spec))
    if seen.stack is None:
        raise NotFoundError(
            f"there is no cluster {cluster} in {region}",
            remedy="trnctl cluster create makes it; trnctl cluster list shows what exists",
        )
    picture, alerts = _ask_queue(seen, opened, newest)
    now = services.clock.now()
    runs = tuple(summarize(picture, now)) if picture else ()
    groups = picture.nodes if picture else ()
    money = spent(seen.instances, now, picture.fleet if picture else None)
    why = _why_failed(seen.stack, opened) if seen.stack.phase.endswith("failed") else ""
    alerts += [*fleet_alerts(seen, groups, why), *node_alerts(groups), *instance_alerts(seen, groups, now)]
    alerts += [*stalled_alerts(runs), *block_alerts(seen.blocks.items(), now)]
    alerts += preparer_alerts(picture.runs if picture else ())
    alerts += idle_alerts(seen, picture, opened.spec, money, now)
    return ClusterStatus(
        cluster, region, now, seen, money, tuple(groups), runs, tuple(alerts), services.notice,
        ttl_words(opened.spec, picture),
    )  # fmt: skip


def held(seen: ClusterStatus, last: ClusterStatus | None) -> ClusterStatus:
    """A picture without nodes and runs, as the head node was silent, with those of the last one that had them, and with
    its cost, which the head node counts."""
    unreachable = any(alert.code == "head-node-unreachable" for alert in seen.alerts)
    if not unreachable or last is None or not (last.groups or last.runs):
        return seen
    return replace(seen, groups=last.groups, runs=last.runs, cost=last.cost, slurm_at=last.slurm_at or last.at)


def blocks_of(spec: ClusterSpec | None) -> tuple[str, ...]:
    """The capacity blocks that a cluster file names."""
    queues = spec.queues if spec else ()
    return tuple(
        dict.fromkeys(one.capacity.id for one in queues if one.capacity.type == "capacity-block" and one.capacity.id)
    )


def stalled_alerts(runs: Sequence[RunStatus]) -> list[Finding]:
    """Trainings whose log has been silent for much longer than a step takes."""
    return [
        Finding(
            "run-stalled", "warning",
            f"{run.run} has said nothing for {run.quiet_s // 60} min; a step takes about {run.step_s:.3g} s",
            f"trnctl top {run.run} shows whether its cores work; trnctl why {run.run} looks for the cause",
            evidence=f"its log was written {run.quiet_s} s ago", confidence="low",
            cause="Undecided: a collective that hangs, storage that does not answer, or a checkpoint that takes long.",
        )
        for run in runs
        if run.state == "running" and run.step_s and run.quiet_s > max(_SILENCE_S, _SILENT_STEPS * run.step_s)
    ]  # fmt: skip


# A checkpoint of a large model takes minutes to write.
_SILENCE_S = 300
_SILENT_STEPS = 20


def _ask_queue(seen: Observed, opened: OpenCluster, newest: int) -> tuple[QueuePicture | None, list[Finding]]:
    head = seen.head
    if head is None or head.state != "running" or (seen.stack and seen.stack.phase in {"creating", "deleting"}):
        return None, []
    try:
        return opened.services.head.queue(head).observe(opened.runs_folder, newest=newest), []
    except ToolError as error:
        return None, [Finding("head-node-unreachable", "error", error.message, error.remedy)]


def _why_failed(stack: Stack, opened: OpenCluster) -> str:
    """The stack's own reason is often empty, or names a victim: the event that made it fail says more."""
    verb = {"create-failed": "created", "update-failed": "updated"}.get(stack.phase, "deleted")
    try:
        known = explain_failure(opened.cluster, verb, opened.services, opened.spec)
        event = cause_of_failure(opened.cluster, opened.services) if known is None else None
    except CloudError:
        known, event = None, None
    if known is not None:
        return known.message.partition(f"could not be {verb}: ")[2] or known.message
    if event is not None and event.reason:
        return f"{event.logical_id} ({event.resource_type}) failed: {event.reason}"
    return stack.reason or "no reason given"


def preparer_alerts(records: Iterable[RunRecord]) -> list[Finding]:
    """Runs that would wait for ever: what they need is fetched by nobody any more."""
    return [
        Finding(
            "preparer-died", "error", f"{record.run} waits for what it needs, and nobody fetches it any more: "
            "its preparer on the head node has died",
            f"trnctl resume {record.run} starts it again, and it goes on where it was",
        )
        for record in records
        if record.preparing is not None and not record.preparing.get("alive") and "prepare" not in record.ended
    ]  # fmt: skip


def summarize(picture: QueuePicture, now: datetime) -> list[RunStatus]:
    """The runs of a picture, the living first, then the newest."""
    jobs = {job.id: job for job in picture.jobs}
    runs = [summary(record, jobs, now) for record in picture.runs]
    return sorted(runs, key=lambda run: (run.over, run.state != "running"))


@dataclass(frozen=True)
class StageNow:
    """The stage of a run that matters now: its state in one word, why, and its job while Slurm still knows it."""

    stage: str
    state: str
    reason: str = ""
    job: Job | None = None


def current_stage(record: RunRecord, jobs: Mapping[str, Job]) -> StageNow:
    """The first stage that is alive or did not complete, else the last.

    Slurm forgets a finished job after some minutes (MinJobAge); then what its exit trap wrote decides. A train job
    that was cancelled because its compile job failed thus shows as the compile stage's failure.
    """
    if record.refused and not record.jobs:
        return StageNow("submit", "failed", record.refused)
    names = [str(stage) for stage in _list(record.manifest.get("stages"))] or list(record.jobs)
    now = StageNow("", "unknown")
    for stage in names:
        if stage == "prepare" and record.preparing is not None and "prepare" not in record.ended:
            return _preparing_now(record.run, record.preparing)
        job = jobs.get(record.jobs.get(stage, ""))
        now = _stage_now(stage, job, record.ended.get(stage))
        if now.state != "completed":
            return now
    return now


def _preparing_now(run: str, seen: Mapping[str, object]) -> StageNow:
    """What the preparer on the head node does, if it lives."""
    if not seen.get("alive"):
        return StageNow("prepare", "held", f"its preparer has died: trnctl resume {run} starts it again")
    done, total = _number(seen.get("done"), int), _number(seen.get("total"), int)
    return StageNow("prepare", "preparing", f"{seen.get('words') or 'begins'}{of_bytes(done, total)}")


def _stage_now(stage: str, job: Job | None, note: Mapping[str, object] | None) -> StageNow:
    """One stage, from Slurm while the job lives, from its own note when it is over."""
    if job is not None and not job.ended:
        return StageNow(stage, job.state, job.reason, job)
    if note is not None and "state" in note:
        return StageNow(stage, str(note["state"]), str(note.get("reason", "")), job)
    if note is not None and note.get("exit_code") != 0:
        state = job.state if job is not None and job.state != "completed" else "failed"
        return StageNow(stage, state, _why(note), job)
    if note is not None:
        return StageNow(stage, "completed", "", job)
    return StageNow(stage, job.state, job.reason, job) if job is not None else StageNow(stage, "unknown")


def _why(note: Mapping[str, object]) -> str:
    """Why a stage failed, in words as far as its exit trap knows them."""
    if note.get("reason"):
        return str(note["reason"])
    graphs = [str(_mapping(one).get("graph")) for one in _list(note.get("failed_graphs"))]
    if len(graphs) == 1:
        return f"graph {graphs[0]} did not compile"
    if graphs:
        return f"{len(graphs)} graphs did not compile, {graphs[0]} the first"
    return f"exit code {note.get('exit_code')}"


def summary(record: RunRecord, jobs: Mapping[str, Job], at: datetime) -> RunStatus:
    """One run at a moment, from its folder and the jobs that Slurm knows."""
    now, manifest, reached = current_stage(record, jobs), record.manifest, record.results or {}
    log = f"train/node-{_whole(manifest.get('log_node'))}.log"
    seen = parse_progress(manifest, record.logs.get(log, "") if now.stage == "train" else "")
    batch = _whole(_mapping(manifest.get("layout")).get("global_batch"))
    spent_usd = _money(run_usage(record, at, living(record, jobs))[1])
    eta, step_s = None, batch / seen.throughput if seen.throughput and batch else None
    if now.state == "running" and seen.throughput and seen.steps and seen.step is not None:
        eta = int((seen.steps - seen.step) * batch / seen.throughput)
    return RunStatus(
        run=record.run,
        workload=str(manifest.get("workload", "")),
        stage=now.stage,
        state=now.state,
        reason=_cap_reason(now, manifest, spent_usd) or now.reason,
        nodes=_whole(manifest.get("nodes")),
        elapsed_s=_elapsed(now, record),
        step=seen.step if seen.step is not None else _number(reached.get("steps_done"), int),
        steps=seen.steps,
        throughput=seen.throughput or _number(reached.get("average_throughput"), float),
        unit=str(manifest.get("unit", "")),
        eta_s=eta,
        jobs=record.jobs,
        cost_usd=spent_usd,
        max_cost_usd=_number(manifest.get("max_cost_usd"), float),
        recent=seen.recent if now.state == "running" else (),
        quiet_s=record.quiet_s.get(log, 0) if now.stage == "train" else 0,
        step_s=step_s,
        saved=str((record.saved or {}).get("name", "")),
        at_risk_s=_at_risk(now, record),
    )


def _at_risk(now: StageNow, record: RunRecord) -> int | None:
    """Seconds since the last checkpoint, or since the job began, whichever is less, of a training that runs and whose
    script does not save when it is asked to end."""
    saves = _mapping(record.manifest.get("checkpoint")).get("on_signal")
    if saves or now.stage != "train" or now.state != "running" or now.job is None:
        return None
    age = (record.saved or {}).get("age_s")
    return min(now.job.elapsed_s, int(age)) if isinstance(age, int | float) else now.job.elapsed_s


def _elapsed(now: StageNow, record: RunRecord) -> int:
    """Seconds of the stage that matters now; 0 for one that waits. Of one that Slurm has forgotten, those of all its
    attempts, which its results tell."""
    if now.state == "preparing" and record.preparing is not None:
        return _whole(record.preparing.get("seconds"))
    if now.job is not None:
        return now.job.elapsed_s
    name = {"compile": "compile_s", "train": "time_to_train_s"}.get(now.stage, "")
    return _number((record.results or {}).get(name), int) or 0


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _kept_back(manifest: Mapping[str, object], cap: float) -> float:
    """What of a cap no job gets: a minute, and what Slurm needs to end a job. A tenth where no price is known."""
    price = _number(manifest.get("price_per_node_hour_usd"), float)
    return 0.1 * cap if price is None else (60 + GRACE_S) * _whole(manifest.get("nodes")) * price / 3600


def _cap_reason(now: StageNow, manifest: Mapping[str, object], spent_usd: float | None) -> str:
    """A job that Slurm ended at its time limit, of a run whose cost is capped, and that has used the cap up; also when
    Slurm has forgotten it, and its exit trap knows only that it was ended (143)."""
    cap = _number(manifest.get("max_cost_usd"), float)
    ended = now.state == "timeout" or (now.state == "failed" and now.reason == "exit code 143")
    if not ended or cap is None or spent_usd is None or cap - spent_usd >= _kept_back(manifest, cap):
        return ""
    return f"its cap of ${cap:,.2f} is used up (--max-cost)"


def _money(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 4)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _number(value: object, kind: type[Number]) -> Number | None:
    """A number of results.json, None when it is not there (a stage that never ran writes null)."""
    return kind(value) if isinstance(value, int | float) else None
