"""What moto 5.2.5 does otherwise than AWS, mended; each with one sentence that says why it matters here."""

from __future__ import annotations

from typing import Any

from moto.cloudformation import models as cloudformation
from moto.ec2.models import elastic_ip_addresses
from moto.ec2.models.elastic_network_interfaces import NetworkInterface
from moto.ec2.models.instances import Instance
from moto.ec2.models.security_groups import SecurityGroup
from moto.ec2.responses import EC2Response
from moto.ec2.responses.instances import InstanceResponse
from moto.ec2.utils import random_public_ip
from moto.logs.models import LogGroup
from moto.route53.models import FakeZone

from trnctl.sandbox.aws import instances
from trnctl.sandbox.aws.backends import Backends

# moto's own, taken once, so that installing again never wraps a wrapper.
_outputs = cloudformation.Stack.outputs.fget
_validate_block_device = InstanceResponse._validate_block_device_mapping
_run_instances = InstanceResponse.run_instances
_create_instance = Instance.create_from_cloudformation_json.__func__
_create_interface = NetworkInterface.create_from_cloudformation_json.__func__
_create_group = SecurityGroup.create_from_cloudformation_json.__func__
_create_log_group = LogGroup.create_from_cloudformation_json.__func__
_create_zone = FakeZone.create_from_cloudformation_json.__func__


def install() -> None:
    """Mend moto in this process; a second call changes nothing."""
    stack = cloudformation.Stack
    stack.get_cfn_attribute = _nested_output
    stack.physical_resource_id = property(lambda self: self.stack_id)
    stack.outputs = property(_settled_outputs)
    stack.stack_resources = property(_existing_resources)
    InstanceResponse._validate_block_device_mapping = staticmethod(_check_block_device)
    EC2Response.run_instances = _run_where_offered
    Instance.create_from_cloudformation_json = classmethod(_instance_from_template)
    NetworkInterface.create_from_cloudformation_json = classmethod(_interface_with_groups)
    NetworkInterface.delete = _delete_interface_for_stack
    SecurityGroup.update_from_cloudformation_json = classmethod(_update_group)
    FakeZone.create_from_cloudformation_json = classmethod(_zone_with_tags)
    FakeZone.delete = _delete_zone
    LogGroup.create_from_cloudformation_json = classmethod(_log_group_of_its_minute)
    # moto's Elastic IPs are loopback addresses (127.…), which a client of the head node would take for its own.
    elastic_ip_addresses.random_ip = random_public_ip


def _nested_output(stack: Any, name: str) -> Any:
    """A parent reads `Outputs.X` of its nested stack (ParallelCluster's queues are one); moto has no such attribute."""
    return stack.output_map[name.split(".", 1)[1]].value


def _settled_outputs(stack: Any) -> Any:
    """Reading outputs creates what they refer to, in moto; AWS shows none before the stack is complete."""
    settled = stack.status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
    return _outputs(stack) if settled else None


def _existing_resources(stack: Any) -> list[Any]:
    """DescribeStackResources would create what does not exist yet, in moto, and list empty entries."""
    made = stack.resource_map._parsed_resources
    return [made[name] for name in list(stack.resource_map._resource_json_map) if made.get(name) is not None]


def _check_block_device(mapping: dict[str, Any]) -> None:
    """ParallelCluster maps ephemeral0…23 by VirtualName, and a root volume without a size; moto refuses both."""
    if "VirtualName" not in mapping and "VolumeSize" in mapping.get("Ebs", {"VolumeSize": 0}):
        _validate_block_device(mapping)


def _run_where_offered(response: Any) -> Any:
    """EC2 refuses a type that the zone does not offer, in a dry run too; pcluster's validators rely on it."""
    type_ = response._get_param("InstanceType")
    interfaces = response._get_param("NetworkInterfaces", [])
    subnet = response._get_param("SubnetId") or next(
        (nic["SubnetId"] for nic in interfaces if nic.get("SubnetId")), None
    )
    if type_ and subnet:
        zone = response.ec2_backend.get_subnet(subnet).availability_zone
        instances.refuse_missing_offer(response.ec2_backend, type_, zone)
    return _run_instances(response)


def _instance_from_template(
    cls: Any, /, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **kwargs: Any
) -> Any:
    """The head node is given by a launch template; moto looks for the image among the instance's own properties."""
    properties = cloudformation_json["Properties"]
    wanted = properties.get("LaunchTemplate")
    if not wanted:
        return _create_instance(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs)
    backends = Backends(region_name)
    template = instances.template_data(backends, wanted["LaunchTemplateId"], wanted["Version"])
    tags = {tag["Key"]: tag["Value"] for tag in properties.get("Tags", [])}
    return instances.run(backends, template, subnet_id=properties.get("SubnetId"), tags=tags)


def _interface_with_groups(
    cls: Any, /, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **kwargs: Any
) -> Any:
    """CloudFormation's property is GroupSet; moto reads another and would give the head node the default group."""
    properties = cloudformation_json["Properties"]
    properties.setdefault("SecurityGroups", properties.get("GroupSet", []))
    return _create_interface(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs)


def _delete_interface_for_stack(interface: Any, *_: Any) -> None:
    """moto's stack deletion passes account and region, which its own method does not take: the interface would stay."""
    interface.ec2_backend.delete_network_interface(interface.id)
    for address in interface.private_ip_addresses:
        interface.subnet.del_subnet_ip(address["PrivateIpAddress"])


def _update_group(
    cls: Any,
    /,
    *,
    original_resource: Any,
    new_resource_name: str,
    cloudformation_json: Any,
    account_id: str,
    region_name: str,
) -> Any:
    """A change of rules happens in place; moto would replace the group under the feet of the instances that use it."""
    fresh = _create_group(cls, new_resource_name, cloudformation_json, account_id, region_name)
    # Rules between groups are resources of their own (AWS::EC2::SecurityGroupIngress) and stay.
    between = [rule for rule in original_resource.ingress_rules if rule.source_groups]
    original_resource.ingress_rules = between + [rule for rule in fresh.ingress_rules if not rule.source_groups]
    fresh.delete(account_id, region_name)
    return original_resource


def _zone_with_tags(
    cls: Any, /, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **kwargs: Any
) -> Any:
    """moto drops HostedZoneTags, by which a cluster's zone is found again."""
    zone = _create_zone(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs)
    tags = cloudformation_json["Properties"].get("HostedZoneTags", [])
    Backends(region_name).route53.change_tags_for_resource("hostedzone", zone.id.removeprefix("/hostedzone/"), tags, [])
    return zone


def _delete_zone(zone: Any, account_id: str, region_name: str) -> None:
    """moto has no deletion of a hosted zone through a stack: it would stay behind."""
    Backends(region_name).route53.delete_hosted_zone(zone.id)


def _log_group_of_its_minute(
    cls: Any, /, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **kwargs: Any
) -> Any:
    """ParallelCluster names a log group after the cluster and the minute, and it outlives its stack. Two clusters
    of one name may come and go in a minute here, which takes longer on AWS: the second takes the group as it is."""
    known = Backends(region_name).logs.groups.get(resource_name)
    return known or _create_log_group(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs)
