"""What `study run` says before money is spent, and while it waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.recipes import recipe
from tests.studies import NOW, cluster
from trnctl.actions.study import StudyPlan, plan_study
from trnctl.actions.study_watch import PointState, StudyState
from trnctl.actions.submit import Facts, Wishes
from trnctl.cli import study_screens as screens
from trnctl.cli.output import Screen
from trnctl.cli.session import Session
from trnctl.specs.study import Study


def planned(*nodes: int, arguments: dict[str, str] | None = None, max_cost: float | None = None) -> StudyPlan:
    wishes = Wishes(arguments=arguments or {}, max_cost=max_cost)
    return plan_study(recipe(), cluster(), Study("s", "strong", nodes), wishes, now=NOW, facts=Facts())


def said(plan: StudyPlan, capsys: pytest.CaptureFixture[str]) -> str:
    screens.plan(Screen(Session()), plan, "")
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 100
    return " ".join(" ".join(lines).split())


def test_the_plan_says_what_its_figures_rest_on(capsys: pytest.CaptureFixture[str]) -> None:
    told = said(planned(1, 2, 4, 8, 16), capsys)
    assert "basis modelled from rates published on 1, 16; interpolated on 2, 4, 8" in told
    assert "about $6,129 for 5 runs ($21.50 a node and hour, on-demand list price of us-east-1, 2026-07-20" in told
    assert "--set steps_this_run=500 makes each run that short" in told


def test_a_short_study_is_not_told_to_be_shorter_and_a_cap_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    told = said(planned(1, arguments={"steps_this_run": "500"}, max_cost=400.0), capsys)
    assert "makes each run that short" not in told
    assert "cap $400.00 for each run" in told


def test_what_is_kept_costs_nothing_and_asks_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(1, 2)
    kept = replace(plan, points=tuple(replace(point, way="keep", state="completed") for point in plan.points))
    told = said(kept, capsys)
    assert told.count("kept: it is complete") == 2
    assert "$" not in told
    assert kept.due == ()


def test_an_unknown_cost_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(1)
    guess = replace(plan.points[0].plan.estimate, cost_usd=None, hours=None, basis="the rate is unknown: no row")
    unknown = replace(plan, points=(replace(plan.points[0], plan=replace(plan.points[0].plan, estimate=guess)),))
    assert "no rate is known on 1" in said(unknown, capsys)
    assert screens.question(unknown) == "Submit 1 run for an unknown sum?"


def test_the_way_of_many_points_is_one_line() -> None:
    points = [
        PointState(n, f"a-long-study-name-n{n}", "train", "running", step=9_999, steps=28_125) for n in range(1, 21)
    ]
    done = replace(points[0], state="completed")
    told = screens.words(StudyState((done, *points[1:])))
    assert told.startswith("1/20 over  2: train 9,999/28,125")
    assert told.endswith("…")
    assert len(told) <= 100
