"""A chart in characters: marks where they belong, labels that hide nothing, within its width."""

from __future__ import annotations

import itertools

import pytest

from trnctl.render.text_chart import Mark, Plot, text_chart


def rows(plot: Plot, width: int = 60, height: int = 9) -> list[str]:
    lines = text_chart(plot, width=width, height=height)
    assert max(map(len, lines)) <= width + 12, lines
    return lines


def place(lines: list[str], sign: str) -> list[tuple[int, int]]:
    return [(y, x) for y, line in enumerate(lines) for x, cell in enumerate(line) if cell == sign]


def test_on_logarithmic_axes_what_doubles_is_a_straight_line() -> None:
    marks = [Mark(n, 1000.0 * n, "o") for n in (1, 2, 4, 8, 16)]
    found = sorted(place(rows(Plot(marks, [1, 2, 4, 8, 16])), "o"))
    assert len(found) == 5
    slopes = {b[0] - a[0] for a, b in itertools.pairwise(found)}
    assert slopes == {2}
    gaps = [a[1] - b[1] for a, b in itertools.pairwise(found)]
    assert max(gaps) - min(gaps) <= 1


def test_a_mark_without_a_value_stands_on_the_axis_with_its_words() -> None:
    lines = rows(Plot([Mark(1, 10.0, "o"), Mark(2, None, "x", "failed"), Mark(4, 40.0, "o")], [1, 2, 4]))
    (row, _), *_ = place(lines, "x")
    assert lines[row + 1].lstrip().startswith("└")
    assert "x failed" in lines[row]


def test_two_marks_in_one_cell_stand_side_by_side() -> None:
    lines = rows(Plot([Mark(1, 10.0, "o", "ten"), Mark(1, 10.0, "d"), Mark(2, 20.0, "o")], [1, 2]))
    assert any("od ten" in line for line in lines)


def test_labels_give_way_to_marks_and_to_each_other() -> None:
    marks = [Mark(x, 10.0 + x, "o", f"label-{x}") for x in range(1, 30)]
    lines = rows(Plot(marks, [1, 29], log=False))
    assert len(place(lines, "o")) == 29


def test_lines_are_dotted_and_never_over_a_mark() -> None:
    plot = Plot([Mark(1, 1.0, "o"), Mark(16, 4.0, "o")], [1, 16], lines=[[(1.0, 1.0), (16.0, 16.0)]])
    lines = rows(plot)
    assert len(place(lines, "·")) > 5
    assert len(place(lines, "o")) == 2


def test_ticks_are_round_and_the_axis_names_them() -> None:
    lines = rows(Plot([Mark(1, 1500.0, "o"), Mark(16, 60_000.0, "o")], [1, 16], x_label="nodes", y_label="seq/s"))
    text = "\n".join(lines)
    assert lines[0] == "seq/s"
    assert lines[-1].split() == ["1", "16", "nodes"]
    assert "50k ┤" in text
    assert "2,000 ┤" in text


def test_a_linear_axis_begins_at_zero_unless_told_otherwise() -> None:
    marks = [Mark(float(step), 9.0 + step / 10, "o") for step in range(10)]
    assert any(line.strip().startswith("0 ┤") for line in rows(Plot(marks, [0, 9], log=False)))
    assert not any(line.strip().startswith("0 ┤") for line in rows(Plot(marks, [0, 9], log=False, from_zero=False)))


@pytest.mark.parametrize(
    "plot",
    [
        Plot([], []),
        Plot([Mark(1, None, "x")], [1]),
        Plot([Mark(1, 0.0, "o")], [1]),  # nothing on a logarithmic axis
    ],
)
def test_nothing_is_drawn_of_nothing(plot: Plot) -> None:
    assert text_chart(plot) == []


@pytest.mark.parametrize("log", [True, False])
def test_one_point_is_drawn(log: bool) -> None:
    assert len(place(rows(Plot([Mark(4, 7.0, "o")], [4], log=log)), "o")) == 1
