"""What a ParallelCluster configuration says, as rules ask for it: queues, nodes and storage, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from trnctl.preflight.place import Place
from trnctl.preflight.schema import Version
from trnctl.specs.instances import InstanceFacts, instance

DEFAULT_MAX_COUNT = 10  # ParallelCluster's own defaults
SCRATCH = "/scratch"


@dataclass(frozen=True)
class PlacementGroup:
    """The placement group that a compute resource ends up with; its own section wins over its queue's.

    `enabled` is None where nobody wrote it. `place` is where it stands, or would stand.
    """

    place: Place
    enabled: bool | None
    name: str

    @property
    def stated(self) -> bool:
        """Whether the file says anything of it."""
        return self.enabled is not None or bool(self.name)

    @property
    def used(self) -> bool:
        """Whether instances are put into a placement group."""
        return self.enabled is True or (bool(self.name) and self.enabled is not False)


@dataclass(frozen=True)
class Resource:
    """A compute resource of a Slurm queue."""

    queue: Queue
    place: Place

    @property
    def name(self) -> str:
        """Its name, '' when it has none."""
        return self.place.at("Name").text()

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Its instance types: one, or those of `Instances`."""
        one = self.place.at("InstanceType").text()
        many = [item.at("InstanceType").text() for item in self.place.at("Instances").sections()]
        return (one,) if one else tuple(name for name in many if name)

    @property
    def flexible(self) -> bool:
        """Whether EC2 may choose among several types."""
        return bool(self.place.at("Instances"))

    @cached_property
    def facts(self) -> tuple[InstanceFacts, ...]:
        """What is known of its types; unknown types are left out."""
        return tuple(facts for name in self.types if (facts := instance(name)) is not None)

    @property
    def neuron(self) -> bool:
        """Whether its nodes have Trainium or Inferentia chips."""
        return any(name.startswith(("trn", "inf")) for name in self.types)

    @property
    def type_place(self) -> Place:
        """Where its types stand."""
        one = self.place.at("InstanceType")
        return one if one else self.place.at("Instances")

    @property
    def least(self) -> int:
        """`MinCount`, by default 0."""
        return self.place.at("MinCount").integer() or 0

    @property
    def most(self) -> int:
        """`MaxCount`, by default 10."""
        written = self.place.at("MaxCount").integer()
        return DEFAULT_MAX_COUNT if written is None else written

    @property
    def efa(self) -> bool:
        """Whether EFA is on."""
        return self.place.at("Efa", "Enabled").flag() is True

    @cached_property
    def group(self) -> PlacementGroup:
        """Its placement group."""
        own = self.place.at("Networking", "PlacementGroup")
        place = own if own else self.queue.networking.at("PlacementGroup")
        return PlacementGroup(place, place.at("Enabled").flag(), place.at("Name").text() or place.at("Id").text())

    @property
    def target(self) -> Place:
        """Its capacity reservation target, or its queue's."""
        own = self.place.at("CapacityReservationTarget")
        return own if own else self.queue.place.at("CapacityReservationTarget")

    @property
    def reservation(self) -> str:
        """The id of its capacity reservation, '' when it has none."""
        return self.target.at("CapacityReservationId").text()


@dataclass(frozen=True)
class Queue:
    """A Slurm queue."""

    place: Place

    @property
    def name(self) -> str:
        """Its name, '' when it has none."""
        return self.place.at("Name").text()

    @property
    def networking(self) -> Place:
        """Its `Networking` section."""
        return self.place.at("Networking")

    @property
    def subnets(self) -> list[str]:
        """Its subnets."""
        return self.networking.at("SubnetIds").texts()

    @property
    def capacity(self) -> str:
        """`ONDEMAND`, `SPOT` or `CAPACITY_BLOCK`."""
        return self.place.at("CapacityType").text() or "ONDEMAND"

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """Its compute resources."""
        return tuple(Resource(self, item) for item in self.place.at("ComputeResources").sections())

    @property
    def disks(self) -> str:
        """Where the instances' own disks are mounted."""
        volume = self.place.at("ComputeSettings", "LocalStorage", "EphemeralVolume")
        return volume.at("MountDir").text() or SCRATCH


@dataclass(frozen=True)
class Storage:
    """An item of `SharedStorage`; `settings` is the section of its kind."""

    place: Place
    kind: str
    settings: Place

    @property
    def name(self) -> str:
        """Its name."""
        return self.place.at("Name").text()

    @property
    def mount(self) -> str:
        """Where it is mounted, with its leading slash; '' when that is not said."""
        mount = self.place.at("MountDir").text()
        return mount if mount.startswith("/") or not mount else f"/{mount}"

    @property
    def existing(self) -> str:
        """The id of a file system, volume or cache that exists already; '' for a new one."""
        names = ("FileSystemId", "VolumeId", "FileCacheId")
        return next((found for name in names if (found := self.settings.at(name).text())), "")

    @property
    def managed(self) -> bool:
        """Whether ParallelCluster makes it."""
        return not self.existing and self.kind in {"Ebs", "Efs", "FsxLustre"}


SETTINGS = {
    "Ebs": "EbsSettings", "Efs": "EfsSettings", "FsxLustre": "FsxLustreSettings", "FsxOpenZfs": "FsxOpenZfsSettings",
    "FsxOntap": "FsxOntapSettings", "FileCache": "FileCacheSettings",
}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """A whole configuration. `cluster` is the name that the cluster will have, '' when nobody told it; `release` is
    ParallelCluster's whole version, `version` its first two numbers within the tables' range."""

    root: Place
    version: Version
    release: tuple[int, ...]
    cluster: str = ""

    @property
    def region(self) -> str:
        """The region, '' when the file names none."""
        return self.root.at("Region").text()

    @property
    def os(self) -> str:
        """The operating system, '' when it is missing."""
        return self.root.at("Image", "Os").text()

    @property
    def head(self) -> Place:
        """The head node's section."""
        return self.root.at("HeadNode")

    @cached_property
    def queues(self) -> tuple[Queue, ...]:
        """All Slurm queues."""
        return tuple(Queue(item) for item in self.root.at("Scheduling", "SlurmQueues").sections())

    @property
    def settings(self) -> Place:
        """Slurm's settings."""
        return self.root.at("Scheduling", "SlurmSettings")

    @property
    def pools(self) -> list[Place]:
        """The pools of login nodes."""
        return self.root.at("LoginNodes", "Pools").sections()

    def resources(self) -> Iterator[Resource]:
        """All compute resources of all queues."""
        for queue in self.queues:
            yield from queue.resources

    @property
    def nodes(self) -> int:
        """How many compute nodes there can be at most."""
        return sum(resource.most for resource in self.resources())

    @property
    def compute_subnets(self) -> list[str]:
        """The subnets of all queues, each once."""
        return list(dict.fromkeys(subnet for queue in self.queues for subnet in queue.subnets))

    @cached_property
    def storage(self) -> tuple[Storage, ...]:
        """All shared storage."""
        made = []
        for item in self.root.at("SharedStorage").sections():
            kind = item.at("StorageType").text()
            made.append(Storage(item, kind, item.at(SETTINGS.get(kind, "Settings"))))
        return tuple(made)

    @property
    def legacy_efa(self) -> bool:
        """Whether every network card gets an interface of type `efa`, with an address each: up to 3.14, and on
        request; since 3.15 only the first card has addresses, the others are `efa-only`."""
        return self.version < (3, 15) or self.root.at("DevSettings", "EfaInterfaceType").text() == "efa"
