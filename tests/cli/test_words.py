"""Figures as people read them."""

from __future__ import annotations

import pytest

from trnctl.cli import words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0, "0s"), (59.9, "59s"), (60, "1m00s"), (432, "7m12s"), (11520, "3h12m"), (439200, "5d02h")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (24518.0, "24.5k seq/s"), (812.4, "812 seq/s"), (7.94, "7.9 seq/s")]
)
def test_rates(value: float | None, text: str) -> None:
    assert words.rate(value, "seq/s") == text


@pytest.mark.parametrize(("step", "total", "text"), [(None, 28125, "–"), (6112, 28125, "6,112/28,125"), (7, None, "7")])
def test_steps(step: int | None, total: int | None, text: str) -> None:
    assert words.steps(step, total) == text


@pytest.mark.parametrize(("usd", "text"), [(0.914, "$0.91"), (344.68, "$344.68"), (1870.4, "$1,870")])
def test_money(usd: float, text: str) -> None:
    assert words.money(usd) == text


@pytest.mark.parametrize(("size", "text"), [(500, "500 GiB"), (1200, "1.2 TiB")])
def test_sizes(size: int, text: str) -> None:
    assert words.gib(size) == text
