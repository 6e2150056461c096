"""Delete a cluster's stack, and get past what is known to keep CloudFormation from deleting it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trnctl.actions.create import failure
from trnctl.actions.stack import POLL_SECONDS, Progress, cause_of_failure, watch
from trnctl.ports import Phase, Services

LIMIT_S = 40 * 60
TRIES = 5
INSTANCES_LIMIT_S = 25 * 60  # trn1 and trn1n were seen to take more than 15 minutes to terminate
BESIDE_LIMIT_S = 5 * 60


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
