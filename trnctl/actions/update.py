"""Update a cluster to what its file says now, and start or stop its compute fleet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trnctl.actions.create import failure
from trnctl.actions.node_software import put_node_software
from trnctl.actions.stack import POLL_SECONDS, Progress, watch
from trnctl.errors import RefusedError, WaitedTooLong
from trnctl.findings import Finding, errors_among
from trnctl.ports import Change, Fleet, Services
from trnctl.render.cluster import cluster_document
from trnctl.render.node import own_actions
from trnctl.specs.cluster import ClusterSpec

LIMIT_S = 60 * 60
FLEET_LIMIT_S = 30 * 60


@dataclass(frozen=True)
class UpdatePlan:
    """What differs between the running cluster and the file, and what forbids the update."""

    spec: ClusterSpec
    document: str
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]


def plan_update(spec: ClusterSpec, services: Services) -> UpdatePlan:
    """Ask ParallelCluster what the file would change; the node scripts that it would look for are put there first."""
    put_node_software(spec, services.cloud)
    document = cluster_document(spec, own_actions=own_actions(spec))
    changes, findings = services.provisioner.check_update(spec.name, document)
    return UpdatePlan(spec, document, tuple(changes), tuple(findings))


def update(plan: UpdatePlan, services: Services) -> Iterator[Progress]:
    """Carry the update out, yielding progress to the end. RefusedError when a finding forbids it."""
    forbidden = errors_among(plan.findings)
    if forbidden:
        raise RefusedError(
            f"{plan.spec.name} cannot be updated as the file says",
            remedy="trnctl cluster fleet stop first where a finding asks for it, then run this command again",
            findings=forbidden,
        )
    services.provisioner.update(plan.spec.name, plan.document)
    phase = None
    for step in watch(plan.spec.name, services, until=frozenset({"running", "update-failed", None}), limit_s=LIMIT_S):
        phase = step.phase
        yield step
    if phase != "running":
        raise failure(plan.spec.name, "updated", services, plan.spec)


def set_fleet(cluster: str, services: Services, *, running: bool) -> Iterator[Fleet]:
    """Start or stop the compute fleet and yield its status until it is there. WaitedTooLong after 30 minutes."""
    wanted = "running" if running else "stopped"
    began = services.clock.now()
    asked = False
    while True:
        fleet = services.cloud.observe(cluster).fleet or Fleet("unknown", None)
        yield fleet
        if fleet.status == wanted:
            return
        if not asked:
            services.provisioner.set_fleet(cluster, running)
            asked = True
        elif (services.clock.now() - began).total_seconds() > FLEET_LIMIT_S:
            raise WaitedTooLong(
                f"the compute fleet of {cluster} is still {fleet.status}",
                remedy="it goes on by itself: trnctl status shows it",
            )
        services.clock.sleep(POLL_SECONDS)
