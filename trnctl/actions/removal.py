"""Delete a cluster's stack and its storage, and get past what is known to keep CloudFormation from deleting it."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

from trnctl.actions.create import failure
from trnctl.actions.stack import POLL_SECONDS, Progress, cause_of_failure, watch
from trnctl.errors import CloudError
from trnctl.ports import FileSystem, Phase, Resource, Services

LIMIT_S = 40 * 60
TRIES = 5
INSTANCES_LIMIT_S = 25 * 60  # trn1 and trn1n were seen to take more than 15 minutes to terminate
BESIDE_LIMIT_S = 5 * 60
STORAGE_LIMIT_S = 20 * 60
# What AWS keeps beside a file system for as long as that stands.
_BESIDE_STORAGE = frozenset({"security group", "network interface"})


@dataclass(frozen=True)
class Waiting:
    """A wait that is no stack's: for what, and how long by now."""

    what: str
    elapsed_s: float


@dataclass(frozen=True)
class Hindrance:
    """A known reason of DELETE_FAILED. `waits` yields what is waited for, in words, until the deletion may be tried
    again; it repairs only what carries the cluster's own tag."""

    pattern: str
    waits: Callable[[str, Services], Iterator[str]]


def _instances_gone(cluster: str, services: Services) -> Iterator[str]:
    """A placement group is in use as long as an instance lives; ParallelCluster's own clean-up waits 14 minutes."""
    began = services.clock.now()
    while (services.clock.now() - began).total_seconds() < INSTANCES_LIMIT_S:
        living = [one for one in services.cloud.leftovers(cluster) if one.kind == "instance"]
        if not living:
            return
        yield f"{len(living)} instance{'s' * (len(living) != 1)} to terminate, which hold a placement group"
        services.clock.sleep(POLL_SECONDS)


def _interfaces_gone(cluster: str, services: Services) -> Iterator[str]:
    """Interfaces that nothing uses any more keep their security group; those with the cluster's tag are deleted."""
    began = services.clock.now()
    while (services.clock.now() - began).total_seconds() < BESIDE_LIMIT_S:
        found = [one for one in services.cloud.leftovers(cluster) if one.kind == "network interface" and one.id]
        kept = [one for one in found if not services.cloud.delete_beside(one)]
        if not kept:
            return
        yield f"{', '.join(one.id for one in kept)} to be let go, which holds a security group"
        services.clock.sleep(POLL_SECONDS)


def _a_while(cluster: str, services: Services) -> Iterator[str]:
    """AWS's own trouble passes."""
    for _ in range(5):
        yield f"AWS, which would not delete a part of {cluster} for the moment"
        services.clock.sleep(POLL_SECONDS)


HINDRANCES: tuple[Hindrance, ...] = (
    Hindrance(r"placement group.*(in use|may not be deleted)", _instances_gone),
    Hindrance(
        r"dependent object|DependencyViolation|is currently in use|InvalidNetworkInterface\.InUse", _interfaces_gone
    ),
    Hindrance(r"[Rr]ate exceeded|[Tt]hrottling|Internal ?Failure|ServiceUnavailable|InternalError", _a_while),
)


def delete_stack(name: str, services: Services) -> Iterator[Progress]:
    """Delete the stack and wait until it is gone. What is known to hinder it is waited for or repaired, and the
    deletion tried again, a few times. ToolError names what could not be deleted."""
    for attempt in range(1, TRIES + 1):
        services.provisioner.delete(name)
        phase: Phase | None = None
        last: Progress | None = None
        for step in watch(name, services, until=frozenset({None, "delete-failed"}), limit_s=LIMIT_S):
            phase, last = step.phase, step
            yield step
        if phase is None:
            return
        hindrance = _known(name, services)
        if hindrance is None or attempt == TRIES:
            raise failure(name, "deleted", services)
        began = services.clock.now()
        for words in hindrance.waits(name, services):
            waited = (services.clock.now() - began).total_seconds()
            done, total = (last.done, last.total) if last else (0, None)
            yield Progress(
                "delete-failed", done, total, ((f"waits for {words}", waited),), last.elapsed_s if last else 0
            )


def _known(name: str, services: Services) -> Hindrance | None:
    event = cause_of_failure(name, services)
    reason = event.reason if event is not None else ""
    return next((one for one in HINDRANCES if re.search(one.pattern, reason)), None)


def delete_storage_of(
    kept: Sequence[FileSystem], cluster: str, services: Services
) -> Generator[Waiting, None, list[str]]:
    """Delete and wait until they are gone. CloudError when one still stands after 20 minutes."""
    for one in kept:
        services.cloud.delete_file_system(one)
    wanted = {one.id for one in kept}
    began = services.clock.now()
    while left := wanted & {one.id for one in services.cloud.file_systems(cluster)}:
        waited = (services.clock.now() - began).total_seconds()
        if waited > STORAGE_LIMIT_S:
            raise CloudError(
                f"file systems are still there after {STORAGE_LIMIT_S // 60} minutes: {', '.join(sorted(left))}",
                remedy="run teardown --delete-storage again; it takes up where this ended",
            )
        yield Waiting(f"file systems are being deleted: {', '.join(sorted(left))}", waited)
        services.clock.sleep(POLL_SECONDS)
    return [f"{one.kind} {one.id}" for one in kept]


def delete_beside(cluster: str, services: Services) -> Generator[Waiting, None, list[str]]:
    """Delete what file systems kept alive. Their interfaces go some time after them, and hold the groups until then."""
    deleted: list[str] = []
    began = services.clock.now()
    while True:
        found = [one for one in services.cloud.leftovers(cluster) if one.kind in _BESIDE_STORAGE and one.id]
        gone = [one for one in found if services.cloud.delete_beside(one)]
        deleted += [words(one) for one in gone]
        waited = (services.clock.now() - began).total_seconds()
        if len(gone) == len(found) or waited > BESIDE_LIMIT_S:
            return deleted
        left = ", ".join(one.id for one in found if one not in gone)
        yield Waiting(f"what stood beside file systems is being deleted: {left}", waited)
        services.clock.sleep(POLL_SECONDS)


def words(resource: Resource) -> str:
    """One resource in words; without an id, its detail says why it could not be looked for."""
    if not resource.id:
        return resource.detail
    detail = f" ({resource.detail})" if resource.detail else ""
    cost = f": ${resource.monthly_usd:,.0f} a month" if resource.monthly_usd else ""
    return f"{resource.kind} {resource.id}{detail}{cost}"
