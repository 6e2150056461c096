"""A run that needs what is not there yet, with a real Slurm: its jobs wait, held, for the preparer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.small_slurm import SmallSlurm
from tests.contracts.job_queue import new_run
from tests.preparing import Files
from trnctl.adapters.local_shell import LocalShell
from trnctl.adapters.slurm import SlurmQueue
from trnctl.errors import RefusedError
from trnctl.ports import File, JobQueue, LogLine, Need, RunOver, RunRecord, StageState, Submission, Submitted
from trnctl.render.agent import agent
from trnctl.render.prepare import preparer


@dataclass(frozen=True)
class Bench:
    """A Slurm, a folder for runs, and a server that holds what they need."""

    queue: JobQueue
    slurm: SmallSlurm
    files: Files
    shared: Path

    @property
    def runs(self) -> str:
        return str(self.shared / "runs")

    def submission(self, run: str, url: str = "/words") -> Submission:
        """One stage, which writes down whether its words are there."""
        folder, words = f"{self.runs}/{run}", str(self.shared / "data/words")
        script = (
            f"#!/bin/bash\n#SBATCH --nodes=1 --output={folder}/train.log\n"
            f'trap \'printf "{{\\"exit_code\\": %d}}" "$?" >{folder}/ended/train.json\' EXIT\ncat {words}\n'
        )
        manifest = File("run.json", '{"workload": "x", "stages": ["train"]}')
        fetch = {"kind": "file", "target": words, "url": self.files.url + url}
        need = Need(words, "the words", "bring them", fetch=fetch)
        files = (manifest, File("train.sbatch", script), *preparer())
        return Submission(run, folder, files, ("train",), needs=(need,))

    def record(self, run: str) -> RunRecord:
        [record] = self.queue.observe(self.runs, run=run).runs
        return record

    def jobs(self, run: str) -> list[tuple[str, str]]:
        """State and reason of the run's living jobs, in Slurm's words."""
        lines = self.slurm.call("squeue", "-h", "-o", "%k %T %r").splitlines()
        return [(line.split()[1], line.split()[2]) for line in lines if f"trnctl:{run}:" in line]

    def kill_preparer(self, submitted: Submitted) -> None:
        """As if the head node had been restarted."""
        assert submitted.prepare is not None
        os.kill(submitted.prepare, signal.SIGKILL)
        until(lambda: not (self.record(submitted.run).preparing or {"alive": True})["alive"], "its death is seen")

    def over(self, run: str) -> Any:
        """How the run ended, once it is over."""
        *_, last = self.queue.follow(run, self.runs)
        assert isinstance(last, RunOver)
        return last.states


def until(holds: Callable[[], object], what: str, seconds: float = 30) -> None:
    limit = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < limit, f"{seconds:g} s, and still not: {what}"
        time.sleep(0.1)


@pytest.fixture
def bench(slurm: SmallSlurm) -> Iterator[Bench]:
    shared = Path(tempfile.mkdtemp(prefix="prepared-", dir=slurm.root))
    with Files({"/words": b"all is there\n"}).serving() as files:
        files.gate.clear()
        found = Bench(SlurmQueue(LocalShell(slurm.environ), agent()), slurm, files, shared)
        yield found
        for path in shared.glob("runs/*/prepare/process.json"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)
    slurm.call("scancel", "-u", slurm.call("squeue", "-h", "-o", "%u").split("\n")[0] or "root")


def test_the_jobs_wait_until_what_they_need_is_there(bench: Bench) -> None:
    run = new_run()
    submitted = bench.queue.submit(bench.submission(run))
    assert submitted.prepare is not None
    assert submitted.preparing == ("the words",)
    assert bench.jobs(run) == [("PENDING", "JobHeldUser")]
    until(lambda: "fetches words" in str((bench.record(run).preparing or {}).get("words")), "it fetches")
    record = bench.record(run)
    assert record.manifest["stages"] == ["prepare", "train"]
    assert record.preparing is not None
    assert (record.preparing["alive"], record.preparing["pid"]) == (True, submitted.prepare)
    events = bench.queue.follow(run, bench.runs)
    first = [next(events) for _ in range(2)]
    assert first == [
        StageState("prepare", str(submitted.prepare), "preparing"),
        StageState("train", submitted.jobs["train"], "pending", "waits until all that it needs is there"),
    ]
    bench.files.gate.set()
    rest = list(events)
    assert rest[-1] == RunOver({"prepare": "completed", "train": "completed"})
    lines = [event.text for event in rest if isinstance(event, LogLine)]
    assert "all is there" in lines
    assert any("everything is there; job" in line for line in lines)


def test_what_is_there_is_not_prepared(bench: Bench) -> None:
    bench.files.gate.set()
    first, second = new_run(), new_run()
    bench.queue.submit(bench.submission(first))
    bench.over(first)
    submitted = bench.queue.submit(bench.submission(second))
    assert (submitted.prepare, submitted.preparing) == (None, ())
    assert bench.over(second) == {"train": "completed"}
    assert bench.record(second).manifest["stages"] == ["train"]
    assert len(bench.files.asked) == 1


def test_submitting_again_starts_a_preparer_that_was_killed(bench: Bench) -> None:
    run = new_run()
    first = bench.queue.submit(bench.submission(run))
    same = bench.queue.submit(bench.submission(run))
    assert (same.prepare, same.again) == (first.prepare, True)
    bench.kill_preparer(first)
    *_, last = bench.queue.follow(run, bench.runs)
    assert last == RunOver({"prepare": "failed", "train": "pending"})
    again = bench.queue.submit(bench.submission(run))
    assert (again.jobs, again.again) == (first.jobs, True)
    assert again.prepare not in {None, first.prepare}
    bench.files.gate.set()
    assert bench.over(run) == {"prepare": "completed", "train": "completed"}


def test_resume_starts_a_preparer_that_was_killed(bench: Bench) -> None:
    run = new_run()
    first = bench.queue.submit(bench.submission(run))
    with pytest.raises(RefusedError, match="is being fetched"):
        bench.queue.resume(run, bench.runs)
    bench.kill_preparer(first)
    resumed = bench.queue.resume(run, bench.runs)
    assert resumed.jobs == first.jobs
    assert resumed.prepare not in {None, first.prepare}
    bench.files.gate.set()
    assert bench.over(run) == {"prepare": "completed", "train": "completed"}


def test_what_cannot_be_had_cancels_the_jobs_and_can_be_submitted_again(bench: Bench) -> None:
    bench.files.gate.set()
    run = new_run()
    bench.queue.submit(bench.submission(run, "/gone"))
    states = bench.over(run)
    assert states == {"prepare": "failed", "train": "cancelled"}
    record = bench.record(run)
    assert record.ended["prepare"]["kind"] == "absent"
    assert "there is no" in str(record.ended["prepare"]["reason"])
    again = bench.queue.submit(bench.submission(run))
    assert not again.again
    assert bench.over(run) == {"prepare": "completed", "train": "completed"}


def test_a_run_that_could_not_be_prepared_is_resumed(bench: Bench) -> None:
    bench.files.gate.set()
    run = new_run()
    first = bench.queue.submit(bench.submission(run, "/later"))
    assert bench.over(run)["prepare"] == "failed"
    bench.files.content["/later"] = b"all is there\n"
    resumed = bench.queue.resume(run, bench.runs)
    assert resumed.prepare is not None
    assert resumed.jobs != first.jobs
    assert bench.over(run) == {"prepare": "completed", "train": "completed"}


def test_cancel_ends_the_preparer_too(bench: Bench) -> None:
    run = new_run()
    submitted = bench.queue.submit(bench.submission(run))
    assert bench.queue.cancel(run, bench.runs) == [submitted.jobs["train"]]
    until(lambda: not (bench.record(run).preparing or {})["alive"], "the preparer has ended")
    assert bench.over(run) == {"prepare": "cancelled", "train": "cancelled"}
    assert bench.record(run).ended["prepare"]["state"] == "cancelled"


def test_a_held_run_stays_held_when_all_is_there(bench: Bench) -> None:
    bench.files.gate.set()
    run = new_run()
    bench.queue.submit(replace(bench.submission(run), hold=True))
    until(lambda: "prepare" in bench.record(run).ended, "it is prepared")
    assert bench.record(run).ended["prepare"]["exit_code"] == 0
    assert bench.jobs(run) == [("PENDING", "JobHeldUser")]
