"""What each machine's CloudWatch agent would send to the cluster's log group: new lines of its logs, now and then."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trnctl.sandbox.ports import Account, NodeInstance

# Where a log lies below the cluster's folder, and the last part of its stream's name (ParallelCluster's configuration
# of the agent).
_OF_THE_HEAD = {
    "root/var/log/parallelcluster/clustermgtd": "clustermgtd",
    "root/var/log/parallelcluster/slurm_resume.log": "slurm_resume",
    "log/slurmctld.log": "slurmctld",
}
_MOST = 64 * 1024  # bytes of one log in one go; of more, the end

# A boot that fails, as trnctl's own node script tells it and ParallelCluster's after it; {host} has lost its way out.
_FAILED_BOOT = """\
{at} trnctl-node: Neuron SDK for a compute node, kernel 6.8.0-1021-aws
{at} trnctl-node: step repository
Err:1 https://apt.repos.neuron.amazonaws.com noble InRelease
  Temporary failure resolving 'apt.repos.neuron.amazonaws.com'
E: Failed to fetch https://apt.repos.neuron.amazonaws.com/dists/noble/InRelease  Temporary failure resolving \
'apt.repos.neuron.amazonaws.com'
{at} trnctl-node: failed: Neuron's package repository could not be used (status 100)
{at} trnctl-node: step repository: failed after 31 s; exit code 25
Failed to execute OnNodeConfigured script 1 s3://bucket/trnctl/compute.sh, return code: 25.
"""


class SentLogs:
    """The agents of one cluster. `host` and `instance` are the head node's."""

    def __init__(self, account: Account, cluster: str, folder: Path, host: str, instance: str) -> None:
        self._account, self._cluster, self._folder = account, cluster, folder
        self._head = f"{host}.{instance}"
        self._read: dict[Path, int] = {}  # how many bytes of each log have been sent

    def ship(self, nodes: Iterable[NodeInstance]) -> None:
        """Send what is new in the logs of the head node and of these nodes."""
        for path, name in _OF_THE_HEAD.items():
            self._ship(self._folder / path, f"{self._head}.{name}")
        for node in nodes:
            self._ship(self._folder / "log" / f"slurmd-{node.name}.log", f"{_machine(node)}.slurmd")

    def failed_boot(self, node: NodeInstance, at: str) -> None:
        """The last words of a node whose set-up fails: all that is left of it when its instance is gone."""
        text = _FAILED_BOOT.format(at=at)
        self._account.send_logs(self._cluster, f"{_machine(node)}.cloud-init-output", text.splitlines())

    def _ship(self, path: Path, stream: str) -> None:
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                begin = self._read.get(path, 0)
                begin = 0 if size < begin else max(begin, size - _MOST)
                file.seek(begin)
                text, newline, _ = file.read(_MOST).rpartition(b"\n")
        except FileNotFoundError:
            return
        if newline:
            self._read[path] = begin + len(text) + 1
            self._account.send_logs(self._cluster, stream, text.decode("utf-8", "replace").splitlines())


def _machine(node: NodeInstance) -> str:
    """A node's part of a stream's name: its host name and its instance."""
    return f"ip-{node.private_ip.replace('.', '-')}.{node.instance_id}"
