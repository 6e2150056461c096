"""Updates of a stack: what changed is changed in place, what is new is made, what is gone is deleted afterwards."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.cloudformation.exceptions import ValidationError
from moto.core.utils import utcnow

from trnctl.sandbox.aws import templates
from trnctl.sandbox.aws.head_nodes import head_node
from trnctl.sandbox.aws.progress import ResourceFailed, failed_to, resource_event, stack_event
from trnctl.sandbox.aws.resources import exists, nested_template, update_resource, wanted_resources
from trnctl.sandbox.aws.stacks import Failure, Stacks


@dataclass(frozen=True)
class Version:
    """One state of a stack that was asked for: the template's text, the parameters and the tags."""

    template: Any
    parameters: Mapping[str, Any]
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Applied:
    """The outcome of applying a version: what was touched, what is left over, and the failure if there was one."""

    touched: frozenset[str]
    superfluous: Mapping[str, Any]
    failure: Failure | None


class Updates:
    """UpdateStack, with rollback to the version before."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks

    def begin(
        self, stack: Any, template: Any, parameters: Mapping[str, Any] | None, tags: Mapping[str, str] | None
    ) -> None:
        """UpdateStack was accepted. Raises moto's ValidationError for a stack that cannot be updated now."""
        if stack.status.endswith("_IN_PROGRESS") or stack.status.startswith(("ROLLBACK", "DELETE")):
            raise ValidationError(message=f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.")
        old = Version(stack.template, dict(stack.parameters), dict(stack.tags))
        new = Version(
            template, old.parameters if parameters is None else parameters, old.tags if tags is None else tags
        )
        stack.last_updated_time = utcnow()
        stack_event(stack, "UPDATE_IN_PROGRESS", "User Initiated")
        self._stacks.in_thread(stack, lambda: self._update(stack, old, new), "UPDATE_FAILED")

    def _update(self, stack: Any, old: Version, new: Version) -> None:
        applied = self._apply(stack, new, frozenset())
        if applied.failure is None and not self._told_by_wait_condition(stack, applied):
            applied = self._tell_head_node(stack, applied)
        if self._stacks.leaving(stack):
            return
        if applied.failure is None:
            self._finish(stack, "UPDATE", applied.superfluous)
            return
        with self._stacks.lock:
            stack_event(stack, "UPDATE_ROLLBACK_IN_PROGRESS", failed_to("update", applied.failure.names))
        back = self._apply(stack, old, applied.touched)
        if back.failure is None:
            back = self._tell_head_node(stack, back)
        if back.failure is None:
            self._finish(stack, "UPDATE_ROLLBACK", back.superfluous)
            return
        with self._stacks.lock:
            stack_event(stack, "UPDATE_ROLLBACK_FAILED", failed_to("update", back.failure.names))

    def _apply(self, stack: Any, version: Version, also: frozenset[str]) -> Applied:
        """Bring the stack to a version; `also` names resources to update even if their text is the same."""
        with self._stacks.lock:
            before = dict(stack.resource_map._resource_json_map)
            parameters = dict(stack.resource_map.resolved_parameters)
            _load(stack, version)
            wanted = wanted_resources(stack)
            moved = {
                name for name, value in stack.resource_map.resolved_parameters.items() if parameters.get(name) != value
            }
            changed = {
                name: resource
                for name, resource in wanted.items()
                if not exists(stack, name)
                or name in also
                or before.get(name) != resource
                or moved & set(templates.references(resource))
            }
            fresh = {name for name in changed if not exists(stack, name)}
            superfluous = {name: before[name] for name in before if name not in wanted and exists(stack, name)}
        failure = self._stacks.walk(stack, changed, self._act, lambda name: "CREATE" if name in fresh else "UPDATE")
        return Applied(frozenset(changed), superfluous, failure)

    def _act(self, stack: Any, name: str) -> None:
        kind = stack.resource_map._resource_json_map[name]["Type"]
        if not exists(stack, name):
            if kind == templates.WAIT_CONDITION and head_node(stack.resource_map._resource_json_map):
                self._stacks.boots.begin_update(stack)
            self._stacks.make(stack, name)
        elif kind == templates.NESTED_STACK:
            self._act_nested(stack, name)
        else:
            time.sleep(self._stacks.seconds)
            with self._stacks.lock:
                update_resource(stack, name)

    def _act_nested(self, stack: Any, name: str) -> None:
        nested = stack.resource_map._parsed_resources[name]
        with self._stacks.lock:
            template, parameters = nested_template(stack, name)
            stack_event(nested, "UPDATE_IN_PROGRESS")
        applied = self._apply(nested, Version(template, parameters, stack.tags), frozenset())
        if applied.failure is not None:
            reason = failed_to("update", applied.failure.names)
            with self._stacks.lock:
                stack_event(nested, "UPDATE_ROLLBACK_IN_PROGRESS", reason)
            raise ResourceFailed(f"Embedded stack {nested.stack_id} was not successfully updated: {reason}")
        self._finish(nested, "UPDATE", applied.superfluous)

    def _told_by_wait_condition(self, stack: Any, applied: Applied) -> bool:
        """Whether the head node was already asked to take the update over, by a new wait condition."""
        resources = stack.resource_map._resource_json_map
        return any(resources[name]["Type"] == templates.WAIT_CONDITION for name in applied.touched)

    def _tell_head_node(self, stack: Any, applied: Applied) -> Applied:
        name = head_node(stack.resource_map._resource_json_map)
        if name is None or not applied.touched:
            return applied
        self._stacks.boots.begin_update(stack)
        try:
            self._stacks.boots.wait(stack)
        except ResourceFailed as error:
            with self._stacks.lock:
                resource_event(stack, name, "UPDATE_FAILED", str(error))
            return Applied(applied.touched, applied.superfluous, Failure((name,), str(error)))
        return applied

    def _finish(self, stack: Any, word: str, superfluous: Mapping[str, Any]) -> None:
        """Delete what the new version no longer has, then the update is complete."""
        with self._stacks.lock:
            stack_event(stack, f"{word}_COMPLETE_CLEANUP_IN_PROGRESS")
            wanted = stack.resource_map._resource_json_map
            stack.resource_map._resource_json_map = {**superfluous, **wanted}
        # What cannot be deleted after an update is left behind, as on AWS; its event tells.
        self._stacks.wipe(stack, list(superfluous))
        with self._stacks.lock:
            stack.resource_map._resource_json_map = wanted
            self._stacks.publish(stack)
            stack_event(stack, f"{word}_COMPLETE")


def _load(stack: Any, version: Version) -> None:
    """Make the stack's template, parameters and conditions those of a version; its resources stay."""
    stack.template, stack.parameters, stack.tags = version.template, dict(version.parameters), dict(version.tags)
    stack._parse_template()
    known = stack.resource_map
    known._template, known.input_parameters = stack.template_dict, dict(version.parameters)
    known.resolved_parameters = {}
    known.load_mapping()
    known.load_parameters()
    known.load_conditions()
    known._resource_json_map = stack.template_dict["Resources"]
