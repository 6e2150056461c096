"""The two halves of the sandbox, as they see each other: the account (AWS's answers) and the machines (Slurm, ssh).

Both run in the world's process. The account calls the machines when a stack has created, changed or deleted a
head node; the machines call the account when Slurm wants nodes or gives them back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class HeadNodeBoot:
    """What a head node learns when it boots. `config` is the parsed ParallelCluster YAML that pcluster uploaded;
    `file_systems` maps each mount directory of its SharedStorage to the id of the file system behind it."""

    cluster: str
    region: str
    instance_id: str
    public_ip: str
    private_ip: str
    config: Mapping[str, object]
    file_systems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeWish:
    """A compute node that Slurm wants: its Slurm name and what ParallelCluster would launch for it."""

    name: str
    queue: str
    compute_resource: str
    instance_type: str
    subnet: str
    capacity: str = "on-demand"  # on-demand | spot | capacity-block


@dataclass(frozen=True)
class NodeInstance:
    """The emulated EC2 instance behind a compute node."""

    name: str
    instance_id: str
    private_ip: str


@dataclass(frozen=True)
class Refusal:
    """EC2's no to one node: its error code (InsufficientInstanceCapacity, …) and message."""

    name: str
    code: str
    message: str


class BootFailed(Exception):
    """The head node cannot come up; the text becomes the WaitCondition's reason."""


class Machines(Protocol):
    """The computers: real processes on this machine."""

    def boot(self, boot: HeadNodeBoot) -> None:
        """Start sshd and Slurm of a cluster and power up its static nodes; returns when ssh and Slurm answer.
        Raises BootFailed."""

    def reconfigure(self, cluster: str, config: Mapping[str, object]) -> None:
        """The cluster was updated: Slurm gets the new queues and counts; running nodes that stay are kept."""

    def stop_fleet(self, cluster: str) -> None:
        """Power all compute nodes down and set the partitions inactive."""

    def start_fleet(self, cluster: str) -> None:
        """Set the partitions active and power up static nodes."""

    def shut_down(self, cluster: str) -> None:
        """End every process of the cluster and forget it; silent if there is none."""

    def delete_file_system(self, file_system_id: str) -> None:
        """The file system is gone in AWS: remove its content."""


class Account(Protocol):
    """What the machines may ask of the emulated EC2."""

    def launch(self, cluster: str, wishes: Sequence[NodeWish]) -> list[NodeInstance | Refusal]:
        """RunInstances for compute nodes, tagged as ParallelCluster tags them; capacity faults show as Refusals."""

    def terminate(self, cluster: str, names: Sequence[str]) -> None:
        """Terminate the instances behind these nodes; silent for names that have none."""

    def shut_down(self, cluster: str, names: Sequence[str]) -> None:
        """The machines behind these nodes shut themselves down, and EC2 terminates their instances and says so."""

    def send_logs(self, cluster: str, stream: str, lines: Sequence[str]) -> None:
        """Put lines into a stream of the cluster's log group, as the CloudWatch agent does; silent without a group."""

    def read_object(self, place: str) -> str:
        """The text of an object, s3://BUCKET/KEY; '' when it is not there, or lies elsewhere."""

    def abandon(self, cluster: str, names: Sequence[str]) -> None:
        """The instances behind these nodes run on and cost, but belong to no node any more."""

    def end_abandoned(self, cluster: str) -> None:
        """Terminate what was abandoned, as clustermgtd does with orphans after some minutes."""

    def put_fleet(self, cluster: str, status: str) -> None:
        """Write the compute fleet's status where ParallelCluster keeps it, as clustermgtd does."""
