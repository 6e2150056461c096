"""How a stack shows its progress: events with CloudFormation's wording, and the paces between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moto.cloudformation.models import Event

STACK = "AWS::CloudFormation::Stack"


class ResourceFailed(Exception):
    """A resource could not be created, updated or deleted; the text is the event's reason."""


def resource_event(stack: Any, name: str, status: str, reason: str | None = None) -> None:
    """Add an event of one resource to its stack."""
    resources = stack.resource_map._resource_json_map
    made = stack.resource_map._parsed_resources.get(name)
    kind = resources[name]["Type"] if name in resources else getattr(made, "cf_resource_type", "")
    physical_id = getattr(made, "physical_resource_id", None) or ""
    stack.events.append(Event(stack.stack_id, stack.name, name, physical_id, kind, status, reason, None))


def stack_event(stack: Any, status: str, reason: str | None = None) -> None:
    """Change the status of a stack and add the event that says so."""
    stack.status, stack.stack_status_reason = status, reason
    stack.events.append(Event(stack.stack_id, stack.name, stack.name, stack.stack_id, STACK, status, reason, None))


def failed_to(verb: str, names: Iterable[str]) -> str:
    """CloudFormation's sentence for a stack of which some resources failed; `verb` is create, update or delete."""
    return f"The following resource(s) failed to {verb}: [{', '.join(names)}]. "
