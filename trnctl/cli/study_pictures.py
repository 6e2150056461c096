"""The pictures of a report, drawn by matplotlib, which comes with the extra `charts` and is imported here alone."""

from __future__ import annotations

import io
import itertools
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from trnctl.cli.study_report_screens import EMULATED, WEAK, curve_words, hours_words, state_words
from trnctl.errors import ToolMissing
from trnctl.plan.words import count

if TYPE_CHECKING:
    from trnctl.actions.study_report import Curve, Report
    from trnctl.plan.scaling import Series

# Okabe and Ito's colours stay apart for the colour-blind and in print; every series has a sign of its own as well.
_COLOURS, _SIGNS = ("#0072b2", "#009e73", "#cc79a7", "#e69f00"), ("o", "s", "^", "v")
_PUBLISHED, _GREY = "#d55e00", "#666666"
_STYLE = {
    "font.family": ["DejaVu Sans"],  # it comes with matplotlib, so that a picture is the same everywhere
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _GREY,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "svg.hashsalt": "trnctl",  # the same report makes the same file
    "savefig.facecolor": "white",
}
_WIDTH_OF_NOTES = 185  # characters
_DASHES = (0, (4, 3))


def picture(found: Report | Curve, kind: str) -> bytes:
    """The report as `svg` or `png`. ToolMissing when matplotlib is not installed."""
    from trnctl.actions.study_report import Report

    with _drawing() as pyplot:
        figure = _report(pyplot, found) if isinstance(found, Report) else _curve(pyplot, found)
        out = io.BytesIO()
        # Without a date in it; PNG has none.
        figure.savefig(out, format=kind, dpi=200, metadata={"Date": None, "Creator": None} if kind == "svg" else None)
        pyplot.close(figure)
    return out.getvalue()


def require() -> None:
    """Raise ToolMissing when matplotlib is not installed; it is not loaded for that."""
    if find_spec("matplotlib") is None:
        raise ToolMissing(
            "pictures are drawn by matplotlib, which is not installed",
            remedy="pip install 'trnctl[charts]'; --format table, csv and json need nothing more",
            program="matplotlib",
        )


@contextmanager
def _drawing() -> Iterator[Any]:
    """matplotlib without a screen, in our style, whatever the user's own settings are."""
    require()
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield pyplot


def _report(pyplot: Any, report: Report) -> Any:
    figure = pyplot.figure(figsize=(11, 7.2))
    grid = figure.add_gridspec(
        2, 2, width_ratios=(1.35, 1), left=0.07, right=0.975, top=0.81, bottom=0.235, hspace=0.72, wspace=0.2
    )
    rates, shares, costs = (figure.add_subplot(place) for place in (grid[:, 0], grid[0, 1], grid[1, 1]))
    for number, series in enumerate(report.series):
        look = {"color": _COLOURS[number % 4], "marker": _SIGNS[number % 4], "markersize": 6, "linewidth": 1.6}
        draw = _Drawn(series, look, alone=len(report.series) == 1)
        _rates(rates, draw)
        _shares(shares, draw)
        _costs(costs, draw)
    for axes in (rates, shares, costs):
        _by_nodes(axes, report)
    _lost(rates, report)
    _round_ticks(rates)
    bases = sorted({series.base for series in report.series if series.base})
    against = f"against {' and '.join(count(base) for base in bases)}, " if bases else ""
    _titled(rates, "Throughput", f"{report.unit}, {report.basis}; both axes logarithmic")
    _titled(shares, "Efficiency", f"{against}{report.basis}")
    _titled(costs, "Cost and time of the whole training", _cost_words(report))
    shares.set_ylim(0, max(1.2, *(_top(series) for series in report.series)))
    shares.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    costs.yaxis.set_major_formatter(lambda value, _: f"${value:,.0f}")
    costs.set_ylim(0, costs.get_ylim()[1] * 1.3)
    _frame(figure, report.headline, subtitle(report), _notes(report))
    return figure


@dataclass(frozen=True)
class _Drawn:
    """A series with its colour and sign. Beside another one only its ends get words, which would overlap."""

    series: Series
    look: dict[str, Any]
    alone: bool

    def line(self, axes: Any, values: Sequence[tuple[int, float]]) -> None:
        """The points; a solid line between neighbours, dots over a point that is not there."""
        order = [point.nodes for point in self.series.points]
        colour, width = self.look["color"], self.look["linewidth"]
        for (left, low), (right, high) in itertools.pairwise(values):
            next_door = order.index(right) == order.index(left) + 1
            style = "solid" if next_door else "dotted"
            axes.plot((left, right), (low, high), color=colour, linewidth=width, linestyle=style, zorder=3)
        nodes, heights = zip(*values, strict=True)
        axes.plot(nodes, heights, zorder=4, **{**self.look, "linestyle": "none"})

    def worded(self, index: int, number: int) -> bool:
        """Whether the point of that index, of so many, gets words."""
        return self.alone or index in {0, number - 1}


