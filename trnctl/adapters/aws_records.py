"""AWS's answers as our records; pure functions of the dictionaries that boto3 gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal

from trnctl.ports import FileSystem, Fleet, Instance, Phase, Stack, StackEvent

CLUSTER_TAG = "parallelcluster:cluster-name"
NODE_TYPE_TAG = "parallelcluster:node-type"
MARK_PREFIX = "trnctl:mark:"  # of tags that trnctl puts on a head node
_VERSION_TAG = "parallelcluster:version"
_QUEUE_TAG = "parallelcluster:queue-name"
_RESOURCE_TAG = "parallelcluster:compute-resource-name"

# CloudFormation's words. A cluster whose update was rolled back works as before, but it is not what was asked for.
PHASES: dict[str, Phase] = {
    "CREATE_IN_PROGRESS": "creating",
    "REVIEW_IN_PROGRESS": "creating",
    "CREATE_FAILED": "create-failed",
    "ROLLBACK_IN_PROGRESS": "create-failed",
    "ROLLBACK_COMPLETE": "create-failed",
    "ROLLBACK_FAILED": "create-failed",
    "CREATE_COMPLETE": "running",
    "UPDATE_COMPLETE": "running",
    "IMPORT_COMPLETE": "running",
    "UPDATE_IN_PROGRESS": "updating",
    "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": "updating",
    "UPDATE_ROLLBACK_IN_PROGRESS": "updating",
    "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS": "updating",
    "UPDATE_FAILED": "update-failed",
    "UPDATE_ROLLBACK_FAILED": "update-failed",
    "UPDATE_ROLLBACK_COMPLETE": "update-failed",
    "DELETE_IN_PROGRESS": "deleting",
    "DELETE_FAILED": "delete-failed",
}
_ROLES: dict[str, Literal["head", "compute", "login"]] = {
    "HeadNode": "head",
    "Compute": "compute",
    "LoginNode": "login",
}
# EC2 says nothing about on-demand instances; "scheduled" ones are no longer sold.
_CAPACITIES: dict[str, Literal["spot", "capacity-block"]] = {"spot": "spot", "capacity-block": "capacity-block"}


def tags_of(item: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a resource as a mapping."""
    return {tag["Key"]: tag.get("Value", "") for tag in item.get("Tags") or []}


def stack_of(item: Mapping[str, Any]) -> Stack | None:
    """A stack; None once it is deleted."""
    status = item["StackStatus"]
    if status == "DELETE_COMPLETE":
        return None
    return Stack(
        name=item["StackName"],
        status=status,
        phase=PHASES.get(status, "updating"),
        created=utc(item["CreationTime"]),
        reason=item.get("StackStatusReason") or "",
        version=tags_of(item).get(_VERSION_TAG, ""),
    )


def fleet_of(item: Mapping[str, Any] | None) -> Fleet | None:
    """The COMPUTE_FLEET item of ParallelCluster's table (3.x: {"Data": {"status", "lastStatusUpdatedTime"}})."""
    data = ((item or {}).get("Data") or {}).get("M", {})
    status = data.get("status", {}).get("S")
    if not status:
        return None
    at = None
    with suppress(ValueError):
        at = utc(datetime.fromisoformat(data.get("lastStatusUpdatedTime", {}).get("S", "")))
    return Fleet(status.lower(), at)


def instance_of(item: Mapping[str, Any]) -> Instance:
    """An EC2 instance of the cluster."""
    tags = tags_of(item)
    launched = item.get("LaunchTime")
    return Instance(
        id=item["InstanceId"],
        type=item["InstanceType"],
        state=item["State"]["Name"],
        role=_ROLES.get(tags.get(NODE_TYPE_TAG, ""), "other"),
        public_ip=item.get("PublicIpAddress") or "",
        private_ip=item.get("PrivateIpAddress") or "",
        queue=tags.get(_QUEUE_TAG, ""),
        compute_resource=tags.get(_RESOURCE_TAG, ""),
        capacity=_CAPACITIES.get(item.get("InstanceLifecycle") or "", "on-demand"),
        launched=utc(launched) if launched else None,
        marks={key.removeprefix(MARK_PREFIX): tags[key] for key in tags if key.startswith(MARK_PREFIX)},
    )


def event_of(item: Mapping[str, Any]) -> StackEvent:
    """A CloudFormation event."""
    return StackEvent(
        at=utc(item["Timestamp"]),
        logical_id=item["LogicalResourceId"],
        resource_type=item["ResourceType"],
        status=item["ResourceStatus"],
        reason=item.get("ResourceStatusReason") or "",
        physical_id=item.get("PhysicalResourceId") or "",
    )


def template_of(body: object) -> Mapping[str, object] | None:
    """A template as CloudFormation gives it back: boto3 has parsed JSON already, YAML comes as the text that it was.

    Only the shape matters here, so CloudFormation's short tags (`!Ref`) are read as nothing.
    """
    if isinstance(body, str):
        import yaml

        class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
            pass

        Loader.add_multi_constructor("!", lambda _loader, _suffix, _node: None)
        try:
            body = yaml.load(body, Loader)  # noqa: S506  # a SafeLoader with one harmless tag
        except yaml.YAMLError:
            return None
    return body if isinstance(body, Mapping) else None


def lustre_of(item: Mapping[str, Any]) -> FileSystem:
    """An FSx for Lustre file system."""
    deployment = (item.get("LustreConfiguration") or {}).get("DeploymentType") or ""
    state = (item.get("Lifecycle") or "").lower()
    return FileSystem(item["FileSystemId"], "fsx-lustre", int(item.get("StorageCapacity") or 0), state, deployment)


def efs_of(item: Mapping[str, Any]) -> FileSystem:
    """An EFS file system; it grows by itself."""
    return FileSystem(item["FileSystemId"], "efs", 0, item.get("LifeCycleState") or "")


def volume_of(item: Mapping[str, Any]) -> FileSystem:
    """An EBS volume."""
    return FileSystem(item["VolumeId"], "ebs", int(item.get("Size") or 0), item.get("State") or "")


def tagged(items: Sequence[Mapping[str, Any]], cluster: str) -> list[Mapping[str, Any]]:
    """Those that carry the cluster's tag, for services that cannot filter by tag."""
    return [item for item in items if tags_of(item).get(CLUSTER_TAG) == cluster]


def utc(moment: datetime) -> datetime:
    """AWS's times are UTC, also where they come without a zone."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
