"""What `trnctl study run` shows: the plan of all points and its price, their way, and how they ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen
from trnctl.cli.progress import follow as follow_progress
from trnctl.cli.run_screens import doubts
from trnctl.cli.words import duration, money, plural, rate, steps
from trnctl.errors import Interrupted, ToolError

if TYPE_CHECKING:
    from trnctl.actions.study import StudyPlan, StudyPoint
    from trnctl.actions.study_watch import PointState, StudyState
    from trnctl.ports import QueuePicture

_ENOUGH_STEPS = 500  # to tell a rate
_WAYS = {"submit": "submit", "resume": "goes on", "wait": "is under way", "keep": "kept: it is complete"}


def plan(screen: Screen, study: StudyPlan, notice: str) -> None:
    """Every point with its time and money, before anything is sent."""
    screen.notice(notice)
    first = study.points[0].plan
    where = f"{study.workload.name} on {first.instance_type} ({first.queue.name})"
    screen.say(f"study {study.study.name}: {where}, {study.study.scaling} scaling")
    rows = [_row(point) for point in study.points]
    head = ("NODES", "RUN", "BATCH", "STEPS", "TIME", "COST", "WHAT")
    widths = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]
    for row in (head, *rows):
        cells = (
            cell.rjust(width) if index in {0, 3, 4, 5} else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        screen.say(f"  {'  '.join(cells)}".rstrip())
    _total(screen, study)
    if study.due:
        doubts(screen, first)
        if not first.mirror:
            words = "they lie on the cluster's file system alone: the cluster file names no bucket to copy them to"
            screen.field("! records", words, indent="  ", style="yellow")
    screen.say()


def _row(point: StudyPoint) -> tuple[str, ...]:
    layout, guess = point.plan.layout, point.plan.estimate
    hours = guess.hours + guess.compile_hours if guess.hours is not None else None
    time, cost = _hours(hours), money(guess.cost_usd) if guess.cost_usd is not None else "?"
    if point.way == "keep":
        time, cost = "–", "–"
    what = _WAYS[point.way]
    return (
        f"{point.nodes}", point.run,
        f"{layout.micro_batch} × {layout.accumulation} × {layout.data} = {layout.global_batch:,}",
        f"{guess.steps:,}", time, cost,
        f"{what} ({point.state})" if point.state and point.way in {"resume", "wait"} else what,
    )  # fmt: skip


def _hours(hours: float | None) -> str:
    if hours is None:
        return "?"
    return f"{hours:,.1f} h" if hours >= 1 else duration(hours * 3600)


def _total(screen: Screen, study: StudyPlan) -> None:
    """The money of what is due, with the date of the price, and a way to spend less of it."""
    if not study.due:
        return
    guess = study.due[0].plan.estimate
    each = f"{money(guess.price_per_node_hour)} a node and hour, " if guess.price_per_node_hour else ""
    told = f"{each}{guess.price_source}; with compiling, without the head node and storage"
    screen.field("cost", f"{cost_words(study)} for {plural(len(study.due), 'run')} ({told})", indent="  ")
    screen.field("basis", _grounds(study), indent="  ", style="dim")
    if study.due[0].plan.cap is not None:
        screen.field("cap", f"{money(study.due[0].plan.cap.usd)} for each run; Slurm ends its jobs there", indent="  ")
    order = "the smallest first, all at once: Slurm runs them side by side while the queue has nodes"
    screen.field("order", order, indent="  ")
    name = study.steps_argument
    if name and any(point.plan.estimate.steps > 2 * _ENOUGH_STEPS for point in study.due):
        words = f"the rate shows after some hundred steps: --set {name}={_ENOUGH_STEPS} makes each run that short"
        screen.field("cheaper", words, indent="  ", style="dim")


def cost_words(study: StudyPlan) -> str:
    """`about $6,129`, as far as it is known."""
    if not study.cost_usd:
        return "an unknown sum"
    return f"about {money(study.cost_usd)}{'' if study.cost_is_whole else ' and what is unknown'}"


_GROUNDS = ("published", "interpolated", "extrapolated")


def _grounds(study: StudyPlan) -> str:
    """`modelled from rates published on 1, 16; interpolated on 2, 4, 8`: what time and money rest on."""
    grounds: dict[str, list[str]] = {}
    for point in study.due:
        ground = next((word for word in _GROUNDS if point.plan.estimate.basis.startswith(word)), "")
        grounds.setdefault(ground, []).append(str(point.nodes))
    unknown = grounds.pop("", [])
    told = "; ".join(f"{ground} on {', '.join(nodes)}" for ground, nodes in grounds.items())
    words = [f"modelled from rates {told}"] if told else []
    words += [f"no rate is known on {', '.join(unknown)}"] if unknown else []
    return "; ".join(words)


def question(study: StudyPlan) -> str:
    """What is asked before money is spent."""
    return f"Submit {plural(len(study.due), 'run')} for {cost_words(study)}?"


def submitted(
    screen: Screen, study: StudyPlan, answers: Iterator[tuple[StudyPoint, ToolError | None]], *, follow: bool
) -> None:
    """Each point as Slurm takes it, or does not."""
    for point, error in answers:
        if error is not None:
            screen.say(f"! {point.run} was not submitted: {error.message} {error.remedy}", style="yellow")
        elif follow and screen.json:
            screen.line({"nodes": point.nodes, "run": point.run, "submitted": True, "way": point.way})
        else:
            screen.say(f"  {point.run} {'goes on' if point.way == 'resume' else 'submitted'}", style="dim")


def left_alone(screen: Screen, study: StudyPlan, picture: QueuePicture) -> None:
    """The end of a command that does not wait."""
    from trnctl.actions.study_watch import state_of

    state = state_of(study, picture, picture.at)
    name = study.study.name
    words = ", ".join(f"{point.run} {point.state}" for point in state.points)
    screen.done(_result(study, state), f"study {name}: {words}", after=f"trnctl study report {name}; trnctl status -w")


def watch(screen: Screen, study: StudyPlan, states: Iterator[StudyState], *, follow: bool) -> StudyState:
    """Wait to the end of all points. With `follow` every change is a line; Ctrl-C leaves the runs at work."""
    again = _look_again(study)
    last = _lines(screen, states, again) if follow else follow_progress(screen, states, words, again)
    assert last is not None  # noqa: S101  # a watch looks at least once
    return last


def _look_again(study: StudyPlan) -> str:
    name = study.study.name
    return (
        "the same command waits again (nothing is submitted twice); trnctl status -w watches; "
        f"trnctl study report {name} shows what is there"
    )


def _lines(screen: Screen, states: Iterator[StudyState], again: str) -> StudyState | None:
    last: StudyState | None = None
    known: dict[str, PointState] = {}
    try:
        for state in states:
            for point in state.points:
                if known.get(point.run) != (shown := replace(point, step=None, throughput=None)):
                    known[point.run] = shown
                    _change(screen, point)
            last = state
    except KeyboardInterrupt:
        raise Interrupted("you stopped watching; the work goes on", remedy=again) from None
    return last


def _change(screen: Screen, point: PointState) -> None:
    if screen.json:
        screen.line(point.as_json())
        return
    reason = f" ({point.reason})" if point.reason else ""
    screen.text(f"{plural(point.nodes, 'node'):>9}  {point.stage} {point.state}{reason}")


def words(state: StudyState) -> str:
    """`2/5 over  4 nodes: train 12/20 9.6k seq/s, 16 nodes: pending`, in one line."""
    over = sum(point.over for point in state.points)
    line = f"{over}/{len(state.points)} over"
    lead = "  "
    for point in (point for point in state.points if not point.over):
        how_far = (
            f"{steps(point.step, point.steps)} {rate(point.throughput, point.unit)}" if point.step else point.state
        )
        word = f"{lead}{point.nodes}: {point.stage} {how_far}"
        if len(line) + len(word) > 98:
            return f"{line}, …"
        line, lead = line + word, " · "
    return line


def over(screen: Screen, study: StudyPlan, state: StudyState, *, failed: bool, follow: bool) -> None:
    """How the points ended, and what to do next."""
    result = _result(study, state)
    if screen.json:
        (screen.line if follow else screen.data)(result)
        return
    done = sum(point.state == "completed" for point in state.points)
    screen.text(f"study {study.study.name}: {done} of {plural(len(state.points), 'point')} completed")
    for point in state.points:
        reason = f" ({point.reason})" if point.reason else ""
        told = f"{rate(point.throughput, point.unit)}" if point.throughput else ""
        screen.text(f"{plural(point.nodes, 'node'):>9}  {point.state}{reason}  {told}".rstrip())
    if not failed:
        screen.say(f"  next: trnctl study report {study.study.name}", style="dim")


def _result(study: StudyPlan, state: StudyState) -> dict[str, object]:
    return {
        "study": study.study.name,
        "workload": study.workload.name,
        "scaling": study.study.scaling,
        "completed": sum(point.state == "completed" for point in state.points),
        "points": [
            {**point.as_json(), "way": planned.way} for point, planned in zip(state.points, study.points, strict=True)
        ],
    }