def _rates(axes: Any, draw: _Drawn) -> None:
    """Rates on logarithmic axes: there ideal scaling is a straight line."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    series, colour = draw.series, draw.look["color"]
    points = [(point.nodes, point.rate.value) for point in series.counted if point.rate]
    rows = [row for row in series.published if row.instance_type == series.instance_type]
    axes.scatter(
        [row.nodes for row in rows], [row.rate for row in rows], marker="D", s=70, facecolors="none",
        edgecolors=_PUBLISHED, linewidths=1.5, zorder=5,
    )  # fmt: skip
    if rows:
        last = max(rows, key=lambda row: row.nodes)
        _word(axes, "published", (last.nodes, last.rate), (-9, 7), _PUBLISHED, ha="right")
    if not points:
        return
    (first, lowest), end = points[0], max(point.nodes for point in series.points)
    axes.plot((first, end), (lowest, lowest * end / first), linestyle=_DASHES, color=_GREY, linewidth=1, zorder=1)
    middle = (first * end) ** 0.5
    _word(axes, "ideal", (middle, lowest * middle / first), (-6, 5), _GREY, ha="right")
    draw.line(axes, points)
    for index, (n, value) in enumerate(points):
        if draw.worded(index, len(points)):
            name = f"\n{series.scaling}" if index == len(points) - 1 else ""
            _word(axes, f"{value:,.0f}{name}", (n, value), (7, -6), colour, va="top")


def _shares(axes: Any, draw: _Drawn) -> None:
    axes.set_xscale("log", base=2)
    axes.axhline(1, color=_GREY, linewidth=1, linestyle=_DASHES, zorder=1)
    points = [(point.nodes, point.efficiency.value) for point in draw.series.points if point.efficiency]
    if not points:
        _empty(axes, "one point tells no efficiency" if draw.series.counted else "there is no rate yet")
        return
    draw.line(axes, points)
    for index, (n, value) in enumerate(points):
        if draw.worded(index, len(points)):
            _word(axes, f"{value:.0%}", (n, value), (0, 7), draw.look["color"], ha="center")


def _costs(axes: Any, draw: _Drawn) -> None:
    axes.set_xscale("log", base=2)
    points = [(point.nodes, point.cost.value, point.hours) for point in draw.series.points if point.cost]
    if not points:
        _empty(axes, "no price is known" if draw.series.counted else "there is no rate yet")
        return
    draw.line(axes, [(n, value) for n, value, _ in points])
    for index, (n, value, hours) in enumerate(points):
        if draw.worded(index, len(points)):
            took = f"\n{hours_words(hours)}" if hours else ""
            _word(axes, f"${value:,.0f}{took}", (n, value), (0, 7), draw.look["color"], ha="center")


def _word(axes: Any, text: str, at: tuple[float, float], off: tuple[int, int], colour: str, **more: Any) -> None:
    """Words beside a point, on white that hides the grid but no point."""
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    axes.annotate(text, at, off, textcoords="offset points", color=colour, fontsize=8.5, zorder=2, bbox=ground, **more)


def _empty(axes: Any, words: str) -> None:
    axes.text(0.5, 0.45, words, transform=axes.transAxes, ha="center", color=_GREY)


def _round_ticks(axes: Any) -> None:
    """1, 2 and 5 of each power of ten, written out."""
    from matplotlib import ticker

    axes.yaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}")
    axes.yaxis.set_minor_locator(ticker.NullLocator())


def _lost(axes: Any, report: Report) -> None:
    """Points without a rate stand on the axis: they were wanted, and are not there."""
    low, high = axes.get_ylim()
    lost = [point for series in report.series for point in series.points if point.rate is None]
    if not lost:
        return
    low = low / (high / low) ** 0.1
    axes.set_ylim(low, high)
    for point in lost:
        axes.plot([point.nodes], [low], marker="x", color="black", markersize=8, clip_on=False, zorder=5)
        _word(axes, state_words(point), (point.nodes, low), (0, 9), "black", ha="center")


def _by_nodes(axes: Any, report: Report) -> None:
    """The numbers of nodes as they are, and no others."""
    points = {point.nodes for series in report.series for point in series.points}
    rows = {
        row.nodes for series in report.series for row in series.published if row.instance_type == series.instance_type
    }
    nodes = sorted(points | rows)
    axes.set_xticks(nodes, [str(n) for n in nodes])
    axes.minorticks_off()
    if nodes:
        axes.set_xlim(nodes[0] / 1.4, nodes[-1] * 1.6)
    axes.set_xlabel("nodes")


def _top(series: Series) -> float:
    return 1.15 * max((point.efficiency.value for point in series.points if point.efficiency), default=1.0)


def _titled(axes: Any, title: str, words: str) -> None:
    for text, off, look in (
        (title, 21, {"fontsize": 10.5, "fontweight": "bold"}),
        (words, 8, {"fontsize": 8.5, "color": _GREY}),
    ):
        axes.annotate(text, (0, 1), (0, off), xycoords="axes fraction", textcoords="offset points", **look)


def _cost_words(report: Report) -> str:
    points = [point for series in report.series for point in series.counted]
    grounds = " and ".join(sorted({point.cost.basis for point in points if point.cost})) or report.basis
    return f"{grounds}; {report.price_source}" if report.price_source else grounds


def subtitle(report: Report) -> str:
    """What was run, where, and with which software."""
    sdks = sorted({str(p.trial.settings.get("sdk")) for one in report.series for p in one.counted if p.trial.settings})
    software = f", Neuron {' and '.join(sdks)}" if sdks else ""
    what = f"study {report.name}" if report.name != report.workload else "all runs"
    return f"{report.title} — {what} on cluster {report.cluster}{software}"


def _notes(report: Report) -> list[str]:
    rows = dict.fromkeys(row for series in report.series for row in series.published)
    told = [
        f"{row.rate:,.0f} on {row.nodes} ({row.scaling}, {row.source}{f': {row.note}' if row.note else ''})"
        for row in rows
    ]
    notes = [f"Published, {report.unit}: {'; '.join(told)}."] if told else []
    kinds = {series.scaling for series in report.series}
    notes += (
        ["Efficiency: t(n0)/t(n) · n0/n, with t the time of a step and n0 the fewest nodes."]
        if "strong" in kinds
        else []
    )
    notes += (
        ["Efficiency of weak scaling: the rate of one node against that of one node of the fewest."]
        if "weak" in kinds
        else []
    )
    notes += [WEAK] if "weak" in kinds else []
    notes += [EMULATED] if report.emulated else []
    return [*notes, *(finding.message for finding in report.findings if finding.level != "info")]


def _curve(pyplot: Any, curve: Curve) -> Any:
    from matplotlib import ticker

    figure = pyplot.figure(figsize=(11, 5.2))
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.07, right=0.97, top=0.75, bottom=0.2, wspace=0.18)
    for axes, index, title, words in (
        (left, 1, "Loss", curve.basis),
        (right, 2, "Throughput", f"{curve.unit}, {curve.basis}"),
    ):
        told = [(point[0], point[index]) for point in curve.points if point[index] is not None]
        _titled(axes, title, words)
        axes.set_xlabel("step")
        if not told:
            _empty(axes, "the run's log tells none")
            continue
        steps, values = zip(*told, strict=True)
        sign = "o" if len(steps) <= 30 else ""
        axes.plot(steps, values, color=_COLOURS[0], linewidth=1.6, marker=sign, markersize=4)
        text = f"{values[-1]:.4g}" if index == 1 else f"{values[-1]:,.0f}"
        _word(axes, text, (steps[-1], values[-1]), (0, 8), _COLOURS[0], ha="center")
        axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=6, integer=True))
        axes.margins(x=0.06)
        if index == 2:
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
            axes.set_ylim(0, max(values) * 1.2)  # a rate from zero: a small swing must not look like a large one
    notes = [EMULATED] if curve.emulated else []
    _frame(figure, curve.headline, curve_words(curve), notes)
    return figure


def _frame(figure: Any, title: str, subtitle: str, notes: Sequence[str]) -> None:
    height = figure.get_size_inches()[1]
    figure.text(0.02, 1 - 0.3 / height, title, fontsize=14, fontweight="bold", va="center")
    figure.text(0.02, 1 - 0.56 / height, subtitle, fontsize=9.5, color=_GREY, va="center")
    lines = [line for note in notes for line in textwrap.wrap(note, _WIDTH_OF_NOTES)]
    figure.text(0.02, 0.12 / height, "\n".join(lines), fontsize=7.5, color=_GREY, va="bottom", linespacing=1.35)
