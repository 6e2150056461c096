"""Mount a file system that an earlier cluster of the same name has left, with its data, instead of making a new one."""

from __future__ import annotations

from dataclasses import replace

from trnctl.actions.stack import retained
from trnctl.ports import FileSystem, Services
from trnctl.specs.cluster import ClusterSpec, Storage

# An EFS that a cluster has left has lost its mount targets with it, and is not adopted.
_KINDS = {"fsx": "fsx-lustre", "ebs": "ebs"}
# What ParallelCluster says of the rules of an adopted file system's group, which `create` mends after the person's yes.
MENDED = "pcluster-existing-fsx-networking"


def adopt(spec: ClusterSpec, services: Services) -> tuple[ClusterSpec, tuple[FileSystem, ...]]:
    """The spec with the ids of what it adopts, and these file systems: each carries the cluster's tag, belongs to no
    stack, is available, and is the only one of the kind and size that the file asks for.

    While a cluster stands, what its stack mounts has been decided: only that is adopted, so that an update sees no
    difference. Nothing is written down: the answer is found anew each time.
    """
    wanted = [one for one in spec.storage if one.managed]
    systems = services.cloud.file_systems(spec.name) if wanted else []
    if not systems:
        return spec, ()
    free = _free(spec.name, services, systems)
    chosen = {one.name: fit[0] for one in wanted if len(fit := [two for two in free if _fits(one, two)]) == 1}
    storage = tuple(
        replace(one, file_system_id=chosen[one.name].id) if one.name in chosen else one for one in spec.storage
    )
    return replace(spec, storage=storage), tuple(chosen.values())


def _free(cluster: str, services: Services, systems: list[FileSystem]) -> list[FileSystem]:
    """Those that no stack owns; of a cluster that stands those that it mounts already."""
    stack = services.cloud.observe(cluster).stack
    available = [one for one in systems if one.state in {"available", "in-use"}]
    if stack is None:
        return available
    template, resources = services.cloud.template(cluster), services.cloud.resources(cluster)
    if stack.phase == "create-failed":  # it is deleted first; what it retains is then nobody's
        owned = set(resources.values()) - retained(template, resources)
        return [one for one in available if one.id not in owned]
    return [one for one in available if one.id in str(template) and one.id not in resources.values()]


def _fits(wanted: Storage, found: FileSystem) -> bool:
    """Whether a file system is what the file asks for."""
    if found.kind != _KINDS.get(wanted.kind):
        return False
    if wanted.kind == "fsx" and found.deployment not in {"", wanted.deployment}:
        return False
    return found.gib == wanted.gib


def adopted_ids(spec: ClusterSpec | None, mounted: set[str], systems: list[FileSystem]) -> set[str]:
    """Of the file systems that a stack mounts by their ids: those that the cluster file did not name, but would make.
    They were adopted, and are the cluster's own."""
    if spec is None:
        return set()
    makes = [one for one in spec.storage if one.managed]
    named = {one.file_system_id for one in spec.storage}
    return {one.id for one in systems if one.id in mounted - named and any(_fits(storage, one) for storage in makes)}
