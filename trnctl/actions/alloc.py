"""Nodes for a person: a plan with its price, then a shell on the first of them."""

from __future__ import annotations

from dataclasses import dataclass

from trnctl.actions.head_node import head_of
from trnctl.actions.runs import OpenCluster
from trnctl.errors import RefusedError, UsageError
from trnctl.plan.cost import Price, price_of
from trnctl.ports import Allocation
from trnctl.render.job import TIME_LIMIT
from trnctl.specs.cluster import ClusterSpec


@dataclass(frozen=True)
class AllocPlan:
    """What will be asked for. `instance_type` and `price` (of all nodes, an hour) are None without a cluster file."""

    allocation: Allocation
    instance_type: str | None
    price: Price | None


def plan_alloc(spec: ClusterSpec | None, *, nodes: int, queue: str | None, time_limit: str) -> AllocPlan:
    """UsageError for what cannot be, RefusedError for more nodes than the queue has."""
    if nodes < 1:
        raise UsageError(f"{nodes} nodes cannot be allocated", remedy="give -N with at least one")
    if not TIME_LIMIT.fullmatch(time_limit):
        raise UsageError(
            f"{time_limit!r} is no time limit",
            remedy="write minutes, or hours:minutes:seconds, or days-hours, as in --time 2:00:00",
        )
    if spec is None:
        return AllocPlan(Allocation(nodes, time_limit, queue or ""), None, None)
    names = [one.name for one in spec.queues]
    if queue is not None and queue not in names:
        raise UsageError(f"{spec.name} has no queue {queue}", remedy=f"choose one of {', '.join(names)}")
    chosen = next(one for one in spec.queues if queue in {None, one.name})
    most = sum(resource.max_count for resource in chosen.compute_resources)
    if nodes > most:
        raise RefusedError(
            f"{chosen.name} has at most {most} nodes, fewer than {nodes}",
            remedy="ask for fewer, or raise max_count in trnctl.yaml and run trnctl cluster update",
        )
    types = [resource.instance_type for resource in chosen.compute_resources]
    price = price_of([(types[0], nodes)]) if len(set(types)) == 1 else None
    return AllocPlan(Allocation(nodes, time_limit, chosen.name), types[0] if price else None, price)


def alloc(plan: AllocPlan, opened: OpenCluster) -> int:
    """Hand over the terminal; the exit code of the shell there."""
    head = head_of(opened.cluster, opened.services, work=True)
    return opened.services.head.allocator(head).shell(plan.allocation)
