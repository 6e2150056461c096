"""From the ParallelCluster YAML to partitions and nodes, named as ParallelCluster names them; hostlists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trnctl.sandbox.ports import BootFailed, NodeWish
from trnctl.specs.instances import instance

# ParallelCluster's defaults (its configuration reference).
DEFAULT_MAX_COUNT = 10
DEFAULT_IDLE_MINUTES = 10
SCHEDULABLE_MEMORY = 0.95  # of the instance's; the rest is the system's
_CAPACITY = {"ONDEMAND": "on-demand", "SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}
_UNKNOWN_TYPE = (2, 4)  # vCPUs and GiB of a type that is not in the table
_NAME = re.compile(r"(?P<group>(?P<queue>.+)-(?:st|dy)-(?P<resource>.+))-(?P<number>\d+)")
_USERS = {"ubuntu": "ubuntu", "rocky": "rocky"}  # of an image by how its Os begins; ec2-user otherwise


@dataclass(frozen=True)
class ComputeResource:
    """Nodes of one kind: `min_count` static ones and `max_count - min_count` dynamic ones. `memory` is in MiB."""

    queue: str
    name: str
    instance_type: str
    min_count: int
    max_count: int
    vcpus: int
    memory: int
    efa: bool = False
    subnet: str = ""
    capacity: str = "on-demand"
    settings: Mapping[str, str] = field(default_factory=dict)

    def groups(self) -> list[tuple[str, int]]:
        """The groups of nodes by kind, static first: `queue-st-name` and how many nodes, numbered from 1."""
        counts = {"st": self.min_count, "dy": self.max_count - self.min_count}
        return [(f"{self.queue}-{kind}-{self.name}", count) for kind, count in counts.items() if count > 0]

    def static_nodes(self) -> list[str]:
        """Names of the nodes that are always on."""
        return [f"{self.queue}-st-{self.name}-{number}" for number in range(1, self.min_count + 1)]

    def features(self, group: str) -> list[str]:
        """Slurm features, in ParallelCluster's order."""
        kind = "static" if group.startswith(f"{self.queue}-st-") else "dynamic"
        return [kind, self.instance_type, self.name] + (["efa"] if self.efa else [])

    def runs_on_as(self, other: ComputeResource | None) -> bool:
        """Whether a node of this one may stay as it is when the configuration becomes the other: only counts differ."""
        return other is not None and replace(self, min_count=other.min_count, max_count=other.max_count) == other

    def wish(self, node: str) -> NodeWish:
        """What is asked of EC2 for one node."""
        return NodeWish(node, self.queue, self.name, self.instance_type, self.subnet, self.capacity)


@dataclass(frozen=True)
class Queue:
    """One partition."""

    name: str
    resources: tuple[ComputeResource, ...]
    exclusive: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)

    def groups(self) -> list[tuple[str, int]]:
        """All groups of nodes of the partition."""
        return [group for resource in self.resources for group in resource.groups()]


@dataclass(frozen=True)
class Scheduling:
    """All that Slurm learns from the YAML. The first queue is the default partition."""

    queues: tuple[Queue, ...]
    idle_seconds: int = DEFAULT_IDLE_MINUTES * 60
    settings: Mapping[str, str] = field(default_factory=dict)
    memory_based: bool = False

    def resource(self, node: str) -> ComputeResource | None:
        """The compute resource of a node, None for a name that is not configured."""
        for queue in self.queues:
            for resource in queue.resources:
                for group, count in resource.groups():
                    number = node.removeprefix(group + "-")
                    if number != node and number.isdigit() and 1 <= int(number) <= count:
                        return resource
        return None

    def static_nodes(self) -> list[str]:
        """Nodes that are always on."""
        return [node for queue in self.queues for resource in queue.resources for node in resource.static_nodes()]

    def nodes(self) -> list[str]:
        """All node names."""
        groups = [group for queue in self.queues for group in queue.groups()]
        return [f"{name}-{number}" for name, count in groups for number in range(1, count + 1)]

    def instance_types(self) -> dict[str, str]:
        """Instance type by node name without its number."""
        return {
            group: resource.instance_type
            for queue in self.queues
            for resource in queue.resources
            for group, _ in resource.groups()
        }


