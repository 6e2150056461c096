"""What a cluster and a run cost, from a dated price table: pure arithmetic, never a failure for a missing price."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from trnctl.ports import Instance
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.instances import PRICE_DATE, instance

BASIS = f"on-demand list prices of us-east-1, {PRICE_DATE}; without storage, transfer and tax"


@dataclass(frozen=True)
class Price:
    """US dollars an hour; `unknown` names the instance types whose price is not in the table and is not counted."""

    usd: float
    unknown: tuple[str, ...] = ()
    basis: str = BASIS

    def __str__(self) -> str:
        """`$344.68/h`, with `+ ?` when a part of it is unknown."""
        return f"${self.usd:,.2f}/h" + (" + ?" if self.unknown else "")


def price_of(types: Iterable[tuple[str, int]]) -> Price:
    """The price of so many instances of each type."""
    total, unknown = 0.0, set[str]()
    for name, count in types:
        facts = instance(name)
        if count and (facts is None or facts.price_usd is None):
            unknown.add(name)
        elif facts is not None and facts.price_usd is not None:
            total += facts.price_usd * count
    return Price(round(total, 6), tuple(sorted(unknown)))


def idle_price(spec: ClusterSpec) -> Price:
    """The head node and the nodes that are always on."""
    resources = [resource for queue in spec.queues for resource in queue.compute_resources]
    return price_of([(spec.head_node.instance_type, 1), *((r.instance_type, r.min_count) for r in resources)])


def full_price(spec: ClusterSpec) -> Price:
    """The head node and every node that the queues allow."""
    resources = [resource for queue in spec.queues for resource in queue.compute_resources]
    return price_of([(spec.head_node.instance_type, 1), *((r.instance_type, r.max_count) for r in resources)])


@dataclass(frozen=True)
class Spent:
    """What the instances that live now have cost since each was launched. `known_from` is the oldest launch:
    instances that are gone already are not in it."""

    per_hour: Price
    so_far_usd: float
    known_from: datetime | None

    @property
    def basis(self) -> str:
        """Where the figures come from, and what is not in them."""
        return f"{self.per_hour.basis}; instances that run now, each since its launch"


def spent(instances: Iterable[Instance], now: datetime) -> Spent:
    """The hourly price and the cost so far of living instances."""
    billed = [one for one in instances if one.state in {"pending", "running"}]
    so_far = 0.0
    for one in billed:
        if one.launched is not None:
            hours = max(0.0, (now - one.launched).total_seconds() / 3600)
            so_far += price_of([(one.type, 1)]).usd * hours
    launches = [one.launched for one in billed if one.launched is not None]
    return Spent(price_of((one.type, 1) for one in billed), round(so_far, 4), min(launches, default=None))
