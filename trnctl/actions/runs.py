"""Runs by name: find one, read what it achieved, cancel it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trnctl.actions.head_node import head_of
from trnctl.errors import NotFoundError, RefusedError, UsageError
from trnctl.ports import JobQueue, QueuePicture, Resumed, RunRecord, Services
from trnctl.specs.cluster import ClusterSpec


@dataclass(frozen=True)
class OpenCluster:
    """One cluster and the doors to it; `runs_folder` is where its runs live, as its head node sees it, `bucket` the
    cluster's bucket, None where none is known, and `spec` its cluster file, None without one."""

    cluster: str
    region: str
    services: Services
    runs_folder: str
    bucket: str | None = None
    spec: ClusterSpec | None = None
    _queues: dict[bool, JobQueue] = field(default_factory=dict, compare=False, repr=False)

    def queue(self, *, work: bool = False) -> JobQueue:
        """The cluster's Slurm; AWS is asked for the head node once a command. NotFoundError and RefusedError when there
        is none that runs, or none that takes `work`."""
        known = self._queues.get(True) or self._queues.get(work)
        if known is None:
            known = self._queues[work] = self.services.head.queue(head_of(self.cluster, self.services, work=work))
        return known


def find_run(opened: OpenCluster, name: str) -> tuple[QueuePicture, RunRecord]:
    """The run of that name, or the only one that ends in `-name`. NotFoundError, UsageError when several do."""
    queue = opened.queue()
    picture = queue.observe(opened.runs_folder, run=name)
    if picture.runs:
        return picture, picture.runs[0]
    known = [record.run for record in queue.observe(opened.runs_folder, newest=1000, tail_bytes=0).runs]
    matches = [run for run in known if run.endswith(f"-{name}")]
    if len(matches) > 1:
        raise UsageError(f"{name} could be {' or '.join(matches)}", remedy="give the whole name")
    if not matches:
        raise NotFoundError(
            f"{opened.cluster} has no run {name}",
            remedy=f"trnctl runs lists them{': ' + ', '.join(known[:5]) if known else '; there is none yet'}",
        )
    picture = queue.observe(opened.runs_folder, run=matches[0])
    return picture, picture.runs[0]


def check_log(record: RunRecord, *, stage: str | None, node: int | None) -> None:
    """UsageError for a stage that the run does not have, or a node; from the manifest, as far as that says."""
    told = record.manifest.get("stages")
    stages = ["prepare", *(told if isinstance(told, list) else ["compile", "train"])]
    if stage is not None and stage not in stages:
        raise UsageError(f"{record.run} has no stage {stage}", remedy=f"--stage takes {', '.join(stages)} here")
    nodes = record.manifest.get("nodes")
    if node is not None and isinstance(nodes, int) and node >= nodes:
        raise UsageError(
            f"{record.run} has no node {node}: it is on {nodes}, counted from 0", remedy=f"use --node 0 to {nodes - 1}"
        )


def results_of(record: RunRecord) -> Mapping[str, object]:
    """results.json as the run's jobs wrote it. RefusedError while there is none."""
    if record.results is None:
        raise RefusedError(
            f"{record.run} has no results yet: they are written when a stage ends",
            remedy=f"trnctl logs {record.run} -f follows it; trnctl status shows its step",
        )
    return record.results


def cancel(opened: OpenCluster, name: str) -> tuple[RunRecord, Sequence[str]]:
    """Cancel a run's jobs; which of them were alive."""
    _, record = find_run(opened, name)
    return record, opened.queue().cancel(record.run, opened.runs_folder)


def resume(opened: OpenCluster, name: str, *, hold: bool = False) -> Resumed:
    """Let a run that ended before its last step go on, in its own folder."""
    queue = opened.queue(work=True)
    _, record = find_run(opened, name)
    return queue.resume(record.run, opened.runs_folder, hold=hold)
