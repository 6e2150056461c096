"""The cluster file `trnctl.yaml` as frozen values; the word in the file is the field's name.

Defaults are what a Trainium engineer would choose. `loading` turns YAML text into these and reports every
problem at once; an instance that exists has passed all checks that the file alone allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from trnctl.findings import Finding

Platform = Literal["parallelcluster", "hyperpod", "sagemaker"]
CapacityType = Literal["on-demand", "spot", "reservation", "capacity-block"]
Deployment = Literal["SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"]
OnDelete = Literal["retain", "delete"]


@dataclass(frozen=True)
class Network:
    """Subnet ids: the head node's (public or private) and the compute nodes' default (private)."""

    head_subnet: str
    compute_subnet: str
    security_groups: tuple[
        str, ...
    ] = ()  # replace ParallelCluster's own on compute; must allow all traffic to themselves
    additional_security_groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class HeadNode:
    """The head node. `ssh_from` are CIDRs; `ssm` opens Session Manager instead of, or beside, ssh."""

    instance_type: str = "c5.4xlarge"
    key_name: str | None = None  # the EC2 key pair
    ssh_key: str | None = None  # its private half on this machine, for trnctl's own ssh
    ssh_from: tuple[str, ...] = ()
    ssm: bool = False
    root_gib: int = 200
    elastic_ip: bool = False


@dataclass(frozen=True)
class Capacity:
    """Where a queue's instances come from; `id` is a `cr-…` for a reservation or a capacity block."""

    type: CapacityType = "on-demand"
    id: str | None = None


@dataclass(frozen=True)
class ComputeResource:
    """Nodes of one instance type: `min_count` always on (static), up to `max_count` in all.

    `efa`: True, False, or None = auto, which means on where the type has EFA.
    """

    name: str
    instance_type: str
    min_count: int = 0
    max_count: int = 16
    efa: bool | None = None
    spot_price: float | None = None


@dataclass(frozen=True)
class Queue:
    """A Slurm partition. `placement_group`: True (one made by ParallelCluster), False, or the name of yours."""

    name: str
    compute_resources: tuple[ComputeResource, ...]
    capacity: Capacity = Capacity()
    placement_group: bool | str = True
    subnet: str | None = None
    root_gib: int = 512  # Neuron's setup pages advise 512 GB or more
    ephemeral_mount: str | None = "/local_storage"  # where the instance's own NVMe disks appear
    job_exclusive: bool = True  # Slurm cannot share NeuronCores between jobs: there is no Neuron GRES
    custom_settings: Mapping[str, str | int] = field(default_factory=dict)  # Slurm settings of the partition


@dataclass(frozen=True)
class S3Link:
    """A data repository association of FSx for Lustre: `path` in the file system, `uri` = s3://bucket/prefix."""

    path: str
    uri: str


@dataclass(frozen=True)
class Storage:
    """A shared file system. With `file_system_id` it exists already; else it is made with the cluster.

    `gib` is `capacity_gib` for FSx (GiB), `size_gib` for EBS; EFS grows by itself. `on_delete` says what happens
    to a file system that the cluster made, when the cluster goes.
    """

    kind: Literal["fsx", "efs", "ebs"]
    mount: str
    name: str
    gib: int = 0
    file_system_id: str | None = None  # fs-… or, for EBS, vol-…
    deployment: Deployment = "SCRATCH_2"  # FSx
    throughput: int | None = None  # FSx PERSISTENT_*: MB/s per TiB
    on_delete: OnDelete = "retain"
    s3: tuple[S3Link, ...] = ()
    volume_type: str = "gp3"  # EBS
    encrypted: bool = True  # EFS and EBS; FSx for Lustre is always encrypted at rest

    @property
    def managed(self) -> bool:
        """Made with the cluster, so that it can be deleted with it."""
        return self.file_system_id is None


