"""A scaling study through the command line: refused as a whole, interrupted, taken up, reported when all is gone."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cli.trnctl_runner import NOTICE, SIXTEEN, Ended, Trnctl, sandbox

STUDY = ("study", "run", "bert-large", "--nodes", "4,1,2", "--set", "steps_this_run=3")


@pytest.mark.parametrize(
    ("words", "code", "promised"),
    [
        (["--nodes", "1,3,64"], 2, "2 of 3 points are refused"),
        (["--nodes", "1,32"], 3, "at most 16 nodes"),
        (["--nodes", "3,32"], 2, "one of 1, 2, 4, 8, 16, 32"),  # illegal before too large
        (["--nodes", "1,two"], 2, "--nodes 1,2,4,8,16"),
        (["--nodes", "0"], 2, "--nodes 1,2,4,8,16"),
        ([], 2, "Missing option"),
        (["--nodes", "1", "--scaling", "loose"], 2, "strong, weak"),
        (["--nodes", "1", "--name", "A B"], 2, "cannot name a run"),
        (["--nodes", "1", "-p", "nope"], 2, "choose one of compute1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_run_is_refused_before_anything_is_asked(
    nowhere: Trnctl, words: list[str], code: int, promised: str
) -> None:
    ended = nowhere.of(SIXTEEN)("study", "run", "bert-large", *words, "-y", code=code, target="aws")
    assert promised in ended.talk
    assert ended.out == ""


def test_every_refused_point_is_told_with_its_way_out(nowhere: Trnctl) -> None:
    words = ("study", "run", "bert-large", "--nodes", "1,3,24,32")
    ended = nowhere.of(SIXTEEN)(*words, code=2, target="aws")
    for told in ("3 nodes: bert-large cannot keep", "24 nodes: bert-large cannot keep", "32 nodes: The queue compute1"):
        assert told in ended.talk
    assert ended.err.splitlines()[-1] == "remedy: --nodes 1 leaves them out"


def test_a_form_that_is_not_known_is_refused(nowhere: Trnctl) -> None:
    ended = nowhere.of(SIXTEEN)("study", "report", "--format", "pdf", code=2, target="aws")
    assert "table, csv, json, svg, png, html" in ended.talk


@dataclass(frozen=True)
class Story:
    """A study from its first failure to a report of a cluster that is gone."""

    asked: Ended
    failed: Ended
    interrupted: Ended
    again: Ended
    kept: Ended
    other: Ended
    jobs: list[str]
    report: Ended
    told: Any
    written: Ended
    files: dict[str, bytes]
    curve: Ended
    gone: Ended


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """One study, told once; the tests look at it from all sides."""
    with sandbox(SIXTEEN, "--steps", "3") as trnctl:
        trnctl("cluster", "create", "-y", timeout=120)
        trnctl.place_needs()
        yield _told(trnctl)


def _told(trnctl: Trnctl) -> Story:
    asked = trnctl(*STUDY, code=2)
    trnctl("sandbox", "fault", "training-crash")
    failed = trnctl("study", "run", "bert-large", "--nodes", "2", *STUDY[5:], "-y", code=6, timeout=180)
    trnctl("sandbox", "fault", "clear")
    with trnctl.start(*STUDY, "-y", "-f", "-o", "json") as running:
        running.until(lambda it: '"train", "state": "running"' in it.out, "a point trains", timeout=120)
        running.interrupt()
        interrupted = running.end(30)
    again = trnctl(*STUDY, timeout=240)
    kept = trnctl(*STUDY, "-o", "json", timeout=60)
    out = trnctl.folder / "out"
    return Story(
        asked=asked,
        failed=failed,
        interrupted=interrupted,
        again=again,
        kept=kept,
        other=trnctl(*STUDY[:5], "--set", "lr=0.1", "-y", code=2),
        jobs=trnctl.slurm("squeue", "-h", "-a", "-t", "all", "-o", "%k").split(),
        report=trnctl("study", "report"),
        told=trnctl.json("study", "report", "bert-large-strong"),
        written=trnctl("study", "report", "bert-large", "--write", str(out)),
        files={path.name: path.read_bytes() for path in out.iterdir()},
        curve=trnctl("study", "report", "n4"),
        gone=_after_teardown(trnctl),
    )


def _after_teardown(trnctl: Trnctl) -> Ended:
    trnctl("teardown", "--delete-storage", "-y", timeout=120)
    return trnctl("study", "report", "bert-large-strong")


@pytest.mark.slow
@pytest.mark.sandbox
class TestStory:
    """What a person sees of it."""

    def test_the_price_of_all_is_told_before_and_y_is_needed_without_a_terminal(self, story: Story) -> None:
        for words in ("for 3 runs", "$21.50 a node and hour", "2026-07-20", "the smallest first", NOTICE):
            assert words in story.asked.talk
        assert "add -y" in story.asked.err.splitlines()[-1]
        assert story.asked.out == ""

    def test_a_point_that_failed_is_named_with_its_cause(self, story: Story) -> None:
        assert "1 of 1 points of bert-large-strong failed: on 2 nodes" in story.failed.talk
        # What `why` finds, whatever the fault of that name prints: a cause, and what to do about it.
        assert re.search(r"bert-large-strong-n2: train failed \(exit code 1\): \w.{10,} — \w", story.failed.talk)
        assert "the same command again" in story.failed.talk

    def test_ctrl_c_leaves_the_runs_at_work_and_says_how_to_look_again(self, story: Story) -> None:
        assert story.interrupted.code == 130
        assert "the work goes on" in story.interrupted.talk
        assert "the same command waits again" in story.interrupted.err.splitlines()[-1]
        changes = [(one.get("nodes"), one.get("way")) for one in story.interrupted.lines if "submitted" in one]
        assert changes == [(1, "submit"), (2, "resume"), (4, "submit")]

    def test_given_again_it_waits_to_the_end_and_submits_nothing(self, story: Story) -> None:
        assert "submitted" not in story.again.talk.replace("nothing is submitted twice", "")
        assert "3 of 3 points completed" in story.again.out
        assert "trnctl study report bert-large-strong" in story.again.talk

    def test_no_point_has_more_jobs_than_it_needs(self, story: Story) -> None:
        trained = sorted(job for job in story.jobs if job.endswith(":train") and ":bert-large-strong-n" in job)
        # The one that failed was resumed: that is its second job, and the only one.
        assert trained == [f"trnctl:bert-large-strong-n{n}:train" for n in (1, 2, 2, 4)]

    def test_finished_points_are_kept(self, story: Story) -> None:
        assert {point["way"] for point in story.kept.json["points"]} == {"keep"}
        assert story.kept.json["completed"] == 3

    def test_other_settings_are_another_study(self, story: Story) -> None:
        assert "is there with other settings" in story.other.talk
        assert "--name" in story.other.err.splitlines()[-1]

    def test_the_report_says_emulated_and_keeps_to_its_columns(self, story: Story) -> None:
        first, *rest = story.report.out.splitlines()
        assert first == "bert-large: strong scaling on trn1.32xlarge — EMULATED"
        assert max(map(len, rest)) <= 100
        assert sum("completed" in line for line in rest) == 3
        for words in ("efficiency against 1 node", "ideal", "published", "Neuron 2.28.0"):
            assert words in story.report.out

    def test_the_rates_are_those_that_the_runs_printed(self, story: Story) -> None:
        (series,) = story.told["series"]
        rates = {point["nodes"]: point["throughput"] for point in series["points"]}
        assert {rate["basis"] for rate in rates.values()} == {"emulated"}
        assert 3000 < rates[1]["value"] < rates[2]["value"] < rates[4]["value"] < 4 * rates[1]["value"]
        assert series["points"][2]["efficiency"]["value"] == pytest.approx(rates[4]["value"] / rates[1]["value"] / 4)

    def test_every_form_tells_the_same(self, story: Story) -> None:
        rows = csv.DictReader(io.StringIO(story.files["bert-large.csv"].decode()))
        by_nodes = {row["nodes"]: row for row in rows if row["run"]}
        assert set(by_nodes) == {"1", "2", "4"}
        assert {row["basis"] for row in by_nodes.values()} == {"emulated"}
        assert set(story.files) == {f"bert-large.{form}" for form in ("txt", "csv", "json", "svg", "png", "html")}
        assert all(name in story.written.out for name in story.files)
        assert all(b"EMULATED" in data for name, data in story.files.items() if name[11:] in {"txt", "svg", "html"})

    def test_a_run_of_it_has_a_curve(self, story: Story) -> None:
        assert "bert-large-strong-n4: bert-large on 4" in story.curve.out
        assert "loss, emulated" in story.curve.out
        assert "3 of 3 steps" in story.curve.out

    def test_the_report_outlives_the_cluster(self, story: Story) -> None:
        assert "What follows is from s3://" in story.gone.talk
        assert story.gone.out == story.report.out
