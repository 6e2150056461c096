"""Create a cluster: a plan with its price, then ParallelCluster, then the wait to the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trnctl.actions.node_software import put_node_software
from trnctl.actions.stack import Progress, cause_of_failure, watch
from trnctl.actions.why import explain_failure
from trnctl.errors import RefusedError, ToolError
from trnctl.plan.cost import Price, full_price, idle_price
from trnctl.ports import FileSystem, Phase, Services
from trnctl.render.cluster import cluster_document
from trnctl.render.node import own_actions
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.prices import TABLE, Prices

# ParallelCluster gives the head node 35 minutes to report (2100 s); file systems come before it.
LIMIT_S = 75 * 60
_DELETE_LIMIT_S = 40 * 60


@dataclass(frozen=True)
class CreatePlan:
    """What `cluster create` will do. `standing` is the phase of a stack of that name that is already there; `adopted`
    are file systems that an earlier cluster has left and this one mounts."""

    spec: ClusterSpec
    document: str
    idle: Price
    full: Price
    standing: Phase | None = None
    adopted: tuple[FileSystem, ...] = ()

    @property
    def asks(self) -> bool:
        """Whether something new will be made, so that a person should confirm."""
        return self.standing in {None, "create-failed"}


def plan_create(
    spec: ClusterSpec,
    standing: Phase | None = None,
    *,
    prices: Prices = TABLE,
    adopted: tuple[FileSystem, ...] = (),
) -> CreatePlan:
    """The plan. RefusedError for a platform that trnctl only plans for, and for a stack in a state that forbids it."""
    if spec.platform != "parallelcluster":
        raise RefusedError(
            f"{spec.name} is for {spec.platform}, which trnctl can plan for and export to, but not create",
            remedy="set platform: parallelcluster to create it with ParallelCluster",
        )
    if standing in {"deleting", "delete-failed"}:
        raise RefusedError(
            f"a cluster named {spec.name} is still there: {standing}",
            remedy=f"finish it with trnctl teardown --cluster {spec.name}, or choose another name",
        )
    document = cluster_document(spec, own_actions=own_actions(spec))
    return CreatePlan(spec, document, idle_price(spec, prices), full_price(spec, prices), standing, adopted)


def create(plan: CreatePlan, services: Services, *, keep_failed: bool = False) -> Iterator[Progress]:
    """Carry the plan out, yielding progress to the end. ToolError names the event that made it fail; with `keep_failed`
    what has come up by then stays for a look, and costs.

    Can be run again: a stack that is being created is watched to its end, one that is there is a success, one
    that failed is deleted first (what it leaves behind by policy stays).
    """
    name = plan.spec.name
    if plan.standing == "create-failed":
        services.provisioner.delete(name)
        yield from watch(name, services, until=frozenset({None, "delete-failed"}), limit_s=_DELETE_LIMIT_S)
    if plan.asks:
        put_node_software(plan.spec, services.cloud)
        for one in plan.adopted:
            services.cloud.open_file_system(one, name)
        services.provisioner.create(name, plan.document, keep_failed=keep_failed)
    phase: Phase | None = None
    ends: frozenset[Phase | None] = frozenset({"running", "create-failed", "update-failed", "delete-failed", None})
    for step in watch(name, services, until=ends, limit_s=LIMIT_S):
        phase = step.phase
        yield step
    if phase != "running":
        raise failure(name, "created", services, plan.spec)


def failure(name: str, verb: str, services: Services, spec: ClusterSpec | None = None) -> ToolError:
    """The error for a stack that did not get there: the cause, not the victims; and what it has left that costs."""
    error = explain_failure(name, verb, services, spec) or _plain_failure(name, verb, services)
    kept = [one.id for one in services.cloud.file_systems(name)] if verb == "created" else []
    seen = services.cloud.observe(name) if verb == "created" else None
    left = ""
    if seen is not None and seen.head is not None and seen.head.state == "running":
        left += f" Its head node {seen.head.id} runs on and costs; trnctl why and trnctl ssh look at it."
    if kept:
        way_out = f"trnctl teardown --cluster {name} --delete-storage"
        left += f" {', '.join(kept)} is kept by the cluster file and costs: {way_out}."
    return ToolError(error.message, remedy=error.remedy + left, findings=error.findings) if left else error


def _plain_failure(name: str, verb: str, services: Services) -> ToolError:
    """What the stack's events tell, where no known cause fits them."""
    event = cause_of_failure(name, services)
    if event is None:
        return ToolError(
            f"{name} could not be {verb}: its stack is gone and left no events",
            remedy="Run the command again; trnctl cluster list shows what exists.",
        )
    return ToolError(
        f"{name} could not be {verb}: {event.logical_id} ({event.resource_type}) failed: {event.reason}",
        remedy=f"Mend the cause, then run this command again; trnctl cluster events --cluster {name} lists everything.",
    )
