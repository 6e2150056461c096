"""A run with a cap on its cost: each job's time is limited to what earlier jobs and attempts have left of it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.job_folder import JobFolder, make_job_folder
from trnctl.plan.cap import Cap

CAP = Cap(usd=43.0, price=21.5, node_seconds=7200, minutes=58)  # an hour of the two nodes


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return make_job_folder(tmp_path, cap=CAP)


def earlier(job: JobFolder, stage: str, seconds: float, nodes: int = 2) -> None:
    """An attempt that used so many seconds of so many nodes."""
    path = job.folder / "logs" / stage / "attempts.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    now = time.time()
    path.write_text(json.dumps([{"started": now - seconds, "ended": now, "nodes": nodes, "job": "6"}]))


def updates(job: JobFolder) -> list[str]:
    """What scontrol was told."""
    path = job.mount / "seen.json.updated"
    return path.read_text().splitlines() if path.exists() else []


def test_what_the_compile_job_used_the_training_no_longer_has(job: JobFolder) -> None:
    earlier(job, "compile", 25 * 60 + 5)
    code, said = job.run("train")
    assert code == 0, said
    assert updates(job) == ["update jobid=7 timelimit=33"]
    assert job.record("results.json")["max_cost_usd"] == 43.0


def test_an_attempt_on_other_nodes_counts_them(job: JobFolder) -> None:
    earlier(job, "train", 10 * 60, nodes=1)
    job.run("train")
    assert updates(job) == ["update jobid=7 timelimit=53"]


def test_the_first_job_has_the_limit_that_sbatch_was_given(job: JobFolder) -> None:
    code, said = job.run("compile", COMPILER="exit 0")
    assert "cap" not in said
    assert updates(job) in ([], ["update jobid=7 timelimit=57"]), code  # a second may have gone by


def test_a_run_that_has_used_its_cap_up_does_not_start_again(job: JobFolder) -> None:
    earlier(job, "train", 3460)
    code, said = job.run("train")
    assert code == 75
    assert "its cap of $43.00 is used up" in said
    assert not (job.mount / "seen.json").exists(), "no worker has started"
    assert "its cap of $43.00 is used up" in job.record("ended/train.json")["reason"]


def test_a_job_whose_time_cannot_be_limited_does_not_run(job: JobFolder) -> None:
    earlier(job, "compile", 600)
    code, said = job.run("train", NO_UPDATE="1")
    assert (code, "could not be limited" in said) == (75, True), said
    assert not (job.mount / "seen.json").exists()


def test_a_run_without_a_cap_asks_for_nothing(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path)
    earlier(job, "compile", 9999)
    assert job.run("train")[0] == 0
    assert updates(job) == []


def test_a_limit_that_the_person_gave_is_never_raised(tmp_path: Path) -> None:
    """Slurm would refuse that to a plain user, and the job would end before it began."""
    job = make_job_folder(tmp_path, cap=CAP, time_limit="0:30:00")
    earlier(job, "compile", 10 * 60)
    code, said = job.run("train", NO_UPDATE="1")
    assert code == 0, said
    other = make_job_folder(tmp_path / "other", cap=CAP, time_limit="0:30:00")
    earlier(other, "compile", 40 * 60 + 5)
    assert other.run("train")[0] == 0
    assert updates(other) == ["update jobid=7 timelimit=18"]


@pytest.mark.parametrize(
    ("asked", "limit"),
    [("30", "30"), ("0", "0:58:00"), ("0:00", "0:58:00"), ("2:00:00", "0:58:00"), (None, "0:58:00")],
)
def test_a_time_limit_cannot_lift_the_cap(asked: str | None, limit: str) -> None:
    """Slurm takes a limit of 0 for none."""
    assert CAP.clip(asked) == limit
