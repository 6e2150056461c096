"""The CloudFormation resource types of ParallelCluster's templates that moto 5.2.5 lacks.

moto finds its models through `CloudFormationModel.__subclasses__()`, so each is made a direct subclass of that
class; `_register` does it, because moto has no types that a class statement could be checked against.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from moto.cloudformation import parsing
from moto.core.common_models import CloudFormationModel

from trnctl.sandbox.aws import image_builder
from trnctl.sandbox.aws.backends import Backends
from trnctl.sandbox.aws.capacity import PlacementGroup, placement_groups
from trnctl.sandbox.aws.lustre import create_file_system, delete_file_system
from trnctl.sandbox.aws.plain import Plain, Properties


class Alarm(Plain):
    """CloudWatch alarms: nothing here measures anything, so they stay silent."""

    arn = "arn:aws:cloudwatch:{region}:{account}:alarm:{id}"


class WaitHandle(Plain):
    """The presigned URL to which a head node reports."""

    @classmethod
    def make(cls, name: str, properties: Properties, account: str, region: str) -> Self:
        return cls(
            f"https://cloudformation-waitcondition-{region}.s3.{region}.amazonaws.com/{name}",
            properties,
            account,
            region,
        )


class CleanUp(Plain):
    """ParallelCluster's Lambda-backed clean-up hooks: they do nothing on creation and their work on deletion."""

    def delete(self, account: str, region: str) -> None:
        """Do what the Lambda functions of ParallelCluster do (custom_resources in its package)."""
        backends, wanted = Backends(region), self.properties
        action = wanted.get("Action")
        if action == "TERMINATE_EC2_INSTANCES":
            for node_type in ("Compute", "LoginNode"):
                for instance in backends.instances(wanted["StackName"], node_type):
                    instance.terminate()
        elif action == "DELETE_S3_ARTIFACTS":
            delete_objects(backends, wanted["ResourcesS3Bucket"], wanted["ArtifactS3RootDirectory"] + "/")
        elif action == "DELETE_DNS_RECORDS":
            zone = backends.route53.get_hosted_zone(wanted["ClusterHostedZone"])
            zone.rrsets = [record for record in zone.rrsets if record.type in ("NS", "SOA")]


class LustreFileSystem(Plain):
    """FSx for Lustre."""

    @classmethod
    def make(cls, name: str, properties: Properties, account: str, region: str) -> Self:
        return cls(create_file_system(Backends(region), properties).file_system_id, properties, account, region)

    def attribute(self, name: str) -> Any:
        found = Backends(self.region).fsx.file_systems[self.id]
        known = {
            "LustreMountName": found.lustre_configuration["MountName"],
            "DNSName": found.dns_name,
            "ResourceARN": found.resource_arn,
        }
        return known.get(name, self.id)

    def delete(self, account: str, region: str) -> None:
        delete_file_system(Backends(region), self.id)


class PlacementGroupModel(Plain):
    """EC2 placement groups."""

    @classmethod
    def make(cls, name: str, properties: Properties, account: str, region: str) -> Self:
        group = PlacementGroup(name=name, strategy=properties.get("Strategy", "cluster"))
        placement_groups(region)[name] = group
        return cls(name, properties, account, region)

    def tag(self, tags: Mapping[str, str]) -> None:
        placement_groups(self.region)[self.id].tags.update(tags)

    def delete(self, account: str, region: str) -> None:
        placement_groups(region).pop(self.id, None)


class AddressAssociation(Plain):
    """An Elastic IP on a network interface: ParallelCluster's `ElasticIp: true` for the head node."""

    @classmethod
    def make(cls, name: str, properties: Properties, account: str, region: str) -> Self:
        ec2 = Backends(region).ec2
        interface = ec2.get_network_interface(properties["NetworkInterfaceId"])
        address = ec2.associate_address(eni=interface, allocation_id=properties["AllocationId"], reassociate=True)
        return cls(address.association_id, properties, account, region)

    def delete(self, account: str, region: str) -> None:
        Backends(region).ec2.disassociate_address(association_id=self.id)


def delete_objects(backends: Backends, bucket: str, prefix: str) -> None:
    """Remove all versions of all objects below a prefix."""
    keys = backends.s3.get_bucket(bucket).keys
    for key in [key for key in keys if key.startswith(prefix)]:
        keys.pop(key)


def _register(kind: str, behaviour: type[Plain]) -> None:
    """Make moto know `behaviour` as the CloudFormation type `kind`."""
    members = {
        "cloudformation_type": staticmethod(lambda: kind),
        "__module__": "moto.sandbox",  # moto takes the service's name from the second part of the module's
    }
    type(CloudFormationModel)(kind.replace("::", ""), (behaviour, CloudFormationModel), members)


_MODELS: Mapping[str, type[Plain]] = {
    **image_builder.MODELS,
    "AWS::CloudFormation::CustomResource": CleanUp,
    "AWS::CloudFormation::WaitCondition": Plain,
    "AWS::CloudFormation::WaitConditionHandle": WaitHandle,
    "AWS::CloudWatch::Alarm": Alarm,
    "AWS::CloudWatch::CompositeAlarm": Alarm,
    "AWS::EC2::EIPAssociation": AddressAssociation,
    "AWS::EC2::PlacementGroup": PlacementGroupModel,
    "AWS::EC2::SecurityGroupEgress": Plain,
    "AWS::FSx::DataRepositoryAssociation": Plain,
    "AWS::FSx::FileSystem": LustreFileSystem,
    "AWS::Logs::MetricFilter": Plain,
}


def install() -> None:
    """Register the models with moto; a second call changes nothing."""
    parsing.NULL_MODELS.clear()  # moto would skip wait conditions; the stack engine waits for them
    if not _MODELS.keys() <= parsing.get_model_map().keys():
        for kind, behaviour in _MODELS.items():
            _register(kind, behaviour)
    for cached in (parsing.get_model_list, parsing.get_model_map, parsing.get_name_type_map):
        cached.cache_clear()
