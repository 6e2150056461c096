"""What `trnctl study report` shows on a terminal, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen, finding_line, wrap
from trnctl.cli.words import money, rate
from trnctl.findings import by_severity
from trnctl.plan.trials import MISSING

if TYPE_CHECKING:
    from trnctl.actions.study_report import Curve, Report
    from trnctl.plan.scaling import Point, Series
    from trnctl.plan.trials import Figure

OURS, PUBLISHED, LOST = "●", "◇", "✕"
EMULATED = (
    "Emulated figures come from one machine (stand-ins that keep a published pace, or a training on its processors), "
    "not from accelerators: they show that the way works, not how fast it is, and where they agree with published "
    "figures that means nothing."
)
WEAK = "Weak scaling raises the batch with the nodes: time and cost are of as many sequences, which is a bound."


def show(screen: Screen, found: Report | Curve) -> None:
    """The report as it is asked for: a table and a chart, or JSON."""
    from trnctl.actions.study_report import Report

    if screen.json:
        screen.data(found.as_json())
        return
    screen.text("\n".join(report_text(found) if isinstance(found, Report) else curve_text(found)))
    if isinstance(found, Report):
        for finding in by_severity(found.findings):
            screen.err.print(finding_line(finding))


# ------------------------------------------------------------------------------------------- a study, as text


def report_text(report: Report) -> list[str]:
    """The whole report within 100 columns."""
    lines = [report.headline, f"study {report.name}" if report.name != report.workload else report.title, ""]
    for series in report.series:
        lines += [f"{series.scaling} scaling on {series.instance_type}"] if len(report.series) > 1 else []
        lines += [*_table(series, report.unit), "", *_efficiency(series), *_chart(series, report)]
    told = [*notes(report), *([EMULATED] if report.emulated else [])]
    return [*lines, *(line for note in told for line in wrap(note, width=100, lead=""))]


WORDS = (1,)  # the columns of words; the others hold figures


def columns(unit: str) -> tuple[str, ...]:
    """The heads of the table; rates are in the unit that stands over them."""
    rates = unit.upper()
    return ("NODES", "STATE", "STEPS", rates, "SPEED-UP", "EFFICIENCY", "TRAIN", "COST", "PUBLISHED", "OURS/IT")


def _table(series: Series, unit: str) -> list[str]:
    rows = [columns(unit), *(row_of(point) for point in series.points)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(widths[index]) if index in WORDS else cell.rjust(widths[index]) for index, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]


def row_of(point: Point) -> tuple[str, ...]:
    """The cells of a point, in the order of `columns`."""
    row, steps = point.published, point.trial.steps_done
    return (
        f"{point.nodes}", state_words(point), f"{steps:,}" if steps else "–",
        rate(point.rate.value, "").strip() if point.rate else "–", _figure(point.speed_up, "{:.2f}×"),
        _figure(point.efficiency, "{:.0%}"), hours_words(point.hours),
        money(point.cost.value) if point.cost else "–", rate(row.rate, "").strip() if row else "–",
        f"{point.of_published:.0%}" if point.of_published else "–",
    )  # fmt: skip


def state_words(point: Point) -> str:
    """`completed`, `failed`, `not run`."""
    return "not run" if point.trial.state == MISSING else point.trial.state


def _figure(figure: Figure | None, form: str) -> str:
    return form.format(figure.value) if figure else "–"


def hours_words(figure: Figure | None) -> str:
    """`33.5 h`, `12.0 min`; `–` when unknown."""
    if figure is None:
        return "–"
    return f"{figure.value:,.1f} h" if figure.value >= 1 else f"{figure.value * 60:,.1f} min"


def _efficiency(series: Series) -> list[str]:
    """One bar a point: what is left of a node's rate."""
    if series.base is None:
        return []
    lines = [f"efficiency against {series.base} node{'s' if series.base > 1 else ''}"]
    for point in series.counted:
        if point.efficiency:
            share = point.efficiency.value
            bar = "█" * round(40 * min(share, 1.5))
            lines.append(f"{point.nodes:>9} {bar}{'░' * max(0, 40 - len(bar))} {share:.0%}")
    return [*lines, ""]


def _chart(series: Series, report: Report) -> list[str]:
    """Rate over nodes on logarithmic axes, so that ideal scaling is a straight line."""
    from trnctl.render.text_chart import Mark, Plot, text_chart

    marks = [Mark(p.nodes, p.rate.value, OURS, rate(p.rate.value, "").strip()) for p in series.counted if p.rate]
    if not marks:
        return []
    marks += [Mark(p.nodes, None, LOST, state_words(p)) for p in series.points if p.rate is None]
    rows = [row for row in series.published if row.instance_type == series.instance_type]
    marks += [Mark(row.nodes, row.rate, PUBLISHED) for row in rows]
    nodes = sorted({int(mark.x) for mark in marks})
    first = series.counted[0]
    each = first.rate.value / first.nodes if first.rate else 0.0
    ideal = [(float(n), each * n) for n in (nodes[0], nodes[-1])]
    plot = Plot(marks, nodes, [ideal], x_label="nodes", y_label=f"{report.unit}, {series.basis}")
    legend = [f"{OURS} {series.basis}", f"{PUBLISHED} published" if rows else "", "· ideal (the first point × nodes)"]
    lost = f"{LOST} no rate" if len(series.counted) < len(series.points) else ""
    words = "   ".join(part for part in (*legend, lost) if part)
    return [*text_chart(plot), " " * 10 + words, ""]


