"""The copies of runs' records in the cluster's bucket: written by the jobs and by teardown, read when the cluster is
gone or does not answer.

A run's job copies its records itself when a stage begins and ends (templates/job/mirror.py), since nobody may be
watching. What is copied is what the run's folder holds under the same names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, cast

from trnctl.actions.head_node import head_of
from trnctl.actions.runs import OpenCluster, find_run
from trnctl.actions.status import RunStatus, status, summarize
from trnctl.errors import CloudError, NotFoundError, RefusedError, ToolError, UsageError
from trnctl.findings import Finding
from trnctl.ports import JobState, QueuePicture, RunRecord, StoredObject
from trnctl.render.job import mirror_prefix

Answer = TypeVar("Answer")
_MOST_RUNS = 1000  # of one cluster, whose first lines are read to find the newest
# Slurm's words for an end that the head node wrote down raw; all others are failures.
_ENDS: Mapping[str, JobState] = {
    "COMPLETED": "completed", "CANCELLED": "cancelled", "TIMEOUT": "timeout", "DEADLINE": "timeout",
    "NODE_FAIL": "node-fail", "BOOT_FAIL": "node-fail",
}  # fmt: skip


@dataclass(frozen=True)
class Mirror:
    """What the bucket tells of a cluster's runs, the newest first. `at` is when the last of it was written, None for
    nothing; `why` says why the cluster itself was not asked."""

    bucket: str
    records: tuple[RunRecord, ...]
    at: datetime | None
    why: str = ""


@dataclass(frozen=True)
class RunList:
    """The runs of a cluster; `mirror` is set when they come from the bucket, and not from the cluster."""

    runs: tuple[RunStatus, ...]
    alerts: tuple[Finding, ...] = ()
    mirror: Mirror | None = None


def list_runs(opened: OpenCluster, *, newest: int) -> RunList:
    """The runs of a cluster, from its bucket when it cannot tell itself. Raises what kept it from telling when there
    is no bucket, or nothing in it."""

    def ask() -> RunList:
        seen = status(opened, newest=newest)
        mute = [alert.message for alert in seen.alerts if alert.code == "head-node-unreachable"]
        if seen.head is None or seen.head.state != "running":
            mute.append(f"{opened.cluster} has no head node that runs")
        found = _tried(lambda: remember(mute[0])) if mute and opened.bucket else None
        return found or RunList(seen.runs, seen.alerts)

    def remember(why: str) -> RunList | None:
        found = read(opened, newest=newest, why=why)
        if not found.records:
            return None
        picture = QueuePicture(opened.services.clock.now(), (), (), found.records)
        return RunList(tuple(summarize(picture, picture.at)), mirror=found)

    return _from_either(opened, ask, remember)


def find_record(opened: OpenCluster, name: str) -> tuple[RunRecord, Mirror | None]:
    """A run by its name or how that ends, and the mirror when it is from there. Errors as those of `find_run`;
    NotFoundError when neither the cluster nor the bucket knows it."""

    def ask() -> tuple[RunRecord, Mirror | None]:
        return find_run(opened, name)[1], None

    def remember(why: str) -> tuple[RunRecord, Mirror | None]:
        found = read(opened, run=name, why=why)
        if len(found.records) > 1:
            names = " or ".join(record.run for record in found.records)
            raise UsageError(f"{name} could be {names}", remedy="give the whole name")
        if not found.records:
            raise NotFoundError(
                f"{why.rstrip('.')}, and s3://{found.bucket} holds no run {name}",
                remedy="trnctl runs lists what it holds",
            )
        return found.records[0], found

    return _from_either(opened, ask, remember)


def all_records(opened: OpenCluster) -> tuple[QueuePicture, Mirror | None]:
    """Every run that the cluster knows, with the queue's jobs, and the mirror when they are from there: then there is
    no queue. Raises what kept the cluster from telling when there is no bucket, or nothing in it."""

    def ask() -> tuple[QueuePicture, Mirror | None]:
        return opened.queue().observe(opened.runs_folder, newest=_MOST_RUNS, tail_bytes=0), None

    def remember(why: str) -> tuple[QueuePicture, Mirror | None] | None:
        found = read(opened, newest=_MOST_RUNS, why=why)
        picture = QueuePicture(opened.services.clock.now(), (), (), found.records)
        return (picture, found) if found.records else None

    return _from_either(opened, ask, remember)


def _tried(question: Callable[[], Answer | None]) -> Answer | None:
    """The answer; None when the bucket is gone, or closed."""
    try:
        return question()
    except CloudError:
        return None


def _from_either(opened: OpenCluster, ask: Callable[[], Answer], remember: Callable[[str], Answer | None]) -> Answer:
    """What the cluster says, else what its bucket remembers, else the error of the first."""
    try:
        return ask()
    except (NotFoundError, RefusedError, ToolError) as error:
        if opened.bucket is None:
            raise
        why = error.message
        found = _tried(lambda: remember(why))
        if found is None:
            raise
        return found


def read(opened: OpenCluster, *, newest: int = 20, run: str = "", why: str = "") -> Mirror:
    """The records in the bucket: of the newest runs, or of those that are called `run` or end in `-run`. CloudError
    when the bucket cannot be read; nothing without one."""
    if opened.bucket is None:
        return Mirror("", (), None, why)
    cloud, prefix = opened.services.cloud, mirror_prefix(opened.cluster)
    runs = _by_run(cloud.list_objects(opened.bucket, prefix), prefix)
    names = [run] if run in runs else [one for one in runs if one.endswith(f"-{run}")] if run else list(runs)
    names = sorted(names, key=lambda one: max(stored.at for stored in runs[one].values()), reverse=True)[:_MOST_RUNS]
    texts = cloud.get_objects(opened.bucket, [runs[one]["run.json"].key for one in names if "run.json" in runs[one]])
    begun = {one: str(_parsed(texts.get(f"{prefix}{one}/run.json")).get("submitted_at", "")) for one in names}
    wanted = sorted(names, key=begun.__getitem__, reverse=True)[:newest]
    rest = [stored.key for one in wanted for name, stored in runs[one].items() if name != "run.json"]
    texts.update(cloud.get_objects(opened.bucket, rest))
    records = tuple(_record(opened.bucket, prefix, one, runs[one], texts) for one in wanted)
    times = [stored.at for one in wanted for stored in runs[one].values()]
    return Mirror(opened.bucket, records, max(times, default=None), why)


def save(opened: OpenCluster) -> int:
    """Copy the records of all runs that the head node knows to the bucket; how many runs there are. What a job has
    copied itself stays, unless its results are older. ToolError, CloudError, RefusedError."""
    if opened.bucket is None:
        return 0
    cloud, prefix = opened.services.cloud, mirror_prefix(opened.cluster)
    queue = opened.services.head.queue(head_of(opened.cluster, opened.services))
    picture = queue.observe(opened.runs_folder, newest=_MOST_RUNS, tail_bytes=0)
    records = picture.runs
    there = {stored.key for stored in cloud.list_objects(opened.bucket, prefix)}
    results = {record.run: f"{prefix}{record.run}/results.json" for record in records}
    known = cloud.get_objects(opened.bucket, [key for key in results.values() if key in there])
    fresh: dict[str, str] = {}
    for record in records:
        texts = {f"{prefix}{record.run}/{name}": _text(value) for name, value in _files(record)}
        told = _parsed(known.get(results[record.run])).get("updated_at")
        newer = record.results is not None and record.results.get("updated_at") != told
        fresh.update({key: text for key, text in texts.items() if key not in there or newer})
    if picture.fleet is not None:  # what the nodes' time has come to; the head node copies it now and then
        fresh[picture.fleet.key] = _text(picture.fleet.as_json())
    cloud.put_objects(opened.bucket, fresh)
    return len(records)


def _files(record: RunRecord) -> Iterable[tuple[str, Mapping[str, object]]]:
    """What a run's folder holds under these names."""
    yield "run.json", record.manifest
    if record.jobs:
        yield "submitted.json", {"run": record.run, "jobs": dict(record.jobs)}
    if record.results is not None:
        yield "results.json", record.results
    for stage, note in record.ended.items():
        yield f"ended/{stage}.json", note


