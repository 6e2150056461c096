"""A Slurm in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tests.fakes.clock import HandWoundClock
from trnctl.errors import NotFoundError, RefusedError, ToolError
from trnctl.ports import (
    Compile,
    FleetLedger,
    FollowEvent,
    Job,
    JobState,
    LogLine,
    NodeGroup,
    QueuePicture,
    Resumed,
    RunOver,
    RunRecord,
    Stage,
    StageState,
    Submission,
    Submitted,
)

_OVER = ("completed", "failed", "cancelled", "timeout", "node-fail", "unknown")


@dataclass
class _Run:
    submission: Submission
    jobs: dict[Stage, str]
    at: datetime
    cancelled: datetime | None = None


class InMemoryQueue:
    """A Slurm in memory: stages run one after the other, each for `seconds` of the clock.

    `exits` gives the exit code of a run's stage (0 unless told), `prints` its log lines, `results` a run's results.
    Tests may set `nodes`, and add `others`: jobs that are not ours. `refuses` is what sbatch says to every submission,
    `fleet` is what the head node has counted, `cached` are fingerprints whose graphs all lie compiled in the cache.
    """

    def __init__(self, clock: HandWoundClock | None = None, seconds: float = 60) -> None:
        self.clock = clock or HandWoundClock()
        self.seconds: dict[str, float] = {"compile": seconds, "train": seconds}
        self.exits: dict[tuple[str, str], int] = {}
        self.prints: dict[tuple[str, str], list[str]] = {}
        self.manifests: dict[str, Mapping[str, object]] = {}
        self.results: dict[str, Mapping[str, object]] = {}
        self.nodes: tuple[NodeGroup, ...] = (NodeGroup("compute1", "powered-down", 16, "compute1-dy-i1-[1-16]"),)
        self.others: list[Job] = []
        self.fleet: FleetLedger | None = None
        self.refuses = ""
        self.cached: set[str] = set()
        self.submissions: list[Submission] = []
        self._runs: dict[str, _Run] = {}
        self._last_id = 0

    def submit(self, submission: Submission) -> Submitted:
        """Take the run on, once."""
        self.submissions.append(submission)
        wish = submission.cache
        cached = wish is not None and wish.mode == "auto" and wish.fingerprint in self.cached
        if cached:
            submission = replace(submission, stages=tuple(one for one in submission.stages if one != "compile"))
        compiling: Compile = "cached" if cached else "scheduled" if "compile" in submission.stages else "skipped"
        known = self._runs.get(submission.run)
        if known:
            return Submitted(submission.run, known.submission.folder, dict(known.jobs), again=True, compile=compiling)
        if self.refuses:
            raise ToolError(
                f"Slurm refused the {submission.stages[0]} job. It said: {self.refuses}",
                remedy="Change what the test has set.",
            )
        jobs: dict[Stage, str] = {}
        for stage in submission.stages:
            self._last_id += 1
            jobs[stage] = str(self._last_id)
        self._runs[submission.run] = _Run(submission, jobs, self.clock.now())
        return Submitted(submission.run, submission.folder, dict(jobs), compile=compiling)

    def resume(self, run: str, runs_folder: str, *, hold: bool = False) -> Resumed:
        """Run the training stage of a run that is over once more."""
        found = self._existing(run, runs_folder)
        if any(self._state(found, stage) not in _OVER for stage in found.jobs):
            raise RefusedError(f"{run} goes on.", remedy="Wait for it, or cancel it first.")
        if all(self._state(found, stage) == "completed" for stage in found.jobs):
            raise RefusedError(f"{run} has done all its steps.", remedy="Submit a new run.")
        failed = [stage for stage in found.jobs if self._state(found, stage) != "completed"]
        found.submission = replace(found.submission, stages=tuple(failed), hold=hold)
        found.at, found.cancelled = self.clock.now(), None
        for stage in failed:
            self._last_id += 1
            found.jobs[stage] = str(self._last_id)
            self.exits.pop((run, stage), None)
        return Resumed(run, found.submission.folder, {stage: found.jobs[stage] for stage in failed}, "", ())

    def observe(self, runs_folder: str, *, run: str = "", newest: int = 20, tail_bytes: int = 16000) -> QueuePicture:
        """Jobs, nodes and runs as they are now."""
        runs = [one for name, one in self._runs.items() if one.submission.folder == f"{runs_folder}/{name}"]
        shown = [one for one in reversed(runs) if run in ("", one.submission.run)][: newest if not run else None]
        jobs = [job for one in runs for job in self._jobs(one)]
        records = tuple(self._record(one, tail_bytes) for one in shown)
        return QueuePicture(self.clock.now(), (*jobs, *self.others), self.nodes, records, "22.05.8", self.fleet)

    def cancel(self, run: str, runs_folder: str) -> list[str]:
        """Cancel what is alive."""
        found = self._existing(run, runs_folder)
        alive = [stage for stage in found.jobs if self._state(found, stage) in ("held", "pending", "running")]
        if alive:
            found.cancelled = self.clock.now()
        return [found.jobs[stage] for stage in alive]

    def follow(
        self,
        run: str,
        runs_folder: str,
        *,
        stage: str = "",
        node: int | None = None,
        from_start: bool = True,
        wait: bool = True,
        last: int | None = None,
        since: datetime | None = None,
    ) -> Iterator[FollowEvent]:
        """States and lines; sleeps on the clock while the run goes on."""
        found = self._existing(run, runs_folder)
        stages = [one for one in found.jobs if stage in ("", one)]
        known: dict[Stage, JobState] = {}
        told: set[Stage] = set()
        for _ in range(100_000):
            states = {one: self._state(found, one) for one in stages}
            for one in stages:
                if known.get(one) != states[one]:
                    yield StageState(one, found.jobs[one], states[one])
                if states[one] not in ("held", "pending") and one not in told:
                    told.add(one)
                    lines = self.prints.get((run, one), [])
                    lines = lines[-last:] if last else lines
                    yield from (LogLine(one, f"{one}/node-{node or 0}.log", text) for text in lines)
            known = states
            if not wait or all(state in _OVER for state in states.values()):
                yield RunOver({str(one): state for one, state in states.items()})
                return
            self.clock.sleep(5)
        raise AssertionError(f"the run {run} never ends: is it held?")

    def _existing(self, run: str, runs_folder: str) -> _Run:
        found = self._runs.get(run)
        if found is None or found.submission.folder != f"{runs_folder}/{run}":
            raise NotFoundError(f"There is no run {run}.", remedy="List the runs: trnctl runs.")
        return found

    def _state(self, run: _Run, stage: Stage) -> JobState:
        """The stage's state now, from the times and exit codes of those before it."""
        if stage not in run.submission.stages:
            return "completed"  # it was done when the run was resumed
        if run.submission.hold and run.cancelled is None:
            return "held" if stage == run.submission.stages[0] else "pending"
        begins = run.at
        for one in run.submission.stages:
            ends = begins + timedelta(seconds=self.seconds.get(one, 0))
            state = self._between(run, one, begins, ends)
            if one == stage:
                return state
            if state in ("failed", "cancelled"):
                return "cancelled"
            begins = ends
        return "unknown"

    def _between(self, run: _Run, stage: Stage, begins: datetime, ends: datetime) -> JobState:
        now = self.clock.now()
        if run.cancelled is not None and run.cancelled < ends:
            return "cancelled"
        if now < begins:
            return "pending"
        if now < ends:
            return "running"
        return "failed" if self.exits.get((run.submission.run, stage)) else "completed"

    def _jobs(self, run: _Run) -> list[Job]:
        reasons = {"pending": "waits for the compile job", "held": "held: release it to let it start"}
        jobs = []
        for stage, job in run.jobs.items():
            state = self._state(run, stage)
            stages = run.submission.stages
            before = stages[: stages.index(stage)] if stage in stages else ()
            began = run.at + timedelta(seconds=sum(self.seconds.get(one, 0) for one in before))
            elapsed = int((self.clock.now() - began).total_seconds()) if state == "running" else 0
            jobs.append(
                Job(job, run.submission.run, stage, state, reasons.get(state, ""), 1, "ubuntu", "compute1", elapsed)
            )
        return jobs

    def _record(self, run: _Run, tail_bytes: int) -> RunRecord:
        name = run.submission.run
        ended: dict[str, Mapping[str, object]] = {}
        logs = {}
        for stage in run.jobs:
            state = self._state(run, stage)
            code = self.exits.get((name, stage), 0)
            if state in ("completed", "failed"):
                ended[stage] = {"exit_code": code, "at": self.clock.now().isoformat()}
            elif state == "cancelled":
                ended[stage] = {"state": "cancelled", "by": "slurm", "at": self.clock.now().isoformat()}
            if state not in ("held", "pending") and (name, stage) in self.prints:
                logs[f"{stage}/node-0.log"] = "".join(f"{line}\n" for line in self.prints[name, stage])[-tail_bytes:]
        manifest = self.manifests.get(name, {})
        return RunRecord(
            name,
            run.submission.folder,
            manifest,
            {str(stage): job for stage, job in run.jobs.items()},
            self.results.get(name),
            logs,
            ended,
        )
