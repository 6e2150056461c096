"""Records of networks from EC2's and CloudFormation's answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trnctl.adapters import aws_records as records
from trnctl.ports import NETWORK_TAG, NetworkStack, Subnet, Vpc, WayOut

# The attribute as DescribeVpcAttribute is asked for it, and the key of its answer.
DNS_ATTRIBUTES = (("enableDnsSupport", "EnableDnsSupport"), ("enableDnsHostnames", "EnableDnsHostnames"))

# What a network consists of: in words, the question, the keys of its answer, and how the question calls its filters.
REMAINS: tuple[tuple[str, str, str, str, str], ...] = (
    ("VPC", "describe_vpcs", "Vpcs", "VpcId", "Filters"),
    ("subnet", "describe_subnets", "Subnets", "SubnetId", "Filters"),
    ("NAT gateway", "describe_nat_gateways", "NatGateways", "NatGatewayId", "Filter"),
    ("elastic IP", "describe_addresses", "Addresses", "AllocationId", "Filters"),
    ("internet gateway", "describe_internet_gateways", "InternetGateways", "InternetGatewayId", "Filters"),
    ("route table", "describe_route_tables", "RouteTables", "RouteTableId", "Filters"),
    ("VPC endpoint", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId", "Filters"),
    ("security group", "describe_security_groups", "SecurityGroups", "GroupId", "Filters"),
)
_EVERYWHERE = "0.0.0.0/0"


def vpc_of(item: Mapping[str, Any], *, dns: bool) -> Vpc:
    """A VPC."""
    return Vpc(item["VpcId"], item["CidrBlock"], records.tags_of(item).get("Name", ""), dns)


def subnet_of(item: Mapping[str, Any], way_out: WayOut) -> Subnet:
    """A subnet."""
    return Subnet(
        id=item["SubnetId"],
        vpc=item["VpcId"],
        zone=item["AvailabilityZone"],
        cidr=item["CidrBlock"],
        free=item["AvailableIpAddressCount"],
        public_ips=bool(item.get("MapPublicIpOnLaunch")),
        way_out=way_out,
        name=records.tags_of(item).get("Name", ""),
    )


def ways_out(subnets: Sequence[Mapping[str, Any]], tables: Sequence[Mapping[str, Any]]) -> dict[str, WayOut]:
    """Where each subnet's default route leads. A subnet without a table of its own has its VPC's main one."""
    own: dict[str, WayOut] = {}
    main: dict[str, WayOut] = {}
    for table in tables:
        out = _default_route(table)
        for association in table.get("Associations", []):
            if association.get("SubnetId"):
                own[association["SubnetId"]] = out
            elif association.get("Main"):
                main[table["VpcId"]] = out
    return {item["SubnetId"]: own.get(item["SubnetId"], main.get(item["VpcId"], "none")) for item in subnets}


def _default_route(table: Mapping[str, Any]) -> WayOut:
    for route in table.get("Routes", []):
        if route.get("DestinationCidrBlock") == _EVERYWHERE and route.get("State", "active") == "active":
            if str(route.get("GatewayId") or "").startswith("igw-"):
                return "internet"
            return "nat" if route.get("NatGatewayId") else "other"
    return "none"


def network_stack_of(item: Mapping[str, Any]) -> NetworkStack | None:
    """A network's stack; None for other stacks, and once it is deleted."""
    tags = records.tags_of(item)
    stack = records.stack_of(item)
    if stack is None or NETWORK_TAG not in tags:
        return None
    outputs = {output["OutputKey"]: output["OutputValue"] for output in item.get("Outputs") or []}
    return NetworkStack(stack.name, stack.status, stack.phase, stack.created, stack.reason, outputs, tags)
