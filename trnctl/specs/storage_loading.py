"""Reads `cluster.storage`: FSx for Lustre, EFS and EBS, new or existing, and where they are mounted."""

from __future__ import annotations

from typing import get_args

from trnctl.specs import rules
from trnctl.specs.cluster import Deployment, OnDelete, Queue, S3Link, Storage
from trnctl.specs.queue_loading import refuse_duplicates, reserved_problem
from trnctl.specs.reading import Section

_KINDS = ("fsx", "efs", "ebs")
_DEPLOYMENTS: tuple[Deployment, ...] = get_args(Deployment)
_MOST_LINKS = 8  # data repository associations of one file system
_MOST_VOLUMES = 5  # EBS volumes of one cluster
_ON_DELETE: tuple[OnDelete, ...] = get_args(OnDelete)


def read_storage(cluster: Section) -> tuple[Storage, ...]:
    """All shared file systems, in order."""
    made = tuple(_one(section) for section in cluster.sections("storage"))
    refuse_duplicates(cluster, "storage", [storage.name for storage in made], "file system")
    for kind in ("fsx", "efs"):
        new = [number for number, storage in enumerate(made) if storage.kind == kind and storage.managed]
        for number in new[1:]:
            cluster.problem(
                "too-many-new-file-systems",
                f"ParallelCluster makes at most one new {kind} file system",
                "Make this one yourself and name it: `file_system_id: fs-…`.",
                key="storage",
                item=number,
            )
    if sum(storage.kind == "ebs" for storage in made) > _MOST_VOLUMES:
        cluster.problem(
            "too-many-volumes", f"There are more than {_MOST_VOLUMES} EBS volumes", "Use fewer.", key="storage"
        )
    return made


def check_mounts(cluster: Section, storage: tuple[Storage, ...], queues: tuple[Queue, ...]) -> None:
    """Report mount directories that are the same or lie in one another, the nodes' own disks included."""
    disks = sorted({queue.ephemeral_mount for queue in queues if queue.ephemeral_mount})
    mounts = [one.mount for one in storage if one.mount]
    for other, mount in rules.overlapping([*disks, *mounts]):
        if mount in mounts:
            cluster.problem(
                "mount-overlap",
                f"`{mount}` and `{other}` overlap" if mount != other else f"`{mount}` is mounted twice",
                "Choose directories beside each other. The instances' own disks are at a queue's `ephemeral_mount`."
                if other in disks
                else "Choose directories beside each other.",
                key="storage",
                item=next(number for number, one in enumerate(storage) if one.mount == mount),
            )


def check_managed_fsx(cluster: Section, storage: tuple[Storage, ...], subnets: set[str]) -> None:
    """A new FSx for Lustre lives in one subnet: ParallelCluster refuses it beside queues in several."""
    for number, one in enumerate(storage):
        if one.kind == "fsx" and one.managed and len(subnets) > 1:
            cluster.problem(
                "fsx-several-subnets",
                f"A new FSx file system cannot be made for queues in {len(subnets)} subnets",
                "Put all queues into one subnet, use efs, or make the file system yourself: `file_system_id: fs-…`.",
                key="storage",
                item=number,
            )


def _one(item: Section) -> Storage:
    """One item: `- fsx: {…}`, `- efs: {…}` or `- ebs: {…}`."""
    written = [kind for kind in _KINDS if item.has(kind)]
    if len(written) != 1:
        item.problem(
            "storage-kind",
            "An item of `storage` is exactly one of fsx, efs and ebs",
            "Write it as in `- fsx: {mount: /fsx, capacity_gib: 1200}`.",
        )
        return Storage("ebs", "", "")  # a stand-in that no other check speaks of
    kind = written[0]
    section = item.section(kind)
    mount = section.text("mount", rule=rules.MOUNT)
    if mount and rules.reserved_mount(mount):
        reserved_problem(section, "mount", mount)
    # The name follows the mount, not the position: another name would replace the file system on an update.
    name = section.text("name", mount.strip("/").replace("/", "-")[:30] or kind, rule=rules.STORAGE_NAME)
    return {"fsx": _fsx, "efs": _efs, "ebs": _ebs}[kind](section, mount, name)


def _existing_id(section: Section, kind: str) -> str | None:
    """The id of a file system that exists; what describes a new one may not stand beside it."""
    rule = rules.VOLUME_ID if kind == "ebs" else rules.FILE_SYSTEM_ID
    key = "volume_id" if kind == "ebs" and section.has("volume_id") else "file_system_id"
    found = section.text(key, None, rule=rule)
    if section.has(key):
        for other in section.keys():  # noqa: SIM118  # a Section is no mapping
            if other in {
                "capacity_gib",
                "size_gib",
                "deployment",
                "throughput",
                "on_delete",
                "s3",
                "volume_type",
                "encrypted",
            }:
                section.problem(
                    "storage-exists",
                    f"`{other}` describes a new file system, but `{key}` names an existing one",
                    f"Remove `{other}`: trnctl never changes or deletes a file system that it did not make.",
                    key=other,
                )
    return found


