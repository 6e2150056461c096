"""An AWS account in memory, and the provisioner that makes clusters in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tests.fakes.clock import START, HandWoundClock
from trnctl.errors import CloudError, NameTaken, NotFoundError, RefusedError, TrnctlError
from trnctl.findings import Finding
from trnctl.ports import (
    BuiltImage,
    Change,
    ClusterSummary,
    FileSystem,
    Fleet,
    Instance,
    Observed,
    Phase,
    Resource,
    SavedText,
    Stack,
    StackEvent,
    StoredObject,
)


@dataclass
class _Cluster:
    name: str
    document: str
    phase: Phase
    created: datetime
    fleet: str = "running"
    reason: str = ""


_STATUSES: dict[Phase, str] = {
    "creating": "CREATE_IN_PROGRESS",
    "running": "CREATE_COMPLETE",
    "create-failed": "ROLLBACK_COMPLETE",
    "updating": "UPDATE_IN_PROGRESS",
    "update-failed": "UPDATE_ROLLBACK_COMPLETE",
    "deleting": "DELETE_IN_PROGRESS",
    "delete-failed": "DELETE_FAILED",
}


class InMemoryCloud:
    """An AWS account in memory. Tests put things into it; the in-memory Provisioner makes and unmakes clusters.

    `denied` holds an error that every question raises; `unseen` the kinds that leftovers may not look for.
    """

    def __init__(self, clock: HandWoundClock | None = None) -> None:
        self.clock = clock or HandWoundClock()
        self.denied: TrnctlError | None = None
        self.unseen: tuple[str, ...] = ()
        self.deleted_file_systems: list[str] = []
        self.opened: list[str] = []
        self.templates: dict[str, Mapping[str, object]] = {}
        self.block_end: dict[str, datetime] = {}
        self._clusters: dict[str, _Cluster] = {}
        self._instances: dict[str, list[Instance]] = {}
        self._file_systems: dict[str, list[FileSystem]] = {}
        self._resources: dict[str, list[Resource]] = {}
        self._history: dict[str, list[StackEvent]] = {}
        self.buckets: dict[str, dict[str, str]] = {}
        self.logs: dict[str, list[SavedText]] = {}
        self.sent_at: dict[str, datetime] = {}
        self.consoles: dict[str, str] = {}
        self.silent: CloudError | None = None  # what CloudWatch refuses with

    # what tests say

    def has_cluster(self, name: str, phase: Phase = "running", *, fleet: str = "running", reason: str = "") -> None:
        """There is such a cluster, with a running head node unless it is on its way in or out."""
        self._clusters[name] = _Cluster(name, "", phase, self.clock.now(), fleet, reason)
        self.happens(name, name, "AWS::CloudFormation::Stack", _STATUSES[phase], reason)
        if phase in ("running", "updating", "update-failed"):
            self.has_instance(name, head_node())

    def has_instance(self, name: str, instance: Instance) -> None:
        """The cluster has this instance."""
        self._instances.setdefault(name, []).append(instance)

    def has_file_system(self, name: str, file_system: FileSystem) -> None:
        """This file system carries the cluster's tag; it outlives the cluster."""
        self._file_systems.setdefault(name, []).append(file_system)

    def has_leftover(self, name: str, resource: Resource) -> None:
        """This is left of the cluster."""
        self._resources.setdefault(name, []).append(resource)

    def loses_leftover(self, name: str, identity: str) -> None:
        """It is gone."""
        self._resources[name] = [one for one in self._resources.get(name, []) if one.id != identity]

    def happens(
        self, name: str, logical_id: str, resource_type: str, status: str, reason: str = "", *, physical_id: str = ""
    ) -> None:
        """A stack event."""
        physical_id = physical_id or f"physical-{logical_id}"
        event = StackEvent(self.clock.now(), logical_id, resource_type, status, reason, physical_id)
        self._history.setdefault(name, []).append(event)

    # the door

    def observe(self, cluster: str, *, blocks: Sequence[str] = ()) -> Observed:
        """Stack, fleet and living instances."""
        self._guard()
        found = self._clusters.get(cluster)
        living = tuple(i for i in self._instances.get(cluster, []) if i.state != "terminated")
        if found is None:
            return Observed(None, None, living)
        known = self.block_ends(blocks)
        stack = Stack(cluster, _STATUSES[found.phase], found.phase, found.created, found.reason, "3.16.1")
        return Observed(stack, Fleet(found.fleet, self.clock.now()) if living else None, living, known)

    def block_ends(self, blocks: Sequence[str]) -> Mapping[str, datetime]:
        """What a test has set."""
        return {block: self.block_end[block] for block in blocks if block in self.block_end}

    def stack_events(self, cluster: str) -> list[StackEvent]:
        """Everything that happened to the newest stack of that name."""
        self._guard()
        return list(self._history.get(cluster, []))

    def sent_logs(self, cluster: str, instances: Iterable[str] = (), since: datetime | None = None) -> list[SavedText]:
        """What the test says that the cluster's nodes have sent, and the consoles that it has put into `consoles`."""
        self._guard()
        if self.silent is not None:
            raise self.silent
        shown = [
            SavedText("compute-console", f"console of {one}", self.consoles[one])
            for one in instances
            if one in self.consoles
        ]
        sent = self.logs.get(cluster, [])
        if since and (at := self.sent_at.get(cluster)) and at < since:
            sent = []
        return [*sent, *shown]

    def template(self, cluster: str) -> Mapping[str, object] | None:
        """The template that the test has set in `templates`, else one with a head node only."""
        self._guard()
        if cluster not in self._clusters:
            return None
        return self.templates.get(cluster, {"Resources": {"HeadNode": {"Type": "AWS::EC2::Instance"}}})

    def resources(self, cluster: str) -> Mapping[str, str]:
        """What the events of the stack tell of its resources."""
        self._guard()
        events = self._history.get(cluster, []) if cluster in self._clusters else []
        return {event.logical_id: event.physical_id for event in events if event.logical_id != cluster}

    def file_systems(self, cluster: str) -> list[FileSystem]:
        """File systems of the cluster that are not deleted."""
        self._guard()
        return list(self._file_systems.get(cluster, []))

    def open_file_system(self, file_system: FileSystem, cluster: str) -> None:
        """Noted in `opened`."""
        self._guard()
        self.opened.append(file_system.id)

    def delete_file_system(self, file_system: FileSystem) -> None:
        """Gone at once; silent when it was."""
        self._guard()
        for cluster, found in self._file_systems.items():
            if any(one.id == file_system.id for one in found):
                self.deleted_file_systems.append(file_system.id)
                self._file_systems[cluster] = [one for one in found if one.id != file_system.id]

    def delete_beside(self, resource: Resource) -> bool:
        """Security groups and network interfaces go at once; nothing else does."""
        self._guard()
        mine = [cluster for cluster, left in self._resources.items() if resource in left]
        if resource.kind not in ("security group", "network interface") or not mine:
            return False
        for cluster in mine:
            self._resources[cluster].remove(resource)
        return True

    def leftovers(self, cluster: str) -> list[Resource]:
        """Living instances, file systems, and what tests have put there."""
        self._guard()
        left = [Resource("instance", i.id, i.type) for i in self._instances.get(cluster, []) if i.state != "terminated"]
        left += [Resource(f"{f.kind} file system", f.id, f"{f.gib} GiB") for f in self._file_systems.get(cluster, [])]
        left += self._resources.get(cluster, [])
        return left + [Resource(kind, "", f"could not look for {kind}: denied") for kind in self.unseen]

    def looked_for(self) -> tuple[str, ...]:
        """The kinds that leftovers looks for."""
        return ("instances", "volumes", "file systems")

    def mark(self, instance: str, name: str, value: str | None) -> None:
        """A tag on one of the instances."""
        self._guard()
        for living in self._instances.values():
            for at, one in enumerate(living):
                if one.id == instance:
                    kept = {key: text for key, text in one.marks.items() if key != name}
                    living[at] = replace(one, marks=kept if value is None else {**kept, name: value})

    def put_objects(self, bucket: str, objects: Mapping[str, str]) -> None:
        """Into `buckets`, which tests fill with those that are there."""
        self._guard()
        if objects and bucket not in self.buckets:
            raise CloudError(f"There is no bucket {bucket}.", remedy="Make it.")
        self.buckets.get(bucket, {}).update(objects)

    def list_objects(self, bucket: str, prefix: str) -> list[StoredObject]:
        """Of `buckets`; all were written now."""
        found = self._bucket(bucket)
        return [
            StoredObject(key, len(text.encode()), self.clock.now())
            for key, text in sorted(found.items())
            if key.startswith(prefix)
        ]

    def get_objects(self, bucket: str, keys: Iterable[str]) -> dict[str, str]:
        """Of `buckets`."""
        found = self._bucket(bucket)
        return {key: found[key] for key in keys if key in found}

    def delete_objects(self, bucket: str, keys: Iterable[str]) -> None:
        """From `buckets`."""
        found = self._bucket(bucket)
        for key in keys:
            found.pop(key, None)

    def _bucket(self, name: str) -> dict[str, str]:
        self._guard()
        if name not in self.buckets:
            raise CloudError(f"There is no bucket {name}.", remedy="Make it.")
        return self.buckets[name]

    def _guard(self) -> None:
        if self.denied is not None:
            raise self.denied

    # what the in-memory Provisioner does to it

    def cluster(self, name: str) -> _Cluster | None:
        """The cluster of that name."""
        return self._clusters.get(name)

    def clusters(self) -> list[_Cluster]:
        """All clusters."""
        return list(self._clusters.values())

    def begin(self, name: str, document: str) -> None:
        """A new stack of that name; the events of an older one are history."""
        self._history[name] = []
        self._clusters[name] = _Cluster(name, document, "creating", self.clock.now(), "running")
        self.happens(name, name, "AWS::CloudFormation::Stack", "CREATE_IN_PROGRESS")

    def move(self, name: str, phase: Phase, status: str, reason: str = "") -> None:
        """The stack goes on to another phase."""
        if name in self._clusters:
            self._clusters[name].phase, self._clusters[name].reason = phase, reason
            self.happens(name, name, "AWS::CloudFormation::Stack", status, reason)

    def vanish(self, name: str) -> None:
        """The stack is deleted, its instances with it."""
        self.happens(name, name, "AWS::CloudFormation::Stack", "DELETE_COMPLETE")
        self._clusters.pop(name, None)
        self._instances[name] = [replace(one, state="terminated") for one in self._instances.get(name, [])]


