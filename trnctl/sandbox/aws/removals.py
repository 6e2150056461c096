"""Deletions through a stack that moto 5.2.5 lacks: without them its network resources and volumes would stay behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Removal = Callable[[Any, Any], object]  # of moto's EC2 backend and the resource


def _delete_route(ec2: Any, route: Any) -> None:
    ec2.delete_route(route.route_table.id, route.destination_cidr_block)


def _disassociate(ec2: Any, association: Any) -> None:
    table = ec2.get_route_table(association.route_table_id)
    for name in [name for name, subnet in table._associations.items() if subnet == association.subnet_id]:
        ec2.disassociate_route_table(name)


def _delete_nat_gateway(ec2: Any, gateway: Any) -> None:
    """The gateway stays listed as deleted, as on AWS for an hour; its interface and association go."""
    ec2.delete_nat_gateway(gateway.id)
    for address in gateway.address_set:
        if address.get("associationId"):
            ec2.disassociate_address(association_id=address["associationId"])
        ec2.enis.pop(address.get("networkInterfaceId"), None)


def _delete_endpoint(ec2: Any, endpoint: Any) -> None:
    endpoint.vpc_endpoint_type = endpoint.vpc_endpoint_type or "Gateway"  # AWS's default, which moto leaves empty
    ec2.delete_vpc_endpoints([endpoint.id])


REMOVALS: Mapping[str, Removal] = {
    "AWS::EC2::EIP": lambda ec2, made: ec2.release_address(allocation_id=made.allocation_id),
    "AWS::EC2::InternetGateway": lambda ec2, made: ec2.delete_internet_gateway(made.id),
    "AWS::EC2::NatGateway": _delete_nat_gateway,
    "AWS::EC2::Route": _delete_route,
    "AWS::EC2::RouteTable": lambda ec2, made: ec2.delete_route_table(made.id),
    "AWS::EC2::SubnetRouteTableAssociation": _disassociate,
    "AWS::EC2::VPCEndpoint": _delete_endpoint,
    "AWS::EC2::VPCGatewayAttachment": lambda ec2, made: ec2.detach_internet_gateway(made.gateway_id, made.vpc_id),
    "AWS::EC2::Volume": lambda ec2, made: ec2.delete_volume(made.id),
    "AWS::EC2::VolumeAttachment": lambda ec2, made: ec2.detach_volume(made.volume.id, made.instance.id, made.device),
}
