"""A scaling study: every point judged before any is submitted, and taken up where it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from trnctl.actions.status import current_stage
from trnctl.actions.submit import Facts, SubmitPlan, Wishes, plan_submit, send
from trnctl.errors import (
    ConnectionLost,
    Interrupted,
    RefusedError,
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
ENDED_BADLY = frozenset({"failed", "cancelled", "timeout", "node-fail"})
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
        now = current_stage(record, jobs)
        points.append(replace(point, way=_way(now.stage, now.state), state=now.state))
    return replace(plan, points=tuple(points))


def _way(stage: str, state: str) -> Way:
    if state == "completed":
        return "keep"
    return "resume" if state in ENDED_BADLY or forsaken(stage, state) else "wait"


def forsaken(stage: str, state: str) -> bool:
    """Whether nothing will bring a run to its end: Slurm has forgotten its job and nobody wrote down how that ended, or
    the preparer for which its held jobs wait has died."""
    return state == "unknown" or (stage == "prepare" and state == "held")


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
        except KeyboardInterrupt:
            raise Interrupted("not every point is submitted yet", remedy=f"{AGAIN} takes the study up") from None
        except ToolError as error:
            refused.append(error)
            yield point, error
        else:
            yield point, None
    if refused and len(refused) == len(plan.points):
        raise refused[0]
