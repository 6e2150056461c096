"""The head nodes of the account: boots the machine behind each, and tells the stack how that went."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from trnctl.sandbox.aws.faults import SILENT, Faults
from trnctl.sandbox.aws.head_nodes import boot_of
from trnctl.sandbox.aws.last_words import leave_behind
from trnctl.sandbox.aws.progress import ResourceFailed
from trnctl.sandbox.ports import BootFailed, Machines

_log = logging.getLogger(__name__)

_PATIENCE = 120.0  # seconds of real time for a machine to come up; a wait condition's own timeout is half an hour


class Boots:
    """What each stack's wait condition waits for. `ready` is called with the cluster's name once its head is up."""

    def __init__(self, machines: Machines, faults: Faults, lock: threading.RLock, ready: Callable[[str], None]) -> None:
        self._machines, self._faults, self._lock, self._ready = machines, faults, lock, ready
        self._running: dict[str, Future[None]] = {}  # stack id -> the boot or update in progress, or done
        self._living: set[str] = set()

    def living(self) -> list[str]:
        """The clusters whose head node is up."""
        with self._lock:
            return sorted(self._living)

    def begin(self, stack: Any) -> None:
        """The head node's instance exists: boot the machine."""
        self._run(stack, self._boot)

    def begin_update(self, stack: Any) -> None:
        """The stack has a new configuration: the head node takes it over."""
        self._run(stack, self._reconfigure)

    def begun(self, stack: Any) -> bool:
        """Whether there is something to wait for."""
        return stack.stack_id in self._running

    def wait(self, stack: Any) -> None:
        """Wait for the head node's report. ResourceFailed carries what a wait condition would say."""
        running = self._running.get(stack.stack_id)
        if running is None:
            raise ResourceFailed(SILENT)
        try:
            running.result(timeout=_PATIENCE)
        except TimeoutError:
            raise ResourceFailed(SILENT) from None

    def shut_down(self, stack: Any) -> None:
        """The head node's instance goes: end the machine, after a boot that is still in progress."""
        running = self._running.pop(stack.stack_id, None)
        if running is None:
            return
        try:
            running.result(timeout=_PATIENCE)
        except (ResourceFailed, TimeoutError) as error:
            _log.info("%s is shut down after its boot failed: %s", stack.name, error)
        with self._lock:
            self._living.discard(stack.name)
        self._machines.shut_down(stack.name)

    def _run(self, stack: Any, work: Callable[[Any], None]) -> None:
        future: Future[None] = Future()
        self._running[stack.stack_id] = future

        def run() -> None:
            try:
                work(stack)
            except ResourceFailed as error:
                future.set_exception(error)
            except Exception as error:  # noqa: BLE001 - whatever goes wrong, the wait condition must end with it
                _log.exception("head node of %s", stack.name)
                future.set_exception(ResourceFailed(f"{type(error).__name__}: {error}"))
            else:
                future.set_result(None)

        threading.Thread(target=run, name=f"head-{stack.name}", daemon=True).start()

    def _boot(self, stack: Any) -> None:
        with self._lock:
            boot = boot_of(stack)
        if fault := self._faults.boot(stack.name):
            with self._lock:
                leave_behind(stack, boot, fault)
            raise ResourceFailed(_reported(fault.reason, boot.instance_id))
        try:
            self._machines.boot(boot)
        except BootFailed as error:
            raise ResourceFailed(_reported(str(error), boot.instance_id)) from error
        with self._lock:
            self._living.add(stack.name)
        self._ready(stack.name)

    def _reconfigure(self, stack: Any) -> None:
        with self._lock:
            boot = boot_of(stack)
        try:
            self._machines.reconfigure(stack.name, boot.config)
        except BootFailed as error:
            raise ResourceFailed(_reported(str(error), boot.instance_id)) from error


def _reported(reason: str, instance_id: str) -> str:
    """A wait condition's words for a failure that the head node reported; its own words stay as they are."""
    if reason.startswith("WaitCondition"):
        return reason
    return f"WaitCondition received failed message: '{reason}' for uniqueId: {instance_id}"
