"""The door to AWS itself: the handful of questions that trnctl asks it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from trnctl.ports.evidence import SavedText
from trnctl.ports.provisioner import StackEvent

Phase = Literal["creating", "running", "create-failed", "updating", "update-failed", "deleting", "delete-failed"]


@dataclass(frozen=True)
class Stack:
    """A cluster's CloudFormation stack. `status` is CloudFormation's word, `phase` ours."""

    name: str
    status: str
    phase: Phase
    created: datetime
    reason: str = ""
    version: str = ""


@dataclass(frozen=True)
class Fleet:
    """The compute fleet's status as ParallelCluster records it, in its word in lower case
    (`running`, `stopped`, `stopping`, `protected`, `start_requested`, …)."""

    status: str
    at: datetime | None


@dataclass(frozen=True)
class Instance:
    """An EC2 instance that carries the cluster's tag; `role` is ParallelCluster's node-type tag. `marks` are the tags
    that `mark` has put on it."""

    id: str
    type: str
    state: str
    role: Literal["head", "compute", "login", "other"]
    public_ip: str = ""
    private_ip: str = ""
    queue: str = ""
    compute_resource: str = ""
    capacity: Literal["on-demand", "spot", "capacity-block"] = "on-demand"
    launched: datetime | None = None
    marks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FileSystem:
    """A file system or volume that is or was mounted by the cluster. `gib` is its provisioned size (0 = elastic)."""

    id: str
    kind: Literal["fsx-lustre", "efs", "ebs"]
    gib: int
    state: str
    deployment: str = ""


@dataclass(frozen=True)
class Resource:
    """Anything in the account that still carries the cluster's tag or name."""

    kind: str
    id: str
    detail: str = ""
    monthly_usd: float | None = None


@dataclass(frozen=True)
class StoredObject:
    """An object of a bucket: its size in bytes, and when it was written last."""

    key: str
    bytes: int
    at: datetime


@dataclass(frozen=True)
class Observed:
    """What AWS says about one cluster, asked side by side in one go."""

    stack: Stack | None
    fleet: Fleet | None
    instances: tuple[Instance, ...]
    blocks: Mapping[str, datetime] = field(default_factory=dict)  # capacity blocks that were asked about: when they end

    @property
    def head(self) -> Instance | None:
        """The head node: the one that runs, where an older cluster of the same name is still on its way out."""
        heads = [one for one in self.instances if one.role == "head"]
        return next((one for one in heads if one.state == "running"), heads[0] if heads else None)


class Cloud(Protocol):
    """The handful of questions that trnctl asks AWS itself. All raise CloudError when AWS refuses."""

    def observe(self, cluster: str, *, blocks: Sequence[str] = ()) -> Observed:
        """Stack, fleet and living instances of a cluster (terminated ones are left out), and when these capacity blocks
        end, asked in parallel. A block that is not known is left out."""

    def block_ends(self, blocks: Sequence[str]) -> Mapping[str, datetime]:
        """When these capacity blocks end; what has no end, is not known, or may not be asked about is left out."""

    def stack_events(self, cluster: str) -> list[StackEvent]:
        """Stack events of the newest stack of that name (also just after its deletion), oldest first, [] when none."""

    def sent_logs(self, cluster: str, instances: Iterable[str] = (), since: datetime | None = None) -> list[SavedText]:
        """The ends of the logs that the nodes of the newest cluster of that name have sent to CloudWatch (`since` then
        only), also when the cluster is gone; what EC2 says of instances that ended by themselves; the consoles of those
        and of `instances`, as EC2 keeps them. What may not be read is left out. One call for each text and three more,
        side by side: sixteen logs at most, and the consoles."""

    def template(self, cluster: str) -> Mapping[str, object] | None:
        """The CloudFormation template of a cluster's stack (its `Resources` by logical id); None when there is none."""

    def resources(self, cluster: str) -> Mapping[str, str]:
        """The resources that the stack has now: physical ids by logical id. Unlike events, they are never forgotten."""

    def file_systems(self, cluster: str) -> list[FileSystem]:
        """File systems and volumes that carry the cluster's tag."""

    def open_file_system(self, file_system: FileSystem, cluster: str) -> None:
        """Let a file system that the cluster adopts be reached from its VPC: the rules that an earlier cluster made
        name that one's security groups. Only groups that carry the cluster's tag are changed; can be done again."""

    def delete_file_system(self, file_system: FileSystem) -> None:
        """Start deleting one; silent if it is already gone."""

    def delete_beside(self, resource: Resource) -> bool:
        """Delete a security group or network interface that a retained file system kept alive, once that is gone;
        True when it is gone. Other kinds are left alone, and so is what AWS says is still in use."""

    def leftovers(self, cluster: str) -> list[Resource]:
        """Everything outside a living stack that still carries the cluster's tag or name and could cost or block:
        instances, volumes, interfaces, security groups, placement groups, file systems, log groups,
        hosted zones, roles."""

    def looked_for(self) -> tuple[str, ...]:
        """The kinds that `leftovers` looks for, in words, for the proof that teardown prints."""

    def mark(self, instance: str, name: str, value: str | None) -> None:
        """Put a mark on an instance, a tag of trnctl's own, or take it off (None): what a command that was interrupted
        must remember, since this machine may forget it."""

    def put_objects(self, bucket: str, objects: Mapping[str, str]) -> None:
        """Write texts into a bucket of the cluster's region, by key; what stands there under a key is replaced.

        They get no access of their own: who may read the bucket may read them. CloudError, before anything is
        written, when there is no such bucket or it lies in another region."""

    def delete_objects(self, bucket: str, keys: Iterable[str]) -> None:
        """Delete objects by key; silent for those that are gone. CloudError when there is no such bucket."""

    def list_objects(self, bucket: str, prefix: str) -> list[StoredObject]:
        """The objects of a bucket whose keys begin so, by key. CloudError when there is no such bucket."""

    def get_objects(self, bucket: str, keys: Iterable[str]) -> dict[str, str]:
        """The texts of objects, by key; one that is not there (any more) is left out. CloudError when there is no such
        bucket."""
