"""The door to what an AWS account holds before and beside any cluster: networks, keys, capacity, and who asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from trnctl.ports.cloud import Phase, Resource

if TYPE_CHECKING:
    from trnctl.ports.survey import Survey, Wanted

# Where a subnet's default route leads: to the internet itself (it is public), through a NAT gateway, elsewhere
# (a transit gateway, an appliance, a VPN), or nowhere.
WayOut = Literal["internet", "nat", "other", "none"]


@dataclass(frozen=True)
class Identity:
    """Whose credentials are used."""

    account: str
    arn: str


@dataclass(frozen=True)
class Vpc:
    """A virtual network. `dns` is whether both DNS support and DNS hostnames are on, which ParallelCluster needs."""

    id: str
    cidr: str
    name: str = ""
    dns: bool = True


@dataclass(frozen=True)
class Subnet:
    """A subnet: its zone by name (`us-west-2d`), how many addresses are free, whether it gives public ones to what
    starts in it, and where its default route leads."""

    id: str
    vpc: str
    zone: str
    cidr: str
    free: int
    public_ips: bool = False
    way_out: WayOut = "none"
    name: str = ""


@dataclass(frozen=True)
class KeyPair:
    """An EC2 key pair; `kind` is `ed25519` or `rsa`."""

    name: str
    kind: str


@dataclass(frozen=True)
class Reservation:
    """An active capacity reservation of this account, or a capacity block for ML (`block`). `ends` None: open end."""

    id: str
    instance_type: str
    zone: str
    total: int
    free: int
    block: bool = False
    ends: datetime | None = None


@dataclass(frozen=True)
class NetworkStack:
    """A CloudFormation stack that `trnctl network create` made; `outputs` are [] until it is complete."""

    name: str
    status: str
    phase: Phase
    created: datetime
    reason: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MachineImage:
    """An AMI: what its owner says of it. `architecture` is EC2's word (`x86_64`, `arm64`)."""

    id: str
    name: str
    description: str = ""
    architecture: str = ""
    created: datetime | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


# The tag on each network stack and on everything in it; its value is the stack's name.
NETWORK_TAG = "trnctl:network"


class Account(Protocol):
    """The questions about an account that `init`, `network`, `doctor` and `cluster validate` ask. All raise CloudError
    when AWS refuses, but for `survey`, which tells what was refused."""

    def identity(self) -> Identity:
        """Whose credentials these are: the one question that needs no permission."""

    def zones_offering(self, instance_type: str) -> list[str]:
        """The zones of the region that offer the type, by name, sorted; [] when none does or there is no such type."""

    def regions_offering(self, instance_type: str, among: Iterable[str]) -> list[str]:
        """Which of these regions offer the type, sorted; a region that this account may not use is left out."""

    def prices(self, instance_types: Iterable[str]) -> Mapping[str, float]:
        """US dollars an hour by type: on demand, Linux, in this region, by AWS's price list of now. A type that has no
        such price is left out."""

    def machine_images(
        self, *, owner: str = "", name: str = "", ids: Sequence[str] = (), tag: str = ""
    ) -> list[MachineImage]:
        """The available AMIs of an owner (`amazon`, `self`) whose name fits the pattern (`*`), with these ids, that
        carry the tag, oldest first. At least one of these says which; what is not there is left out."""

    def vpcs(self) -> list[Vpc]:
        """All VPCs of the region."""

    def subnets(self) -> list[Subnet]:
        """All subnets of the region with their ways out."""

    def key_pairs(self) -> list[KeyPair]:
        """All key pairs of the region."""

    def reservations(self) -> list[Reservation]:
        """All active capacity reservations of the region."""

    def networks(self) -> list[NetworkStack]:
        """All stacks of the region that carry NETWORK_TAG, nested ones left out, oldest first."""

    def create_network(self, name: str, template: str, tags: Mapping[str, str]) -> None:
        """Start creating a stack that carries NETWORK_TAG and `tags`. CloudError when the name is taken."""

    def delete_network(self, name: str) -> None:
        """Start deleting the stack; silent if it is already gone or going."""

    def inhabitants(self, subnets: Sequence[str]) -> list[Resource]:
        """What lives in these subnets: instances, file systems, other network interfaces. The detail names the cluster
        that each belongs to, where a tag tells. A NAT gateway's own interface is none."""

    def network_remains(self, name: str) -> list[Resource]:
        """Everything that still carries NETWORK_TAG with that name: VPCs, subnets, gateways, addresses, route tables,
        endpoints, security groups."""

    def survey(self, wanted: Wanted) -> Survey:
        """Everything that a cluster file names, side by side, in twelve calls at most."""