def _fsx(section: Section, mount: str, name: str) -> Storage:
    existing = _existing_id(section, "fsx")
    deployment: Deployment = section.choice("deployment", _DEPLOYMENTS, "SCRATCH_2")
    new = not section.has("file_system_id")
    capacity = section.integer("capacity_gib", minimum=1) if new else section.integer("capacity_gib", 0)
    throughput = section.integer("throughput", None, minimum=1)
    made = Storage(
        kind="fsx",
        mount=mount,
        name=name,
        gib=capacity,
        file_system_id=existing,
        deployment=deployment,
        throughput=throughput,
        on_delete=section.choice("on_delete", _ON_DELETE, "retain"),
        s3=_links(section, deployment),
    )
    if new:
        _check_fsx(section, made)
    return made


def _check_fsx(section: Section, made: Storage) -> None:
    fixed, step = rules.FSX_SIZES[made.deployment]
    if made.gib and made.gib not in fixed and made.gib % step:
        above = (made.gib // step + 1) * step
        nearest = min([*fixed, above], key=lambda size: abs(size - made.gib))
        section.problem(
            "fsx-capacity",
            f"FSx {made.deployment} has no size of {made.gib} GiB",
            f"Write {' or '.join(map(str, fixed))} or a multiple of {step}; the nearest is {nearest}.",
            key="capacity_gib",
        )
    allowed = rules.FSX_THROUGHPUTS[made.deployment]
    if allowed and made.throughput not in allowed and (made.throughput or not section.has("throughput")):
        section.problem(
            "fsx-throughput",
            f"FSx {made.deployment} needs a throughput, in MB/s per TiB",
            f"Write `throughput:` with one of {', '.join(map(str, allowed))}.",
            key="throughput",
        )
    elif not allowed and made.throughput:
        section.problem(
            "fsx-throughput",
            f"FSx {made.deployment} has a fixed throughput",
            "Remove `throughput`, or write `deployment: PERSISTENT_2`.",
            key="throughput",
        )


def _links(section: Section, deployment: str) -> tuple[S3Link, ...]:
    links = section.sections("s3")
    # The oldest file systems know no associations: they are made from one bucket, at their root.
    made = tuple(
        S3Link(
            link.text("path", "/") if deployment == "SCRATCH_1" else link.text("path", rule=rules.MOUNT),
            link.text("uri", rule=rules.S3_URI),
        )
        for link in links
    )
    if len(made) > _MOST_LINKS:
        section.problem("fsx-links", f"{len(made)} S3 links are too many", f"FSx takes {_MOST_LINKS}.", key="s3")
    if deployment == "SCRATCH_1" and (len(made) > 1 or any(link.path != "/" for link in made)):
        section.problem(
            "fsx-links",
            "FSx SCRATCH_1 links one bucket, and only at its root",
            "Write one link with `path: /`, or `deployment: SCRATCH_2`.",
            key="s3",
        )
    for other, path in rules.overlapping(link.path for link in made if link.path):
        section.problem(
            "fsx-links", f"The S3 links at `{other}` and `{path}` overlap", "Choose paths beside each other.", key="s3"
        )
    return made


def _efs(section: Section, mount: str, name: str) -> Storage:
    existing = _existing_id(section, "efs")
    return Storage(
        kind="efs",
        mount=mount,
        name=name,
        file_system_id=existing,
        on_delete=section.choice("on_delete", _ON_DELETE, "retain"),
        encrypted=section.flag("encrypted", True),
    )


def _ebs(section: Section, mount: str, name: str) -> Storage:
    existing = _existing_id(section, "ebs")
    new = not (section.has("volume_id") or section.has("file_system_id"))
    size = section.integer("size_gib", minimum=1) if new else section.integer("size_gib", 0)
    volume_type = section.choice("volume_type", tuple(rules.EBS_SIZES), "gp3")
    smallest, largest = rules.EBS_SIZES[volume_type]
    if size and not smallest <= size <= largest:
        section.problem(
            "ebs-size",
            f"An EBS volume of type {volume_type} cannot have {size} GiB",
            f"Write {smallest} to {largest}.",
            key="size_gib",
        )
    return Storage(
        kind="ebs",
        mount=mount,
        name=name,
        gib=size,
        file_system_id=existing,
        on_delete=section.choice("on_delete", _ON_DELETE, "retain"),
        volume_type=volume_type,
        encrypted=section.flag("encrypted", True),
    )
