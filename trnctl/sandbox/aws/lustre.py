"""FSx for Lustre in moto: complete enough for pcluster's validators, and deleted with its content."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from moto.fsx.models import FileSystem, FSxBackend

from trnctl.sandbox.aws.backends import Backends

_initialise = FileSystem.__init__
_as_dict = FileSystem.to_dict
_delete = FSxBackend.delete_file_system


def create_file_system(backends: Backends, properties: Mapping[str, Any], *, file_system_id: str | None = None) -> Any:
    """Create a file system from CloudFormation's properties, with a given id for a seed."""
    made = backends.fsx.create_file_system(
        client_request_token=None,
        file_system_type=properties["FileSystemType"],
        storage_capacity=properties.get("StorageCapacity"),
        storage_type=properties.get("StorageType", "SSD"),
        subnet_ids=properties["SubnetIds"],
        security_group_ids=properties.get("SecurityGroupIds", []),
        tags=properties.get("Tags"),
        kms_key_id=properties.get("KmsKeyId"),
        windows_configuration=None,
        lustre_configuration=properties.get("LustreConfiguration"),
        ontap_configuration=None,
        file_system_type_version=properties.get("FileSystemTypeVersion"),
        open_zfs_configuration=None,
    )
    if file_system_id:
        del backends.fsx.file_systems[made.file_system_id]
        _name(made, file_system_id)
        backends.fsx.file_systems[file_system_id] = made
    return made


def delete_file_system(backends: Backends, file_system_id: str) -> None:
    """Delete a file system; silent when it is gone already (by hand, before its stack)."""
    if file_system_id in backends.fsx.file_systems:
        backends.fsx.delete_file_system(file_system_id, None, None, None, None)


def install(deleted: Callable[[str], None]) -> None:
    """Mend moto's FSx; `deleted` is told the id of every file system that goes."""

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        # moto's ids have 8 hex digits, pcluster's schema insists on 17; moto knows neither mount name nor network.
        _initialise(self, *args, **kwargs)
        _name(self, f"fs-{uuid4().hex[:17]}")
        if self.file_system_type == "LUSTRE":
            self.lustre_configuration = {
                "DeploymentType": "SCRATCH_1",
                **(self.lustre_configuration or {}),
                "MountName": uuid4().hex[:8],
            }
        region = self.resource_arn.split(":")[3]
        ec2 = Backends(region).ec2
        subnet = ec2.get_subnet(self.subnet_ids[0])
        interface = ec2.create_network_interface(
            subnet, None, group_ids=self.security_group_ids or [], description="Amazon FSx network interface"
        )
        self.network = {
            "VpcId": subnet.vpc_id,
            "NetworkInterfaceIds": [interface.id],
            "Lifecycle": "AVAILABLE",
            "CreationTime": time.time(),
            "OwnerId": ec2.account_id,
        }

    def as_dict(self: Any) -> dict[str, Any]:
        return {**_as_dict(self), **self.network}

    def delete(self: Any, file_system_id: str, *args: Any, **kwargs: Any) -> Any:
        # moto leaves the interfaces; on AWS they go with the file system.
        gone = self.file_systems.get(file_system_id)
        answer = _delete(self, file_system_id, *args, **kwargs)
        for interface in gone.network["NetworkInterfaceIds"]:
            Backends(self.region_name).ec2.delete_network_interface(interface)
        deleted(file_system_id)
        return answer

    FileSystem.__init__, FileSystem.to_dict, FSxBackend.delete_file_system = initialise, as_dict, delete


def _name(file_system: Any, file_system_id: str) -> None:
    tags = file_system.backend.list_tags_for_resource(file_system.resource_arn)
    old = file_system.file_system_id
    for attribute in ("dns_name", "resource_arn"):
        setattr(file_system, attribute, getattr(file_system, attribute).replace(old, file_system_id))
    file_system.file_system_id = file_system_id
    if tags:
        file_system.backend.tagger.tag_resource(file_system.resource_arn, tags)
