"""What every JobQueue must do."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Protocol

import pytest

from trnctl.errors import NotFoundError, RefusedError
from trnctl.ports import File, JobQueue, LogLine, RunOver, StageState, Submission


class QueueBench(Protocol):
    """A JobQueue, and the ways of a test to give it work. `runs_folder` is where its runs live."""

    queue: JobQueue
    runs_folder: str

    def submission(self, run: str, *, compile_exit: int = 0, seconds: float = 0.2) -> Submission:
        """A run of two stages, compile and train, each of which prints `STAGE begins` on node 0 and takes that time;
        compile ends with that exit code. Its run.json is {"workload": "bert-large"}."""

    def settle(self, run: str) -> None:
        """Wait until all jobs of the run are over."""


def new_run() -> str:
    """A name that no other test has."""
    return f"t-{uuid.uuid4().hex[:8]}"


class JobQueueContract:
    """Give a fixture `bench`."""

    def test_a_run_goes_through_its_stages(self, bench: QueueBench) -> None:
        run = new_run()
        submitted = bench.queue.submit(bench.submission(run))
        assert (submitted.run, submitted.folder) == (run, f"{bench.runs_folder}/{run}")
        assert list(submitted.jobs) == ["compile", "train"]
        assert not submitted.again
        bench.settle(run)
        [record] = bench.queue.observe(bench.runs_folder, run=run).runs
        assert dict(record.jobs) == dict(submitted.jobs)
        assert record.manifest == {"workload": "bert-large"}
        assert {stage: note["exit_code"] for stage, note in record.ended.items()} == {"compile": 0, "train": 0}
        assert "train begins" in record.logs["train/node-0.log"]

    def test_the_same_run_is_never_submitted_twice(self, bench: QueueBench) -> None:
        submission = bench.submission(new_run(), seconds=30)
        first = bench.queue.submit(submission)
        second = bench.queue.submit(submission)
        assert (second.jobs, second.folder, second.again) == (first.jobs, first.folder, True)
        jobs = [job for job in bench.queue.observe(bench.runs_folder).jobs if job.run == submission.run]
        assert sorted(job.id for job in jobs) == sorted(first.jobs.values())
        bench.queue.cancel(submission.run, bench.runs_folder)

    def test_jobs_of_a_run_know_their_stage(self, bench: QueueBench) -> None:
        submission = bench.submission(new_run(), seconds=30)
        submitted = bench.queue.submit(submission)
        picture = bench.queue.observe(bench.runs_folder)
        found = {job.stage: job for job in picture.jobs if job.run == submission.run}
        assert {stage: job.id for stage, job in found.items()} == dict(submitted.jobs)
        assert found["train"].state == "pending"
        assert found["train"].reason == "waits for the compile job"
        assert picture.nodes
        assert sum(group.count for group in picture.nodes) > 0
        bench.queue.cancel(submission.run, bench.runs_folder)

    def test_a_failed_compile_cancels_training(self, bench: QueueBench) -> None:
        run = new_run()
        bench.queue.submit(bench.submission(run, compile_exit=7))
        events = list(bench.queue.follow(run, bench.runs_folder))
        assert events[-1] == RunOver({"compile": "failed", "train": "cancelled"})
        [record] = bench.queue.observe(bench.runs_folder, run=run).runs
        assert record.ended["compile"]["exit_code"] == 7
        assert record.ended["train"]["state"] == "cancelled"

    def test_a_run_that_failed_is_resumed_in_its_own_folder(self, bench: QueueBench) -> None:
        run = new_run()
        first = bench.queue.submit(bench.submission(run, compile_exit=7))
        bench.settle(run)
        resumed = bench.queue.resume(run, bench.runs_folder, hold=True)
        assert (resumed.run, resumed.folder, resumed.checkpoint) == (run, first.folder, "")
        assert list(resumed.jobs) == ["compile", "train"]
        assert not set(resumed.jobs.values()) & set(first.jobs.values())
        with pytest.raises(RefusedError, match="goes on"):
            bench.queue.resume(run, bench.runs_folder)
        bench.queue.cancel(run, bench.runs_folder)

    def test_what_there_is_not_cannot_be_resumed(self, bench: QueueBench) -> None:
        with pytest.raises(NotFoundError, match="nobody"):
            bench.queue.resume("nobody", bench.runs_folder)

    def test_a_held_run_waits(self, bench: QueueBench) -> None:
        submission = replace(bench.submission(new_run()), hold=True)
        bench.queue.submit(submission)
        jobs = {job.stage: job for job in bench.queue.observe(bench.runs_folder).jobs if job.run == submission.run}
        assert (jobs["compile"].state, jobs["train"].state) == ("held", "pending")
        assert len(bench.queue.cancel(submission.run, bench.runs_folder)) == 2

    def test_cancel_names_what_was_alive(self, bench: QueueBench) -> None:
        submission = bench.submission(new_run(), seconds=30)
        submitted = bench.queue.submit(submission)
        cancelled = bench.queue.cancel(submission.run, bench.runs_folder)
        assert sorted(cancelled) == sorted(submitted.jobs.values())
        bench.settle(submission.run)
        assert bench.queue.cancel(submission.run, bench.runs_folder) == []

    def test_follow_tells_states_and_lines(self, bench: QueueBench) -> None:
        run = new_run()
        submitted = bench.queue.submit(bench.submission(run))
        events = list(bench.queue.follow(run, bench.runs_folder))
        lines = [event.text for event in events if isinstance(event, LogLine)]
        assert [line for line in lines if line.endswith("begins")] == ["compile begins", "train begins"]
        last = {event.stage: event for event in events if isinstance(event, StageState)}
        assert {stage: (event.job, event.state) for stage, event in last.items()} == {
            stage: (job, "completed") for stage, job in submitted.jobs.items()
        }
        assert events[-1] == RunOver({"compile": "completed", "train": "completed"})

    def test_follow_one_stage(self, bench: QueueBench) -> None:
        run = new_run()
        bench.queue.submit(bench.submission(run))
        events = list(bench.queue.follow(run, bench.runs_folder, stage="compile"))
        assert {event.stage for event in events if isinstance(event, LogLine | StageState)} == {"compile"}
        assert events[-1] == RunOver({"compile": "completed"})
        bench.settle(run)

    def test_follow_without_waiting_ends_at_once(self, bench: QueueBench) -> None:
        submission = bench.submission(new_run(), seconds=30)
        bench.queue.submit(submission)
        *_, last = bench.queue.follow(submission.run, bench.runs_folder, wait=False)
        assert isinstance(last, RunOver)
        assert last.states["train"] == "pending"
        bench.queue.cancel(submission.run, bench.runs_folder)

    def test_no_such_run(self, bench: QueueBench) -> None:
        assert bench.queue.observe(bench.runs_folder, run="nobody").runs == ()
        with pytest.raises(NotFoundError, match="nobody"):
            bench.queue.cancel("nobody", bench.runs_folder)
        with pytest.raises(NotFoundError, match="nobody"):
            list(bench.queue.follow("nobody", bench.runs_folder))

    def test_the_newest_runs_come_first(self, bench: QueueBench) -> None:
        runs = [new_run(), new_run()]
        for run in runs:
            bench.queue.submit(replace(bench.submission(run), hold=True))
        seen = [record.run for record in bench.queue.observe(bench.runs_folder, newest=1).runs]
        assert seen == [runs[1]]
        for run in runs:
            bench.queue.cancel(run, bench.runs_folder)


def two_stages(run: str, runs_folder: str, texts: tuple[File, ...]) -> Submission:
    """A submission of compile and train with these scripts."""
    manifest = File("run.json", '{"workload": "bert-large"}')
    return Submission(run, f"{runs_folder}/{run}", (manifest, *texts), ("compile", "train"))
