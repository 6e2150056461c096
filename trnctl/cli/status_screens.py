"""What `trnctl status` shows: one screen of at most 100 columns, the same for 16 nodes and for 1,875."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from trnctl.cli.mirror_screens import from_the_mirror
from trnctl.cli.output import Hanging, Screen, finding_line
from trnctl.cli.words import clock, duration, money, rate, steps
from trnctl.errors import Interrupted, NotFoundError, TrnctlError

if TYPE_CHECKING:
    from trnctl.actions.mirror import RunList
    from trnctl.actions.status import ClusterStatus, RunStatus

_STYLES = {
    "running": "green", "preparing": "green", "pending": "yellow", "configuring": "yellow", "held": "yellow",
    "failed": "bold red", "node-fail": "bold red", "timeout": "bold red",
}  # fmt: skip
SHOWN_ENDED = 5


def status(screen: Screen, seen: ClusterStatus) -> None:
    """The screen, or its JSON."""
    if screen.json:
        screen.data(seen.as_json())
    else:
        screen.out.print(picture(seen), overflow="fold")


def watch(screen: Screen, look: Callable[[], ClusterStatus], interval: float) -> None:
    """Look again until Ctrl-C, which changes nothing on the cluster."""
    try:
        _watch(screen, look, interval)
    except KeyboardInterrupt:
        raise Interrupted("you stopped watching", remedy="trnctl status -w looks again") from None


def _watch(screen: Screen, look: Callable[[], ClusterStatus], interval: float) -> None:
    if not screen.json and screen.out.is_terminal:
        _redraw(screen, look, interval)
        return
    for seen, problem in looks(look, interval):
        if problem:
            screen.say(_aged(seen, problem), style="yellow")
        elif screen.json:
            screen.line(seen.as_json())
        else:
            screen.out.print(picture(seen), overflow="fold")


def _redraw(screen: Screen, look: Callable[[], ClusterStatus], interval: float) -> None:
    from rich.live import Live

    with Live(Text("looking …", style="dim"), console=screen.out, screen=False, auto_refresh=False) as live:
        for seen, problem in looks(look, interval):
            old = [Text(_aged(seen, problem), style="yellow")] if problem else []
            live.update(Group(picture(seen), *old), refresh=True)


def looks(look: Callable[[], ClusterStatus], interval: float) -> Iterator[tuple[ClusterStatus, str]]:
    """What is seen, again and again, with '' or why the newest look failed: then it is the last one that did not. A
    cluster that is gone ends it (NotFoundError), and so does a first look that fails."""
    from trnctl.actions.status import held

    last: ClusterStatus | None = None
    while True:
        problem = ""
        try:
            last = held(look(), last)
        except TrnctlError as error:
            if last is None or isinstance(error, NotFoundError):
                raise
            problem = error.message
        yield last, problem
        time.sleep(interval)


def _aged(seen: ClusterStatus, problem: str) -> str:
    return f"! this picture is {duration((datetime.now(UTC) - seen.at).total_seconds())} old: {problem}"


def picture(seen: ClusterStatus) -> Group:
    """The whole screen."""
    parts: list[Text | Table | Hanging] = [_head_line(seen), _cost_line(seen)]
    if seen.ttl:
        parts.append(Text(f"ttl       the fleet stops {seen.ttl}", style="dim"))
    for block, ends in seen.seen.blocks.items():
        left = duration(max(0.0, (ends - seen.at).total_seconds()))
        words = f"block     {block} ends {clock(ends)}, in {left}; its instances go 30 minutes before"
        parts.append(Text(words, style="dim"))
    if seen.notice:
        parts.append(Text(seen.notice, style="dim"))
    parts += [Text(), *_node_lines(seen)]
    if seen.runs:
        parts.append(_run_table(seen.runs))
    elif any(alert.code == "head-node-unreachable" for alert in seen.alerts):
        parts.append(Text("runs      not known: the head node was not able to tell", style="dim"))
    elif seen.seen.stack and seen.seen.stack.phase == "running":
        parts.append(Text("runs      none yet: trnctl workloads list, then trnctl submit", style="dim"))
    if seen.slurm_at is not None:
        age = duration((seen.at - seen.slurm_at).total_seconds())
        parts.append(Text(f"! nodes, runs and cost are as they were {age} ago", style="yellow"))
    parts += [finding_line(alert) for alert in seen.alerts]
    return Group(*parts)


def _head_line(seen: ClusterStatus) -> Text:
    line = Text()
    line.append(seen.name, style="bold")
    line.append(f"  {seen.seen.stack.phase if seen.seen.stack else 'gone'}")
    if seen.seen.fleet:
        line.append(f"   fleet {seen.seen.fleet.status}")
    head = seen.head
    if head:
        line.append(f"   head {head.public_ip or head.private_ip} ({head.id})")
        if head.launched:
            line.append(f"   up {duration((seen.at - head.launched).total_seconds())}")
    return line


def _cost_line(seen: ClusterStatus) -> Text:
    """What the instances that run now cost an hour, and what the cluster has cost, as far as that is known."""
    part = "" if seen.cost.counted else ", of the instances that run now"
    since = f" (since {clock(seen.cost.known_from)}{part})" if seen.cost.known_from else ""
    return Text(f"cost      {seen.cost.per_hour} now, {money(seen.cost.so_far_usd)} so far{since}")


def _node_lines(seen: ClusterStatus) -> list[Text]:
    """Nodes by state over all, then by queue. Powered-down nodes cost nothing and are named last."""
    counts = seen.nodes
    awake = {state: count for state, count in counts.items() if state != "powered-down"}
    words = [f"{count:,} {state}" for state, count in sorted(awake.items(), key=lambda row: -row[1])]
    if counts.get("powered-down"):
        words.append(f"{counts['powered-down']:,} powered down")
    lines = [Text(f"nodes     {'   '.join(words) or '–'}")]
    queues: dict[str, dict[str, int]] = {}
    for group in seen.groups:
        queues.setdefault(group.partition, {}).setdefault(group.state, 0)
        queues[group.partition][group.state] += group.count
    if len(queues) > 1:
        for name, states in queues.items():
            total = sum(states.values())
            up = total - states.get("powered-down", 0)
            lines.append(Text(f"          {name}  {up:,}/{total:,}", style="dim"))
    return lines


def _run_table(runs: Sequence[RunStatus]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("runs", overflow="fold")
    for column in ("STAGE", "STATE", "NODES", "ELAPSED", "PROGRESS"):
        table.add_column(column, justify="right" if column in {"NODES", "ELAPSED"} else "left")
    ended = [run for run in runs if run.over]
    for run in [*(one for one in runs if not one.over), *ended[:SHOWN_ENDED]]:
        table.add_row(
            Text(run.run),
            Text(run.stage),
            Text(run.state, style=_STYLES.get(run.state, "")),
            str(run.nodes),
            duration(run.elapsed_s) if run.elapsed_s else "–",
            Text(progress_words(run)),
        )
        if run.at_risk_s is not None:
            table.add_row("", "", "", "", "", Text(risk_words(run.at_risk_s, run.saved), style="dim"))
    if len(ended) > SHOWN_ENDED:
        table.add_row(Text(f"and {len(ended) - SHOWN_ENDED:,} that ended: trnctl runs", style="dim"))
    return table


def risk_words(seconds: float, saved: str) -> str:
    """`a stop loses 5m00s, since ckpt_900.pt`: short enough for one line beside a run's other columns."""
    name = saved if len(saved) <= 18 else f"…{saved[-17:]}"
    return f"a stop loses {duration(seconds)}{f', since {name}' if saved else ': nothing saved yet'}"


