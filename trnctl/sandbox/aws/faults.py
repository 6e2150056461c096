"""Rules that make the account's answers fail, on demand and for a number of times."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, ClassVar, TypeVar

NO_CAPACITY = (
    "We currently do not have sufficient {type} capacity in the Availability Zone you requested ({zone}). "
    "Our system will be working on provisioning additional capacity."
)
SILENT = "WaitCondition timed out. Received 0 conditions when expecting 1"


@dataclass
class Rule:
    """What all rules share: `times` counts down with each use; None means for ever."""

    kind: ClassVar[str] = ""
    times: int | None = 1

    def spent(self) -> bool:
        """Whether the rule has done its work."""
        return self.times is not None and self.times <= 0

    def use(self) -> None:
        """Count one use."""
        if self.times is not None:
            self.times -= 1


@dataclass
class ApiFault(Rule):
    """An AWS call that answers with an error; `service` and `action` are patterns (`ec2`, `Describe*`)."""

    kind: ClassVar[str] = "api"
    service: str = "*"
    action: str = "*"
    code: str = "InternalError"
    message: str = ""
    status: int = 400


@dataclass
class ResourceFault(Rule):
    """A stack resource that fails; all but `reason` are patterns, `op` is CREATE, UPDATE or DELETE."""

    kind: ClassVar[str] = "resource"
    stack: str = "*"
    type: str = "*"
    logical_id: str = "*"
    op: str = "CREATE"
    reason: str = "Resource handler returned message: a fault was asked for"


@dataclass
class BootFault(Rule):
    """A head node that never reports success; the default reason is CloudFormation's for one that stays silent.

    `logs` is what it has sent to CloudWatch by then, by the log's name in its stream (`chef-client`, `cfn-init`, …),
    and `console` what EC2 shows of its console.
    """

    kind: ClassVar[str] = "boot"
    cluster: str = "*"
    reason: str = SILENT
    logs: Mapping[str, str] = field(default_factory=dict)
    console: str = ""


@dataclass
class SlowFault(Rule):
    """Stacks whose every resource takes `factor` times as long, until the rule is removed."""

    kind: ClassVar[str] = "slow"
    factor: float = 10.0

    def __post_init__(self) -> None:
        self.times = None


def _now() -> datetime:
    """The time as moto gives it for launches: UTC, without saying so."""
    return datetime.now(UTC).replace(tzinfo=None)


@dataclass
class LaunchFault(Rule):
    """A compute launch that EC2 refuses.

    Without `capacity` each launch request of a matching type is refused, `times` times. With it, so many instances
    are left to be had; what is terminated comes back, and the rule stays until it is removed.
    """

    kind: ClassVar[str] = "launch"
    instance_type: str = "*"
    code: str = "InsufficientInstanceCapacity"
    message: str = NO_CAPACITY
    capacity: int | None = None
    since: datetime = field(default_factory=_now, init=False)

    def __post_init__(self) -> None:
        if self.capacity is not None:
            self.times = None


R = TypeVar("R", bound="Rule")

_KINDS: dict[str, type[Rule]] = {
    rule.kind: rule for rule in (ApiFault, ResourceFault, BootFault, SlowFault, LaunchFault)
}


class Faults:
    """The rules in force; the first that matches is used. Safe to use from several threads."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    def add(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Add a rule from its JSON form, `{"kind": …, …}`. ValueError names an unknown kind or key."""
        settings = dict(wanted)
        kind = _KINDS.get(str(settings.pop("kind", "")))
        if kind is None:
            raise ValueError(f"A fault needs a kind: one of {', '.join(_KINDS)}.")
        known = {each.name for each in fields(kind) if each.init}
        if unknown := sorted(set(settings) - known):
            raise ValueError(
                f"A fault of kind {kind.kind} has no {', '.join(unknown)}; it has {', '.join(sorted(known))}."
            )
        rule = kind(**settings)
        with self._lock:
            self._rules.append(rule)
        return _as_json(rule)

    def listing(self) -> list[dict[str, Any]]:
        """The rules in force, as JSON."""
        with self._lock:
            return [_as_json(rule) for rule in self._rules]

    def clear(self) -> None:
        """Remove every rule."""
        with self._lock:
            self._rules.clear()

    def api(self, service: str, action: str) -> ApiFault | None:
        """The rule that this call meets, used up by one."""
        with self._lock:
            for rule in self._rules:
                if isinstance(rule, ApiFault) and _match((rule.service, service), (rule.action, action)):
                    return self._used(rule)
        return None

    def resource(self, stack: str, kind: str, logical_id: str, op: str) -> str | None:
        """The reason for which this operation on a stack's resource fails."""
        with self._lock:
            for rule in self._rules:
                if isinstance(rule, ResourceFault) and _match(
                    (rule.stack, stack), (rule.type, kind), (rule.logical_id, logical_id), (rule.op, op)
                ):
                    return self._used(rule).reason
        return None

    def boot(self, cluster: str) -> BootFault | None:
        """The rule because of which this head node does not boot."""
        with self._lock:
            for rule in self._rules:
                if isinstance(rule, BootFault) and _match((rule.cluster, cluster)):
                    return self._used(rule)
        return None

    def slowness(self) -> float:
        """How many times as long each resource of a stack takes now."""
        with self._lock:
            return max((rule.factor for rule in self._rules if isinstance(rule, SlowFault)), default=1.0)

    def launch(
        self, instance_type: str, wanted: int, living: Callable[[LaunchFault], int]
    ) -> tuple[int, LaunchFault | None]:
        """How many of `wanted` instances may be launched, and the rule that stands against the rest.

        `living` counts the instances that a rule with `capacity` has let through and that still live.
        """
        with self._lock:
            for rule in self._rules:
                if isinstance(rule, LaunchFault) and _match((rule.instance_type, instance_type)):
                    if rule.capacity is None:
                        return 0, self._used(rule)
                    return min(wanted, max(0, rule.capacity - living(rule))), rule
        return wanted, None

    def _used(self, rule: R) -> R:
        rule.use()
        if rule.spent():
            self._rules.remove(rule)
        return rule


def _match(*pairs: tuple[str, str]) -> bool:
    return all(fnmatchcase(value, pattern) for pattern, value in pairs)


def _as_json(rule: Rule) -> dict[str, Any]:
    return {"kind": rule.kind, **asdict(rule)}
