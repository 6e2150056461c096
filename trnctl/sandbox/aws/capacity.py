"""EC2's capacity reservations and placement groups, which moto's API lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response

from trnctl.sandbox.aws.seeds import ACCOUNT


@dataclass
class Reservation:
    """A capacity reservation, or a capacity block for ML when `block`."""

    id: str
    instance_type: str
    zone: str
    count: int
    block: bool = False

    def describe(self, used: int) -> dict[str, Any]:
        """The form in which DescribeCapacityReservations gives it, when `used` instances run in it."""
        start = datetime.now(UTC) - timedelta(hours=1)
        return {
            "CapacityReservationId": self.id,
            "CapacityReservationArn": f"arn:aws:ec2:{self.zone[:-1]}:{ACCOUNT}:capacity-reservation/{self.id}",
            "OwnerId": ACCOUNT,
            "InstanceType": self.instance_type,
            "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": self.zone,
            "Tenancy": "default",
            "TotalInstanceCount": self.count,
            "AvailableInstanceCount": self.count - used,
            "EbsOptimized": False,
            "EphemeralStorage": False,
            "State": "active",
            "StartDate": start,
            "CreateDate": start,
            "InstanceMatchCriteria": "targeted",
            "ReservationType": "capacity-block" if self.block else "default",
            **(
                {"EndDateType": "limited", "EndDate": start + timedelta(days=14)}
                if self.block
                else {"EndDateType": "unlimited"}
            ),
        }


@dataclass
class PlacementGroup:
    """A placement group."""

    name: str
    strategy: str = "cluster"
    id: str = field(default_factory=lambda: f"pg-{uuid4().hex[:17]}")
    tags: dict[str, str] = field(default_factory=dict)

    def describe(self, region: str) -> dict[str, Any]:
        """The form in which DescribePlacementGroups gives it."""
        return {
            "GroupName": self.name,
            "GroupId": self.id,
            "GroupArn": f"arn:aws:ec2:{region}:{ACCOUNT}:placement-group/{self.name}",
            "State": "available",
            "Strategy": self.strategy,
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
        }


_reservations: dict[str, dict[str, Reservation]] = {}
_groups: dict[str, dict[str, PlacementGroup]] = {}


def reservations(region: str) -> dict[str, Reservation]:
    """The capacity reservations of a region, by id."""
    return _reservations.setdefault(region, {})


def placement_groups(region: str) -> dict[str, PlacementGroup]:
    """The placement groups of a region, by name."""
    return _groups.setdefault(region, {})


def used(ec2: Any, reservation: str) -> int:
    """How many living instances of moto's EC2 run in a reservation."""
    return sum(
        instance.state != "terminated" and getattr(instance, "reserved_in", None) == reservation
        for instance in ec2.all_instances()
    )


def empty() -> None:
    """Forget all reservations and groups."""
    _reservations.clear()
    _groups.clear()


def install() -> None:
    """Add the API calls to moto's EC2."""
    EC2Response.describe_capacity_reservations = _describe_capacity_reservations
    EC2Response.describe_placement_groups = _describe_placement_groups
    EC2Response.create_placement_group = _create_placement_group
    EC2Response.delete_placement_group = _delete_placement_group


def _describe_capacity_reservations(response: Any) -> Any:
    wanted: Sequence[str] = response._get_param("CapacityReservationIds", [])
    known = reservations(response.region)
    if missing := [each for each in wanted if each not in known]:
        raise EC2ClientError(
            "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{missing[0]}' does not exist"
        )
    found = [known[each].describe(used(response.ec2_backend, each)) for each in wanted or known]
    return ActionResult({"CapacityReservations": found})


def _describe_placement_groups(response: Any) -> Any:
    known = placement_groups(response.region)
    names: Sequence[str] = response._get_param("GroupNames", [])
    if missing := [name for name in names if name not in known]:
        raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The Placement Group '{missing[0]}' is unknown.")
    ids: Sequence[str] = response._get_param("GroupIds", [])
    filters: dict[str, list[str]] = response._filters_from_querystring()
    found = [
        group.describe(response.region)
        for group in known.values()
        if (not names or group.name in names) and (not ids or group.id in ids) and _passes(group, filters)
    ]
    return ActionResult({"PlacementGroups": found})


def _passes(group: PlacementGroup, filters: dict[str, list[str]]) -> bool:
    facts = {"group-name": group.name, "strategy": group.strategy, "state": "available"}
    facts.update({f"tag:{key}": value for key, value in group.tags.items()})
    return all(facts.get(name) in values for name, values in filters.items())


def _create_placement_group(response: Any) -> Any:
    group = PlacementGroup(name=response._get_param("GroupName"), strategy=response._get_param("Strategy", "cluster"))
    group.tags.update(response._parse_tag_specification().get("placement-group", {}))
    placement_groups(response.region)[group.name] = group
    return ActionResult({"PlacementGroup": group.describe(response.region)})


def _delete_placement_group(response: Any) -> Any:
    name = response._get_param("GroupName")
    if placement_groups(response.region).pop(name, None) is None:
        raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
    return EmptyResult()
