"""The `Machines` door: all clusters of a sandbox, on this machine."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trnctl.errors import TrnctlError
from trnctl.sandbox.machines import ssh
from trnctl.sandbox.machines.cluster import Cluster, Pace, write_whole
from trnctl.sandbox.machines.names import expand
from trnctl.sandbox.ports import Account, BootFailed, HeadNodeBoot
from trnctl.sandbox.processes import Register

log = logging.getLogger(__name__)


class LocalMachines:
    """Head and compute nodes as processes below `home`, with their sockets in `runtime`.

    `account` and `endpoint` (the URL at which `routes` are served) must be set before the first `boot`.
    """

    def __init__(self, home: Path, runtime: Path, register: Register, pace: Pace) -> None:
        self.account: Account | None = None
        self.endpoint = ""
        self._home, self._runtime, self._register, self._pace = home, runtime, register, pace
        self._clusters: dict[str, Cluster] = {}
        self._heads: dict[str, ssh.Head] = {}
        self._faults: list[str] = []
        self._booted = 0
        self._lock = threading.Lock()
        ssh.make_keys(home / "keys")
        self._write_client_config()

    # -------------------------------------------------------------------------------- the door

    def boot(self, boot: HeadNodeBoot) -> None:
        """Start a cluster; see `ports.Machines`."""
        if self.account is None:
            raise BootFailed("the machines have no account to launch instances in")
        self.shut_down(boot.cluster)
        ssh.make_privilege_folder()
        with self._lock:
            self._booted += 1
            runtime = self._runtime / str(self._booted)
        cluster = Cluster(
            boot,
            home=self._home,
            runtime=runtime,
            account=self.account,
            register=self._register,
            endpoint=self.endpoint,
            pace=self._pace,
            faults=self._faults,
        )
        try:
            head = cluster.start()
        except (OSError, TrnctlError, BootFailed) as error:
            cluster.stop()
            raise error if isinstance(error, BootFailed) else BootFailed(str(error)) from error
        with self._lock:
            self._clusters[boot.cluster], self._heads[boot.cluster] = cluster, head
            self._write_client_config()

    def reconfigure(self, cluster: str, config: Mapping[str, object]) -> None:
        """Follow an update; see `ports.Machines`."""
        if found := self._clusters.get(cluster):
            found.reconfigure(config)

    def stop_fleet(self, cluster: str) -> None:
        """Power everything down; see `ports.Machines`."""
        if found := self._clusters.get(cluster):
            found.stop_fleet()

    def start_fleet(self, cluster: str) -> None:
        """Power static nodes up; see `ports.Machines`."""
        if found := self._clusters.get(cluster):
            found.start_fleet()

    def shut_down(self, cluster: str) -> None:
        """End a cluster; silent if there is none."""
        with self._lock:
            found = self._clusters.pop(cluster, None)
            self._heads.pop(cluster, None)
            self._write_client_config()
        if found is not None:
            found.stop()

    def delete_file_system(self, file_system_id: str) -> None:
        """Remove the content of a file system."""
        shutil.rmtree(self._home / "file_systems" / Path(file_system_id).name, ignore_errors=True)

    def close(self) -> None:
        """End all clusters."""
        for name in list(self._clusters):
            self.shut_down(name)

    # -------------------------------------------------------------------------------- what the world is asked

    def routes(self) -> dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]:
        """Paths below the endpoint, for POST, and what answers them."""
        return {
            "/_sandbox/resume": self._resume,
            "/_sandbox/suspend": self._suspend,
            "/_sandbox/tool-faults": self._tool_faults,
            "/_sandbox/node-death": self._node_death,
            "/_sandbox/cluster-faults": self._cluster_faults,
            "/_sandbox/restart-controller": self._restart_controller,
        }

    def _resume(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """{cluster, nodes: a hostlist}: answered at once, as booting takes a while."""
        cluster, names = self._cluster(asked), expand(str(asked["nodes"]))
        threading.Thread(target=_noted, args=(cluster.nodes.power_up, names), daemon=True).start()
        return {"nodes": len(names)}

    def _suspend(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """{cluster, nodes: a hostlist}"""
        cluster, names = self._cluster(asked), expand(str(asked["nodes"]))
        threading.Thread(target=_noted, args=(cluster.nodes.power_down, names), daemon=True).start()
        return {"nodes": len(names)}

    def _tool_faults(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """{add: name} or {clear: true}: what the emulated tools of all clusters obey, also of those still to come."""
        kept = [] if asked.get("clear") else self._faults
        self._faults = [*kept, *([str(asked["add"])] if asked.get("add") else [])]
        for cluster in list(self._clusters.values()):
            cluster.set_faults(self._faults)
        return {"faults": self._faults}

    def _node_death(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """{} or {cluster}, {first}: one node of each cluster dies; the names of the dead."""
        names = [asked["cluster"]] if asked.get("cluster") else list(self._clusters)
        dead = [
            self._clusters[name].nodes.kill_one(first=bool(asked.get("first")))
            for name in names
            if name in self._clusters
        ]
        return {"nodes": [name for name in dead if name is not None]}

    def _cluster_faults(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """{add: name} or {clear: true}: a fault of the head node or the fleet of each cluster, now; what it struck."""
        clusters = list(self._clusters.values())
        if asked.get("clear"):
            for cluster in clusters:
                cluster.recover()
            return {"struck": []}
        return {"struck": [what for cluster in clusters for what in cluster.fail(str(asked["add"]))]}

    def _restart_controller(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """{cluster}: Slurm's controller is started, or ended and started again."""
        self._cluster(asked).restart_controller()
        return {}

    def _cluster(self, asked: Mapping[str, Any]) -> Cluster:
        found = self._clusters.get(str(asked["cluster"]))
        if found is None:
            raise LookupError(f"The sandbox has no cluster {asked['cluster']}.")
        return found

    def _write_client_config(self) -> None:
        write_whole(self._home / "ssh_config", ssh.client_config(self._home / "keys", self._heads.values()))


def _noted(work: Callable[[Sequence[str]], None], names: Sequence[str]) -> None:
    try:
        work(names)
    except Exception:  # the last place where a failure of this thread can be seen
        log.exception("%s of %s", work.__name__, ",".join(names))
