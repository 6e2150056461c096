"""The books of a cluster: what its nodes have written down of their time, there and in its bucket."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trnctl.actions import mirror
from trnctl.actions.runs import OpenCluster
from trnctl.errors import CloudError, NotFoundError, ToolError
from trnctl.findings import Finding
from trnctl.ports import FleetLedger, Job, Observed, QueuePicture, RunRecord
from trnctl.ports.ledger import ledger_prefix

ALL_RUNS = 100_000


@dataclass(frozen=True)
class Books:
    """Everything that is known of what a cluster used. `ledgers` are those of its head nodes, the one that stands now
    among them; `seen` is what AWS says now, None when there is no such cluster any more."""

    now: datetime
    seen: Observed | None = None
    runs: tuple[RunRecord, ...] = ()
    jobs: Mapping[str, Job] = field(default_factory=dict)
    ledger: FleetLedger | None = None
    earlier: tuple[FleetLedger, ...] = ()
    storage: tuple[str, ...] = ()
    alerts: tuple[Finding, ...] = ()

    @property
    def head_launched(self) -> datetime | None:
        """Since when the head node that stands now is on."""
        head = self.seen.head if self.seen else None
        return head.launched if head else None


def read_books(opened: OpenCluster) -> Books:
    """Ask AWS, then the head node, then the bucket. NotFoundError when there is nothing to tell of."""
    services, now = opened.services, opened.services.clock.now()
    seen = services.cloud.observe(opened.cluster)
    stands = seen.stack is not None
    picture, alerts = _ask_head(opened, seen) if stands else (None, [])
    runs = picture.runs if picture else ()
    jobs = {job.id: job for job in picture.jobs} if picture else {}
    current = picture.fleet if picture else None
    try:
        ledgers, copies = _in_bucket(opened, {record.run for record in runs})
    except CloudError as error:
        if not stands:
            raise
        ledgers, copies = [], ()
        alerts.append(
            Finding("records-unread", "warning", f"earlier clusters are not counted: {error.message}", error.remedy)
        )
    earlier = [one for one in ledgers if current is None or one.known_from != current.known_from]
    if stands and current is None and earlier and seen.head is not None and seen.head.launched is not None:
        # The head node does not answer: its own last copy is better than nothing.
        current = next((one for one in earlier if one.known_from >= seen.head.launched), None)
        earlier = [one for one in earlier if one is not current]
    if not stands and not ledgers and not copies:
        where = f" or in s3://{opened.bucket}" if opened.bucket else ", and the cluster file names no bucket"
        raise NotFoundError(
            f"there is no cluster {opened.cluster} in {opened.region}{where}",
            remedy="trnctl cluster list shows what exists; records that outlive a cluster lie in its bucket",
        )
    return Books(
        now, seen if stands else None, (*runs, *copies), jobs, current, tuple(earlier), tuple(_of_storage(opened)),
        tuple(alerts),
    )  # fmt: skip


def _in_bucket(opened: OpenCluster, known: Collection[str]) -> tuple[list[FleetLedger], tuple[RunRecord, ...]]:
    """The ledgers and the runs' records that lie in the cluster's bucket, runs that are `known` left out."""
    if opened.bucket is None:
        return [], ()
    cloud = opened.services.cloud
    keys = [stored.key for stored in cloud.list_objects(opened.bucket, ledger_prefix(opened.cluster))]
    texts = cloud.get_objects(opened.bucket, keys)
    found = [FleetLedger.read(json.loads(texts[key])) for key in sorted(texts)]
    copies = mirror.read(opened, newest=ALL_RUNS).records
    return [one for one in found if one is not None], tuple(one for one in copies if one.run not in known)


def _ask_head(opened: OpenCluster, seen: Observed) -> tuple[QueuePicture | None, list[Finding]]:
    head = seen.head
    if head is None or head.state != "running":
        return None, []
    try:
        queue = opened.services.head.queue(head)
        return queue.observe(opened.runs_folder, newest=ALL_RUNS, tail_bytes=0), []
    except ToolError as error:
        return None, [Finding("head-node-unreachable", "error", error.message, error.remedy)]


def _of_storage(opened: OpenCluster) -> Iterable[str]:
    """File systems cost by the month. No dated price of them is known, so none is told."""
    for one in opened.services.cloud.file_systems(opened.cluster):
        yield f"{one.kind} {one.id}" + (f", {one.gib} GiB" if one.gib else "") + " (storage: not priced)"
