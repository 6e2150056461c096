"""What a cluster costs, and has cost: pure arithmetic on prices and ledgers, never a failure for a missing price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trnctl.ports import FleetLedger, Instance, Job, RunRecord
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.prices import ON_DEMAND, TABLE, Prices

BASIS = TABLE.basis()
_BILLED = frozenset({"pending", "running"})


@dataclass(frozen=True)
class Price:
    """US dollars an hour; `unknown` names the instance types whose price is not known and is not counted."""

    usd: float
    unknown: tuple[str, ...] = ()
    basis: str = BASIS

    def __str__(self) -> str:
        """`$344.68/h`, with `+ ?` when a part of it is unknown."""
        return f"${self.usd:,.2f}/h" + (" + ?" if self.unknown else "")


def price_of(types: Iterable[tuple[str, int] | tuple[str, int, str]], prices: Prices = TABLE) -> Price:
    """The price of so many instances of each type; a third word says how they are bought (on demand without one)."""
    total, unknown, kinds = 0.0, set[str](), dict[str, str]()
    for name, count, *rest in types:
        capacity = rest[0] if rest else ON_DEMAND
        kinds[name] = capacity
        usd = prices.of(name, capacity)
        if count and usd is None:
            unknown.add(name)
        total += (usd or 0.0) * count
    return Price(round(total, 6), tuple(sorted(unknown)), prices.basis(kinds))


def idle_price(spec: ClusterSpec, prices: Prices = TABLE) -> Price:
    """The head node and the nodes that are always on."""
    nodes = [(r.instance_type, r.min_count, q.capacity.type) for q in spec.queues for r in q.compute_resources]
    return price_of([(spec.head_node.instance_type, 1), *nodes], prices)


def full_price(spec: ClusterSpec, prices: Prices = TABLE) -> Price:
    """The head node and every node that the queues allow."""
    nodes = [(r.instance_type, r.max_count, q.capacity.type) for q in spec.queues for r in q.compute_resources]
    return price_of([(spec.head_node.instance_type, 1), *nodes], prices)


@dataclass(frozen=True)
class Spent:
    """What a cluster costs now and has cost. `source` says in words what was counted, `known_from` since when; what
    was before that, and what has no price (`unknown`), is not in it. `counted`: nodes that are gone are in it."""

    per_hour: Price
    so_far_usd: float
    known_from: datetime | None
    source: str = "instances that run now, each since its launch"
    unknown: tuple[str, ...] = ()
    counted: bool = False

    @property
    def basis(self) -> str:
        """Where the figures come from, and what is not in them."""
        return f"{self.per_hour.basis}; {self.source}"


@dataclass(frozen=True)
class Day:
    """One day (UTC): how long the head node was on, and how long nodes of each kind were, in seconds."""

    head_s: float = 0.0
    nodes: Mapping[str, float] = field(default_factory=dict)


def spent(
    instances: Iterable[Instance], now: datetime, ledger: FleetLedger | None = None, prices: Prices = TABLE
) -> Spent:
    """What a standing cluster costs and has cost: its head node since its launch, and its nodes by the ledger that the
    head node keeps; without one, only the nodes that live now, each since its launch."""
    billed = [one for one in instances if one.state in _BILLED]
    per_hour = price_of(((one.type, 1, one.capacity) for one in billed), prices)
    counted = [one for one in billed if ledger is None or one.role != "compute"]
    so_far, unknown = 0.0, set[str]()
    for one in counted:
        usd = prices.of(one.type, one.capacity)
        hours = max(0.0, (now - one.launched).total_seconds() / 3600) if one.launched else 0.0
        so_far += (usd or 0.0) * hours
        unknown |= {one.type} if usd is None else set()
    launches = [one.launched for one in counted if one.launched is not None]
    if ledger is None:
        return Spent(per_hour, round(so_far, 4), min(launches, default=None), unknown=tuple(sorted(unknown)))
    for kind, seconds in upto(ledger, now).items():
        usd = price_of_kind(kind, prices)
        so_far += (usd or 0.0) * seconds / 3600
        unknown |= {kind.partition(" ")[0]} if usd is None and seconds else set()
    source = "the head node since its launch, and the node-seconds that it has counted, boot and idle minutes included"
    known_from = min([*launches, ledger.known_from])
    return Spent(per_hour, round(so_far, 4), known_from, source, tuple(sorted(unknown)), True)


def price_of_kind(kind: str, prices: Prices) -> float | None:
    """The price of a kind of node as the ledger names it: `trn1.32xlarge`, `trn1.32xlarge spot`."""
    name, _, capacity = kind.partition(" ")
    return prices.of(name, capacity or ON_DEMAND)


def upto(ledger: FleetLedger, now: datetime) -> dict[str, float]:
    """Node-seconds by kind, with those since the ledger's last look."""
    total: dict[str, float] = {}
    for day in ledger.days.values():
        for kind, seconds in day.items():
            total[kind] = total.get(kind, 0.0) + seconds
    since = min(max(0.0, (now - ledger.updated_at).total_seconds()), FRESH_S)
    for kind, nodes in ledger.on.items():
        total[kind] = total.get(kind, 0.0) + nodes * since
    return total


FRESH_S = 300.0  # so long after the ledger's last look the nodes that it saw are taken to be on still


def node_hours(rows: object) -> list[tuple[str, str, float]]:
    """A run's ledger (results.json) as (day, instance type, node-hours); what is no row is left out."""
    found = []
    for row in rows if isinstance(rows, list | tuple) else ():
        seconds = row.get("node_seconds") if isinstance(row, Mapping) else None
        if isinstance(seconds, int | float):
            found.append((str(row.get("day", "")), str(row.get("instance_type", "")), seconds / 3600))
    return found


def living(record: RunRecord, jobs: Mapping[str, Job]) -> bool:
    """Whether a job of the run is on nodes now."""
    return any(jobs[one].state in {"running", "completing"} for one in record.jobs.values() if one in jobs)


def run_usage(record: RunRecord, now: datetime, alive: bool, prices: Prices = TABLE) -> tuple[float, float | None]:
    """Node-hours that a run has used until now, and their price; the price is None when none is known."""
    told = record.results or {}
    used = node_hours(told.get("ledger"))
    kind = str(record.manifest.get("instance_type", ""))
    since, nodes = moment(told.get("updated_at")), _number(told.get("nodes_running")) or 0.0
    if alive and since is not None:
        used.append((f"{now:%Y-%m-%d}", kind, nodes * max(0.0, (now - since).total_seconds()) / 3600))
    capacity = str(record.manifest.get("capacity") or "on-demand")
    usd = [prices.of(name, capacity) for _, name, _ in used]
    hours = sum(one for _, _, one in used)
    if any(one is None for one in usd):
        return hours, None
    return hours, sum((price or 0.0) * one for price, (_, _, one) in zip(usd, used, strict=True))


def moment(value: object) -> datetime | None:
    """An ISO 8601 moment with its zone; None for anything else."""
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
