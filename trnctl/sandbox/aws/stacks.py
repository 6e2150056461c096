"""Stacks that progress over time, resource by resource, and roll back when one fails.

moto makes a whole stack inside the CreateStack call. Here CreateStack, UpdateStack and DeleteStack answer at once,
as on AWS, and a thread for each stack does the work. What is made is still made by moto's models.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trnctl.sandbox.aws import image_builder, templates
from trnctl.sandbox.aws.backends import Backends
from trnctl.sandbox.aws.boots import Boots
from trnctl.sandbox.aws.faults import Faults
from trnctl.sandbox.aws.head_nodes import head_node
from trnctl.sandbox.aws.progress import ResourceFailed, failed_to, resource_event, stack_event
from trnctl.sandbox.aws.resources import (
    create_resource,
    delete_resource,
    exists,
    new_nested_stack,
    wanted_resources,
)

_log = logging.getLogger(__name__)

# pcluster describes the stack right after DeleteStack and calls the deletion failed when it is gone by then.
_LINGER = 0.5


@dataclass(frozen=True)
class Failure:
    """Why a walk over a stack's resources ended: the names that failed, the first with the reason."""

    names: tuple[str, ...]
    reason: str


class Stacks:
    """The engine. `seconds` is the pace: the time that one resource takes."""

    def __init__(self, boots: Boots, faults: Faults, lock: threading.RLock, seconds: float) -> None:
        self.boots, self.faults, self.lock, self.seconds = boots, faults, lock, seconds
        self._threads: dict[str, threading.Thread] = {}  # stack id -> the operation in progress, or the last one
        self._leaving: set[str] = set()  # ids of stacks that are to be deleted

    # ------------------------------------------------------------------------------ what moto calls

    def begin_create(self, stack: Any) -> None:
        """CreateStack was accepted; moto has added the event of the stack itself."""
        stack.status, stack.description = "CREATE_IN_PROGRESS", stack.template_dict.get("Description")
        self.in_thread(stack, lambda: self._create(stack), "CREATE_FAILED")

    def begin_delete(self, stack: Any) -> None:
        """DeleteStack was accepted; an operation in progress ends before the next resource."""
        if stack.status == "DELETE_IN_PROGRESS":
            return
        self._leaving.add(stack.stack_id)
        stack_event(stack, "DELETE_IN_PROGRESS", "User Initiated")
        self.in_thread(stack, lambda: self._delete(stack), "DELETE_FAILED")

    def in_thread(self, stack: Any, work: Callable[[], None], otherwise: str) -> None:
        """Run `work` beside the requests; a fault of the engine itself ends the stack with status `otherwise`."""

        before = self._threads.get(stack.stack_id)

        def run() -> None:
            try:
                if before is not None:
                    before.join()
                work()
            except Exception as error:  # noqa: BLE001 - a stack must never hang, whatever happened
                _log.exception("stack %s", stack.name)
                with self.lock:
                    stack_event(stack, otherwise, f"The sandbox failed: {type(error).__name__}: {error}")

        thread = threading.Thread(target=run, name=f"stack-{stack.name}", daemon=True)
        self._threads[stack.stack_id] = thread
        thread.start()

    def leaving(self, stack: Any) -> bool:
        """Whether the stack, or the one that it is nested in, is to be deleted."""
        return stack.stack_id in self._leaving or getattr(stack, "root_id", None) in self._leaving

    # ------------------------------------------------------------------------------ create

    def _create(self, stack: Any) -> None:
        failure = self.walk(stack, wanted_resources(stack), self.make, _creates)
        with self.lock:
            if self.leaving(stack):
                return
            if failure is None:
                self.publish(stack)
                stack_event(stack, "CREATE_COMPLETE")
                if image_builder.finish(stack):  # the stack of a build deletes itself
                    self.begin_delete(stack)
                return
            reason = failed_to("create", failure.names)
            if stack.disable_rollback:
                stack_event(stack, "CREATE_FAILED", reason)
                return
            stack_event(stack, "ROLLBACK_IN_PROGRESS", f"{reason}Rollback requested by user.")
        left = self.wipe(stack)
        with self.lock:
            if self.leaving(stack):
                return
            if left:
                stack_event(stack, "ROLLBACK_FAILED", failed_to("delete", left))
            else:
                stack_event(stack, "ROLLBACK_COMPLETE")

    def walk(
        self, stack: Any, resources: dict[str, Any], act: Callable[[Any, str], None], verb: Callable[[str], str]
    ) -> Failure | None:
        """Take `act` on each resource when all that it needs is done; what is ready is shown as in progress at once.

        `verb` tells for a name whether its events say CREATE or UPDATE. Wait conditions come last: they wait for
        what the others bring about. When one resource fails, those in progress are cancelled, as on AWS.
        """
        waiting = templates.needs(resources)
        started: list[str] = []
        done: set[str] = set()
        while len(done) < len(resources):
            with self.lock:
                for name in [name for name, before in waiting.items() if before <= done]:
                    del waiting[name]
                    started.append(name)
                    resource_event(stack, name, f"{verb(name)}_IN_PROGRESS")
            if not started:
                return Failure(tuple(waiting), f"Circular dependency between resources: [{', '.join(waiting)}]")
            if self.leaving(stack):
                return Failure(tuple(started), "The stack is being deleted")
            name = next((each for each in started if not _waits(resources[each])), started[0])
            started.remove(name)
            word = verb(name)
            if reason := self._outcome(stack, name, act, word):
                with self.lock:
                    resource_event(stack, name, f"{word}_FAILED", reason)
                    for other in started:
                        noun = "creation" if verb(other) == "CREATE" else "update"
                        resource_event(stack, other, f"{verb(other)}_FAILED", f"Resource {noun} cancelled")
                return Failure((name, *started), reason)
            done.add(name)
            with self.lock:
                resource_event(stack, name, f"{word}_COMPLETE")
        return None

    def make(self, stack: Any, name: str) -> None:
        """Create one resource, in the time that it takes. Raises ResourceFailed."""
        kind = stack.resource_map._resource_json_map[name]["Type"]
        if kind == templates.NESTED_STACK:
            self._make_nested(stack, name)
            return
        time.sleep(
            self.seconds * self.faults.slowness() * (image_builder.PATIENCE if kind == image_builder.IMAGE else 1)
        )
        if kind == templates.WAIT_CONDITION:
            self.boots.wait(stack)
        with self.lock:
            create_resource(stack, name)
            resource_event(stack, name, "CREATE_IN_PROGRESS", "Resource creation Initiated")
            is_head = name == head_node(stack.resource_map._resource_json_map)
        if is_head:
            self.boots.begin(stack)

    def publish(self, stack: Any) -> None:
        """Make the outputs and exports of a stack from what it has now."""
        stack.output_map = stack._create_output_map()
        exports = Backends(stack.region_name).cloudformation.exports
        for export in stack.output_map.exports:
            exports[export.name] = export

    def _make_nested(self, stack: Any, name: str) -> None:
        with self.lock:
            nested = new_nested_stack(stack, name)
            stack_event(nested, "CREATE_IN_PROGRESS")
            resource_event(stack, name, "CREATE_IN_PROGRESS", "Resource creation Initiated")
        failure = self.walk(nested, wanted_resources(nested), self.make, _creates)
        with self.lock:
            if failure is None:
                self.publish(nested)
                stack_event(nested, "CREATE_COMPLETE")
                return
            stack_event(nested, "CREATE_FAILED", failed_to("create", failure.names))
        raise ResourceFailed(
            f"Embedded stack {nested.stack_id} was not successfully created: {failed_to('create', failure.names)}"
        )

    def _outcome(self, stack: Any, name: str, act: Callable[[Any, str], None], verb: str) -> str | None:
        """None when the action went well, else the reason that the event gives."""
        try:
            self._fail_if_asked(stack, name, verb)
            act(stack, name)
        except ResourceFailed as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - a resource that breaks the engine fails like any other
            _log.exception("%s of stack %s", name, stack.name)
            return f"{type(error).__name__}: {error}"
        return None

    def _fail_if_asked(self, stack: Any, name: str, verb: str) -> None:
        kind = stack.resource_map._resource_json_map[name]["Type"]
        if reason := self.faults.resource(stack.name, kind, name, verb):
            time.sleep(self.seconds * self.faults.slowness())
            raise ResourceFailed(reason)

    # ------------------------------------------------------------------------------ delete

    def _delete(self, stack: Any) -> None:
        begun = time.monotonic()
        left = self.wipe(stack)
        time.sleep(max(0.0, _LINGER - (time.monotonic() - begun)))
        with self.lock:
            self._leaving.discard(stack.stack_id)
            if left:
                stack_event(stack, "DELETE_FAILED", failed_to("delete", left))
                return
            self.forget(stack)

    def forget(self, stack: Any) -> None:
        """The stack is deleted: it can still be described by its id, as on AWS."""
        backend = Backends(stack.region_name).cloudformation
        stack_event(stack, "DELETE_COMPLETE")
        backend.stacks.pop(stack.stack_id, None)
        backend.deleted_stacks[stack.stack_id] = stack
        for name in [name for name, export in backend.exports.items() if export.exporting_stack_id == stack.stack_id]:
            del backend.exports[name]

    def wipe(self, stack: Any, names: list[str] | None = None) -> list[str]:
        """Delete all resources of a stack, or those named, the last made first; the names that would not go."""
        resources = stack.resource_map._resource_json_map
        order = [name for name in reversed(templates.creation_order(resources)) if names is None or name in names]
        return [name for name in order if exists(stack, name) and not self._unmake(stack, name)]

    def _unmake(self, stack: Any, name: str) -> bool:
        """Delete one resource; False when it failed, which its event then says."""
        resource = stack.resource_map._resource_json_map[name]
        if templates.retained(resource):
            with self.lock:
                resource_event(stack, name, "DELETE_SKIPPED")
                stack.resource_map._parsed_resources.pop(name)
            return True
        with self.lock:
            resource_event(stack, name, "DELETE_IN_PROGRESS")
        reason = self._outcome(stack, name, self._take_down, "DELETE")
        with self.lock:
            if reason:
                resource_event(stack, name, "DELETE_FAILED", reason)
                return False
            resource_event(stack, name, "DELETE_COMPLETE")
            stack.resource_map._parsed_resources.pop(name)
        return True

    def _take_down(self, stack: Any, name: str) -> None:
        if stack.resource_map._resource_json_map[name]["Type"] == templates.NESTED_STACK:
            nested = stack.resource_map._parsed_resources[name]
            with self.lock:
                stack_event(nested, "DELETE_IN_PROGRESS")
            left = self.wipe(nested)
            if left:
                raise ResourceFailed(failed_to("delete", left))
            with self.lock:
                self.forget(nested)
            return
        time.sleep(self.seconds / 2)
        if name == head_node(stack.resource_map._resource_json_map):
            self.boots.shut_down(stack)
        with self.lock:
            delete_resource(stack, name)


def _waits(resource: dict[str, Any]) -> bool:
    return bool(resource["Type"] == templates.WAIT_CONDITION)


def _creates(name: str) -> str:
    return "CREATE"
