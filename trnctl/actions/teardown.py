"""Take a cluster away and prove that nothing is left that costs money."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from trnctl.actions import mirror
from trnctl.actions.adopt import adopted_ids
from trnctl.actions.removal import Waiting, delete_beside, delete_stack, delete_storage_of, words
from trnctl.actions.runs import OpenCluster
from trnctl.actions.stack import Progress, retained, stack_size
from trnctl.errors import CloudError, NotFoundError, RefusedError, ToolError, TrnctlError, UsageError
from trnctl.ports import Exported, ExportStep, FileSystem, Instance, Job, Resource, Services, Stack
from trnctl.render.job import mirror_prefix
from trnctl.render.node import is_node_script

# For the jobs that are cancelled to save and to write down how they ended: Slurm alone leaves them 30 s (KillWait), and
# one with a limit of one minute was seen to end after 85 s.
CANCEL_LIMIT_S = 90


@dataclass(frozen=True)
class TeardownPlan:
    """What `teardown` will do. `kept` file systems outlive the stack by its own policy; `lost` go with it;
    `yours` are only mounted by it, and stay whatever is said."""

    cluster: str
    stack: Stack | None
    head: Instance | None
    compute_nodes: int
    resources: int | None
    kept: tuple[FileSystem, ...]
    lost: tuple[FileSystem, ...]
    runs: tuple[Job, ...]
    yours: tuple[FileSystem, ...] = ()
    unseen: str = ""  # why the queue could not be asked, '' when it could
    bucket: str | None = None  # where the records of its runs are copied to

    @property
    def asks_about_storage(self) -> bool:
        """Whether a person must say what becomes of file systems that would stay and cost."""
        return bool(self.kept)


@dataclass(frozen=True)
class Proof:
    """What the teardown did: each entry is the words for one thing. `left` must be empty."""

    deleted: tuple[str, ...]
    kept: tuple[str, ...]
    left: tuple[str, ...]
    looked_for: tuple[str, ...]
    records: str = ""  # what became of the runs' records, '' when there was nothing to copy

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {
            "deleted": [*self.deleted],
            "kept": [*self.kept],
            "left": [*self.left],
            "looked_for": [*self.looked_for],
            "records": self.records,
        }


Step = Progress | ExportStep | Waiting | Proof


def plan_teardown(opened: OpenCluster) -> TeardownPlan:
    """Look at everything that would go, stay, or be in the way. NotFoundError when there is nothing at all."""
    cluster, services = opened.cluster, opened.services
    seen = services.cloud.observe(cluster)
    head = seen.head
    systems = services.cloud.file_systems(cluster)
    costs = [one for one in services.cloud.leftovers(cluster) if one.kind not in _KEPT_BY_POLICY]
    if seen.stack is None and not systems and not costs:
        raise NotFoundError(
            f"There is no cluster {cluster} in {opened.region}, and nothing there carries its tag.",
            remedy="trnctl cluster list shows what exists; nothing is left to tear down.",
        )
    if seen.stack is None:
        return TeardownPlan(cluster, None, None, 0, None, tuple(systems), (), ())
    template, resources = services.cloud.template(cluster), services.cloud.resources(cluster)
    # One that an earlier stack of this name has left behind carries the tag as well, and does not go with this stack.
    goes = set(resources.values()) - retained(template, resources)
    # One that the cluster only mounts, by its id, is the user's: it is never deleted, whatever tag it carries.
    mounted = {one.id for one in systems if one.id in str(template) and one.id not in resources.values()}
    mounted -= adopted_ids(opened.spec, mounted, systems)
    # Of a stack that is on its way out the head node may be half gone; and what ran there has been decided on.
    going = seen.stack.phase in {"deleting", "delete-failed"}
    runs, unseen = ((), "") if going else _live_runs(head, opened)
    return TeardownPlan(
        cluster=cluster,
        stack=seen.stack,
        head=head,
        compute_nodes=sum(one.role == "compute" for one in seen.instances),
        resources=stack_size(template),
        kept=tuple(one for one in systems if one.id not in goes and one.id not in mounted),
        lost=tuple(one for one in systems if one.id in goes),
        runs=tuple(runs),
        unseen=unseen,
        bucket=opened.bucket,
        yours=tuple(one for one in systems if one.id in mounted),
    )


def _live_runs(head: Instance | None, opened: OpenCluster) -> tuple[Sequence[Job], str]:
    """Jobs that are alive, ours or not; and why they cannot be seen."""
    if head is None or head.state != "running":
        return (), ""
    try:
        picture = opened.services.head.queue(head).observe(opened.runs_folder, newest=0)
    except ToolError as error:
        return (), error.message
    return [job for job in picture.jobs if not job.ended], ""


def check(plan: TeardownPlan, *, cancel_runs: bool, delete_storage: bool | None) -> None:
    """Refuse over live runs unless told; ask for a word about storage. RefusedError (3), UsageError (2)."""
    if plan.runs and not cancel_runs:
        alive = sorted({job.run or f"job {job.id} of {job.user}" for job in plan.runs})
        raise RefusedError(
            f"{plan.cluster} is at work: {', '.join(alive)}",
            remedy="wait for them, cancel them (trnctl cancel RUN), or add --cancel-runs",
        )
    if plan.unseen and not cancel_runs:
        raise RefusedError(
            f"whether {plan.cluster} is at work cannot be seen: {plan.unseen}",
            remedy="mend the way to the head node, or add --cancel-runs to end whatever runs there",
        )
    if plan.asks_about_storage and delete_storage is None:
        names = ", ".join(f"{one.id} ({one.gib} GiB)" for one in plan.kept)
        raise UsageError(
            f"file systems would outlive {plan.cluster} and go on costing: {names}",
            remedy="say what becomes of them: --keep-storage or --delete-storage",
        )


def check_storage(plan: TeardownPlan, services: Services) -> None:
    """Refuse to delete a file system that another cluster of the region mounts: the tag tells only who made it."""
    ids = [one.id for one in plan.kept]
    for other in services.provisioner.clusters() if ids else []:
        if other.name == plan.cluster:
            continue
        text = str(services.cloud.template(other.name))
        used = [one for one in ids if one in text]
        if used:
            raise RefusedError(
                f"{', '.join(used)} is mounted by the cluster {other.name} too",
                remedy=f"add --keep-storage, or tear {other.name} down first",
            )


def check_export(plan: TeardownPlan, to: str) -> None:
    """Refuse an export that cannot be. UsageError for a place that is none; RefusedError without a head node."""
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\s]*)?", to):
        raise UsageError(f"--export {to} is no place in S3", remedy="write it as s3://BUCKET/PREFIX")
    if plan.head is None or plan.head.state != "running" or _going(plan):
        raise RefusedError(
            f"{plan.cluster} has no head node that runs, and only it can copy what lies on its file systems",
            remedy="leave --export out; with --keep-storage the data stays, and another cluster can mount and copy it",
        )


def teardown(plan: TeardownPlan, opened: OpenCluster, *, delete_storage: bool, export: str = "") -> Iterator[Step]:
    """Carry the plan out, yielding progress and at last the Proof. Can be run again at any point. An export (to s3://…)
    comes first, and when it breaks off nothing is deleted. RefusedError when jobs have come since the plan."""
    _refuse_what_came(plan, opened)
    name, services = plan.cluster, opened.services
    deleted: list[str] = []
    exported: list[str] = []
    if plan.head is not None:
        cancelled = sorted({job.run for job in plan.runs if job.run})
        for run in cancelled:
            services.head.queue(plan.head).cancel(run, opened.runs_folder)
        going_on = yield from _wait_for_the_cancelled(cancelled, plan.head, opened)
        if export and going_on:
            raise _still_at_work(going_on)
        late = f", still at work after {CANCEL_LIMIT_S} s" if going_on else ""
        deleted += [f"run {run} (cancelled{late if run in going_on else ''})" for run in cancelled]
    if export and plan.head is not None:
        for step in services.head.export(plan.head).export(opened.runs_folder, export, opened.region):
            if isinstance(step, ExportStep):
                yield step
            else:
                exported.append(_exported_words(step))
    records = _mirror(plan, opened, delete_storage=delete_storage)
    if plan.stack is not None:
        phase = plan.stack.phase
        _refuse_what_came(plan, opened)  # copying the records takes its time
        yield from delete_stack(name, services)
        deleted.append(f"cluster {name}" + (f" ({plan.resources} resources, it was {phase})" if plan.resources else ""))
        deleted += [f"{one.kind} {one.id}" for one in plan.lost]
    if delete_storage:
        deleted += yield from delete_storage_of(plan.kept, name, services)
    if not services.cloud.file_systems(name):
        deleted += yield from delete_beside(name, services)
    scripts, left = _delete_scripts(opened)
    deleted += scripts
    yours = {one.id for one in plan.yours}
    kept = [one for one in services.cloud.file_systems(name) if not delete_storage or one.id in yours]
    proof = _proof(name, services, deleted, kept)
    more = [f"trnctl/{name}/ in s3://{opened.bucket}"] if opened.bucket else []
    more += ["network stacks of trnctl"] if opened.spec else []
    yield replace(
        proof,
        kept=(*proof.kept, *exported, *_beyond(opened, kept)),
        left=(*proof.left, *left),
        looked_for=(*proof.looked_for, *more),
        records=records,
    )


def _refuse_what_came(plan: TeardownPlan, opened: OpenCluster) -> None:
    """A person may take hours over the question, and others submit meanwhile: of their jobs nobody was told."""
    came = () if plan.unseen or _going(plan) else _live_runs(plan.head, opened)[0]
    known = {job.id for job in plan.runs}
    alive = sorted({job.run or f"job {job.id} of {job.user}" for job in came if job.id not in known})
    if alive:
        raise RefusedError(
            f"{plan.cluster} has come to work since you were asked: {', '.join(alive)}; nothing is deleted",
            remedy="run the command again: wait for them, cancel them (trnctl cancel RUN), or add --cancel-runs",
        )


def _delete_scripts(opened: OpenCluster) -> tuple[list[str], list[str]]:
    """Delete trnctl's own node scripts from the cluster's bucket; what was deleted, what is left. Records of runs and
    of what they cost stay there."""
    if opened.bucket is None:
        return [], []
    cloud, place = opened.services.cloud, f"s3://{opened.bucket}/trnctl/{opened.cluster}/"
    try:
        found = [one.key for one in cloud.list_objects(opened.bucket, f"trnctl/{opened.cluster}/")]
        scripts = [key for key in found if is_node_script(key, opened.cluster)]
        cloud.delete_objects(opened.bucket, scripts)
    except CloudError as error:
        gone = error.message.startswith("There is no bucket")
        return [], [] if gone else [f"node scripts in {place} (not deleted: {error.message})"]
    count = len(scripts)
    return [f"{count} node script{'s' * (count != 1)} in {place}"] if count else [], []


def _beyond(opened: OpenCluster, kept: Sequence[FileSystem]) -> list[str]:
    """What stays on purpose and carries no tag of the cluster: copies of records, and the network that it stood in."""
    words, services, spec = [], opened.services, opened.spec
    if opened.bucket is not None:
        with suppress(CloudError):
            found = services.cloud.list_objects(opened.bucket, f"trnctl/{opened.cluster}/")
            if found:
                what = "records of runs and costs" if len(found) > 1 else "a record"
                words.append(f"{what} in s3://{opened.bucket}/trnctl/{opened.cluster}/")
    if spec is None:
        return words
    subnets = {spec.network.head_subnet, spec.network.compute_subnet, *(queue.subnet for queue in spec.queues)}
    with suppress(CloudError):
        for stack in services.account.networks():
            if subnets & set(stack.outputs.values()):
                why = (
                    f"{', '.join(one.id for one in kept)} stands in it"
                    if kept
                    else f"trnctl network delete {stack.name}"
                )
                words.append(f"network stack {stack.name} ({why})")
    return words


def _mirror(plan: TeardownPlan, opened: OpenCluster, *, delete_storage: bool) -> str:
    """Copy the runs' records to the bucket before anything is deleted; what became of them, in words.

    What cannot be copied ends the teardown only where the only other copy would be deleted, and the head node is there
    to be asked again. One that does not answer has been spoken of before the person said yes; the jobs have copied
    theirs when they ended.
    """
    if opened.bucket is None or plan.head is None or plan.head.state != "running" or _going(plan):
        return ""
    if plan.unseen:
        return f"not copied by this teardown: {plan.unseen}"
    try:
        count = mirror.save(opened)
    except TrnctlError as error:
        if (
            delete_storage or plan.lost or not (plan.kept or plan.yours)
        ):  # without any, runs lie on the head node's disk
            raise
        return f"not copied, and still on the file system that is kept: {error.message}"
    return f"{count} run{'s' * (count != 1)} in s3://{opened.bucket}/{mirror_prefix(plan.cluster)}" if count else ""


def _wait_for_the_cancelled(
    cancelled: Sequence[str], head: Instance, opened: OpenCluster
) -> Generator[Waiting, None, list[str]]:
    """Give the cancelled runs time to end; those that have not, all of them where the queue cannot be seen."""
    began = opened.services.clock.now()
    while cancelled:
        jobs, unseen = _live_runs(head, opened)
        alive = {job.run for job in jobs}
        left = [run for run in cancelled if unseen or run in alive]
        waited = (opened.services.clock.now() - began).total_seconds()
        if not left or waited > CANCEL_LIMIT_S:
            return left
        yield Waiting(f"the cancelled runs save and end ({CANCEL_LIMIT_S} s at most): {', '.join(left)}", waited)
        opened.services.clock.sleep(1)
    return []


def _exported_words(done: Exported) -> str:
    words = f"{done.files} files of runs in {done.to} ({done.copied} copied now)"
    if not done.left_out:
        return words
    more = f" and {len(done.left_out) - 5} more" if len(done.left_out) > 5 else ""
    return f"{words}; not exported: {', '.join(done.left_out[:5])}{more}"


def _still_at_work(runs: Sequence[str]) -> RefusedError:
    return RefusedError(
        f"cancelled, and still at work after {CANCEL_LIMIT_S} s: {', '.join(runs)}; what they save now would be "
        "exported half. Nothing is exported or deleted",
        remedy="run the command again when they have ended (trnctl runs); leave --export out when they never end",
    )


def _going(plan: TeardownPlan) -> bool:
    """Whether the stack is on its way out: its head node may be half gone."""
    return plan.stack is not None and plan.stack.phase in {"deleting", "delete-failed"}


# Logs that a stack was told to retain expire by their retention, and are wanted when something went wrong.
_KEPT_BY_POLICY = frozenset({"log group"})


def _proof(name: str, services: Services, deleted: Sequence[str], kept: Sequence[FileSystem]) -> Proof:
    """List what carries the cluster's tag. What a person or a policy keeps is kept, all else is left."""
    ids = {one.id for one in kept}
    found = [one for one in services.cloud.leftovers(name) if one.id not in ids]
    stays = [
        f"{one.kind} {one.id} ({f'{one.gib} GiB, ' if one.gib else ''}billed by the month, not priced)" for one in kept
    ]
    stays += [words(one) for one in found if _stays(one, kept)]
    left = [words(one) for one in found if not _stays(one, kept)]
    return Proof(tuple(deleted), tuple(stays), tuple(left), services.cloud.looked_for())


def _stays(resource: Resource, kept: Sequence[FileSystem]) -> bool:
    """Whether something is kept: logs by their retention; the group and the interfaces of a file system with it. Any
    other interface has been forgotten."""
    beside = resource.kind == "security group" or (
        resource.kind == "network interface" and "of a file system" in resource.detail
    )
    return resource.kind in _KEPT_BY_POLICY or (bool(kept) and beside)