def notes(report: Report) -> list[str]:
    """On what the figures rest, a paragraph each."""
    told = []
    for claim, point in report.judged_claims():
        if point.hours is not None:
            holds = "holds" if point.hours.value < claim.hours_under else "does not hold"
            told.append(
                f"{claim.source} says under {claim.hours_under:g} h on {claim.nodes} nodes: {holds} "
                f"({hours_words(point.hours)}, {point.hours.basis})."
            )
    rows = dict.fromkeys(row for series in report.series for row in series.published)
    told += [
        f"published: {row.rate:,.0f} {report.unit} on {row.nodes} × {row.instance_type} ({row.scaling}): {row.source}"
        + (f", {row.note}." if row.note else ".")
        for row in rows
    ]
    told.append(_grounds(report))
    if any(series.scaling == "weak" for series in report.series):
        told.append(WEAK)
    return told


def _grounds(report: Report) -> str:
    """The definitions, and the ground of each figure."""
    points = [point for series in report.series for point in series.counted]
    hours = sorted({point.hours.basis for point in points if point.hours})
    money_words = f" and the {report.price_source}" if report.price_source else " (no price is known)"
    told = " and ".join(hours) or report.basis
    words = (
        f"Rates are {report.basis}: the average of a run's step lines. Speed-up is "
        "t(n0)/t(n) of a step in strong scaling and rate(n)/rate(n0) in weak scaling; efficiency is speed-up/(n/n0). "
        f"TRAIN and COST are {told}: of the whole training at that rate{money_words}, without compiling, head node "
        "and storage."
    )
    return f"{words}{_each_costs(report)}"


def _each_costs(report: Report) -> str:
    """What an epoch costs, where its length is told, or a million sequences."""
    told = []
    for series in report.series:
        costs = [(p.nodes, p.cost_per_epoch if report.epoch else p.cost_per_million) for p in series.counted]
        words = ", ".join(f"{money(cost.value)} on {nodes}" for nodes, cost in costs if cost)
        told += [f"{series.scaling} {words}" if len(report.series) > 1 else words] if words else []
    what = f"An epoch of {report.epoch:,.0f} sequences costs" if report.epoch else "A million sequences cost"
    return f" {what} {'; '.join(told)}." if told else ""


# ---------------------------------------------------------------------------------------------- a run, as text


def curve_text(curve: Curve) -> list[str]:
    """Loss and throughput of a run, one chart under the other."""
    from trnctl.render.text_chart import Mark, Plot, text_chart

    steps = [step for step, _, _ in curve.points]
    lines = [
        curve.headline,
        f"{curve.state}, {steps[-1]:,} of {curve.steps or 0:,} steps" if steps else curve.state,
        "",
    ]
    if not steps:
        return [*lines, "There is no curve yet: results.json gets it when a stage ends."]
    middle = steps[len(steps) // 2]
    for index, label in ((1, f"loss, {curve.basis}"), (2, f"{curve.unit}, {curve.basis}")):
        told = [(point[0], point[index]) for point in curve.points if point[index] is not None]
        marks = [Mark(float(step), value, OURS) for step, value in told if isinstance(value, float)]
        if marks:
            ticks = sorted({float(steps[0]), float(middle), float(steps[-1])})
            plot = Plot(marks, ticks, x_label="step", y_label=label, log=False, from_zero=index == 2)
            lines += [*text_chart(plot, height=12), ""]
    return lines


def curve_words(curve: Curve) -> str:
    """`completed, 20 of 28,125 steps`."""
    if not curve.points:
        return curve.state
    return f"{curve.state}, {curve.points[-1][0]:,}{f' of {curve.steps:,}' if curve.steps else ''} steps"


# --------------------------------------------------------------------------------------------------------- CSV

_CSV = (
    "study", "workload", "scaling", "instance_type", "nodes", "run", "state", "basis", "unit", "throughput",
    "step_seconds", "speed_up", "efficiency", "time_to_train_hours", "time_basis", "cost_usd", "cost_basis",
    "cost_per_million_sequences_usd", "cost_per_epoch_usd", "global_batch", "steps_done", "steps", "final_loss",
    "source",
)  # fmt: skip


def csv_text(found: Report | Curve) -> str:
    """One row a point and one a published figure, each with its ground; of a run, one row a step."""
    from trnctl.actions.study_report import Report

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if isinstance(found, Report):
        writer.writerow(_CSV)
        writer.writerows(_csv_rows(found))
    else:
        writer.writerow(("run", "workload", "nodes", "instance_type", "basis", "step", "loss", "throughput", "unit"))
        same = (found.run, found.workload, found.nodes, found.instance_type, found.basis)
        writer.writerows((*same, step, loss, told, found.unit) for step, loss, told in found.points)
    return out.getvalue()


def _csv_rows(report: Report) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = []
    for series in report.series:
        start = (report.name, report.workload, series.scaling, series.instance_type)
        for point in series.points:
            trial = point.trial
            rows.append(
                (
                    *start, point.nodes, trial.run, trial.state, point.rate.basis if point.rate else "", report.unit,
                    *_values(point.rate, point.step_seconds, point.speed_up, point.efficiency, point.hours),
                    point.hours.basis if point.hours else "", *_values(point.cost),
                    point.cost.basis if point.cost else "", *_values(point.cost_per_million, point.cost_per_epoch),
                    trial.global_batch, trial.steps_done, trial.steps, trial.final_loss, report.emulated,
                )
            )  # fmt: skip
        for row in series.published:
            told = f"{row.source}: {row.note}" if row.note else row.source
            published = (report.name, report.workload, row.scaling, row.instance_type)
            empty = [None] * (len(_CSV) - 11)
            rows.append((*published, row.nodes, "", "published", "published", report.unit, row.rate, *empty, told))
    return rows


def _values(*figures: Figure | None) -> list[float | None]:
    return [round(figure.value, 6) if figure else None for figure in figures]
