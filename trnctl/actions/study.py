"""A scaling study: every point judged before any is submitted, taken up where it ended, waited for to the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from trnctl.actions.runs import OpenCluster
from trnctl.actions.status import current_stage, summarize
from trnctl.actions.submit import Facts, SubmitPlan, Wishes, plan_submit, send
from trnctl.errors import (
    ConnectionLost,
    Interrupted,
    RefusedError,
    RunFailed,
    ToolError,
    TrnctlError,
    UsageError,
    WaitedTooLong,
)
from trnctl.findings import Finding
from trnctl.plan.words import count
from trnctl.ports import JobQueue, QueuePicture, RunRecord
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.study import Study
from trnctl.specs.workload import WorkloadSpec

# submit: there is none yet. resume: it ended too soon. wait: it lives. keep: it has ended well.
Way = Literal["submit", "resume", "wait", "keep"]
_LOOKS_LOST = 10  # in a row, before a broken line to the head node ends the wait
_SECONDS = 5.0
AGAIN = "the same command again (nothing is submitted twice, finished points are kept)"
_SHOWN = 50  # records in one look; a study's runs that are not among the newest are asked for by name


@dataclass(frozen=True)
class StudyPoint:
    """One number of nodes: the plan of its run, and what is to be done about it."""

    plan: SubmitPlan
    way: Way = "submit"
    state: str = ""  # of the run that is there

    @property
    def nodes(self) -> int:
        """How many."""
        return self.plan.layout.nodes

    @property
    def run(self) -> str:
        """The run's name."""
        return self.plan.run


@dataclass(frozen=True)
class StudyPlan:
    """A study, its points by nodes, the smallest first, which is also the order in which they are submitted: a fault
    in the recipe shows where it costs least, and Slurm runs the others beside it while the queue has nodes."""

    study: Study
    workload: WorkloadSpec
    points: tuple[StudyPoint, ...]

    @property
    def due(self) -> tuple[StudyPoint, ...]:
        """The points that will cost money: those that are submitted or resumed."""
        return tuple(point for point in self.points if point.way in {"submit", "resume"})

    @property
    def cost_usd(self) -> float:
        """Of what is due, as far as it is known."""
        return sum(point.plan.estimate.cost_usd or 0.0 for point in self.due)

    @property
    def steps_argument(self) -> str:
        """The script's argument that says after how many steps a run ends; '' where it has none."""
        return next((name for name, value in self.workload.arguments.items() if value == "{steps}"), "")

    @property
    def cost_is_whole(self) -> bool:
        """Whether every point that is due has a known cost."""
        return all(point.plan.estimate.cost_usd is not None for point in self.due)


def plan_study(
    workload: WorkloadSpec, spec: ClusterSpec, study: Study, wishes: Wishes, *, now: datetime, facts: Facts
) -> StudyPlan:
    """Judge every point before anything is asked or sent: UsageError when any is illegal, RefusedError when any does
    not fit; all that is refused is told at once."""
    points, refused = [], []
    for nodes in study.nodes:
        wish = replace(wishes, nodes=nodes, scaling=study.scaling, study=study)
        try:
            points.append(StudyPoint(plan_submit(workload, spec, wish, run=study.run(nodes), now=now, facts=facts)))
        except (UsageError, RefusedError) as error:
            refused.append((nodes, error))
    if refused:
        raise _refusal(study, refused)
    return StudyPlan(study, workload, tuple(points))


def _refusal(study: Study, refused: Sequence[tuple[int, TrnctlError]]) -> TrnctlError:
    """One error for all points: illegal before too large. What is wrong with all of them is told once."""
    told = {error.message: error for _, error in refused}
    kind = UsageError if any(isinstance(error, UsageError) for _, error in refused) else RefusedError
    first = next(error for _, error in refused if isinstance(error, kind))
    if len(told) == 1:
        return kind(first.message, remedy=first.remedy)
    findings = [Finding("study-point-refused", "error", one.message, one.remedy, path=count(n)) for n, one in refused]
    fit = [str(nodes) for nodes in study.nodes if nodes not in {n for n, _ in refused}]
    way = f"--nodes {','.join(fit)} leaves them out" if fit else first.remedy
    return kind(
        f"nothing is submitted: {len(refused)} of {len(study.nodes)} points are refused", remedy=way, findings=findings
    )


def take_up(plan: StudyPlan, picture: QueuePicture) -> StudyPlan:
    """The plan with what is there already: whole points are kept, living ones are waited for, failed ones go on.

    UsageError when a run of that name is of another study: other settings, or none.
    """
    records = {record.run: record for record in picture.runs}
    jobs = {job.id: job for job in picture.jobs}
    points = []
    for point in plan.points:
        record = records.get(point.run)
        if record is None or not record.jobs:
            points.append(point)
            continue
        _same_experiment(plan.study, point, record)
        state = current_stage(record, jobs).state
        points.append(replace(point, way=_way(state), state=state))
    return replace(plan, points=tuple(points))


def _way(state: str) -> Way:
    if state == "completed":
        return "keep"
    return "resume" if state in {"failed", "cancelled", "timeout", "node-fail"} else "wait"


_SAME = ("workload", "instance_type", "queue", "nodes", "sdk", "layout", "steps", "arguments", "script")


