"""What a look at a cluster adds to its evidence: what is under way, what only Slurm and EC2 show, and what is over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from trnctl.actions.alerts import fleet_alerts, instance_alerts, node_alerts
from trnctl.actions.runs import OpenCluster
from trnctl.actions.stack import progress
from trnctl.actions.status import RunStatus, preparer_alerts, stalled_alerts, summarize
from trnctl.actions.top import top
from trnctl.actions.why import known
from trnctl.errors import TrnctlError
from trnctl.findings import Finding, Level
from trnctl.ports import Gathered, NodeGroup, Observed, QueuePicture, StackEvent

_SILENT_S = 60  # and 20 steps: a run that is silent for longer is looked at on its nodes
_UNDER_WAY = {"creating": "created", "updating": "updated", "deleting": "deleted"}


def under_way(cluster: str, seen: Observed, events: Sequence[StackEvent], now: datetime) -> tuple[Finding, ...]:
    """A stack that is on its way: what it waits for, and since when."""
    phase = seen.stack.phase if seen.stack else ""
    if phase not in _UNDER_WAY:
        return ()
    step = progress(cluster, seen.stack.phase if seen.stack else None, events, None, now)
    waits = [f"{name} for {_minutes(seconds)}" for name, seconds in step.current[:3]]
    last = next((one for one in reversed(events) if step.current and one.logical_id == step.current[0][0]), None)
    again = "trnctl teardown" if phase == "deleting" else "trnctl cluster create"
    return (
        Finding(
            "stack-under-way", "info",
            f"{cluster} is being {_UNDER_WAY[phase]} for {_minutes(step.elapsed_s)}, {step.done} resources are done"
            + (f"; it waits for {', '.join(waits)}" if waits else ""),
            f"Wait; {again}, run again, follows it, and trnctl cluster events --cluster {cluster} lists every step. "
            "What fails ends it by itself: a head node that does not report back after 35 minutes.",
            evidence=f"{last.at:%Y-%m-%dT%H:%M:%S} {last.status} {last.logical_id}" if last else "",
            cause="Nothing has failed. CloudFormation makes or deletes a resource when what it rests on is done; file "
            "systems and the head node take longest.",
            confidence="high", source="stack-event",
        ),
    )  # fmt: skip


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def told(
    findings: Sequence[Finding], seen: Observed, picture: QueuePicture | None, now: datetime
) -> tuple[Finding, ...]:
    """The findings of the evidence, then what only a look shows, then what is over, marked as such."""
    if picture is None:
        return tuple(findings)
    marked = [_marked(finding, seen, picture) for finding in findings]
    living = [one for one, over in marked if not over]
    alerts = list(_alerts(living, seen, picture, now))
    return (*living, *alerts, *(one for one, over in marked if over))


# What a look shows that no log has: the others say what the evidence says better.
_OF_A_LOOK = frozenset(
    {"instances-orphaned", "nodes-without-instance", "run-stalled", "preparer-died", "protected-mode"}
)
_OF_NODES = frozenset({"capacity-wait", "nodes-unavailable", "queue-inactive"})
_AND_THEN = "mend what is named first, then trnctl cluster fleet start"


def _alerts(findings: Sequence[Finding], seen: Observed, picture: QueuePicture, now: datetime) -> Iterator[Finding]:
    """What status alerts of, as far as no finding says it with its cause."""
    runs, groups = summarize(picture, now), picture.nodes
    wanted = _OF_A_LOOK if any(one.level != "info" for one in findings) else _OF_A_LOOK | _OF_NODES
    alerts = [*fleet_alerts(seen, groups), *node_alerts(groups), *instance_alerts(seen, groups, now)]
    alerts += [*stalled_alerts(runs), *preparer_alerts(picture.runs)]
    for alert in alerts:
        if alert.code in wanted and alert.code not in {one.code for one in findings}:
            yield replace(alert, remedy=_AND_THEN) if alert.code == "protected-mode" else alert


def _marked(finding: Finding, seen: Observed, picture: QueuePicture) -> tuple[Finding, bool]:
    """The finding, and whether it is over: logs keep what was mended."""
    words = _over(finding, seen, picture)
    if not words:
        return finding, False
    level: Level = "info"
    message = f"{finding.message} This is over: {words}."
    return replace(finding, level=level, message=message, remedy="Nothing needs to be done now."), True


_FLEET = frozenset({"protected-mode", "fleet-stopped"})
_NODES = frozenset(
    {"node-not-responding", "node-health-failed", "node-unbacked", "node-drained", "node-failed-health",
     "kill-task-failed", "neuron-hw-error", "bootstrap-slow-or-blocked"}
)  # fmt: skip
_OUT = frozenset({"down", "drained", "draining", "unknown"})
_WAITING = frozenset({"pending", "configuring", "requeued"})


def _over(finding: Finding, seen: Observed, picture: QueuePicture) -> str:
    """Why what the evidence tells is over, '' when it is not, or nobody knows."""
    groups, signature = picture.nodes, known().by_code().get(finding.code)
    running = seen.fleet is not None and seen.fleet.status == "running"
    active = running and not any(group.available == "inactive" for group in groups)
    well = not any(group.state in _OUT for group in groups)
    waits = any(job.state in _WAITING for job in picture.jobs)
    boots = finding.source in {"compute-console", "clustermgtd", "slurm-resume"}
    if finding.code in _FLEET:
        return "the fleet runs" if active else ""
    if finding.code in _NODES:
        return "no node is out of service" if well and not _lost(seen, groups) else ""
    if signature is not None and signature.family == "capacity":
        refused = any(group.reason.startswith("(Code:") for group in groups)
        return "no job waits for nodes, and none is refused" if not (refused or waits) else ""
    if boots:
        return "no job waits for nodes, and none is out of service" if active and well and not waits else ""
    return ""


def _lost(seen: Observed, groups: Sequence[NodeGroup]) -> bool:
    """Whether Slurm counts on nodes that have no instance."""
    on = sum(group.count for group in groups if group.state in {"idle", "allocated", "mixed", "completing"})
    return on > sum(one.role == "compute" and one.state == "running" for one in seen.instances)


def failed_runs(picture: QueuePicture | None, now: datetime) -> Iterator[str]:
    """A word on each of the newest runs that failed: what happened there is asked of the run."""
    for run in summarize(picture, now) if picture else ():
        if run.state not in {"completed", "cancelled"} and run.over:
            yield f"{run.run} failed in its stage {run.stage}: trnctl why {run.run} says why"


# ------------------------------------------------------------------------------------------------ a run


def of_run(findings: Sequence[Finding], gathered: Gathered) -> tuple[Finding, ...]:
    """The findings of a run with the names that its own logs only number: the run's, and those of its nodes."""
    texts = {one.name: one.text for one in gathered.texts}
    named: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        node = _real_node(finding, texts.get(finding.file, ""))

        def real(words: str, old: str = finding.node, new: str = node) -> str:
            return re.sub(rf"\b{old}\b", new, words) if new else words

        renamed = replace(
            finding,
            node=node or finding.node,
            message=real(finding.message),
            cause=real(finding.cause),
            remedy=re.sub(r"\bRUN\b", gathered.run, real(finding.remedy)),
        )
        named.setdefault((renamed.code, renamed.node), renamed)
    return tuple(named.values())


