"""What an AWS account holds before and beside any cluster, through botocore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from trnctl.adapters import aws_records as records
from trnctl.adapters.aws_calls import NoSuchThing
from trnctl.adapters.aws_clients import Clients
from trnctl.adapters.aws_images import machine_image_of
from trnctl.adapters.aws_network import DNS_ATTRIBUTES, REMAINS, network_stack_of, subnet_of, vpc_of, ways_out
from trnctl.adapters.aws_pricing import on_demand_prices
from trnctl.adapters.aws_survey import survey
from trnctl.errors import CloudError
from trnctl.ports import NETWORK_TAG, Identity, KeyPair, MachineImage, NetworkStack, Reservation, Resource, Subnet, Vpc
from trnctl.ports.survey import Survey, Wanted

_LIVING = ["pending", "running", "shutting-down", "stopping", "stopped"]


class BotoAccount:
    """The Account behind botocore's clients."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._call, self._list = clients.call, clients.pages

    def identity(self) -> Identity:
        """Whose credentials these are; see `ports.Account.identity`."""
        answer = self._call("sts", "get_caller_identity")
        return Identity(str(answer["Account"]), str(answer["Arn"]))

    def zones_offering(self, instance_type: str) -> list[str]:
        """The zones that offer a type; see `ports.Account.zones_offering`."""
        return _zones_offering(self._clients, instance_type)

    def regions_offering(self, instance_type: str, among: Iterable[str]) -> list[str]:
        """The regions that offer a type, all asked side by side; see `ports.Account.regions_offering`."""

        def offers(clients: Clients) -> bool:
            try:
                return bool(_zones_offering(clients, instance_type))
            except CloudError:  # not enabled for this account, or out of reach: it is no choice then
                return False

        elsewhere = [self._clients.elsewhere(region) for region in among]
        with ThreadPoolExecutor(max_workers=16) as pool:
            answers = [one.soon(pool, "ec2", offers, one) for one in elsewhere]
            return sorted(one.region for one, answer in zip(elsewhere, answers, strict=True) if answer.result())

    def prices(self, instance_types: Iterable[str]) -> Mapping[str, float]:
        """AWS's price list; see `ports.Account.prices`."""
        return on_demand_prices(self._clients, instance_types)

    def machine_images(
        self, *, owner: str = "", name: str = "", ids: Sequence[str] = (), tag: str = ""
    ) -> list[MachineImage]:
        """AMIs; see `ports.Account.machine_images`. By filters, so that a missing one does not hide the others."""
        wanted = {"state": ["available"], "name": [name], "image-id": [*ids], "tag-key": [tag]}
        filters = [{"Name": key, "Values": values} for key, values in wanted.items() if any(values)]
        owners = {"Owners": [owner]} if owner else {}
        found = self._list("ec2", "describe_images", "Images", Filters=filters, **owners)
        images = [machine_image_of(item) for item in found]
        return sorted(images, key=lambda one: (str(one.created), one.name))

    def vpcs(self) -> list[Vpc]:
        """All VPCs; DNS is two further questions for each, asked side by side."""
        found = self._list("ec2", "describe_vpcs", "Vpcs")
        with ThreadPoolExecutor(max_workers=4) as pool:  # other questions share the client's ten connections
            return list(pool.map(lambda item: vpc_of(item, dns=self._has_dns(item["VpcId"])), found))

    def subnets(self) -> list[Subnet]:
        """All subnets with their ways out; see `ports.Account.subnets`."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            asked = self._clients.soon(pool, "ec2", self._list, "ec2", "describe_subnets", "Subnets")
            tables = self._list("ec2", "describe_route_tables", "RouteTables")
            found = asked.result()
        out = ways_out(found, tables)
        return [subnet_of(item, out[item["SubnetId"]]) for item in found]

    def key_pairs(self) -> list[KeyPair]:
        """All key pairs; see `ports.Account.key_pairs`."""
        found = self._list("ec2", "describe_key_pairs", "KeyPairs")
        return [KeyPair(item["KeyName"], item.get("KeyType", "rsa")) for item in found]

    def reservations(self) -> list[Reservation]:
        """All active reservations; see `ports.Account.reservations`."""
        found = self._list("ec2", "describe_capacity_reservations", "CapacityReservations")
        return [
            Reservation(
                id=item["CapacityReservationId"],
                instance_type=item["InstanceType"],
                zone=item.get("AvailabilityZone", ""),
                total=item["TotalInstanceCount"],
                free=item["AvailableInstanceCount"],
                block=item.get("ReservationType") == "capacity-block",
                ends=records.utc(item["EndDate"]) if item.get("EndDate") else None,
            )
            for item in found
            if item.get("State") == "active"
        ]

    def networks(self) -> list[NetworkStack]:
        """The stacks that `network create` made; see `ports.Account.networks`."""
        stacks = self._list("cloudformation", "describe_stacks", "Stacks")
        found = [network_stack_of(item) for item in stacks if not item.get("ParentId")]
        return sorted((one for one in found if one is not None), key=lambda one: one.created)

    def create_network(self, name: str, template: str, tags: Mapping[str, str]) -> None:
        """Start creating; see `ports.Account.create_network`."""
        wanted = {**tags, NETWORK_TAG: name}
        self._call(
            "cloudformation",
            "create_stack",
            StackName=name,
            TemplateBody=template,
            Tags=[{"Key": key, "Value": value} for key, value in wanted.items()],
        )

    def delete_network(self, name: str) -> None:
        """Start deleting; see `ports.Account.delete_network`."""
        try:
            self._call("cloudformation", "delete_stack", StackName=name)
        except NoSuchThing:
            return

    def inhabitants(self, subnets: Sequence[str]) -> list[Resource]:
        """What lives in these subnets; see `ports.Account.inhabitants`."""
        if not subnets:
            return []
        here = [{"Name": "subnet-id", "Values": list(subnets)}]

        def instances() -> list[dict[str, Any]]:
            states = {"Name": "instance-state-name", "Values": _LIVING}
            groups = self._list("ec2", "describe_instances", "Reservations", Filters=[*here, states])
            return [item for group in groups for item in group["Instances"]]

        with ThreadPoolExecutor(max_workers=2) as pool:
            asked = self._clients.soon(pool, "ec2", instances)
            systems = self._clients.soon(pool, "fsx", self._list, "fsx", "describe_file_systems", "FileSystems")
            interfaces = self._list("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=here)
            gateways = self._list("ec2", "describe_nat_gateways", "NatGateways", Filter=here)
            living = asked.result()
            lustre = [item for item in systems.result() if set(item.get("SubnetIds", ())) & set(subnets)]
        known = {item["InstanceId"] for item in living}
        of_gateways = {
            address.get("NetworkInterfaceId") for item in gateways for address in item.get("NatGatewayAddresses", [])
        }
        found = [Resource("instance", item["InstanceId"], _owner(item)) for item in living]
        found += [Resource("FSx file system", item["FileSystemId"], _owner(item)) for item in lustre]
        return found + [
            Resource("network interface", item["NetworkInterfaceId"], _owner(item, item.get("Description", "")))
            for item in interfaces
            if item["NetworkInterfaceId"] not in of_gateways and _instance_of(item) not in known
        ]

    def network_remains(self, name: str) -> list[Resource]:
        """What still carries the network's tag; see `ports.Account.network_remains`."""
        tag = [{"Name": f"tag:{NETWORK_TAG}", "Values": [name]}]

        def look(kind: str, operation: str, key: str, id_key: str, parameter: str) -> list[Resource]:
            # Not every endpoint knows every filter (moto's NAT gateways have none for tags), so the tag is looked at.
            found = self._list("ec2", operation, key, **{parameter: tag})
            ours = [item for item in found if records.tags_of(item).get(NETWORK_TAG) == name]
            return [Resource(kind, item[id_key], _state(item)) for item in ours if not _is_gone(item)]

        self._clients.client("ec2")
        with ThreadPoolExecutor(max_workers=len(REMAINS)) as pool:
            return [one for found in pool.map(lambda row: look(*row), REMAINS) for one in found]

    def survey(self, wanted: Wanted) -> Survey:
        """What a cluster file names; see `ports.Account.survey`."""
        return survey(self._clients, wanted)

    def _has_dns(self, vpc: str) -> bool:
        def on(attribute: str, key: str) -> bool:
            answer = self._call("ec2", "describe_vpc_attribute", VpcId=vpc, Attribute=attribute)
            return bool(answer[key]["Value"])

        return all(on(attribute, key) for attribute, key in DNS_ATTRIBUTES)


def _zones_offering(clients: Clients, instance_type: str) -> list[str]:
    found = clients.pages(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": [instance_type]}],
    )
    return sorted(item["Location"] for item in found)


def _owner(item: Mapping[str, Any], otherwise: str = "") -> str:
    """Which cluster something belongs to, by its tag."""
    tags = records.tags_of({"Tags": item.get("Tags") or item.get("TagSet")})
    cluster = tags.get(records.CLUSTER_TAG)
    return f"cluster {cluster}" if cluster else otherwise


def _instance_of(interface: Mapping[str, Any]) -> str:
    return str((interface.get("Attachment") or {}).get("InstanceId", ""))


def _state(item: Mapping[str, Any]) -> str:
    state = item.get("State", "")
    return state if isinstance(state, str) else ""


def _is_gone(item: Mapping[str, Any]) -> bool:
    """A NAT gateway stays listed for an hour after its end."""
    return _state(item).lower() in ("deleted", "deleting")
