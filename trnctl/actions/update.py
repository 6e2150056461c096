"""Update a cluster to what its file says now, and start or stop its compute fleet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trnctl.actions.create import failure
from trnctl.actions.node_software import put_node_software
from trnctl.actions.stack import POLL_SECONDS, Progress, watch
from trnctl.errors import RefusedError, TrnctlError, WaitedTooLong
from trnctl.findings import Finding, errors_among
from trnctl.ports import Change, Fleet, Instance, Job, Services
from trnctl.render.cluster import cluster_document
from trnctl.render.node import own_actions
from trnctl.specs.cluster import ClusterSpec

LIMIT_S = 60 * 60
FLEET_LIMIT_S = 30 * 60
STOP_CODE = "pcluster-needs-stopped-fleet"


MARK = "fleet"  # on the head node, while an update has stopped a fleet that it must start again


@dataclass(frozen=True)
class UpdatePlan:
    """What differs between the running cluster and the file, and what it takes. `refused` forbids the update; `stops`
    are changes that need a stopped fleet; `busy` are jobs on nodes, which a stop puts back into the queue. `restarts`
    says that an update which was interrupted has stopped the fleet."""

    spec: ClusterSpec
    document: str
    changes: tuple[Change, ...]
    refused: tuple[Finding, ...] = ()
    stops: tuple[Finding, ...] = ()
    busy: tuple[Job, ...] = ()
    restarts: bool = False
    head: Instance | None = None
    runs_folder: str = ""

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to do."""
        return not self.changes and not self.refused and not self.stops and not self.restarts


def plan_update(spec: ClusterSpec, services: Services, runs_folder: str = "") -> UpdatePlan:
    """Ask ParallelCluster what the file would change; the node scripts that it would look for are put there first."""
    put_node_software(spec, services.cloud)
    document = cluster_document(spec, own_actions=own_actions(spec))
    changes, findings = services.provisioner.check_update(spec.name, document)
    head = services.cloud.observe(spec.name).head
    forbidding = errors_among(findings)
    stops = [one for one in forbidding if one.code == STOP_CODE]
    refused = [one for one in forbidding if one.code != STOP_CODE] + _lost_storage(changes)
    return UpdatePlan(
        spec=spec,
        document=document,
        changes=tuple(changes),
        refused=tuple(refused),
        stops=tuple(stops),
        busy=_busy(head, services, runs_folder) if stops and not refused else (),
        restarts=head is not None and MARK in head.marks,
        head=head,
        runs_folder=runs_folder,
    )


def _busy(head: Instance | None, services: Services, runs_folder: str) -> tuple[Job, ...]:
    """The jobs that are on nodes."""
    if head is None or head.state != "running":
        return ()
    picture = services.head.queue(head).observe(runs_folder, newest=0)
    return tuple(job for job in picture.jobs if job.state in {"running", "configuring", "completing", "suspended"})


def _lost_storage(changes: Sequence[Change]) -> list[Finding]:
    """File systems of the cluster's own that would go from it with their data. ParallelCluster takes them out of a
    cluster when they are no longer in the file, and one under another name is another one."""
    found = []
    for change in changes:
        current = str(change.current)
        if change.path != "SharedStorage" or current in {"-", "None", ""} or "Retain" in current:
            continue
        if re.search(r"(FileSystemId|VolumeId)\W+(fs|vol)-", current):
            continue  # the user's own, which is only no longer mounted
        found.append(
            Finding(
                "update-loses-storage", "error",
                "a file system of the cluster would be deleted with its data, or replaced by an empty one",
                "Leave it in the file under its name; or write on_delete: retain, update, and remove it after that.",
                path=change.path, evidence=current,
            )
        )  # fmt: skip
    return found


def check(plan: UpdatePlan, *, requeue: bool) -> None:
    """Refuse what ParallelCluster would refuse, what loses data, and a stop under running jobs. RefusedError."""
    if plan.refused:
        raise RefusedError(
            f"{plan.spec.name} cannot be updated as the file says",
            remedy="change the file back where a finding says so; other changes can be made by themselves",
            findings=plan.refused,
        )
    if plan.busy and not requeue:
        jobs = ", ".join(sorted({job.run or f"job {job.id} of {job.user}" for job in plan.busy}))
        raise RefusedError(
            f"the update needs a stopped fleet, and {jobs} would lose its nodes",
            remedy="wait for them, or add --requeue-runs: they go back into the queue, and on from their checkpoints",
        )


def settle(cluster: str, services: Services) -> Iterator[Progress]:
    """Watch an update that is under way to its end; nothing where there is none."""
    stack = services.cloud.observe(cluster).stack
    if stack is not None and stack.phase == "updating":
        yield from watch(cluster, services, until=frozenset({"running", "update-failed", None}), limit_s=LIMIT_S)


def update(
    plan: UpdatePlan, services: Services, accepted: Callable[[], None] = lambda: None
) -> Iterator[Progress | Fleet]:
    """Stop the fleet where that is needed, update, and start it again; yields progress to the end.

    `accepted` is called once ParallelCluster has taken the update on. Can be run again wherever it was interrupted: a
    mark on the head node tells that the fleet is to be started. An update that fails starts it too. RefusedError when
    jobs have come to nodes since the plan.
    """
    name, restarts = plan.spec.name, plan.restarts
    if plan.stops and plan.head is not None:
        _refuse_what_came(plan, services)
        services.cloud.mark(plan.head.id, MARK, "stopped for an update")
        restarts = True
        yield from set_fleet(name, services, running=False)
    failed: TrnctlError | None = None
    if plan.changes:
        try:
            services.provisioner.update(name, plan.document)
            accepted()
            yield from _watched(plan, services)
        except WaitedTooLong:
            raise
        except TrnctlError as error:
            failed = error
            # Where somebody else's update is under way, it needs the fleet as it is, and starts it at its end.
            restarts = restarts and not _under_way(name, services)
    if restarts:
        yield from set_fleet(name, services, running=True)
        forget_stop(name, services)
    if failed is not None:
        raise failed


def _under_way(cluster: str, services: Services) -> bool:
    stack = services.cloud.observe(cluster).stack
    return stack is not None and stack.phase == "updating"


def _refuse_what_came(plan: UpdatePlan, services: Services) -> None:
    """A person may take hours over the question, and jobs start meanwhile: of those nobody was told."""
    known = {job.id for job in plan.busy}
    came = [job for job in _busy(plan.head, services, plan.runs_folder) if job.id not in known]
    if came:
        jobs = ", ".join(sorted({job.run or f"job {job.id} of {job.user}" for job in came}))
        raise RefusedError(
            f"{jobs} would lose its nodes, and has come to them since you were asked; nothing is stopped or changed",
            remedy="run the command again: wait for them, or add --requeue-runs",
        )


def _watched(plan: UpdatePlan, services: Services) -> Iterator[Progress]:
    phase = None
    for step in watch(plan.spec.name, services, until=frozenset({"running", "update-failed", None}), limit_s=LIMIT_S):
        phase = step.phase
        yield step
    if phase != "running":
        raise failure(plan.spec.name, "updated", services, plan.spec)


def forget_stop(cluster: str, services: Services) -> None:
    """Take the mark of an update off the head node, once the fleet runs."""
    head = services.cloud.observe(cluster).head
    if head is not None and MARK in head.marks:
        services.cloud.mark(head.id, MARK, None)


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
