"""The questions that trnctl asks AWS itself, through botocore: real AWS, or any endpoint that speaks like it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from trnctl.adapters import aws_records as records
from trnctl.adapters.aws_calls import NoSuchThing
from trnctl.adapters.aws_clients import Clients
from trnctl.adapters.aws_leftovers import LOOKS, Look
from trnctl.adapters.aws_logs import sent_logs
from trnctl.adapters.aws_lustre import open_lustre
from trnctl.adapters.aws_objects import delete_objects, get_objects, list_objects, put_objects
from trnctl.adapters.clock import SystemClock
from trnctl.errors import CloudError
from trnctl.ports import (
    Clock,
    FileSystem,
    Fleet,
    Instance,
    Observed,
    Resource,
    SavedText,
    Stack,
    StackEvent,
    StoredObject,
)

_CLUSTER_FILTER = f"tag:{records.CLUSTER_TAG}"
_LIVING = ["pending", "running", "shutting-down", "stopping", "stopped"]


class BotoCloud:
    """The Cloud behind botocore.

    `environ` holds credentials, profile and endpoint as the AWS tools read them (None = this process's own); `profile`
    and `endpoint_url` win over it. Nothing is imported or connected before the first question.
    """

    def __init__(
        self,
        *,
        region: str,
        profile: str | None = None,
        endpoint_url: str | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clients = Clients(region=region, profile=profile, endpoint_url=endpoint_url, environ=environ)
        self._region = region
        self._clock = clock or SystemClock()
        self._call, self._list, self._soon = self.clients.call, self.clients.pages, self.clients.soon

    def observe(self, cluster: str, *, blocks: Sequence[str] = ()) -> Observed:
        """Stack, fleet and living instances; see `ports.Cloud.observe`."""
        with ThreadPoolExecutor(max_workers=4) as pool:
            # EC2's client takes the longest to make, and its answer the longest to come.
            instances = self._soon(pool, "ec2", self._instances, cluster)
            ends = self._soon(pool, "ec2", self.block_ends, blocks) if blocks else None
            stack = self._soon(pool, "cloudformation", self._stack, cluster)
            fleet = self._soon(pool, "dynamodb", self._fleet, cluster)
            known = ends.result() if ends is not None else {}
            return Observed(stack.result(), fleet.result(), instances.result(), known)

    def block_ends(self, blocks: Sequence[str]) -> Mapping[str, datetime]:
        """When these capacity blocks end; see `ports.Cloud.block_ends`."""
        try:
            found = self._call("ec2", "describe_capacity_reservations", CapacityReservationIds=list(blocks))
        except (NoSuchThing, CloudError):  # a look at the cluster does not hang on it
            return {}
        known = [one for one in found["CapacityReservations"] if one.get("EndDate")]
        return {one["CapacityReservationId"]: records.utc(one["EndDate"]) for one in known}

    def stack_events(self, cluster: str) -> list[StackEvent]:
        """Stack events, oldest first; see `ports.Cloud.stack_events`. A deleted stack is found by its id."""
        for name in (cluster, self._deleted_stack_id):
            asked = name if isinstance(name, str) else name(cluster)
            if not asked:
                continue
            try:
                found = self._list("cloudformation", "describe_stack_events", "StackEvents", StackName=asked)
            except NoSuchThing:
                continue
            return [records.event_of(item) for item in reversed(found)]
        return []

    def sent_logs(self, cluster: str, instances: Iterable[str] = (), since: datetime | None = None) -> list[SavedText]:
        """What reached CloudWatch and the consoles; see `ports.Cloud.sent_logs`."""
        return sent_logs(self.clients, cluster, list(instances), since)

    def template(self, cluster: str) -> Mapping[str, object] | None:
        """The stack's template; see `ports.Cloud.template`."""
        try:
            body = self._call("cloudformation", "get_template", StackName=cluster)["TemplateBody"]
        except NoSuchThing:
            return None
        return records.template_of(body)

    def resources(self, cluster: str) -> Mapping[str, str]:
        """The stack's resources; see `ports.Cloud.resources`."""
        try:
            found = self._list("cloudformation", "list_stack_resources", "StackResourceSummaries", StackName=cluster)
        except NoSuchThing:
            return {}
        return {item["LogicalResourceId"]: item.get("PhysicalResourceId", "") for item in found}

    def file_systems(self, cluster: str) -> list[FileSystem]:
        """Shared file systems and volumes that carry the cluster's tag; the root volumes of its nodes are none."""
        with ThreadPoolExecutor(max_workers=3) as pool:
            asked = [
                self._soon(pool, "fsx", self._list, "fsx", "describe_file_systems", "FileSystems"),
                self._soon(pool, "efs", self._list, "efs", "describe_file_systems", "FileSystems"),
                self._soon(pool, "ec2", self._tagged_volumes, cluster),
            ]
            lustre, elastic, volumes = (future.result() for future in asked)
        found = [records.lustre_of(item) for item in records.tagged(lustre, cluster) if _is_lustre(item)]
        found += [records.efs_of(item) for item in records.tagged(elastic, cluster)]
        return found + [
            records.volume_of(item) for item in volumes if records.NODE_TYPE_TAG not in records.tags_of(item)
        ]

    def open_file_system(self, file_system: FileSystem, cluster: str) -> None:
        """Let it be reached; see `ports.Cloud.open_file_system`."""
        if file_system.kind == "fsx-lustre":
            open_lustre(self._call, file_system.id, cluster)

    def delete_file_system(self, file_system: FileSystem) -> None:
        """Start deleting one; silent if it is gone. EFS's mount targets go first, which takes up to two minutes."""
        try:
            if file_system.kind == "ebs":
                self._call("ec2", "delete_volume", VolumeId=file_system.id)
            elif file_system.kind == "fsx-lustre":
                self._call("fsx", "delete_file_system", FileSystemId=file_system.id)
            else:
                self._delete_mount_targets(file_system.id)
                self._call("efs", "delete_file_system", FileSystemId=file_system.id)
        except NoSuchThing:
            return

    def delete_beside(self, resource: Resource) -> bool:
        """Delete what a file system kept alive beside it; see `ports.Cloud.delete_beside`."""
        wanted = {
            "security group": ("delete_security_group", "GroupId"),
            "network interface": ("delete_network_interface", "NetworkInterfaceId"),
        }.get(resource.kind)
        if wanted is None or not resource.id:
            return False
        operation, parameter = wanted
        try:
            self._call("ec2", operation, **{parameter: resource.id})
        except NoSuchThing:
            return True
        except CloudError:  # in use, or not ours to delete: it stays in the list of what is left, which is the truth
            return False
        return True

    def leftovers(self, cluster: str) -> list[Resource]:
        """What still carries the cluster's tag or name; see `ports.Cloud.leftovers`.

        A kind that AWS does not let us look for is in the result, with an empty id and the reason as its detail.
        """
        with ThreadPoolExecutor(max_workers=len(LOOKS)) as pool:
            asked = [self._soon(pool, service, self._look, kind, look, cluster) for kind, service, look in LOOKS]
            return [resource for future in asked for resource in future.result()]

    def looked_for(self) -> tuple[str, ...]:
        """The kinds that `leftovers` looks for."""
        return tuple(kind for kind, _, _ in LOOKS)

    def mark(self, instance: str, name: str, value: str | None) -> None:
        """A tag of trnctl's own; see `ports.Cloud.mark`."""
        key = f"{records.MARK_PREFIX}{name}"
        if value is None:
            self._call("ec2", "delete_tags", Resources=[instance], Tags=[{"Key": key}])
        else:
            self._call("ec2", "create_tags", Resources=[instance], Tags=[{"Key": key, "Value": value}])

    def put_objects(self, bucket: str, objects: Mapping[str, str]) -> None:
        """Write texts into a bucket of this region; see `ports.Cloud.put_objects`."""
        put_objects(self._call, self._region, bucket, objects)

    def delete_objects(self, bucket: str, keys: Iterable[str]) -> None:
        """Delete objects; see `ports.Cloud.delete_objects`."""
        delete_objects(self._call, bucket, keys)

    def list_objects(self, bucket: str, prefix: str) -> list[StoredObject]:
        """The objects below a prefix; see `ports.Cloud.list_objects`."""
        return list_objects(self._list, bucket, prefix)

    def get_objects(self, bucket: str, keys: Iterable[str]) -> dict[str, str]:
        """The texts of objects; see `ports.Cloud.get_objects`."""
        self.clients.client("s3")  # made here, by one thread
        return get_objects(self._call, bucket, keys)

    def _look(self, kind: str, look: Look, cluster: str) -> list[Resource]:
        try:
            return look(self._list, cluster)
        except CloudError as error:
            return [Resource(kind, "", f"could not look for {kind}: {error.message}")]

    def _instances(self, cluster: str) -> tuple[Instance, ...]:
        filters = [
            {"Name": _CLUSTER_FILTER, "Values": [cluster]},
            {"Name": "instance-state-name", "Values": _LIVING},
        ]
        groups = self._list("ec2", "describe_instances", "Reservations", Filters=filters)
        return tuple(records.instance_of(item) for group in groups for item in group["Instances"])

    def _stack(self, cluster: str) -> Stack | None:
        try:
            found = self._call("cloudformation", "describe_stacks", StackName=cluster)["Stacks"]
        except NoSuchThing:
            return None
        return records.stack_of(found[0]) if found else None

    def _fleet(self, cluster: str) -> Fleet | None:
        try:
            answer = self._call(
                "dynamodb", "get_item", TableName=f"parallelcluster-{cluster}", Key={"Id": {"S": "COMPUTE_FLEET"}}
            )
        except NoSuchThing:
            return None
        return records.fleet_of(answer.get("Item"))

    def _deleted_stack_id(self, cluster: str) -> str:
        """The id of the stack of that name that was deleted last ('' when none was in the last 90 days)."""
        found = self._list("cloudformation", "list_stacks", "StackSummaries", StackStatusFilter=["DELETE_COMPLETE"])
        ours = [item for item in found if item["StackName"] == cluster]
        return str(max(ours, key=lambda item: item["CreationTime"])["StackId"]) if ours else ""

    def _tagged_volumes(self, cluster: str) -> list[dict[str, Any]]:
        return self._list(
            "ec2", "describe_volumes", "Volumes", Filters=[{"Name": _CLUSTER_FILTER, "Values": [cluster]}]
        )

    def _delete_mount_targets(self, file_system: str) -> None:
        for _ in range(24):
            targets = self._list("efs", "describe_mount_targets", "MountTargets", FileSystemId=file_system)
            if not targets:
                return
            for target in targets:
                if target.get("LifeCycleState") not in ("deleting", "deleted"):
                    self._call("efs", "delete_mount_target", MountTargetId=target["MountTargetId"])
            self._clock.sleep(5)


def profile_region(profile: str | None) -> str | None:
    """The region of the user's AWS profile, None when it names none or there is no such profile."""
    import botocore.exceptions
    import botocore.session

    try:
        return botocore.session.Session(profile=profile).get_config_variable("region") or None
    except botocore.exceptions.ProfileNotFound:
        return None


def _is_lustre(item: Mapping[str, Any]) -> bool:
    return bool(item.get("FileSystemType", "LUSTRE") == "LUSTRE")
