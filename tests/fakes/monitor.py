"""A load monitor in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.fakes.clock import HandWoundClock
from trnctl.errors import NotFoundError, RefusedError, TrnctlError
from trnctl.ports import JobLoad, LoadPicture


class InMemoryMonitor:
    """Tests set `jobs`, those that run, and `idle`, the names of runs that do not. `breaks` are raised, one after each
    picture, until none is left; a run's job ends after `pictures` of it."""

    def __init__(self, clock: HandWoundClock) -> None:
        self.clock = clock
        self.jobs: list[JobLoad] = []
        self.idle: set[str] = set()
        self.breaks: list[TrnctlError] = []
        self.pictures = 3

    def watch(
        self, runs_folder: str, *, run: str = "", period: float = 5.0, once: bool = False
    ) -> Iterator[LoadPicture]:
        """What the test has set, every `period` seconds of the clock."""
        jobs = [job for job in self.jobs if run in {"", job.run}]
        if run in self.idle:
            raise RefusedError(f"{run} does not run now.", remedy="Look at trnctl status.")
        if run and not jobs:
            raise NotFoundError(f"There is no run {run}.", remedy="List the runs: trnctl runs.")
        for _ in range(1 if once else self.pictures):
            now = self.clock.now()
            loads = [replace(job, loads=tuple(replace(load, at=now) for load in job.loads)) for job in jobs]
            yield LoadPicture(now, tuple(loads))
            if self.breaks and not once:
                raise self.breaks.pop(0)
            self.clock.sleep(period)