def _same_experiment(study: Study, point: StudyPoint, record: RunRecord) -> None:
    """A kept point must be what would be submitted now: a curve of two settings tells nothing."""
    text = next(file.text for file in point.plan.submission.files if file.name == "run.json")
    wanted: Mapping[str, object] = json.loads(text)
    other = [name for name in _SAME if not _same(record.manifest.get(name), wanted.get(name))]
    if other:
        told = ", ".join(f"{name} {_short(record.manifest.get(name))}" for name in other)
        here = ", ".join(f"{_short(wanted.get(name))}" for name in other)
        raise UsageError(
            f"the run {point.run} is there with other settings: {told} instead of {here}",
            remedy=f"give the same settings to go on with {study.name}, or begin another study with --name",
        )


def _same(there: object, here: object) -> bool:
    """Whether two values are one; of a layout, what both versions of trnctl know of it."""
    if isinstance(there, Mapping) and isinstance(here, Mapping) and "world" in there:
        return all(there[name] == here[name] for name in there.keys() & here.keys())
    return there == here


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={inner}" for key, inner in sorted(value.items())) or "none"
    return str(value)


def look(plan: StudyPlan, queue: JobQueue, runs_folder: str) -> QueuePicture:
    """The jobs, and the records of the study's runs as far as there are any."""
    picture = queue.observe(runs_folder, newest=_SHOWN)
    wanted = [point.run for point in plan.points]
    there = {record.run: record for record in picture.runs}
    if len(picture.runs) >= _SHOWN:
        for run in wanted:
            if run not in there:
                there.update({one.run: one for one in queue.observe(runs_folder, run=run).runs})
    return replace(picture, runs=tuple(there[run] for run in wanted if run in there))


def submit_due(plan: StudyPlan, queue: JobQueue, runs_folder: str) -> Iterator[tuple[StudyPoint, ToolError | None]]:
    """Submit or resume what is due, the smallest first, and say of each whether Slurm took it. What Slurm refuses for
    one point does not keep the others from being submitted; what it refuses for all is raised at the end."""
    refused = []
    for point in plan.due:
        try:
            if point.way == "resume":
                queue.resume(point.run, runs_folder)
            else:
                send(point.plan, queue)
        except (ConnectionLost, WaitedTooLong, Interrupted) as error:
            raise type(error)(error.message, remedy=f"{AGAIN} takes the study up") from error
        except ToolError as error:
            refused.append(error)
            yield point, error
        else:
            yield point, None
    if refused and len(refused) == len(plan.points):
        raise refused[0]


@dataclass(frozen=True)
class PointState:
    """A point as it stands."""

    nodes: int
    run: str
    stage: str
    state: str
    reason: str = ""
    step: int | None = None
    steps: int | None = None
    throughput: float | None = None
    unit: str = ""

    @property
    def over(self) -> bool:
        """Whether it will not go on by itself."""
        return self.state in {"completed", "failed", "cancelled", "timeout", "node-fail", "not submitted"}

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than well."""
        return self.over and self.state != "completed"

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {
            "nodes": self.nodes, "run": self.run, "stage": self.stage, "state": self.state, "reason": self.reason,
            "step": self.step, "steps": self.steps, "throughput": self.throughput, "unit": self.unit,
        }  # fmt: skip


@dataclass(frozen=True)
class StudyState:
    """A study as it stands."""

    points: tuple[PointState, ...]

    @property
    def over(self) -> bool:
        """Whether no point goes on."""
        return all(point.over for point in self.points)


def state_of(plan: StudyPlan, picture: QueuePicture, now: datetime) -> StudyState:
    """How far each point is."""
    runs = {one.run: one for one in summarize(picture, now)}
    records = {record.run: record for record in picture.runs}
    points = []
    for point in plan.points:
        found = runs.get(point.run)
        if found is None or not records[point.run].jobs:
            reason = records[point.run].refused if point.run in records else ""
            points.append(PointState(point.nodes, point.run, "submit", "not submitted", reason))
            continue
        points.append(
            PointState(
                point.nodes, point.run, found.stage, found.state, found.reason, found.step, found.steps,
                found.throughput, found.unit,
            )
        )  # fmt: skip
    return StudyState(tuple(points))


def watch(plan: StudyPlan, opened: OpenCluster, queue: JobQueue) -> Iterator[StudyState]:
    """Look until every point is over; short losses of the line are sat out."""
    clock, lost = opened.services.clock, 0
    while True:
        try:
            picture = look(plan, queue, opened.runs_folder)
        except ConnectionLost:
            lost += 1
            if lost >= _LOOKS_LOST:
                raise
        else:
            lost, state = 0, state_of(plan, picture, clock.now())
            yield state
            if state.over:
                return
        clock.sleep(_SECONDS)


def verdict(plan: StudyPlan, state: StudyState, opened: OpenCluster, spec: ClusterSpec | None) -> RunFailed | None:
    """The error to end with when points failed, each with its cause where the evidence tells one."""
    from trnctl.actions.why import explain_run

    failed = [point for point in state.points if point.failed]
    if not failed:
        return None
    findings = []
    for point in failed:
        words = f"{point.stage} {point.state}" + (f" ({point.reason})" if point.reason else "")
        plain = RunFailed(f"{point.run}: {words}", remedy=f"trnctl why {point.run} looks for the cause.")
        told = plain if point.state in {"cancelled", "not submitted"} else explain_run(plain, point.run, opened, spec)
        findings.append(Finding("study-point-failed", "error", told.message, told.remedy, path=count(point.nodes)))
    where = count(failed[0].nodes) if len(failed) == 1 else f"{', '.join(str(one.nodes) for one in failed)} nodes"
    return RunFailed(
        f"{len(failed)} of {len(state.points)} points of {plan.study.name} failed: on {where}",
        remedy=f"mend the cause; {AGAIN} lets the failed points go on. trnctl study report {plan.study.name} shows the "
        "others",
        findings=findings,
    )
