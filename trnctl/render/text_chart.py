"""A chart in characters: marks with labels and dotted lines between axes, readable without colour."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

_LEFT = 10  # columns for the labels of the y axis
_DOT = "·"


@dataclass(frozen=True)
class Mark:
    """A point with its sign and words; `y` None puts it on the x axis: there is a point, but no value."""

    x: float
    y: float | None
    sign: str
    label: str = ""


@dataclass(frozen=True)
class Plot:
    """What a chart shows. `lines` are drawn dotted under the marks, from point to point; `ticks` are the x values that
    are written below the axis."""

    marks: Sequence[Mark]
    ticks: Sequence[float]
    lines: Sequence[Sequence[tuple[float, float]]] = ()
    x_label: str = ""
    y_label: str = ""
    log: bool = True  # both axes
    from_zero: bool = True  # the y axis, where it is not logarithmic


def text_chart(plot: Plot, *, width: int = 96, height: int = 16) -> list[str]:
    """The lines of the chart, each at most `width` columns. Nothing without a value to show."""
    values = [mark.y for mark in plot.marks if mark.y is not None] + [y for line in plot.lines for _, y in line]
    if not values or not plot.ticks or (plot.log and min(values) <= 0):
        return []
    columns = width - _LEFT - 12  # the last mark's label stands behind it
    across = _Scale(min(plot.ticks), max(plot.ticks), columns - 1, plot.log)
    low, high = min(values) if plot.log or not plot.from_zero else min(0.0, *values), max(values)
    up = _Scale(low, high, height - 1, plot.log)
    rows = [[" "] * (width - _LEFT) for _ in range(height)]
    _draw_lines(rows, plot, across, up)
    _draw_marks(rows, plot, across, up)
    ticks = _y_ticks(up)
    lines = [plot.y_label] if plot.y_label else []
    for index, row in enumerate(rows):
        level = height - 1 - index
        label = f"{_short(ticks[level]):>{_LEFT - 2}} ┤" if level in ticks else " " * (_LEFT - 1) + "│"
        lines.append((label + "".join(row)).rstrip())
    return [*lines, *_x_axis(plot, across, width)]


@dataclass(frozen=True)
class _Scale:
    """A value's place on an axis of `size` + 1 cells."""

    low: float
    high: float
    size: int
    log: bool

    def at(self, value: float) -> int:
        """The cell of a value."""
        span = self._of(self.high) - self._of(self.low)
        return round(self.size * (self._of(value) - self._of(self.low)) / span) if span else self.size // 2

    def _of(self, value: float) -> float:
        return math.log(value) if self.log else value


def _draw_lines(rows: list[list[str]], plot: Plot, across: _Scale, up: _Scale) -> None:
    """Dots in every second column, so that a line is told from marks."""
    for line in plot.lines:
        for (x0, y0), (x1, y1) in itertools.pairwise(line):
            left, right = across.at(x0), across.at(x1)
            bottom, top = up.at(y0), up.at(y1)
            for column in range(left, right + 1, 2):
                share = (column - left) / (right - left) if right > left else 0.0
                rows[len(rows) - 1 - round(bottom + share * (top - bottom))][column] = _DOT


def _draw_marks(rows: list[list[str]], plot: Plot, across: _Scale, up: _Scale) -> None:
    """Signs first, so that no label hides one; then labels, where there is room for them."""
    places = []
    for mark in plot.marks:
        row, column = len(rows) - 1 - (up.at(mark.y) if mark.y is not None else 0), across.at(mark.x)
        if rows[row][column] in {" ", _DOT}:
            rows[row][column] = mark.sign
        else:  # two in one cell: side by side
            column += 1
            rows[row][column] = mark.sign
        places.append((row, column, mark.label))
    for row, column, label in places:
        _write(rows, row, column, label)


def _write(rows: list[list[str]], row: int, column: int, label: str) -> None:
    """The label to the right of its mark, or to the left, or below or above, or not at all."""
    if not label:
        return
    for line, start in (
        (row, column + 2),
        (row, column + 3),  # behind a second sign
        (row, column - len(label) - 1),
        (row + 1, column + 1),
        (row - 1, column - len(label)),
    ):
        end = start + len(label)
        if 0 <= line < len(rows) and start >= 0 and end <= len(rows[line]):
            cells = rows[line][max(0, start - 1) : end + 1]
            if all(cell in {" ", _DOT} for cell in cells):
                begin = max(0, start - 1)
                rows[line][begin:end] = list(" " * (start - begin) + label)
                return


def _y_ticks(up: _Scale) -> dict[int, float]:
    """Round values and the rows on which they lie."""
    found: dict[int, float] = {}
    for value in _round_values(up.low, up.high, up.log):
        row = up.at(value)
        if not any(abs(row - other) < 2 for other in found):
            found[row] = value
    return found


def _round_values(low: float, high: float, log: bool) -> list[float]:
    if log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        values = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        return [value for value in values if low <= value <= high]
    step = 10.0 ** math.floor(math.log10(high - low)) if high > low else 1.0
    step = step / 2 if (high - low) / step < 4 else step
    return [step * index for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _x_axis(plot: Plot, across: _Scale, width: int) -> list[str]:
    line, words = ["─"] * (width - _LEFT), [" "] * (width - _LEFT)
    for tick in plot.ticks:
        column, text = across.at(tick), _short(tick)
        line[column] = "┬"
        start = min(max(0, column - len(text) // 2), len(words) - len(text))
        if all(cell == " " for cell in words[max(0, start - 1) : start + len(text) + 1]):
            words[start : start + len(text)] = list(text)
    label = " " * _LEFT + "".join(words).rstrip()
    return [" " * (_LEFT - 1) + "└" + "".join(line), f"{label}  {plot.x_label}".rstrip()]


def _short(value: float) -> str:
    """`1`, `250`, `12.5k`, `0.25`, `3.2M`."""
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= limit:
            return f"{value / divisor:.3g}{unit}"
    return f"{value:,.4g}"
