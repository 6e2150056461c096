"""A study on its way: how far each point is, to the end of all, and what became of those that failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from trnctl.actions.runs import OpenCluster
from trnctl.actions.status import summarize
from trnctl.actions.study import AGAIN, ENDED_BADLY, StudyPlan, forsaken, look
from trnctl.errors import RunFailed, ToolError
from trnctl.findings import Finding
from trnctl.plan.words import count
from trnctl.ports import JobQueue, QueuePicture
from trnctl.specs.cluster import ClusterSpec

_LOOKS_LOST = 10  # in a row, before a head node that does not answer ends the wait
_SECONDS = 5.0


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
        ended = self.state in ENDED_BADLY or self.state in {"completed", "not submitted"}
        return ended or forsaken(self.stage, self.state)

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
    """Look until every point is over; when the head node does not answer for a minute or so, that is sat out."""
    clock, lost = opened.services.clock, 0
    while True:
        try:
            picture = look(plan, queue, opened.runs_folder)
        except ToolError:  # the line broke, or slurmctld starts again
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
    from trnctl.actions.why_now import explain_run

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
