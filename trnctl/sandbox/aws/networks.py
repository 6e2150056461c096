"""What a network's stack says of its parts and moto 5.2.5 drops: DNS of a VPC, public addresses, routes of a subnet."""

from __future__ import annotations

from typing import Any

from moto.ec2.models.subnets import Subnet, SubnetRouteTableAssociation
from moto.ec2.models.vpcs import VPC

from trnctl.sandbox.aws.backends import Backends

# moto's own, taken once, so that installing again never wraps a wrapper.
_create_vpc = VPC.create_from_cloudformation_json.__func__
_create_subnet = Subnet.create_from_cloudformation_json.__func__
_associate = SubnetRouteTableAssociation.create_from_cloudformation_json.__func__
_DNS = {"EnableDnsSupport": "enable_dns_support", "EnableDnsHostnames": "enable_dns_hostnames"}


def install() -> None:
    """Mend moto in this process; a second call changes nothing."""
    VPC.create_from_cloudformation_json = classmethod(_vpc_with_dns)
    Subnet.create_from_cloudformation_json = classmethod(_subnet_with_public_addresses)
    SubnetRouteTableAssociation.create_from_cloudformation_json = classmethod(_association_with_a_table)


def _vpc_with_dns(
    cls: Any, /, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **kwargs: Any
) -> Any:
    """ParallelCluster needs DNS support and host names."""
    vpc = _create_vpc(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs)
    properties = cloudformation_json["Properties"]
    for name, attribute in _DNS.items():
        if name in properties:
            value = "true" if _is_true(properties[name]) else "false"
            Backends(region_name).ec2.modify_vpc_attribute(vpc.id, attribute, value)
    return vpc


def _subnet_with_public_addresses(
    cls: Any, /, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **kwargs: Any
) -> Any:
    """A head node is reached by the address that its subnet gives."""
    subnet = _create_subnet(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs)
    subnet.map_public_ip_on_launch = _is_true(cloudformation_json["Properties"].get("MapPublicIpOnLaunch", False))
    return subnet


def _association_with_a_table(
    cls: Any, /, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **kwargs: Any
) -> Any:
    """A subnet's way out is that of its route table, which moto's association does not tell of itself."""
    made = _associate(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs)
    Backends(region_name).ec2.associate_route_table(made.route_table_id, subnet_id=made.subnet_id)
    return made


def _is_true(value: object) -> bool:
    """YAML's flag, or CloudFormation's text."""
    return str(value).lower() == "true"