def _text(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def _by_run(objects: Iterable[StoredObject], prefix: str) -> dict[str, dict[str, StoredObject]]:
    """The objects by run, and by their name in its folder."""
    runs: dict[str, dict[str, StoredObject]] = {}
    for stored in objects:
        run, slash, name = stored.key.removeprefix(prefix).partition("/")
        if slash and name:
            runs.setdefault(run, {})[name] = stored
    return runs


def _record(
    bucket: str, prefix: str, run: str, objects: Mapping[str, StoredObject], texts: Mapping[str, str]
) -> RunRecord:
    """A run as its copies tell it."""
    found = {name: _parsed(texts.get(stored.key)) for name, stored in objects.items()}
    ended = {
        name.removeprefix("ended/").removesuffix(".json"): _in_our_words(note)
        for name, note in found.items()
        if name.startswith("ended/")
    }
    jobs = found.get("submitted.json", {}).get("jobs", {})
    return RunRecord(
        run=run,
        folder=f"s3://{bucket}/{prefix}{run}",
        manifest=found.get("run.json", {}),
        jobs=jobs if isinstance(jobs, dict) else {},
        results=found.get("results.json"),
        ended=ended,
    )


def _in_our_words(note: Mapping[str, Any]) -> Mapping[str, object]:
    """A stage's end; Slurm's own word, which the head node wrote where the job could not, becomes one of ours."""
    if "slurm_state" not in note or "state" in note:
        return note
    return {**note, "state": _ENDS.get(str(note["slurm_state"]), "failed")}


def _parsed(text: str | None) -> dict[str, Any]:
    """An object of JSON; {} for what is none."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
