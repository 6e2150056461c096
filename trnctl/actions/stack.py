"""Follows a cluster's CloudFormation stack to a state, and finds the event that made it fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from trnctl.errors import NotFoundError, ThrottledError, WaitedTooLong
from trnctl.ports import Phase, Services, StackEvent

POLL_SECONDS = 2.0
SLOW_POLL_SECONDS = 5.0  # after a minute: each look is four calls, and CloudFormation counts them
PATIENCE_S = 300.0  # how long AWS may answer "too many requests" before the wait gives up
_STARTS = frozenset({"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"})
_VICTIM = "Resource creation cancelled"


@dataclass(frozen=True)
class Progress:
    """One look at a stack on its way. `done` of `total` resources (`total` is None when it cannot be known);
    `current` are the resources in work, with the seconds that each has taken."""

    phase: Phase | None
    done: int
    total: int | None
    current: tuple[tuple[str, float], ...]
    elapsed_s: float


def watch(cluster: str, services: Services, *, until: frozenset[Phase | None], limit_s: float) -> Iterator[Progress]:
    """Yield a Progress at each look until the stack's phase is one of `until` (None: it is gone).

    Elapsed time counts from the start of the operation, also when an earlier command began it.
    WaitedTooLong after `limit_s` seconds of watching; the work goes on.
    """
    began = services.clock.now()
    answered, total, phase = began, None, None
    while True:
        now = services.clock.now()
        try:
            step = _look(cluster, services, total)
        except ThrottledError:
            if (now - answered).total_seconds() > PATIENCE_S:
                raise
        else:
            answered, total, phase = now, step.total, step.phase
            yield step
            if phase in until:
                return
        if (now - began).total_seconds() > limit_s:
            raise WaitedTooLong(
                f"{cluster} is still {phase or 'gone'} after {limit_s / 60:.0f} minutes",
                remedy="the work goes on: trnctl status shows it, and the same command takes up the wait again",
            )
        services.clock.sleep(POLL_SECONDS if (now - began).total_seconds() < 60 else SLOW_POLL_SECONDS)


def _look(cluster: str, services: Services, total: int | None) -> Progress:
    """One look; the size of the stack is asked for until it is known."""
    stack = services.cloud.observe(cluster).stack
    if total is None:
        total = stack_size(services.cloud.template(cluster))
    events = services.cloud.stack_events(cluster)
    return progress(cluster, stack.phase if stack else None, events, total, services.clock.now())


def progress(
    cluster: str, phase: Phase | None, events: Sequence[StackEvent], total: int | None, now: datetime
) -> Progress:
    """Where the newest operation on the stack stands. The stack's own events carry the cluster's name."""
    starts = [event for event in events if event.logical_id == cluster and event.status in _STARTS]
    since = starts[-1].at if starts else now
    newest: dict[str, StackEvent] = {}
    began: dict[str, datetime] = {}
    for event in events:
        if event.logical_id != cluster and event.at >= since:
            newest[event.logical_id] = event
            if event.status.endswith("IN_PROGRESS"):
                began.setdefault(event.logical_id, event.at)
    current = [
        (name, (now - began[name]).total_seconds())
        for name, event in newest.items()
        if event.status.endswith("IN_PROGRESS")
    ]
    current.sort(key=lambda row: -row[1])
    done = sum(event.status.endswith("_COMPLETE") for event in newest.values())
    return Progress(phase, done, total, tuple(current), max(0.0, (now - since).total_seconds()))


def stack_size(template: Mapping[str, object] | None) -> int | None:
    """How many resources a template has."""
    resources = (template or {}).get("Resources")
    return len(resources) if isinstance(resources, Mapping) else None


def retained(template: Mapping[str, object] | None, resources_by_id: Mapping[str, str]) -> frozenset[str]:
    """The physical ids of resources that outlive the stack (`DeletionPolicy: Retain`); `resources_by_id` maps the
    logical ids of the stack's resources to their physical ones."""
    resources = (template or {}).get("Resources")
    if not isinstance(resources, Mapping):
        return frozenset()
    kept = {
        name for name, body in resources.items() if isinstance(body, Mapping) and body.get("DeletionPolicy") == "Retain"
    }
    return frozenset(physical for logical, physical in resources_by_id.items() if logical in kept)


def cause(events: Sequence[StackEvent], stack: str = "") -> StackEvent | None:
    """The event that made the stack fail: the first failure of a resource that is not a mere victim of another.
    `stack` is the stack's name, which its own events carry; those only tell which resource failed.

    CloudFormation cancels everything that was under way when one resource fails; those say "Resource creation
    cancelled" and are what `describe` tends to show (aws-parallelcluster's failureCode ResourceCreationFailure).
    """
    failed = [event for event in events if event.status.endswith("_FAILED")]
    own = [event for event in failed if not event.reason.startswith(_VICTIM)]
    resources = [event for event in own if event.logical_id != stack]
    return next(iter(resources or own or failed), None)


def cause_of_failure(cluster: str, services: Services) -> StackEvent | None:
    """The cause, looked for in the nested stack too where the cluster's own events only say that it failed.

    ParallelCluster puts the queues (launch templates, placement groups, roles) into a nested stack.
    """
    event = cause(services.cloud.stack_events(cluster), cluster)
    for _ in range(2):
        if event is None or event.resource_type != "AWS::CloudFormation::Stack" or event.logical_id == cluster:
            return event
        inner = [one for one in services.cloud.stack_events(event.physical_id) if one.physical_id != event.physical_id]
        event = cause(inner) or event
    return event


def standing_phase(name: str, services: Services) -> Phase | None:
    """The phase of the stack of that name, None when there is none."""
    stack = services.cloud.observe(name).stack
    return stack.phase if stack else None


def require_stack(name: str, region: str, services: Services) -> Phase:
    """The phase of a cluster that must exist. NotFoundError otherwise."""
    phase = standing_phase(name, services)
    if phase is None:
        raise NotFoundError(
            f"there is no cluster {name} in {region}",
            remedy="trnctl cluster list shows what exists; trnctl cluster create makes it",
        )
    return phase


def stack_events(name: str, region: str, services: Services) -> list[StackEvent]:
    """All events of the newest stack of that name, also after its deletion. NotFoundError when there never was one."""
    events = services.cloud.stack_events(name)
    if not events:
        require_stack(name, region, services)
    return events
