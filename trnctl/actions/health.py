"""Look at nodes before they work: what is asked of them, what it costs, what was found, and draining what fails."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from trnctl.actions.head_node import head_of
from trnctl.actions.runs import OpenCluster
from trnctl.codes import CODES
from trnctl.errors import RefusedError, RunFailed, ToolError, UsageError
from trnctl.findings import Finding
from trnctl.plan.cost import Price, price_of
from trnctl.ports import CheckProgress, Drained, HealthCheck, HealthReport, NodeFinding, NodeHealth
from trnctl.render.health import PATIENCE_S, expected, health_job, limit_s
from trnctl.specs.cluster import ClusterSpec, Queue

_IDLE_WAIT_S = 120.0  # for nodes that are up and idle
_START_WAIT_S = 20 * 60.0  # for nodes that may have to start: ParallelCluster's scripts take some minutes


@dataclass(frozen=True)
class HealthWishes:
    """What the person asked for: `nodes` None means all that are up and idle; `patience_s` is for one all-reduce."""

    nodes: int | None = None
    queue: str | None = None
    collectives: bool = True
    patience_s: float = PATIENCE_S


@dataclass(frozen=True)
class HealthPlan:
    """What will be looked at, at most how long, and the price of a node's hour."""

    cluster: str
    queue: Queue
    instance_type: str
    wanted: HealthCheck
    price: Price
    reference: str
    emulated: bool = False  # no tool there measures anything

    @property
    def most_usd(self) -> float | None:
        """What the nodes cost while they are looked at, at most; None when their number or price is not known."""
        if self.wanted.count is None or self.price.unknown:
            return None
        return self.price.usd * self.wanted.limit_s / 3600


def plan_health(opened: OpenCluster, spec: ClusterSpec, wishes: HealthWishes) -> HealthPlan:
    """Everything that is known before anything is touched. UsageError for a queue that is not there, or that has no
    Neuron devices, and for no nodes at all; RefusedError where it has fewer."""
    queue = _queue(spec, wishes.queue)
    resource = queue.compute_resources[0]
    most = sum(one.max_count for one in queue.compute_resources if one.instance_type == resource.instance_type)
    asked, way = wishes.nodes, f"use -N 1 to {most}, or leave it out"
    if asked is not None and asked < 1:
        raise UsageError(f"-N {asked} is no number of nodes to look at", remedy=way)
    if asked is not None and asked > most:
        raise RefusedError(f"{queue.name} has at most {most} nodes of {resource.instance_type}", remedy=way)
    disks = ["/", "/tmp", f"{opened.services.mount_prefix}{spec.shared_mount}"]  # noqa: S108  only looked at
    disks += [f"{opened.services.mount_prefix}{queue.ephemeral_mount}"] if queue.ephemeral_mount else []
    expect = expected(
        resource.instance_type,
        disks,
        sdk=spec.neuron_sdk,
        efa=resource.efa is not False,
        collectives=wishes.collectives,
        patience_s=wishes.patience_s,
    )
    now = opened.services.clock.now()
    name = f"health-{now:%m%d%H%M%S}-{secrets.token_hex(2)}"
    folder = str(PurePosixPath(opened.runs_folder).parent / "health" / name)
    constraint = resource.instance_type if len({one.instance_type for one in queue.compute_resources}) > 1 else ""
    wanted = HealthCheck(
        folder=folder,
        files=health_job(name, folder, queue.name, expect, constraint),
        queue=queue.name,
        count=wishes.nodes,
        wait_s=_IDLE_WAIT_S if wishes.nodes is None else _START_WAIT_S,
        limit_s=limit_s(expect),
        constraint=constraint,
    )
    reference = expect["reference"]
    basis = f"{reference['busbw']} ({reference['basis']})" if isinstance(reference, dict) else ""
    price = price_of([(resource.instance_type, wishes.nodes or 1)])
    return HealthPlan(opened.cluster, queue, resource.instance_type, wanted, price, basis, bool(opened.services.notice))


def _queue(spec: ClusterSpec, name: str | None) -> Queue:
    names = [queue.name for queue in spec.queues]
    if name is not None and name not in names:
        raise UsageError(f"{spec.name} has no queue {name}", remedy=f"choose one of {', '.join(names)}")
    return next(queue for queue in spec.queues if name in {None, queue.name})


def door(opened: OpenCluster) -> NodeHealth:
    """The cluster's nodes. NotFoundError and RefusedError when there is no head node that runs."""
    return opened.services.head.health(head_of(opened.cluster, opened.services))


def check(plan: HealthPlan, health: NodeHealth) -> Iterator[CheckProgress | HealthReport]:
    """Carry it out, telling how far it is; the report last. ToolError when there is none."""
    for event in health.check(plan.wanted):
        if isinstance(event, HealthReport) and event.why:
            raise ToolError(
                f"the nodes of {plan.queue.name} were not checked: {event.why}",
                remedy="trnctl status shows the nodes; -N takes fewer",
            )
        yield event


def reasons(report: HealthReport) -> dict[str, str]:
    """Why each node that fails is to be drained; nothing when no node is to blame."""
    if report.systemic:
        return {}
    return {
        node: f"trnctl health: {_first(report, node).code}: {_first(report, node).message}" for node in report.failed
    }


def _first(report: HealthReport, node: str) -> NodeFinding:
    return next(one for one in report.findings if one.node == node and one.level == "error")


def findings(report: HealthReport) -> list[Finding]:
    """What was found, with what to do about it; and that nodes could not be had."""
    found = [
        Finding(one.code, one.level, one.message, CODES[one.code].remedy, node=one.node) for one in report.findings
    ]
    if report.systemic:
        words = f"{len(report.failed)} of {len(report.nodes)} nodes fail"
        found.append(Finding("nodes-alike", "error", words, CODES["nodes-alike"].remedy))
    for node, why in report.not_had.items():
        found.append(Finding("node-not-had", "info", f"it is {why}", CODES["node-not-had"].remedy, node=node))
    return found


def verdict(report: HealthReport, drained: Drained | None) -> None:
    """RunFailed (6) when a node failed."""
    if not report.failed:
        return
    gone: Mapping[str, object] = dict.fromkeys(drained.nodes) if drained else {}
    left = [node for node in report.failed if node not in gone]
    names = ", ".join(report.failed)
    remedy = "no job starts on them any more; trnctl ssh -- scontrol update nodename=NODE state=resume takes it back"
    if report.systemic:
        remedy = CODES["nodes-alike"].remedy
    elif left:
        remedy = "trnctl health --drain -y keeps jobs off them; submit --exclude does so for one run"
    raise RunFailed(f"{len(report.failed)} of {len(report.nodes)} nodes failed the check: {names}", remedy=remedy)
