"""Predicted time and cost, checked by hand against the published rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.recipes import TRN1, layout, recipe
from trnctl.plan.estimate import estimate
from trnctl.specs.instances import PRICE_DATE


def test_a_published_row_is_taken_as_it_is() -> None:
    made = estimate(recipe(), layout(16), TRN1)
    # 28,125 steps of 16,384 sequences at 24,518.47 a second; 13 minutes of compiling before; 16 nodes at $21.50
    assert made.hours == pytest.approx(28_125 * 16_384 / 24_518.47 / 3600)
    assert made.hours == pytest.approx(5.22, abs=0.01)
    assert made.cost_usd == pytest.approx(16 * 21.50 * (5.2206 + 13 / 60), abs=0.5)
    assert "published strong-scaling rate 24,518 seq/s" in made.basis
    assert "2.14.0" in made.basis
    assert PRICE_DATE in made.basis


def test_weak_scaling_takes_the_weak_row_and_says_that_it_is_a_bound() -> None:
    made = estimate(recipe(), layout(16, "weak"), TRN1)
    assert made.rate == 57_407.92
    assert made.hours == pytest.approx(28_125 * 262_144 / 57_407.92 / 3600)
    assert "weak-scaling" in made.basis
    assert "upper bound" in made.basis


def test_one_node_is_both_strong_and_weak() -> None:
    assert estimate(recipe(), layout(1, "weak"), TRN1).rate == estimate(recipe(), layout(1), TRN1).rate == 3826.61


def test_between_two_rows_the_rate_lies_on_their_power_law() -> None:
    made = estimate(recipe(), layout(4), TRN1)
    assert made.rate == pytest.approx((3826.61 * 24_518.47) ** 0.5)  # 4 is halfway from 1 to 16 in the logarithm
    assert made.basis.startswith("interpolated from the published strong-scaling rates at 1 and 16 nodes")


def test_beyond_the_rows_it_goes_twice_as_far_and_then_says_unknown() -> None:
    near = estimate(recipe(), layout(32), TRN1)
    assert near.rate is not None
    assert 24_518.47 < near.rate < 2 * 24_518.47
    assert near.basis.startswith("extrapolated")
    far = estimate(recipe(), layout(64, "weak"), TRN1)
    assert (far.rate, far.hours, far.cost_usd) == (None, None, None)
    assert "unknown" in far.basis


def test_a_recipe_without_rows_is_no_failure() -> None:
    made = estimate(replace(recipe(), published=()), layout(16), TRN1)
    assert (made.hours, made.cost_usd) == (None, None)
    assert made.steps == 28_125


def test_another_type_is_told_apart_and_without_a_price_there_is_no_cost() -> None:
    made = estimate(recipe(), layout(16), "trn1n.32xlarge")
    assert "measured on trn1.32xlarge" in made.basis
    assert made.price_per_node_hour == 24.78
    free = estimate(recipe(), layout(16), "trn2.48xlarge")
    assert free.hours is not None
    assert free.cost_usd is None
    assert "no price is known for trn2.48xlarge" in free.basis


def test_fewer_steps_and_no_compile_stage_cost_less() -> None:
    whole = estimate(recipe(), layout(16), TRN1)
    part = estimate(recipe(), layout(16), TRN1, arguments={"steps_this_run": "2812"}, compiles=False)
    assert part.steps == 2812
    assert part.compile_hours == 0
    assert part.cost_usd is not None
    assert whole.hours is not None
    assert part.cost_usd == pytest.approx(16 * 21.50 * whole.hours * 2812 / 28_125)