@dataclass(frozen=True)
class Iam:
    """IAM choices. `policies` are ARNs added to head and compute nodes."""

    permissions_boundary: str | None = None
    resource_prefix: str | None = None
    policies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Action:
    """A script that nodes run: `script` is s3://… or https://…, `args` are passed as they are."""

    script: str
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeActions:
    """Scripts of one kind of node, by moment: before the configuration starts, after it is done, after an update."""

    start: tuple[Action, ...] = ()
    configured: tuple[Action, ...] = ()
    updated: tuple[Action, ...] = ()


@dataclass(frozen=True)
class CustomActions:
    """Scripts that run on the head node and on every compute node, after trnctl's own, in this order."""

    head: NodeActions = NodeActions()
    compute: NodeActions = NodeActions()


@dataclass(frozen=True)
class Pcluster:
    """Which `pcluster` to drive: its version, and its path when it is not on PATH."""

    version: str = "3.16.1"
    executable: str = "pcluster"


@dataclass(frozen=True)
class Ttl:
    """When the head node stops the compute fleet by itself: after `idle_hours` without a job in the queue, or at a
    moment (`at`, UTC). While there is a job it waits, unless `end_jobs`."""

    idle_hours: float | None = None
    at: datetime | None = None
    end_jobs: bool = False

    def __str__(self) -> str:
        """`12 h after the last job`, `at 2026-12-01 18:00 UTC, ending jobs`."""
        ways = [f"{self.idle_hours:.3g} h after the last job"] if self.idle_hours is not None else []
        ways += [f"at {self.at:%Y-%m-%d %H:%M} UTC"] if self.at is not None else []
        return " or ".join(ways) + (", ending jobs" if self.end_jobs else "")


@dataclass(frozen=True)
class ClusterSpec:
    """One cluster, as the user asks for it."""

    name: str
    region: str
    network: Network
    queues: tuple[Queue, ...]
    head_node: HeadNode = HeadNode()
    storage: tuple[Storage, ...] = ()
    platform: Platform = "parallelcluster"
    pcluster: Pcluster = Pcluster()
    os: str = "ubuntu2404"
    neuron_sdk: str = "2.31.1"
    ami: str | None = None  # image.ami
    bucket: str | None = None
    notify: str = ""  # a command or a URL that is told of the end of every run; '' for none
    iam: Iam = Iam()
    custom_actions: CustomActions = CustomActions()
    scaledown_idletime: int = 10  # minutes that an idle dynamic node is kept
    ttl: Ttl | None = None
    idle_alert_hours: float = 4  # so long without a job, and `status` says what standing idle costs; 0: never
    custom_settings: Mapping[str, str | int] = field(default_factory=dict)  # Slurm settings of slurm.conf
    tags: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)

    def queue(self, name: str | None = None) -> Queue:
        """The queue of that name, the first one when no name is given. StopIteration is a caller's mistake."""
        if name is None:
            return self.queues[0]
        return next(queue for queue in self.queues if queue.name == name)

    @property
    def shared_mount(self) -> str:
        """Where run folders live: the first shared file system; without one the login user's home, which
        ParallelCluster shares from the head node over NFS."""
        for kind in ("fsx", "efs", "ebs"):
            for storage in self.storage:
                if storage.kind == kind:
                    return storage.mount
        return f"/home/{login_user(self.os)}"


# The login user of an image by how its os begins (ParallelCluster's documentation, "Connecting to a cluster").
_USERS = {"ubuntu": "ubuntu", "rocky": "rocky"}


def login_user(system: str) -> str:
    """The login user of ParallelCluster's images for an `os` word."""
    return next((user for start, user in _USERS.items() if system.startswith(start)), "ec2-user")


@dataclass(frozen=True)
class ClusterFile:
    """A whole `trnctl.yaml`: the cluster, and the user's own recipes by name (paths relative to the file).

    `findings` are what the loader noticed that does not forbid going on: warnings and notices.
    """

    path: str
    cluster: ClusterSpec
    workloads: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
