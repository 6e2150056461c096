"""The part of clustermgtd that pcluster sees: the compute fleet's status in the cluster's DynamoDB table."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from trnctl.sandbox.aws.account import EmulatedAccount
from trnctl.sandbox.aws.backends import Backends
from trnctl.sandbox.ports import Machines

_log = logging.getLogger(__name__)


class Fleet:
    """Moves each living cluster's fleet from what was asked for to what is, one transition in `seconds`."""

    def __init__(
        self,
        backends: Backends,
        account: EmulatedAccount,
        machines: Machines,
        lock: threading.RLock,
        *,
        seconds: float,
        clusters: Callable[[], list[str]],
    ) -> None:
        self._backends, self._account, self._machines, self._lock = backends, account, machines, lock
        self._seconds, self._clusters = seconds, clusters
        self._ended = threading.Event()

    def status(self, cluster: str) -> str | None:
        """The status that stands in the table, None when there is neither table nor item."""
        with self._lock:
            if _table(cluster) not in self._backends.dynamodb.tables:
                return None
            item = self._backends.dynamodb.get_item(_table(cluster), {"Id": {"S": "COMPUTE_FLEET"}})
            return None if item is None else str(item.attrs["Data"].value["status"].value)

    def put(self, cluster: str, status: str) -> None:
        """Write a status; silent for a cluster without a table, which is being deleted."""
        data = {"status": {"S": status}, "lastStatusUpdatedTime": {"S": str(datetime.now(UTC))}}
        with self._lock:
            if _table(cluster) in self._backends.dynamodb.tables:
                self._backends.dynamodb.put_item(_table(cluster), {"Id": {"S": "COMPUTE_FLEET"}, "Data": {"M": data}})

    def start(self) -> None:
        """Watch the tables, in a thread, until `stop`."""
        threading.Thread(target=self._watch, name="fleet", daemon=True).start()

    def stop(self) -> None:
        """End the watch."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._seconds):
            for cluster in self._clusters():
                try:
                    self._advance(cluster)
                except Exception:  # noqa: BLE001 - one cluster's trouble must not stop the others' fleets
                    _log.exception("fleet of %s", cluster)

    def _advance(self, cluster: str) -> None:
        steps: dict[str, Callable[[str], None]] = {
            "STOP_REQUESTED": lambda cluster: self.put(cluster, "STOPPING"),
            "STOPPING": self._stopping,
            "START_REQUESTED": lambda cluster: self.put(cluster, "STARTING"),
            "STARTING": self._starting,
        }
        if step := steps.get(self.status(cluster) or ""):
            step(cluster)

    def _stopping(self, cluster: str) -> None:
        self._machines.stop_fleet(cluster)
        self._account.terminate_all(cluster)
        self.put(cluster, "STOPPED")

    def _starting(self, cluster: str) -> None:
        self._machines.start_fleet(cluster)
        self.put(cluster, "RUNNING")


def _table(cluster: str) -> str:
    return f"parallelcluster-{cluster}"
