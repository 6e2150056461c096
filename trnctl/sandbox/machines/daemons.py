"""The daemons of a head node: munged, slurmctld and sshd."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trnctl.sandbox.machines.addresses import LOOPBACK
from trnctl.sandbox.machines.slurm import tool
from trnctl.sandbox.machines.slurm_conf import Site
from trnctl.sandbox.ports import BootFailed
from trnctl.sandbox.processes import Process, Register, children, end

_START_SECONDS = 20.0
_STOP_SECONDS = 5.0


class Daemons:
    """Starts them one by one, each until it answers, and ends them together. BootFailed when one does not come up."""

    def __init__(self, cluster: str, site: Site, register: Register, environment: Mapping[str, str]) -> None:
        self._cluster, self._site, self._register = cluster, site, register
        self._environment = dict(environment)
        self._running: dict[str, Process] = {}

    def start_munged(self) -> None:
        """munged, which vouches for Slurm's messages, with a key of its own."""
        # All of it in the runtime folder: munged refuses a key below a folder that a group can write to.
        runtime = self._site.runtime
        key = runtime / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        files = {"key-file": key, "socket": self._site.munge_socket}
        files |= {f"{name}-file": runtime / f"munged.{name}" for name in ("pid", "log", "seed")}
        options = [f"--{name}={path}" for name, path in files.items()]
        self._start("munged", [tool("munged"), "--foreground", *options], self._site.munge_socket.exists)

    def start_sshd(self, port: int) -> None:
        """sshd with etc/sshd_config, on that port of the loopback address."""
        argv = [tool("sshd"), "-D", "-e", "-f", str(self._site.folder / "etc" / "sshd_config")]
        self._start("sshd", argv, lambda: _listens(LOOPBACK, port))

    def start_slurmctld(self) -> None:
        """slurmctld with what stands in etc/slurm.conf."""
        address, port = self._site.address.ip, self._site.controller_port
        self._start("slurmctld", [tool("slurmctld"), "-D", "-i"], lambda: _listens(address, port))

    def kill_slurmctld(self) -> None:
        """Let it die, as in a crash."""
        end([self._running["slurmctld"]], patience=0)

    def drop_connections(self) -> int:
        """End every ssh connection to the head node, without a word to either side; how many there were."""
        return len(end(children(self._running["sshd"].pid), patience=0))

    def restart_slurmctld(self) -> None:
        """End it and start it again; jobs and the states of nodes survive that."""
        end([self._running["slurmctld"]], patience=2 * _STOP_SECONDS)
        self.start_slurmctld()

    def stop(self) -> None:
        """End all that were started."""
        end(self._running.values(), patience=_STOP_SECONDS)

    def _start(self, what: str, argv: Sequence[str], ready: Callable[[], bool]) -> None:
        output = self._site.folder / "log" / f"{what}.out"
        self._running[what] = daemon = self._register.start(
            argv, what=what, cluster=self._cluster, environment=self._environment, log=output
        )
        limit = time.monotonic() + _START_SECONDS
        while not ready():
            if not daemon.alive or time.monotonic() > limit:
                raise BootFailed(f"{what} did not start: {_last_words(output)}")
            time.sleep(0.01)


def _last_words(output: Path) -> str:
    """What a daemon complained about before it ended, the last two complaints at most."""
    lines = output.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
    complaints = [line for line in lines if "error: " in line or "fatal: " in line]
    return "; ".join((complaints or lines)[-2:])


def _listens(address: str, port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True
