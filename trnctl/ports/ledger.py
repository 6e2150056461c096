"""The record of what a cluster's nodes have used, which its head node keeps (templates/node/fleet.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True)
class FleetLedger:
    """Node-seconds by day (UTC) and kind of node (`trn1.32xlarge`, or with how it is bought: `trn1.32xlarge spot`),
    boot and idling included. `on` is what was on at the last look, `idle_since` since when no job was in the queue.

    Of the ttl: when the fleet was stopped for it and why, how many jobs it waits for, and when a person has started the
    fleet again: its time of idling counts from then.
    """

    cluster: str
    known_from: datetime
    updated_at: datetime
    days: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    on: Mapping[str, int] = field(default_factory=dict)
    head_type: str = ""
    idle_since: datetime | None = None
    stopped_at: datetime | None = None
    stopped_why: str = ""
    waits_for: int = 0
    started_at: datetime | None = None

    @property
    def ttl_since(self) -> datetime | None:
        """Since when the ttl counts idling (as templates/node/fleet.py has it); None while there is a job."""
        if self.idle_since is None or self.started_at is None:
            return self.idle_since
        return max(self.idle_since, self.started_at)

    @property
    def key(self) -> str:
        """Where it is copied to in the cluster's bucket (as templates/node/fleet.py has it). Another cluster of the
        same name has another key."""
        return f"{ledger_prefix(self.cluster)}{self.known_from:%Y%m%dT%H%M%SZ}.json"

    def as_json(self) -> dict[str, object]:
        """The record as the head node writes it."""
        return {
            "schema": 1,
            "cluster": self.cluster,
            "known_from": self.known_from.timestamp(),
            "updated_at": self.updated_at.timestamp(),
            "days": {day: dict(kinds) for day, kinds in self.days.items()},
            "on": dict(self.on),
            "head_type": self.head_type,
            "idle_since": self.idle_since.timestamp() if self.idle_since else None,
            "ttl": {
                "stopped_at": self.stopped_at.timestamp() if self.stopped_at else None,
                "why": self.stopped_why,
                "waits_for": self.waits_for,
                "started_at": self.started_at.timestamp() if self.started_at else None,
            },
        }

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> FleetLedger | None:
        """The record as the head node writes it; None for what is none."""
        try:
            ttl = found.get("ttl") or {}
            known_from = _moment(found["known_from"])
            updated_at = _moment(found.get("updated_at")) or known_from
            if known_from is None or updated_at is None:
                return None
            return cls(
                cluster=str(found["cluster"]),
                known_from=known_from,
                updated_at=updated_at,
                days={day: {k: float(s) for k, s in kinds.items()} for day, kinds in found.get("days", {}).items()},
                on={kind: int(count) for kind, count in found.get("on", {}).items()},
                head_type=str(found.get("head_type") or ""),
                idle_since=_moment(found.get("idle_since")),
                stopped_at=_moment(ttl.get("stopped_at")),
                stopped_why=str(ttl.get("why") or ""),
                waits_for=int(ttl.get("waits_for") or 0),
                started_at=_moment(ttl.get("started_at")),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


def ledger_prefix(cluster: str) -> str:
    """Where a cluster's ledgers lie in its bucket."""
    return f"trnctl/{cluster}/ledger/"


def _moment(seconds: Any) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(float(seconds), UTC)
