"""What every LoadMonitor promises; the fake and the real one run the same tests."""

from __future__ import annotations

from typing import Protocol

import pytest

from trnctl.errors import NotFoundError, RefusedError
from trnctl.ports import LoadMonitor


class MonitorBench(Protocol):
    """A monitor beside runs: `running` has two nodes, of which the first has one busy device; `idle` does not run."""

    monitor: LoadMonitor
    runs_folder: str
    running: str
    idle: str


class LoadMonitorContract:
    """Inherit with a fixture `bench`."""

    def test_once_all_nodes_have_reported(self, bench: MonitorBench) -> None:
        [picture] = bench.monitor.watch(bench.runs_folder, run=bench.running, period=1, once=True)
        [job] = picture.jobs
        assert (job.run, job.stage, len(job.names)) == (bench.running, "train", 2)
        assert [load.node for load in job.loads] == list(job.names)
        first = job.loads[0]
        assert (first.devices, len(first.cores), first.problem) == (1, 2, "")
        assert all(0 < core <= 100 for core in first.cores)
        assert 0 < first.device_used < first.device_total

    def test_without_a_run_all_that_run_are_shown(self, bench: MonitorBench) -> None:
        [picture] = bench.monitor.watch(bench.runs_folder, period=1, once=True)
        assert bench.running in {job.run for job in picture.jobs}
        assert bench.idle not in {job.run for job in picture.jobs}

    def test_pictures_follow_each_other(self, bench: MonitorBench) -> None:
        pictures = bench.monitor.watch(bench.runs_folder, run=bench.running, period=1)
        first, second = next(pictures), next(pictures)
        assert second.at > first.at
        pictures.close()  # type: ignore[attr-defined]  # a generator

    def test_what_does_not_run_is_refused(self, bench: MonitorBench) -> None:
        with pytest.raises(RefusedError, match="does not run"):
            list(bench.monitor.watch(bench.runs_folder, run=bench.idle, once=True))
        with pytest.raises(NotFoundError, match="nobody"):
            list(bench.monitor.watch(bench.runs_folder, run="nobody", once=True))
