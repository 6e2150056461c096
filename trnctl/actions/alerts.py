"""What a person should act on, by one look at a cluster: its stack, its fleet, its nodes, its runs. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from trnctl.findings import Finding
from trnctl.plan.block import MARGIN
from trnctl.plan.cost import price_of
from trnctl.ports import NodeGroup, Observed

# States of nodes behind which no instance should run; a node that is down may have one or not.
_OFF = frozenset({"powered-down", "down", "unknown"})
_AT_WORK = frozenset({"idle", "allocated", "mixed", "completing", "draining", "drained"})
_SETTLED = timedelta(minutes=1)  # EC2 and Slurm do not learn of a launch at the same moment
_BLOCK_SOON = timedelta(hours=24)
_PROTECTED = (
    "ParallelCluster starts nothing more in queues whose nodes failed to boot so often, and waits for a person."
)


def fleet_alerts(seen: Observed, groups: Sequence[NodeGroup], why: str = "") -> list[Finding]:
    """What the stack, the fleet and the queues say; `why` is what made the stack fail, where somebody knows better."""
    alerts = []
    if seen.stack and seen.stack.phase.endswith("failed"):
        alerts.append(
            Finding(
                "stack-failed", "error",
                f"the stack is {seen.stack.status}: {why or seen.stack.reason or 'no reason given'}",
                f"trnctl why cluster --cluster {seen.stack.name} says more; trnctl cluster events shows what failed",
            )
        )  # fmt: skip
    inactive = sorted({group.partition for group in groups if group.available == "inactive"})
    status = seen.fleet.status if seen.fleet else ""
    if status == "protected":
        which = f", its queue{'s' * (len(inactive) > 1)} {', '.join(inactive)} inactive" if inactive else ""
        alerts.append(
            Finding(
                "protected-mode", "error", f"the fleet is in protected mode{which}: nodes failed to start ten times",
                "trnctl why cluster says why they failed; mend that, then trnctl cluster fleet start",
                evidence="fleet status: PROTECTED", cause=_PROTECTED, confidence="high",
            )
        )  # fmt: skip
    elif inactive and status in {"", "running"}:
        alerts.append(
            Finding(
                "queue-inactive", "error", f"{', '.join(inactive)}: inactive although the fleet runs; its jobs wait",
                "trnctl cluster fleet start makes it active; trnctl why cluster looks for the cause",
            )
        )  # fmt: skip
    return alerts


# EC2's error codes as ParallelCluster writes them into a node's reason, "(Code:…)Failure when resuming nodes".
_EC2_REFUSALS = {
    "InsufficientInstanceCapacity": "EC2 has no capacity for them now",
    "InsufficientHostCapacity": "EC2 has no capacity for them now",
    "InsufficientReservedInstanceCapacity": "the reservation has no free instance now",
    "ReservationCapacityExceeded": "the reservation has no free instance now",
    "MaxSpotInstanceCountExceeded": "the account's limit of spot instances is reached",
    "VcpuLimitExceeded": "the account's vCPU limit for this family is reached",
    "InstanceLimitExceeded": "the account's limit of instances is reached",
    "InsufficientFreeAddressesInSubnet": "the subnet has no free address",
    "Unsupported": "the subnet's zone does not offer the instance type",
}
_CAPACITY = frozenset(
    {
        "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity",
        "ReservationCapacityExceeded",
    }
)  # fmt: skip
# ParallelCluster's insufficient_capacity_timeout, as it is delivered.
_AGAIN = "ParallelCluster leaves them alone for ten minutes after each refusal, then asks again"


def node_alerts(groups: Sequence[NodeGroup]) -> list[Finding]:
    """Nodes that are down or drained, with Slurm's reason; for those that EC2 refused, the wait and the ways out."""
    return [_unavailable(group, groups) for group in groups if group.state in {"down", "drained", "draining"}]


