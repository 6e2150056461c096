"""What `trnctl health` shows: a line for each node that fails, one for all the rest."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from trnctl.cli.output import LEVEL_STYLES, MARKS, WIDTH, Screen, wrap
from trnctl.cli.progress import follow
from trnctl.cli.words import duration, money, plural
from trnctl.errors import Interrupted
from trnctl.findings import Finding, Level, by_severity

if TYPE_CHECKING:
    from trnctl.actions.health import HealthPlan
    from trnctl.ports import CheckProgress, Drained, HealthReport, NodeHealth


def health_plan(screen: Screen, plan: HealthPlan, notice: str) -> None:
    """What is looked at, and at most how long and for how much."""
    screen.notice(notice)
    count = plan.wanted.count
    which = plural(count, "node") if count else "all nodes that are up and idle"
    price = f", {money(plan.most_usd)} at most" if plan.most_usd is not None else ""
    screen.say(
        f"Looking at {which} of {plan.queue.name} ({plan.instance_type}) in {plan.cluster}: "
        f"at most {duration(plan.wanted.limit_s)} once they are there{price}."
    )


def follow_check(screen: Screen, events: Iterator[CheckProgress | HealthReport]) -> HealthReport:
    """Show how far it is; the report. Ctrl-C ends the check: its nodes would cost, and nobody would read it."""
    from trnctl.ports import HealthReport

    try:
        last = follow(screen, events, _words, "", lambda event: getattr(event, "state", None))
    except Interrupted:
        raise Interrupted("the check is ended; nothing was drained", remedy="trnctl health starts it anew") from None
    assert isinstance(last, HealthReport)  # noqa: S101  # a check either raises or ends with its report
    return last


def _words(event: CheckProgress | HealthReport) -> str:
    from trnctl.ports import HealthReport

    if isinstance(event, HealthReport):
        return f"looked at {plural(len(event.nodes), 'node')} in {duration(event.seconds)}"
    if event.state == "RUNNING":
        return f"job {event.job}: {event.reports} of {plural(event.nodes, 'node')} have told of themselves"
    return f"job {event.job}: {event.state.lower()}{f' ({event.reason})' if event.reason else ''}"


def drain(screen: Screen, report: HealthReport, nodes: NodeHealth, *, wanted: bool | None, yes: bool) -> Drained | None:
    """Drain what fails, having said so: without a word on the command line only after a question on a terminal."""
    from trnctl.actions.health import reasons

    found = reasons(report)
    if not found or wanted is False or (wanted is None and not yes and not sys.stdin.isatty()):
        return None
    for node, reason in found.items():
        screen.say(f"  {node}   {reason}", style="yellow")
    try:
        screen.confirm(f"Drain {plural(len(found), 'node')}, so that no job starts there?", yes=yes)
    except Interrupted:
        return None
    return nodes.drain(found)


def health(screen: Screen, plan: HealthPlan, report: HealthReport, drained: Drained | None) -> None:
    """The verdict, as a screen or as JSON."""
    from trnctl.actions.health import findings

    found, basis = by_severity(findings(report)), "emulated" if plan.emulated else "measured"
    if screen.json:
        screen.data({"findings": [one.as_json() for one in found], "basis": basis, **_as_json(plan, report, drained)})
        return
    for words, nodes in _grouped(found).items():
        level, code, message, remedy = words
        who = f"{', '.join(nodes)}  " if nodes else ""
        for line in wrap(f"{who}{code}: {message}", width=WIDTH, lead=f"{MARKS[level]} "):
            screen.out.print(Text(line, style=LEVEL_STYLES[level]), soft_wrap=True)
        for line in wrap(remedy, width=WIDTH, lead="  "):
            screen.out.print(Text(line, style="dim"), soft_wrap=True)
    well = [node for node in report.nodes if node not in report.failed]
    if well:
        screen.field(
            "well", f"{plural(len(well), 'node')}: {'; '.join(_figures(plan, report, well, basis))}", data=True
        )
    for why, nodes in _by_reason(report.not_had).items():
        screen.field("not had", f"{', '.join(nodes)}: {why}", data=True)
    if drained:
        screen.field("drained", ", ".join(drained.nodes) or "none", data=True)
        for node, said in drained.refused.items():
            screen.field("not drained", f"{node}: {said}", style="yellow", data=True)
    elif report.failed and not report.systemic:
        screen.field("drained", "none", data=True)


def _grouped(found: Iterable[Finding]) -> dict[tuple[Level, str, str, str], list[str]]:
    """The nodes of which the same is said; the nodes that could not be had have a line of their own."""
    groups: dict[tuple[Level, str, str, str], list[str]] = {}
    for one in found:
        if one.code != "node-not-had":
            same = groups.setdefault((one.level, one.code, one.message, one.remedy), [])
            same += [one.node] if one.node else []
    return groups


def _figures(plan: HealthPlan, report: HealthReport, well: list[str], basis: str) -> Iterator[str]:
    """What the nodes that are well have in common; rates are medians, and `basis` says what they rest on."""
    reports = [dict(report.reports[node]) for node in well if node in report.reports]
    for name, word in (("devices", "Neuron devices"), ("efa", "EFA devices")):
        counts = Counter(_part(one, name).get("count") for one in reports)
        yield f"{'/'.join(str(count) for count in counts)} {word}"
    inside = sorted(float(rate) for one in reports if (rate := _part(one, "collective").get("busbw")))
    if inside:
        rate_inside = f"{inside[len(inside) // 2]:.1f} GB/s {basis}"
        yield f"all-reduce of 1 GB in a node {rate_inside}, judged against the median of the nodes"
    between = sorted(link.busbw for link in report.links if link.busbw and not set(link.nodes) & set(report.failed))
    if between:
        published = f"; published: {plan.reference}" if plan.reference else ""
        rate_between = f"{between[len(between) // 2]:.1f} GB/s {basis}"
        yield f"between two nodes {rate_between}, judged against the fastest pair{published}"
    drivers = {str(_part(one, "versions").get("driver", "?")) for one in reports}
    yield f"driver {', '.join(sorted(drivers))}"


def _part(report: Mapping[str, object], name: str) -> Mapping[str, Any]:
    value = report.get(name)
    return value if isinstance(value, Mapping) else {}


def _by_reason(not_had: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node, why in not_had.items():
        found.setdefault(why, []).append(node)
    return found


def _as_json(plan: HealthPlan, report: HealthReport, drained: Drained | None) -> dict[str, object]:
    states = {node: "failed" if node in report.failed else "well" for node in report.nodes}
    return {
        "queue": plan.queue.name,
        "instance_type": plan.instance_type,
        "nodes": [{"node": node, "state": states[node], "report": report.reports.get(node)} for node in report.nodes],
        "links": [{"nodes": list(one.nodes), "busbw": one.busbw, "error": one.error} for one in report.links],
        "reference": plan.reference or "the fastest pair",
        "failed": list(report.failed),
        "not_had": dict(report.not_had),
        "drained": list(drained.nodes) if drained else [],
        "not_drained": dict(drained.refused) if drained else {},
        "job": report.job,
        "seconds": report.seconds,
    }
