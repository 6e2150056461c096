"""Where to look for what a cluster leaves behind: one small function per kind, through a way to ask AWS."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from trnctl.adapters.aws_records import CLUSTER_TAG, tagged, tags_of
from trnctl.ports import Resource


class Ask(Protocol):
    """Asks AWS for all pages of a list: `ask("ec2", "describe_volumes", "Volumes", Filters=…)`. Raises CloudError."""

    def __call__(self, service: str, operation: str, key: str, /, **parameters: object) -> list[dict[str, Any]]: ...


Look = Callable[[Ask, str], list[Resource]]


def _with_tag(cluster: str) -> list[dict[str, object]]:
    return [{"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]}]


def instances(ask: Ask, cluster: str) -> list[Resource]:
    """Instances that are not terminated; one that is shutting down still holds its interfaces and placement group."""
    groups = ask("ec2", "describe_instances", "Reservations", Filters=_with_tag(cluster))
    found = [item for group in groups for item in group["Instances"]]
    return [
        Resource("instance", item["InstanceId"], f"{item['InstanceType']}, {item['State']['Name']}")
        for item in found
        if item["State"]["Name"] != "terminated"
    ]


def volumes(ask: Ask, cluster: str) -> list[Resource]:
    """EBS volumes, root volumes included."""
    found = ask("ec2", "describe_volumes", "Volumes", Filters=_with_tag(cluster))
    return [
        Resource("volume", item["VolumeId"], f"{item['Size']} GiB, {item['State']}")
        for item in found
        if item["State"] not in ("deleting", "deleted")
    ]


def interfaces(ask: Ask, cluster: str) -> list[Resource]:
    """Network interfaces; one left over keeps its security group and subnet from being deleted. Those that a service
    made for itself (a file system's) are told as such."""
    found = ask("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=_with_tag(cluster))
    return [
        Resource(
            "network interface",
            item["NetworkInterfaceId"],
            ", ".join(filter(None, [item.get("Status", ""), "of a file system" if _of_a_file_system(item) else ""])),
        )
        for item in found
    ]


def _of_a_file_system(item: Mapping[str, Any]) -> bool:
    return re.search(r"\b(FSx|EFS)\b", item.get("Description") or "") is not None


def security_groups(ask: Ask, cluster: str) -> list[Resource]:
    """Security groups; that of a retained file system stays with it."""
    found = ask("ec2", "describe_security_groups", "SecurityGroups", Filters=_with_tag(cluster))
    return [Resource("security group", item["GroupId"], item.get("GroupName", "")) for item in found]


def placement_groups(ask: Ask, cluster: str) -> list[Resource]:
    """Placement groups that ParallelCluster made."""
    found = ask("ec2", "describe_placement_groups", "PlacementGroups", Filters=_with_tag(cluster))
    return [
        Resource("placement group", item["GroupName"], item.get("State", ""))
        for item in found
        if item.get("State") not in ("deleting", "deleted")
    ]


def lustre(ask: Ask, cluster: str) -> list[Resource]:
    """FSx for Lustre file systems."""
    found = tagged(ask("fsx", "describe_file_systems", "FileSystems"), cluster)
    return [
        Resource("FSx file system", item["FileSystemId"], f"{item.get('StorageCapacity', 0)} GiB")
        for item in found
        if item.get("Lifecycle") != "DELETING"
    ]


def elastic(ask: Ask, cluster: str) -> list[Resource]:
    """EFS file systems."""
    found = tagged(ask("efs", "describe_file_systems", "FileSystems"), cluster)
    return [
        Resource("EFS file system", item["FileSystemId"], item.get("LifeCycleState", ""))
        for item in found
        if item.get("LifeCycleState") not in ("deleting", "deleted")
    ]


def log_groups(ask: Ask, cluster: str) -> list[Resource]:
    """Log groups, called after the cluster and the minute of its creation: /aws/parallelcluster/demo-202610010900."""
    prefix = f"/aws/parallelcluster/{cluster}-"
    found = ask("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=prefix)
    ours = [item for item in found if re.fullmatch(re.escape(prefix) + r"\d{12}", item["logGroupName"])]
    return [Resource("log group", item["logGroupName"], _retention(item)) for item in ours]


def _retention(item: Mapping[str, Any]) -> str:
    days = item.get("retentionInDays")
    return f"kept for {days} days" if days else "kept for ever"


def hosted_zones(ask: Ask, cluster: str) -> list[Resource]:
    """The private zone in which the nodes' names resolve."""
    found = ask("route53", "list_hosted_zones", "HostedZones")
    ours = [item for item in found if item["Name"].rstrip(".") == f"{cluster}.pcluster"]
    return [Resource("hosted zone", item["Id"].rpartition("/")[2], item["Name"].rstrip(".")) for item in ours]


def roles(ask: Ask, cluster: str) -> list[Resource]:
    """IAM roles below ParallelCluster's path that carry the tag; the list gives no tags, so each candidate is asked."""
    found = ask("iam", "list_roles", "Roles", PathPrefix="/parallelcluster/")
    candidates = [item for item in found if cluster in item["RoleName"] or f"/{cluster}/" in item["Path"]]
    tags = {item["RoleName"]: ask("iam", "list_role_tags", "Tags", RoleName=item["RoleName"]) for item in candidates}
    ours = [name for name, found_tags in tags.items() if tags_of({"Tags": found_tags}).get(CLUSTER_TAG) == cluster]
    return [Resource("role", name) for name in ours]


# What is looked for, in the words of teardown's proof, and the service that must be asked.
LOOKS: tuple[tuple[str, str, Look], ...] = (
    ("instances", "ec2", instances),
    ("volumes", "ec2", volumes),
    ("network interfaces", "ec2", interfaces),
    ("security groups", "ec2", security_groups),
    ("placement groups", "ec2", placement_groups),
    ("FSx file systems", "fsx", lustre),
    ("EFS file systems", "efs", elastic),
    ("log groups", "logs", log_groups),
    ("hosted zones", "route53", hosted_zones),
    ("roles below /parallelcluster/", "iam", roles),
)