_BLOCKS = "▁▂▃▄▅▆▇█"
_SPARKS = 8


def sparkline(rates: Sequence[float]) -> str:
    """The throughput of the last steps as eight bars at most, the oldest first; half of the highest is the lowest bar,
    so that a rate that sways by a percent looks even."""
    each = -(-len(rates) // _SPARKS)
    means = [sum(part) / len(part) for part in (rates[at : at + each] for at in range(0, len(rates), each))]
    top = max(means)
    shares = [(mean / top - 0.5) * 2 if top > 0 else 0.0 for mean in means]
    return "".join(_BLOCKS[min(7, max(0, round(share * 7)))] for share in shares)


def progress_words(run: RunStatus) -> str:
    """`6,112/28,125  24.1k seq/s  ETA 4h15m`, or why it does not run."""
    parts = [run.reason] if run.reason and run.state not in {"running", "completed"} else []
    if run.step is not None:
        parts.append(steps(run.step, run.steps))
        parts.append(rate(run.throughput, run.unit))
    if run.eta_s is not None:
        parts.append(f"ETA {duration(run.eta_s)}")
    if len(run.recent) > 1:
        parts.append(sparkline(run.recent))
    if run.max_cost_usd is not None:
        used = money(run.cost_usd) if run.cost_usd is not None else "?"
        parts.append(f"{used} of at most {money(run.max_cost_usd)}")
    return "  ".join(parts) or "–"


def runs(screen: Screen, seen: RunList) -> None:
    """`trnctl runs`: all of them, also the ended."""
    if screen.json:
        at = seen.mirror.at.isoformat(timespec="seconds") if seen.mirror and seen.mirror.at else None
        source = "mirror" if seen.mirror else "cluster"
        screen.data({"runs": [run.as_json() for run in seen.runs], "source": source, "known_from": at})
        return
    if seen.mirror:
        from_the_mirror(screen, seen.mirror)
    rows = [
        (
            run.run,
            run.stage,
            run.state,
            run.nodes,
            duration(run.elapsed_s) if run.elapsed_s else "–",
            progress_words(run),
        )
        for run in seen.runs
    ]
    if rows:
        screen.table(["RUN", "STAGE", "STATE", "NODES", "ELAPSED", "PROGRESS"], rows, right=(3, 4))
    else:
        screen.say("There is no run yet: trnctl submit makes one of what trnctl workloads list shows.")
    for alert in seen.alerts:
        screen.err.print(finding_line(alert))
