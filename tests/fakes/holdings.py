"""What an account in memory holds before there is a cluster: networks, keys, capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from tests.fakes.account import InMemoryCloud
from trnctl.errors import CloudError, TrnctlError
from trnctl.ports import NETWORK_TAG, Identity, KeyPair, MachineImage, NetworkStack, Reservation, Resource, Subnet, Vpc
from trnctl.ports.survey import ReservedCapacity, Survey, Wanted

VPC, HEAD, COMPUTE = "vpc-0aa11bb22cc33dd40", "subnet-0aa11bb22cc33dd41", "subnet-0aa11bb22cc33dd42"


class InMemoryAccount:
    """An Account over an InMemoryCloud. Tests put things into its lists; network stacks take `create_s` and `delete_s`
    seconds of the cloud's clock. `denied` holds an error that every question raises, `create_fails` and `delete_fails`
    the reason of the resource that fails, `forgets` what a deleted network leaves behind."""

    def __init__(self, cloud: InMemoryCloud, *, create_s: float = 150, delete_s: float = 90) -> None:
        self.cloud, self.create_s, self.delete_s = cloud, create_s, delete_s
        self.denied: TrnctlError | None = None
        self.create_fails = self.delete_fails = ""
        self.forgets: list[Resource] = []
        self.who = Identity("123456789012", "arn:aws:iam::123456789012:user/ada")
        self.offers: dict[str, dict[str, list[str]]] = {"us-west-2": {"trn1.32xlarge": ["us-west-2b", "us-west-2d"]}}
        self.price_list: dict[str, float] = {}
        self.region = "us-west-2"
        self.all_vpcs: list[Vpc] = []
        self.all_subnets: list[Subnet] = []
        self.keys: list[KeyPair] = []
        self.held: list[Reservation] = []
        self.living: dict[str, list[Resource]] = {}  # by subnet
        self.surveyed = Survey()  # groups, images, quotas, endpoints, denied actions, refused questions
        self.templates: dict[str, str] = {}
        self.all_images: dict[str, list[MachineImage]] = {}  # by owner
        self._networks: dict[str, NetworkStack] = {}

    # what tests say

    def has_network(
        self, *, vpc: str = VPC, head: str = HEAD, compute: str = COMPUTE, zone: str = "us-west-2d"
    ) -> None:
        """There is a VPC with a public subnet and a private one behind a NAT gateway."""
        self.all_vpcs.append(Vpc(vpc, "10.0.0.0/16"))
        self.all_subnets += [
            Subnet(head, vpc, zone, "10.0.0.0/24", 250, public_ips=True, way_out="internet"),
            Subnet(compute, vpc, zone, "10.0.128.0/20", 4091, way_out="nat"),
        ]

    # the door

    def identity(self) -> Identity:
        """`who`."""
        self._guard()
        return self.who

    def zones_offering(self, instance_type: str) -> list[str]:
        """From `offers`, of `region`."""
        self._guard()
        return sorted(self.offers.get(self.region, {}).get(instance_type, []))

    def regions_offering(self, instance_type: str, among: Iterable[str]) -> list[str]:
        """From `offers`."""
        self._guard()
        return sorted(region for region in among if self.offers.get(region, {}).get(instance_type))

    def prices(self, instance_types: Iterable[str]) -> Mapping[str, float]:
        """From `price_list`."""
        self._guard()
        return {name: self.price_list[name] for name in instance_types if name in self.price_list}

    def machine_images(
        self, *, owner: str = "", name: str = "", ids: Sequence[str] = (), tag: str = ""
    ) -> list[MachineImage]:
        """Of `all_images`."""
        self._guard()
        found = self.all_images.get(owner, []) if owner else [one for each in self.all_images.values() for one in each]
        kept = [
            one
            for one in found
            if fnmatchcase(one.name, name or "*") and (not ids or one.id in ids) and (not tag or tag in one.tags)
        ]
        return sorted(kept, key=lambda one: (str(one.created), one.name))

    def vpcs(self) -> list[Vpc]:
        """`all_vpcs`."""
        self._guard()
        return list(self.all_vpcs)

    def subnets(self) -> list[Subnet]:
        """`all_subnets`."""
        self._guard()
        return list(self.all_subnets)

    def key_pairs(self) -> list[KeyPair]:
        """`keys`."""
        self._guard()
        return list(self.keys)

    def reservations(self) -> list[Reservation]:
        """`held`."""
        self._guard()
        return list(self.held)

    def survey(self, wanted: Wanted) -> Survey:
        """What `surveyed` holds of what is wanted; the subnets, zones, DNS and keys from the other lists as well."""
        self._guard()
        subnets = {one.id: one for one in self.all_subnets if one.id in wanted.subnets}
        zones = {name: tuple(self.zones_offering(name)) for name in wanted.instance_types}
        held = {one.id: one for one in self.held if one.id in wanted.reservations}
        reserved = {
            one.id: ReservedCapacity(one.id, one.instance_type, one.zone, one.total, "", "active", one.block, one.ends)
            for one in held.values()
        }
        return replace(
            self.surveyed,
            subnets=subnets,
            zones=zones,
            dns={one.id: one.dns for one in self.all_vpcs if one.id in {subnet.vpc for subnet in subnets.values()}},
            keys={one.name: one for one in self.keys if one.name == wanted.key},
            reservations={**reserved, **self.surveyed.reservations},
            kept=tuple(self.cloud.file_systems(wanted.cluster)) if wanted.cluster else (),
        )

    def networks(self) -> list[NetworkStack]:
        """The stacks, in the phase that the cloud says."""
        self._guard()
        found = []
        for one in self._networks.values():
            stack = self.cloud.observe(one.name).stack
            if stack is not None:
                outputs = one.outputs if stack.phase in ("running", "delete-failed") else {}
                found.append(replace(one, status=stack.status, phase=stack.phase, reason=stack.reason, outputs=outputs))
        return found

    def create_network(self, name: str, template: str, tags: Mapping[str, str]) -> None:
        """Start creating a stack; its subnets appear when it is complete."""
        self._guard()
        if self.cloud.cluster(name):
            raise CloudError(f"There is a stack {name} already.", remedy="Choose another name.")
        self.templates[name] = template
        self.cloud.begin(name, template)
        self.cloud.happens(name, "NatGateway", "AWS::EC2::NatGateway", "CREATE_IN_PROGRESS")
        outputs = {"Vpc": VPC, "HeadSubnet": HEAD, "ComputeSubnet": COMPUTE, "Zone": "us-west-2d"}
        self._networks[name] = NetworkStack(
            name, "", "creating", self.cloud.clock.now(), "", outputs, {**tags, NETWORK_TAG: name}
        )
        self.cloud.clock.after(self.create_s, lambda: self._created(name))

    def _created(self, name: str) -> None:
        if self.create_fails:
            self.cloud.happens(name, "NatGateway", "AWS::EC2::NatGateway", "CREATE_FAILED", self.create_fails)
            self.cloud.move(name, "create-failed", "ROLLBACK_COMPLETE", self.create_fails)
            self.create_fails = ""
            return
        self.cloud.happens(name, "NatGateway", "AWS::EC2::NatGateway", "CREATE_COMPLETE")
        self.has_network()
        self.cloud.move(name, "running", "CREATE_COMPLETE")

    def delete_network(self, name: str) -> None:
        """Start deleting; silent if gone or going."""
        self._guard()
        found = self.cloud.cluster(name)
        if found is not None and found.phase != "deleting":
            self.cloud.move(name, "deleting", "DELETE_IN_PROGRESS")
            self.cloud.clock.after(self.delete_s, lambda: self._deleted(name))

    def _deleted(self, name: str) -> None:
        if self.delete_fails:
            self.cloud.happens(name, "Vpc", "AWS::EC2::VPC", "DELETE_FAILED", self.delete_fails)
            self.cloud.move(name, "delete-failed", "DELETE_FAILED", self.delete_fails)
            self.delete_fails = ""
            return
        self.cloud.vanish(name)
        self.all_vpcs = [one for one in self.all_vpcs if one.id != VPC]
        self.all_subnets = [one for one in self.all_subnets if one.vpc != VPC]

    def inhabitants(self, subnets: Sequence[str]) -> list[Resource]:
        """From `living`."""
        self._guard()
        return [one for subnet in subnets for one in self.living.get(subnet, [])]

    def network_remains(self, name: str) -> list[Resource]:
        """The VPC while the stack stands, and what it `forgets`."""
        self._guard()
        stands = [Resource("VPC", VPC)] if self.cloud.cluster(name) else []
        return stands + self.forgets

    def _guard(self) -> None:
        if self.denied is not None:
            raise self.denied