def ephemeral_mounts(config: Mapping[str, Any]) -> set[str]:
    """Where the queues' nodes have their own disks."""
    queues = (config.get("Scheduling") or {}).get("SlurmQueues") or []
    settings = [(queue.get("ComputeSettings") or {}).get("LocalStorage") or {} for queue in queues]
    found = {(one.get("EphemeralVolume") or {}).get("MountDir") for one in settings}
    return {str(directory) for directory in found if directory}


def scheduling(config: Mapping[str, Any]) -> Scheduling:
    """Read the Scheduling section. BootFailed when it is not one of Slurm that ParallelCluster would have accepted."""
    try:
        section = config["Scheduling"]
        slurm = section.get("SlurmSettings") or {}
        queues = tuple(_queue(queue) for queue in section["SlurmQueues"])
        idle = int(slurm.get("ScaledownIdletime", DEFAULT_IDLE_MINUTES)) * 60
        # A list of mappings in the YAML, as one Slurm parameter may be given more than once.
        settings = {str(k): str(v) for each in slurm.get("CustomSlurmSettings") or [] for k, v in each.items()}
        memory_based = bool(slurm.get("EnableMemoryBasedScheduling"))
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise BootFailed(f"the cluster's configuration has no usable Slurm queues: {problem!r}") from problem
    if not queues:
        raise BootFailed("the cluster's configuration has no Slurm queues")
    return Scheduling(queues, idle, settings, memory_based)


def _queue(queue: Mapping[str, Any]) -> Queue:
    name = str(queue["Name"])
    subnets = (queue.get("Networking") or {}).get("SubnetIds") or [""]
    capacity = _CAPACITY.get(str(queue.get("CapacityType", "ONDEMAND")), "on-demand")
    resources = tuple(_resource(name, each, str(subnets[0]), capacity) for each in queue["ComputeResources"])
    return Queue(name, resources, bool(queue.get("JobExclusiveAllocation")), _settings(queue))


def _resource(queue: str, resource: Mapping[str, Any], subnet: str, capacity: str) -> ComputeResource:
    instance_type = str(resource.get("InstanceType") or resource["Instances"][0]["InstanceType"])
    facts = instance(instance_type)
    vcpus, gib = (facts.vcpus, facts.host_gib) if facts else _UNKNOWN_TYPE
    if resource.get("DisableSimultaneousMultithreading"):
        vcpus //= 2
    schedulable = resource.get("SchedulableMemory") or int(gib * 1024 * SCHEDULABLE_MEMORY)
    min_count = int(resource.get("MinCount", 0))
    return ComputeResource(
        queue=queue,
        name=str(resource["Name"]),
        instance_type=instance_type,
        min_count=min_count,
        max_count=int(resource.get("MaxCount", max(DEFAULT_MAX_COUNT, min_count))),
        vcpus=vcpus,
        memory=int(schedulable),
        efa=bool((resource.get("Efa") or {}).get("Enabled")),
        subnet=subnet,
        capacity=capacity,
        settings=_settings(resource),
    )


def _settings(section: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in (section.get("CustomSlurmSettings") or {}).items()}


def login_user(config: Mapping[str, Any]) -> str:
    """The user name that an image of this operating system has."""
    system = str((config.get("Image") or {}).get("Os", "")) if isinstance(config.get("Image"), Mapping) else ""
    return next((user for start, user in _USERS.items() if system.startswith(start)), "ec2-user")


def expand(hostlist: str) -> list[str]:
    """Node names of a hostlist with one bracket at a name's end: `q-dy-r-[1-3,7],q-st-r-1`."""
    names = []
    for prefix, ranges in re.findall(r"([^,\[\]]+)(?:\[([^\]]*)\])?", hostlist):
        if not ranges:
            names.append(prefix)
        for part in filter(None, ranges.split(",")):
            first, _, last = part.partition("-")
            names += [f"{prefix}{number}" for number in range(int(first), int(last or first) + 1)]
    return names


def compress(names: Iterable[str]) -> str:
    """The hostlist of node names, the other way round; groups in order of first appearance, numbers sorted."""
    groups: dict[str, list[int]] = {}
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            groups.setdefault(name, [])
        else:
            groups.setdefault(match["group"], []).append(int(match["number"]))
    return ",".join(f"{group}-[{_ranges(numbers)}]" if numbers else group for group, numbers in groups.items())


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
