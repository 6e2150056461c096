"""`why` of a cluster and of its runs: what the evidence tells, beside what they are doing now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from trnctl.actions.evidence import (
    Saved,
    ask_cloud_watch,
    ask_head,
    events_of,
    facts_of,
    newest,
    of_fleet,
    of_head,
    of_stack,
    running_head,
)
from trnctl.actions.runs import OpenCluster
from trnctl.actions.status import RunStatus, summarize
from trnctl.actions.why import Answer, judged, known, lower
from trnctl.actions.why_look import failed_runs, of_run, silence, told, under_way
from trnctl.diagnose.evidence import Facts, Origin
from trnctl.diagnose.judge import Diagnosis
from trnctl.errors import CloudError, NotFoundError, RunFailed, ToolError, TrnctlError
from trnctl.findings import Finding
from trnctl.ports import Instance, Observed, QueuePicture, StackEvent
from trnctl.specs.cluster import ClusterSpec

_RECENT = timedelta(hours=24)  # what daemons wrote before is another story, unless a run is asked about that is older
_NEWEST = 5  # runs that an answer about the cluster looks at


def why_cluster(opened: OpenCluster, spec: ClusterSpec | None) -> Answer:
    """Judge a cluster. NotFoundError when neither AWS nor CloudFormation's memory knows it; CloudError, with what it
    means, when AWS does not answer."""
    seen, events = _ask_cloud(opened)
    if seen.stack is None and not events:
        raise NotFoundError(
            f"there is no cluster {opened.cluster} in {opened.region}",
            remedy="trnctl cluster list shows what exists; trnctl why FILE reads a saved log",
        )
    gathered, notes = ask_head(opened.services, seen)
    now = opened.services.clock.now()
    recent = max(now - _RECENT, _life_began(opened.cluster, seen, events) or now - _RECENT)
    since = f"{recent:%Y-%m-%dT%H:%M:%S}"
    saved = [*of_stack(opened.cluster, seen, events), *of_fleet(seen), *of_head(gathered, since)]
    case = _Case(tuple(saved), facts_of(opened.services, spec, seen), since)
    found, picture = case.judged(), None if notes else _picture(opened, seen)
    if notes or _undecided(found):
        found, more = _joined(opened, seen, events, case, recent)
        notes = (*notes, *more)
    waits = under_way(opened.cluster, seen, events, now)
    findings = (*waits, *told(found.findings, seen, picture, now))
    notes = () if waits else (*notes, *failed_runs(picture, now))
    return Answer("cluster", opened.cluster, _with(found, findings), notes)


def why_run(opened: OpenCluster, spec: ClusterSpec | None, run: str) -> Answer:
    """Judge a run, by its name or how that ends. NotFoundError when there is none of that name."""
    seen, events = _ask_cloud(opened)
    head = running_head(seen)
    if head is None:
        raise NotFoundError(
            f"{opened.cluster} has no head node that runs, so it knows of no run {run}",
            remedy="trnctl why cluster looks at the cluster; trnctl why FILE reads a saved log",
        )
    gathered = opened.services.head.evidence(head).gather(opened.runs_folder, run)
    since = gathered.since.rstrip("Z")
    saved = [*of_head(gathered, since), *of_stack(opened.cluster, seen, events), *of_fleet(seen)]
    case = _Case(tuple(saved), facts_of(opened.services, spec, seen), since)
    found, notes = case.judged(), tuple[str, ...]()
    if _undecided(found):
        found, notes = _joined(opened, seen, events, case, _moment(gathered.since))
    status = _status_of(opened, head, gathered.run)
    hangs = silence(opened, status) if status else []
    found = _with(found, (*hangs, *of_run(found.findings, gathered)))
    survived = status is not None and status.state == "completed" and bool(found.findings)
    notes = (*notes, f"{gathered.run} has completed: what stands here it has survived") if survived else notes
    return Answer("run", gathered.run, found, notes)


def explain_run(failed: RunFailed, run: str, opened: OpenCluster, spec: ClusterSpec | None = None) -> RunFailed:
    """The same error with its cause, where the run's evidence tells one."""
    try:
        findings = [one for one in why_run(opened, spec, run).diagnosis.findings if one.level == "error"]
    except TrnctlError:
        return failed
    if not findings:
        return failed
    first = findings[0]
    return RunFailed(
        f"{failed.message}: {lower(first.message)}", remedy=f"{first.remedy} {failed.remedy}", findings=findings[:1]
    )


