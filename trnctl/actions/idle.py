"""A cluster on which nothing runs still costs: since when, how much, and when its head node stops the fleet."""

from __future__ import annotations

from datetime import datetime, timedelta

from trnctl.findings import Finding
from trnctl.plan.cost import Spent, moment
from trnctl.ports import Observed, QueuePicture
from trnctl.specs.cluster import ClusterSpec

ALERT_HOURS = 4.0  # without a cluster file


def idle_since(seen: Observed, picture: QueuePicture) -> datetime | None:
    """Since when no job has been in the queue, None while there is one. The head node knows it; where nothing on it
    counts, it is the end of the last run that is known, or the head node's own start."""
    if any(not job.ended for job in picture.jobs):
        return None
    if picture.fleet is not None and picture.fleet.idle_since is not None:
        return picture.fleet.idle_since
    ends = [moment(note.get("at")) for record in picture.runs for note in record.ended.values()]
    launched = seen.head.launched if seen.head else None
    return max((one for one in [*ends, launched] if one is not None), default=None)


def idle_alerts(
    seen: Observed, picture: QueuePicture | None, spec: ClusterSpec | None, cost: Spent, now: datetime
) -> list[Finding]:
    """What stands idle too long, and what became of the ttl."""
    if picture is None:
        return []
    alerts, ledger = [], picture.fleet
    if ledger is not None and ledger.stopped_at is not None:
        alerts.append(
            Finding(
                "ttl-stopped", "info",
                f"the head node stopped the fleet at {ledger.stopped_at:%Y-%m-%d %H:%M} UTC: {ledger.stopped_why}",
                "trnctl cluster fleet start starts it again; trnctl teardown ends the head node's cost too",
            )
        )  # fmt: skip
    elif ledger is not None and ledger.waits_for:
        jobs = f"{ledger.waits_for} job{'s' * (ledger.waits_for != 1)}"
        alerts.append(
            Finding(
                "ttl-waits", "warning", f"the fleet's ttl is over, and {jobs} in the queue keep it",
                "cancel them (trnctl cancel RUN), or write end_jobs: true into the ttl and update the cluster",
            )
        )  # fmt: skip
    hours = spec.idle_alert_hours if spec is not None else ALERT_HOURS
    since = idle_since(seen, picture)
    if hours and since is not None and now - since >= timedelta(hours=hours):
        idle = (now - since).total_seconds() / 3600
        alerts.append(
            Finding(
                "cluster-idle", "warning",
                f"no job for {idle:,.1f} h; standing there costs {cost.per_hour}, and its storage, which is not priced",
                "trnctl teardown takes it away; a ttl in the cluster file stops the fleet by itself",
                evidence=f"idle since {since:%Y-%m-%d %H:%M} UTC; alert after {hours:g} h (idle_alert)",
            )
        )  # fmt: skip
    return alerts


def ttl_words(spec: ClusterSpec | None, picture: QueuePicture | None) -> str:
    """The ttl in words, with the moment at which it would stop the fleet, as far as that is known."""
    if spec is None or spec.ttl is None:
        return ""
    since = picture.fleet.ttl_since if picture is not None and picture.fleet is not None else None
    words = str(spec.ttl)
    if spec.ttl.idle_hours is None or since is None:
        return words
    return f"{words}; idle since {since:%H:%M} UTC: {since + timedelta(hours=spec.ttl.idle_hours):%Y-%m-%d %H:%M} UTC"