def head_node(state: str = "running", *, public_ip: str = "198.51.100.7") -> Instance:
    """A head node."""
    return Instance("i-0aa11bb22cc33dd44", "c5.4xlarge", state, "head", public_ip, "10.0.0.7", launched=START)


class InMemoryProvisioner:
    """Makes clusters in an InMemoryCloud. They take `create_s`, `update_s` and `delete_s` seconds of its clock.

    Tests set what it says: `findings` of every check, `changes` of an update, `stopped_for` what is forbidden while the
    fleet runs, `create_fails`, `update_fails` or `delete_fails` with the reason of the resource that failed,
    `refuses_update` an error that an update meets.
    """

    def __init__(self, cloud: InMemoryCloud, *, create_s: float = 600, update_s: float = 300, delete_s: float = 400):
        self.cloud = cloud
        self.create_s, self.update_s, self.delete_s = create_s, update_s, delete_s
        self.findings: list[Finding] = []
        self.changes: list[Change] = []
        self.stopped_for: list[Finding] = []
        self.refuses_update: TrnctlError | None = None
        self.create_fails = self.update_fails = self.delete_fails = ""
        self.documents: dict[str, str] = {}
        self.built: dict[str, BuiltImage] = {}
        self.build_s, self.build_fails = 1800.0, ""
        self.keep_failed = False

    def create(self, name: str, document: str, *, keep_failed: bool = False) -> None:
        """Start creating; refused when the name is taken or a finding is an error."""
        self.keep_failed = keep_failed
        self._refuse_errors()
        self._refuse_taken(name)
        self.documents[name] = document
        self.cloud.begin(name, document)
        self.cloud.happens(name, "HeadNode", "AWS::EC2::Instance", "CREATE_IN_PROGRESS")
        self.cloud.clock.after(self.create_s, lambda: self._created(name))

    def _created(self, name: str) -> None:
        if self.create_fails:
            self.cloud.happens(name, "HeadNode", "AWS::EC2::Instance", "CREATE_FAILED", self.create_fails)
            status = "CREATE_FAILED" if self.keep_failed else "ROLLBACK_COMPLETE"
            self.cloud.move(name, "create-failed", status, self.create_fails)
            return
        self.cloud.happens(name, "HeadNode", "AWS::EC2::Instance", "CREATE_COMPLETE")
        self.cloud.has_instance(name, head_node())
        self.cloud.move(name, "running", "CREATE_COMPLETE")

    def check(self, name: str, document: str) -> list[Finding]:
        """The findings that the test has set; refused when the name is taken."""
        self._refuse_taken(name)
        return list(self.findings)

    def _refuse_taken(self, name: str) -> None:
        if self.cloud.cluster(name):
            raise NameTaken(f"Cluster {name} already exists.", remedy="Delete it first, or choose another name.")

    def update(self, name: str, document: str) -> list[Change]:
        """Start updating, when there is something to change; what it changes is no change any more at its end."""
        found = self._existing(name)
        self._refuse_errors()
        if self.refuses_update is not None:
            raise self.refuses_update
        if self.stopped_for and found.fleet != "stopped":
            raise RefusedError("Update failure", remedy="Stop the fleet.", findings=self.stopped_for)
        changes = list(self.changes)
        if changes:
            self.documents[name] = document
            self.cloud.move(name, "updating", "UPDATE_IN_PROGRESS")
            self.cloud.clock.after(self.update_s, lambda: self._updated(name))
        return changes

    def _updated(self, name: str) -> None:
        if self.update_fails:
            self.cloud.happens(name, "HeadNode", "AWS::EC2::Instance", "UPDATE_FAILED", self.update_fails)
            self.cloud.move(name, "update-failed", "UPDATE_ROLLBACK_COMPLETE", self.update_fails)
            return
        self.changes = []
        self.cloud.move(name, "running", "UPDATE_COMPLETE")

    def check_update(self, name: str, document: str) -> tuple[list[Change], list[Finding]]:
        """The changes and findings that the test has set; those of `stopped_for` while the fleet is not stopped."""
        found = self._existing(name)
        stops = self.stopped_for if self.changes and found.fleet != "stopped" else []
        return list(self.changes), [*self.findings, *stops]

    def clusters(self) -> list[ClusterSummary]:
        """All clusters of the account."""
        found = self.cloud.clusters()
        return [ClusterSummary(one.name, "us-west-2", _STATUSES[one.phase], "3.16.1") for one in found]

    def describe(self, name: str) -> Mapping[str, object]:
        """A little of what pcluster tells."""
        found = self._existing(name)
        return {"clusterName": name, "clusterStatus": _STATUSES[found.phase], "computeFleetStatus": found.fleet.upper()}

    def events(self, name: str) -> list[StackEvent]:
        """The stack's events."""
        self._existing(name)
        return self.cloud.stack_events(name)

    def set_fleet(self, name: str, running: bool) -> None:
        """The fleet obeys after ten seconds."""
        found = self._existing(name)
        found.fleet = "start_requested" if running else "stop_requested"
        self.cloud.clock.after(10, lambda: setattr(found, "fleet", "running" if running else "stopped"))

    def delete(self, name: str) -> None:
        """Start deleting; silent if gone or going."""
        found = self.cloud.cluster(name)
        if found is None or found.phase == "deleting":
            return
        self.cloud.move(name, "deleting", "DELETE_IN_PROGRESS")
        self.cloud.clock.after(self.delete_s, lambda: self._deleted(name))

    def _deleted(self, name: str) -> None:
        if self.delete_fails:
            self.cloud.happens(name, "PlacementGroup", "AWS::EC2::PlacementGroup", "DELETE_FAILED", self.delete_fails)
            self.cloud.move(name, "delete-failed", "DELETE_FAILED", self.delete_fails)
            self.delete_fails = ""
        else:
            self.cloud.vanish(name)

    def build_image(self, name: str, document: str) -> list[Finding]:
        """An AMI is there after `build_s` seconds, or the reason of `build_fails`."""
        self._refuse_errors()
        if name in self.built:
            raise RefusedError(f"ParallelCluster image {name} already exists.", remedy="Choose another name.")
        self.documents[name] = document
        self.built[name] = BuiltImage(name, "building", "3.16.1", began=self.cloud.clock.now(), builder="BUILDING")
        self.cloud.clock.after(self.build_s, lambda: self._built(name))
        return list(self.findings)

    def _built(self, name: str) -> None:
        found = self.built[name]
        if self.build_fails:
            kind = "AWS::ImageBuilder::Image"
            self.cloud.happens(name, "ParallelClusterImage", kind, "CREATE_FAILED", self.build_fails)
            log = f"/aws/imagebuilder/ParallelClusterImage-{name}"
            self.built[name] = replace(found, state="failed", builder="FAILED", reason=self.build_fails, log=log)
        else:
            self.built[name] = replace(found, state="available", builder="", ami="ami-0aa11bb22cc33dd99")

    def describe_image(self, name: str) -> BuiltImage:
        """Of `built`."""
        if name not in self.built:
            raise NotFoundError(f"There is no image {name}.", remedy="List the images: trnctl image list.")
        return self.built[name]

    def images(self) -> list[BuiltImage]:
        """All of `built`."""
        return list(self.built.values())

    def delete_image(self, name: str) -> None:
        """Gone after a minute; silent when it was."""
        if name in self.built:
            self.built[name] = replace(self.built[name], state="deleting")
            self.cloud.clock.after(60, lambda: self._unbuilt(name))

    def _unbuilt(self, name: str) -> None:
        del self.built[name]

    def _existing(self, name: str) -> _Cluster:
        found = self.cloud.cluster(name)
        if found is None:
            raise NotFoundError(f"Cluster {name} does not exist.", remedy="List the clusters: trnctl cluster list.")
        return found

    def _refuse_errors(self) -> None:
        errors = [finding for finding in self.findings if finding.level == "error"]
        if errors:
            raise RefusedError(errors[0].message, remedy=errors[0].remedy, findings=self.findings)
