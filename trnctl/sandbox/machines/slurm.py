"""Slurm's commands, as the sandbox itself uses them; each with a time limit."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from trnctl.errors import ToolError
from trnctl.sandbox.machines.names import compress

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SECONDS = 60  # longer than slurmctld's MessageTimeout, so that Slurm's own message comes first


def find(tool: str) -> str | None:
    """Where a program lies, also in the folders of daemons that a plain user's PATH leaves out."""
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def tool(name: str) -> str:
    """The absolute path of a program that must be there. ToolError when it is not."""
    path = find(name)
    if path is None:
        raise ToolError(f"{name} is not installed.", remedy="Run `trnctl sandbox up` again: it names what is missing.")
    return path


class Slurm:
    """The commands of one cluster."""

    def __init__(self, conf: Path) -> None:
        self._environment = {"SLURM_CONF": str(conf), "PATH": SYSTEM_PATH, "LANG": "C.UTF-8"}

    def run(self, *argv: str) -> str:
        """Its standard output. ToolError with what it said when it fails or does not end."""
        remedy = "Look at slurmctld.log in the cluster's folder; `trnctl sandbox down` and `up` start afresh."
        try:
            done = subprocess.run(
                [tool(argv[0]), *argv[1:]],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"{argv[0]} did not answer in {_SECONDS} seconds.", remedy=remedy) from error
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise ToolError(f"{' '.join(argv[:3])} failed: {said}", remedy=remedy)
        return done.stdout

    def update_nodes(self, nodes: Iterable[str], state: str, reason: str = "") -> None:
        """Set the state of nodes; nothing for no nodes."""
        if names := compress(nodes):
            because = [f"reason={reason}"] if reason else []
            self.run("scontrol", "update", f"nodename={names}", f"state={state}", *because)

    def update_partitions(self, partitions: Sequence[str], state: str) -> None:
        """Set the state of partitions."""
        for partition in partitions:
            self.run("scontrol", "update", f"partitionname={partition}", f"state={state}")

    def nodes_in(self, state: str) -> set[str]:
        """Names of the nodes in a state, a word of sinfo's `-t`."""
        return set(self.run("sinfo", "-h", "-N", "-t", state, "-o", "%N").split())

    def jobs_complete(self) -> bool:
        """Whether some job is over but not yet gone from all its nodes."""
        return bool(self.run("squeue", "-h", "-t", "completing", "-o", "%i").strip())

    def busy_nodes(self) -> list[str]:
        """Nodes that run a job, in Slurm's order."""
        lists = self.run("squeue", "-h", "-t", "running", "-o", "%N").split()
        return self.run("scontrol", "show", "hostnames", ",".join(lists)).split() if lists else []
