"""EC2 instances started from a launch template, as CloudFormation starts a head node and ParallelCluster its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.utils import random_public_ip

from trnctl.sandbox.aws.backends import Backends
from trnctl.sandbox.aws.capacity import reservations, used


def refuse_missing_offer(ec2: Any, instance_type: str, zone: str) -> None:
    """Raise EC2's own error when the zone does not offer the type; moto would launch it anywhere."""
    offers = ec2.describe_instance_type_offerings("availability-zone", {"instance-type": [instance_type]})
    if any(offer["Location"] == zone for offer in offers):
        return
    others = ", ".join(sorted({offer["Location"] for offer in offers}))
    raise EC2ClientError(
        "Unsupported",
        f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone "
        f"({zone}). Please retry your request by not specifying an Availability Zone or choosing "
        f"{others or 'another region'}.",
    )


def template_data(backends: Backends, template_id: str, version: str) -> Mapping[str, Any]:
    """The LaunchTemplateData of one version."""
    data: Mapping[str, Any] = backends.ec2.get_launch_template(template_id).get_version(version).data
    return data


def run(
    backends: Backends,
    template: Mapping[str, Any],
    *,
    instance_type: str | None = None,
    subnet_id: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> Any:
    """Start one instance from LaunchTemplateData; the keywords win over the template. Raises EC2ClientError."""
    ec2 = backends.ec2
    first = _primary(template)
    interface = ec2.get_network_interface(first["NetworkInterfaceId"]) if "NetworkInterfaceId" in first else None
    subnet = interface.subnet if interface else ec2.get_subnet(subnet_id or first.get("SubnetId"))
    type_ = instance_type or template["InstanceType"]
    refuse_missing_offer(ec2, type_, subnet.availability_zone)
    reservation = _aimed_reservation(template)
    if reservation:
        _check_reservation(backends, reservation)
    instance = ec2.run_instances(
        image_id=template["ImageId"],
        count=1,
        user_data=None,
        security_group_names=[],
        instance_type=type_,
        is_instance_type_default=False,
        key_name=template.get("KeyName"),
        subnet_id=subnet.id,
        nics=[_interface(first, subnet, interface)],
        private_ip=interface.private_ip_address if interface else None,
        associate_public_ip=False,
        block_device_mappings=_volumes(ec2, template),
        region_name=backends.region,
        tags=_tags(template, tags or {}),
    ).instances[0]
    if interface and subnet.map_public_ip_on_launch:
        # moto gives no public address to an interface that existed before its instance; EC2 does.
        interface.public_ip = interface.public_ip or random_public_ip()
    instance.placement.group_name = template.get("Placement", {}).get("GroupName", "")
    instance.lifecycle = _lifecycle(template)
    instance.reserved_in = reservation
    return instance


def _lifecycle(template: Mapping[str, Any]) -> str | None:
    """EC2's InstanceLifecycle: spot, capacity-block, or None for on demand."""
    market = template.get("InstanceMarketOptions", {}).get("MarketType")
    return str(market) if market in ("spot", "capacity-block") else None


def _aimed_reservation(template: Mapping[str, Any]) -> str | None:
    """The capacity reservation that the template aims at."""
    target = template.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    found = target.get("CapacityReservationId")
    return str(found) if found else None


def _check_reservation(backends: Backends, wanted: str) -> None:
    """Raise EC2ClientError when the reservation does not exist or has nothing left."""
    reservation = reservations(backends.region).get(wanted)
    if reservation is None:
        raise EC2ClientError(
            "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{wanted}' does not exist"
        )
    if used(backends.ec2, wanted) >= reservation.count:
        raise EC2ClientError(
            "ReservationCapacityExceeded",
            "The requested reservation does not have sufficient compatible and available capacity for this request.",
        )


def _primary(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template's own words for the primary interface, {} when it has none."""
    for interface in template.get("NetworkInterfaces", []):
        if int(interface.get("DeviceIndex", 0)) == 0:
            found: Mapping[str, Any] = interface
            return found
    return {}


def _interface(first: Mapping[str, Any], subnet: Any, existing: Any) -> dict[str, Any]:
    """The primary interface only: a trn1 has eight cards, but nothing here asks for the others."""
    if existing is not None:
        return {"DeviceIndex": 0, "NetworkInterfaceId": existing.id}
    return {
        "DeviceIndex": 0,
        "SubnetId": subnet.id,
        "Groups": list(first.get("Groups", [])),
        "DeleteOnTermination": True,
    }


def _volumes(ec2: Any, template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The EBS volumes of the template; one without a size has the image's."""
    image = ec2.describe_images(ami_ids=[template["ImageId"]])[0]
    size = image.block_device_mappings[0]["Ebs"]["VolumeSize"]
    return [
        {"DeviceName": each["DeviceName"], "Ebs": {"VolumeSize": size, **each["Ebs"]}}
        for each in template.get("BlockDeviceMappings", [])
        if "Ebs" in each
    ]


def _tags(template: Mapping[str, Any], more: Mapping[str, str]) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {"instance": {}, "volume": {}}
    for specification in template.get("TagSpecifications", []):
        tags = {tag["Key"]: tag["Value"] for tag in specification.get("Tags", [])}
        result.setdefault(specification["ResourceType"], {}).update(tags)
    for kind in ("instance", "volume"):
        result[kind].update(more)
    return result