def _unavailable(group: NodeGroup, groups: Sequence[NodeGroup]) -> Finding:
    found = re.match(r"\(Code:(\w+)\)", group.reason)
    nodes = f"{group.count} node{'s' * (group.count > 1)}"
    if found and found[1] in _CAPACITY:
        others = sorted({one.partition for one in groups if one.partition != group.partition and one.available == "up"})
        queue = f"another queue (-p {' or '.join(others)}), " if others else ""
        return Finding(
            "capacity-wait", "warning",
            f"{nodes} of {group.partition}: {_EC2_REFUSALS[found[1]]}. {_AGAIN} ({found[1]})",
            f"wait; or submit on fewer nodes, {queue}another zone, or reserved capacity (capacity: {{reservation: …}} "
            "or {capacity_block: …})",
            evidence=group.hostlist,
        )  # fmt: skip
    words = _EC2_REFUSALS.get(found[1]) if found else None
    reason = f"{words} ({group.reason})" if words else group.reason or "no reason given"
    return Finding(
        "nodes-unavailable", "warning", f"{nodes} {group.state} in {group.partition}: {reason}",
        f"scontrol show node {group.hostlist} on the head node tells more", evidence=group.hostlist,
    )  # fmt: skip


def instance_alerts(seen: Observed, groups: Sequence[NodeGroup], now: datetime) -> list[Finding]:
    """Instances that no node of Slurm's uses, which cost, and nodes of Slurm's that have no instance, which hang."""
    if not groups or not seen.fleet or seen.fleet.status not in {"running", "protected"}:
        return []
    settled = now - _SETTLED
    compute = [one for one in seen.instances if one.role == "compute" and one.state == "running"]
    nodes = {}
    for group in groups:  # a node may stand in several partitions
        nodes[group.hostlist, group.state] = group.count
    on = sum(count for (_, state), count in nodes.items() if state not in _OFF)
    maybe = sum(count for (_, state), count in nodes.items() if state == "down")
    old = [one for one in compute if one.launched is None or one.launched <= settled]
    alerts = []
    if (extra := len(old) - on - maybe) > 0:
        price = price_of((one.type, 1) for one in compute[:extra])
        plural = "s" * (extra > 1)
        alerts.append(
            Finding(
                "instances-orphaned", "warning",
                f"{extra} compute instance{plural} more than Slurm has nodes on: {price} for nothing",
                "ParallelCluster ends orphans after five minutes; when they stay, end in EC2's console only those "
                "whose private address scontrol show nodes does not tell; which they are cannot be told from here",
                evidence=f"EC2 runs {len(old)} compute instances; Slurm has {on} nodes on, and {maybe} down",
                cause="Slurm gave a node up or powered it down, and its instance was not ended.", confidence="medium",
            )
        )  # fmt: skip
    at_work = sum(count for (_, state), count in nodes.items() if state in _AT_WORK)
    if (lost := at_work - len(compute)) > 0:
        alerts.append(
            Finding(
                "nodes-without-instance", "warning",
                f"{lost} node{'s' * (lost > 1)} that Slurm takes to be on {'have' if lost > 1 else 'has'} no instance",
                "ParallelCluster notices within a minute or two and replaces them; their jobs are requeued",
                evidence=f"EC2 runs {len(compute)} compute instances; Slurm has {at_work} nodes at work",
                cause="An instance was ended: by EC2, by a person, or as spot.", confidence="medium",
            )
        )  # fmt: skip
    return alerts


def block_alerts(blocks: Iterable[tuple[str, datetime]], now: datetime) -> list[Finding]:
    """Capacity blocks that end soon."""
    alerts = []
    for block, ends in blocks:
        left = ends - MARGIN - now
        if left <= timedelta(0):
            words = "is over: EC2 takes its instances from 30 minutes before its end"
            alerts.append(Finding("capacity-block-ends", "error", f"{block} {words}", "buy another, or another queue"))
        elif left <= _BLOCK_SOON:
            hours, minutes = divmod(int(left.total_seconds()) // 60, 60)
            alerts.append(
                Finding(
                    "capacity-block-ends", "warning",
                    f"{block} gives its instances back in {hours}h{minutes:02d}m, 30 minutes before its end",
                    "let runs save before that; new ones get a time limit that ends with it",
                )
            )  # fmt: skip
    return alerts