# ---------------------------------------------------------------------------------------------- asking


def _ask_cloud(opened: OpenCluster) -> tuple[Observed, list[StackEvent]]:
    with _told_of_refusals(), ThreadPoolExecutor(2) as pool:
        seen = pool.submit(opened.services.cloud.observe, opened.cluster)
        events = pool.submit(events_of, opened.cluster, opened.services)
        return seen.result(), events.result()


@dataclass(frozen=True)
class _Case:
    """What is known so far: the texts, the facts besides, and since when what daemons wrote counts."""

    saved: tuple[Saved, ...]
    facts: Facts
    since: str

    def judged(self) -> Diagnosis:
        """What that tells."""
        return judged(self.saved, self.facts, self.since)


def _undecided(found: Diagnosis) -> bool:
    """Whether the worst that was found is a symptom: what a node that is gone has sent may tell the cause."""
    signature = known().by_code().get(found.findings[0].code) if found.findings else None
    return bool(found.findings) and (signature is None or signature.kind in {"symptom", "fallback"})


def _joined(
    opened: OpenCluster, seen: Observed, events: Sequence[StackEvent], case: _Case, begin: datetime | None
) -> tuple[Diagnosis, tuple[str, ...]]:
    """The same evidence and what has reached CloudWatch, and EC2's consoles, since it all began; what that was."""
    sent, notes = ask_cloud_watch(opened.cluster, opened.services, seen, events, begin)
    return replace(case, saved=(*case.saved, *of_head(sent))).judged(), notes


def _moment(text: str) -> datetime | None:
    """`2026-10-01T09:12:01Z`; None for a text that is no time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _with(found: Diagnosis, findings: tuple[Finding, ...]) -> Diagnosis:
    """The same diagnosis with these findings; lines that nobody can explain are shown only where there is none."""
    return replace(found, findings=findings, unexplained=() if findings else found.unexplained)


def _life_began(cluster: str, seen: Observed, events: Sequence[StackEvent]) -> datetime | None:
    """When what the daemons wrote began to be about the cluster as it is: with the fleet's last start, or where the
    stack did not get there with its newest creation or update. None when nobody knows."""
    if seen.fleet is not None and seen.fleet.status == "running":
        return seen.fleet.at
    if seen.stack is None or seen.stack.phase == "running":
        return None
    return newest(cluster, events)[0].at if events else None


@contextmanager
def _told_of_refusals() -> Iterator[None]:
    """A refusal of AWS's is evidence too: the error carries what it means."""
    try:
        yield
    except CloudError as error:
        found = judged([(Origin("unknown", "what AWS answered"), [error.message.encode()])], {}).findings
        raise type(error)(error.message, remedy=error.remedy, findings=found[:1]) from error


def _picture(opened: OpenCluster, seen: Observed) -> QueuePicture | None:
    """What Slurm and the newest runs are at; None where the head node cannot tell."""
    head = running_head(seen)
    if head is None:
        return None
    try:
        return opened.services.head.queue(head).observe(opened.runs_folder, newest=_NEWEST)
    except ToolError:  # the evidence says why
        return None


def _status_of(opened: OpenCluster, head: Instance, run: str) -> RunStatus | None:
    try:
        picture = opened.services.head.queue(head).observe(opened.runs_folder, run=run)
    except ToolError:
        return None
    return next(iter(summarize(picture, opened.services.clock.now())), None)
