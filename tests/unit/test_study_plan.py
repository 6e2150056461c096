"""A study: every point judged before any is sent, taken up where it ended, and none submitted twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import World
from tests.fakes.queue import InMemoryQueue
from tests.recipes import recipe
from tests.studies import NOW, cluster
from trnctl.actions.runs import OpenCluster
from trnctl.actions.study import StudyPlan, look, plan_study, submit_due, take_up
from trnctl.actions.study_watch import state_of, verdict, watch
from trnctl.actions.submit import Facts, Wishes
from trnctl.errors import ConnectionLost, RefusedError, ToolError, UsageError
from trnctl.ports import QueuePicture, Submission, Submitted
from trnctl.specs.study import Study, study_name

FOLDER = "/fsx/trnctl/runs"


def planned(*nodes: int, wishes: Wishes | None = None, name: str = "s") -> StudyPlan:
    study = Study(name, "strong", nodes or (1, 2, 4))
    return plan_study(recipe(), cluster(), study, wishes or Wishes(), now=NOW, facts=Facts())


def submitted(plan: StudyPlan, queue: InMemoryQueue) -> list[tuple[int, str]]:
    told = [(point.nodes, error.message if error else "") for point, error in submit_due(plan, queue, FOLDER)]
    # The head node answers with the manifest that it was sent.
    for submission in queue.submissions:
        text = next(file.text for file in submission.files if file.name == "run.json")
        queue.manifests[submission.run] = json.loads(text)
    return told


def taken_up(plan: StudyPlan, queue: InMemoryQueue) -> list[tuple[int, str, str]]:
    again = take_up(plan, look(plan, queue, FOLDER))
    return [(point.nodes, point.way, point.state) for point in again.points]


def opened(world: World) -> OpenCluster:
    return OpenCluster("ultra1", "us-west-2", world.services(), FOLDER)


def test_all_points_are_judged_and_all_that_is_refused_is_told_at_once() -> None:
    with pytest.raises(UsageError, match="3 of 5 points are refused") as caught:
        planned(1, 2, 3, 32, 64)
    assert [finding.path for finding in caught.value.findings] == ["3 nodes", "32 nodes", "64 nodes"]
    assert caught.value.remedy == "--nodes 1,2 leaves them out"


def test_what_does_not_fit_is_refused_when_all_is_legal() -> None:
    with pytest.raises(RefusedError, match="at most 16") as caught:
        planned(1, 32)
    assert "--nodes 16 or fewer" in caught.value.remedy


def test_what_is_wrong_with_every_point_is_told_once() -> None:
    with pytest.raises(UsageError, match="no queue nope") as caught:
        planned(1, 2, 4, wishes=Wishes(queue="nope"))
    assert caught.value.findings == ()


def test_every_run_carries_the_study_and_its_name() -> None:
    plan = planned(1, 2, 16, name=study_name("bert-large", "strong"))
    assert [point.run for point in plan.points] == [f"bert-large-strong-n{n}" for n in (1, 2, 16)]
    texts = [next(f.text for f in one.plan.submission.files if f.name == "run.json") for one in plan.points]
    studies = {json.dumps(json.loads(text)["study"]) for text in texts}
    assert studies == {'{"name": "bert-large-strong", "nodes": [1, 2, 16], "scaling": "strong"}'}


def test_the_cost_is_that_of_what_is_due_and_says_when_it_is_not_whole() -> None:
    plan = planned(1, 2)
    assert plan.cost_usd == pytest.approx(sum(one.plan.estimate.cost_usd or 0 for one in plan.points))
    kept = replace(plan, points=(replace(plan.points[0], way="keep"), plan.points[1]))
    assert kept.cost_usd == plan.points[1].plan.estimate.cost_usd
    unknown = replace(plan.points[0].plan, estimate=replace(plan.points[0].plan.estimate, cost_usd=None))
    assert not replace(plan, points=(replace(plan.points[0], plan=unknown),)).cost_is_whole


def test_the_smallest_is_submitted_first_and_taking_up_finds_all_under_way() -> None:
    world, plan = World(), planned(1, 2, 4)
    assert submitted(plan, world.queue) == [(1, ""), (2, ""), (4, "")]
    assert [one.run for one in world.queue.submissions] == ["s-n1", "s-n2", "s-n4"]
    assert taken_up(plan, world.queue) == [(1, "wait", "running"), (2, "wait", "running"), (4, "wait", "running")]
    assert not take_up(plan, look(plan, world.queue, FOLDER)).due


def test_finished_points_are_kept_and_failed_ones_go_on() -> None:
    world, plan = World(), planned(1, 2)
    world.queue.exits["s-n2", "train"] = 1
    submitted(plan, world.queue)
    world.clock.sleep(300)
    assert taken_up(plan, world.queue) == [(1, "keep", "completed"), (2, "resume", "failed")]
    again = take_up(plan, look(plan, world.queue, FOLDER))
    assert submitted(again, world.queue) == [(2, "")]
    assert len(world.queue.submissions) == 2, "a run that goes on is no second submission"
    world.clock.sleep(300)
    assert taken_up(plan, world.queue) == [(1, "keep", "completed"), (2, "keep", "completed")]


def test_more_nodes_are_added_to_a_study_that_is_there() -> None:
    world = World()
    submitted(planned(1, 2), world.queue)
    world.clock.sleep(300)
    more = planned(1, 2, 4)
    assert [way for _, way, _ in taken_up(more, world.queue)] == ["keep", "keep", "submit"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"sdk": "2.30.0"}, "sdk 2.30.0 instead of 2.31.1"), ({"arguments": {"lr": "1"}}, "arguments lr=1")],
    ids=["sdk", "arguments"],
)
def test_runs_with_other_settings_are_not_taken_up(changed: dict[str, Any], told: str) -> None:
    world, plan = World(), planned(1)
    submitted(plan, world.queue)
    world.queue.manifests["s-n1"] = {**world.queue.manifests["s-n1"], **changed}
    with pytest.raises(UsageError, match=told) as caught:
        take_up(plan, look(plan, world.queue, FOLDER))
    assert "--name" in caught.value.remedy


def test_a_layout_word_that_another_version_does_not_know_is_no_other_setting() -> None:
    world, plan = World(), planned(1)
    submitted(plan, world.queue)
    manifest = world.queue.manifests["s-n1"]
    older = {key: value for key, value in dict(manifest["layout"]).items() if key != "zero"}  # type: ignore[call-overload]
    world.queue.manifests["s-n1"] = {**manifest, "layout": older}
    assert [way for _, way, _ in taken_up(plan, world.queue)] == ["wait"]


def test_what_slurm_refuses_for_all_points_is_the_error() -> None:
    world, plan = World(), planned(1, 2)
    world.queue.refuses = "Invalid account"
    with pytest.raises(ToolError, match="Invalid account"):
        list(submit_due(plan, world.queue, FOLDER))


class PickySlurm(InMemoryQueue):
    """Refuses one run by its name, and loses the line at another."""

    def __init__(self, world: World, *, refuses: str = "", loses: str = "") -> None:
        super().__init__(world.clock)
        self.refused, self.lost = refuses, loses

    def submit(self, submission: Submission) -> Submitted:
        """Take it on, unless its name says otherwise."""
        if submission.run == self.refused:
            raise ToolError("Slurm refused it.", remedy="Ask somebody.")
        if submission.run == self.lost:
            raise ConnectionLost("The line broke.", remedy="Look.", reached=True)
        return super().submit(submission)


def test_what_slurm_refuses_for_one_point_does_not_keep_the_others() -> None:
    world, plan = World(), planned(1, 2, 4)
    queue = PickySlurm(world, refuses="s-n2")
    assert submitted(plan, queue) == [(1, ""), (2, "Slurm refused it."), (4, "")]
    state = state_of(plan, look(plan, queue, FOLDER), world.clock.now())
    assert [point.state for point in state.points] == ["running", "not submitted", "running"]
    world.clock.sleep(300)
    state = state_of(plan, look(plan, queue, FOLDER), world.clock.now())
    failed = verdict(plan, state, opened(world), None)
    assert failed is not None
    assert failed.exit_code == 6
    assert "1 of 3 points of s failed: on 2 nodes" in failed.message


def test_a_broken_line_says_that_the_same_command_takes_it_up() -> None:
    world, plan = World(), planned(1, 2)
    with pytest.raises(ConnectionLost) as caught:
        list(submit_due(plan, PickySlurm(world, loses="s-n2"), FOLDER))
    assert "the same command again" in caught.value.remedy
    assert "nothing is submitted twice" in caught.value.remedy


def test_watching_ends_when_every_point_is_over_and_a_failed_one_stops_none() -> None:
    world, plan = World(), planned(1, 2, 4)
    world.queue.exits["s-n1", "compile"] = 1
    submitted(plan, world.queue)
    states = list(watch(plan, opened(world), world.queue))
    assert len(states) > 2
    assert [point.state for point in states[-1].points] == ["failed", "completed", "completed"]
    failed = verdict(plan, states[-1], opened(world), None)
    assert failed is not None
    (finding,) = failed.findings
    assert (finding.path, finding.code) == ("1 node", "study-point-failed")
    assert "s-n1: compile failed" in finding.message
    assert "trnctl why s-n1" in finding.remedy


def test_a_study_that_went_well_has_no_verdict() -> None:
    world, plan = World(), planned(1)
    submitted(plan, world.queue)
    last = list(watch(plan, opened(world), world.queue))[-1]
    assert verdict(plan, last, opened(world), None) is None


class Flickering(InMemoryQueue):
    """A line that breaks a number of times before it holds."""

    breaks = 0

    def observe(self, runs_folder: str, *, run: str = "", newest: int = 20, tail_bytes: int = 16000) -> QueuePicture:
        """Look, when the line holds."""
        if self.breaks > 0:
            self.breaks -= 1
            raise ConnectionLost("The line broke.", remedy="Look again.")
        return super().observe(runs_folder, run=run, newest=newest, tail_bytes=tail_bytes)


@pytest.mark.parametrize(("breaks", "survives"), [(3, True), (30, False)])
def test_a_short_loss_of_the_line_is_sat_out(breaks: int, survives: bool) -> None:
    world, plan = World(), planned(1)
    queue = Flickering(world.clock)
    submitted(plan, queue)
    queue.breaks = breaks
    if survives:
        assert list(watch(plan, opened(world), queue))[-1].over
    else:
        with pytest.raises(ConnectionLost):
            list(watch(plan, opened(world), queue))


class Forgetful(InMemoryQueue):
    """A Slurm that no longer knows its jobs, and nobody wrote down how they ended; or a preparer that has died."""

    preparing: Mapping[str, object] | None = None

    def observe(self, runs_folder: str, *, run: str = "", newest: int = 20, tail_bytes: int = 16000) -> QueuePicture:
        """The runs' folders alone."""
        picture = super().observe(runs_folder, run=run, newest=newest, tail_bytes=tail_bytes)
        stages = ["prepare", "train"] if self.preparing else ["compile", "train"]
        runs = [
            replace(one, ended={}, preparing=self.preparing, manifest={**one.manifest, "stages": stages})
            for one in picture.runs
        ]
        return replace(picture, jobs=(), runs=tuple(runs))


@pytest.mark.parametrize("preparing", [None, {"alive": False}], ids=["forgotten", "preparer died"])
def test_a_run_that_nothing_brings_to_its_end_is_not_waited_for(preparing: dict[str, object] | None) -> None:
    world, plan = World(), planned(1)
    queue = Forgetful(world.clock)
    queue.preparing = preparing
    submitted(plan, queue)
    state = list(watch(plan, opened(world), queue))[-1]
    assert [point.failed for point in state.points] == [True]
    assert [way for _, way, _ in taken_up(plan, queue)] == ["resume"]


def test_runs_that_are_not_among_the_newest_are_asked_for_by_name() -> None:
    world, plan = World(), planned(1)
    submitted(plan, world.queue)
    for number in range(60):
        other = planned(1, name=f"other{number}")
        world.queue.submit(other.points[0].plan.submission)
    assert [record.run for record in look(plan, world.queue, FOLDER).runs] == ["s-n1"]