def _real_node(finding: Finding, log: str) -> str:
    """What Slurm calls the node whose log the finding is from, '' where that is not told: each start of the script says
    it, as another node may have the number after a requeue."""
    if not re.fullmatch(r"node\d+", finding.node) or finding.line is None:
        return ""
    before = "\n".join(log.splitlines()[: finding.line])
    starts = re.findall(r"^trnctl: stage \w+ starts on (\S+), node \d+ of", before, re.MULTILINE)
    return starts[-1] if starts else ""


def silence(opened: OpenCluster, run: RunStatus) -> list[Finding]:
    """What the nodes of a run show that says nothing any more: one whose cores do nothing while the others wait."""
    if run.state != "running" or not run.step_s or run.quiet_s <= max(_SILENT_S, 20 * run.step_s):
        return []
    try:
        looks = list(top(opened, run.run, once=True))
    except TrnctlError:
        return stalled_alerts([run])
    loads = [load for look in looks for load in getattr(look, "runs", ())]
    idle = [one for load in loads for one in load.findings if one.code == "cores-idle"]
    if not idle:
        return stalled_alerts([run])
    nodes = ", ".join(one.node for one in idle)
    return [
        Finding(
            "hung-collective", "error",
            f"{run.run} has said nothing for {_minutes(run.quiet_s)}: the cores of {nodes} do nothing, and the others "
            "wait for them.",
            f"trnctl cancel {run.run}, then trnctl resume {run.run}, which goes on from its newest whole checkpoint. "
            f"Its last words: {idle[0].remedy.partition(' shows')[0]}. When it hangs there again, look at the node "
            f"(trnctl health) and drain it.",
            evidence=idle[0].message, node=nodes, confidence="medium", source="load",
            cause="A process has stopped taking part in a collective. The others wait in it without end and without an "
            "error, and the nodes cost meanwhile.",
        )
    ]  # fmt: skip
