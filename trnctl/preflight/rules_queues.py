"""Rules on queues and compute resources: names, counts, capacity, subnets, Slurm settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from trnctl.preflight.config import Config, Queue
from trnctl.preflight.place import Place
from trnctl.preflight.report import Report
from trnctl.specs import rules
from trnctl.specs.values import shown

_NAME = re.compile(r"(?!default$)[a-z][a-z0-9-]{0,24}")
_GROUP_ARN = re.compile(r"arn:[^:]+:resource-groups:[^:]*:[^:]*:group/.+")
_MOST = 50  # queues, compute resources in a queue, and in the cluster (ParallelCluster 3.6 and newer)
_MOST_QUEUES_BEFORE, _MOST_RESOURCES_BEFORE = 10, 5  # queues, and compute resources in a queue
_MOST_POOLS = 10
_FEATURES_ALLOWED_SINCE = (3, 15)
_SLURM_RESOURCE_DENIED = {"cpus", "gres", "nodeaddr", "nodehostname", "nodename", "state", "weight"}
_SLURM_ACCOUNTING_DENIED = {
    "accountingstoragetype", "accountingstoragehost", "accountingstorageport", "accountingstorageuser",
    "jobacctgathertype",
}  # fmt: skip


def named_things(config: Config) -> Iterator[tuple[str, Place]]:
    """Everything that Slurm or EC2 will know by name, with what it is."""
    for queue in config.queues:
        yield "queue", queue.place.at("Name")
        for resource in queue.resources:
            yield "compute resource", resource.place.at("Name")
    for pool in config.pools:
        yield "pool", pool.at("Name")


def names(config: Config, report: Report) -> None:
    """Queues, compute resources and pools have names that a host name can hold."""
    for what, place in named_things(config):
        if place.text() and not _NAME.fullmatch(place.text()):
            report.say("queue-name", place, f"{shown(place.text())} cannot name a {what}")


def duplicate_names(config: Config, report: Report) -> None:
    """No two queues, compute resources of a queue, or pools share a name."""
    groups: list[tuple[str, list[Place]]] = [
        ("queues", [queue.place for queue in config.queues]),
        ("pools", config.pools),
        *(("compute resources", [resource.place for resource in queue.resources]) for queue in config.queues),
    ]
    for what, places in groups:
        seen: set[str] = set()
        for place in places:
            name = place.at("Name").text()
            if name and name in seen:
                report.say("duplicate-name", place.at("Name"), f"Two {what} have the name {shown(name)}")
            seen.add(name)


def numbers_of_things(config: Config, report: Report) -> None:
    """ParallelCluster's limits: 50 queues, 50 compute resources (10 and 5 a queue before 3.6), 10 pools."""
    queues, total = len(config.queues), sum(len(queue.resources) for queue in config.queues)
    fullest = max((len(queue.resources) for queue in config.queues), default=0)
    old = config.version < (3, 6) and (queues > _MOST_QUEUES_BEFORE or fullest > _MOST_RESOURCES_BEFORE)
    if queues > _MOST or total > _MOST or old:
        place = config.root.at("Scheduling", "SlurmQueues")
        report.say("too-many-queues", place, f"There are {queues} queues and {total} compute resources")
    if len(config.pools) > _MOST_POOLS:
        report.say("too-many-pools", config.root.at("LoginNodes", "Pools"), f"There are {len(config.pools)} pools")


def queue_contents(config: Config, report: Report) -> None:
    """Every queue has nodes, and every compute resource a type or several, not both."""
    for queue in config.queues:
        if not queue.resources and not queue.place.at("ComputeResources").is_list:
            report.say("no-compute-resources", queue.place, f"The queue {queue.name} has no compute resources")
        for resource in queue.resources:
            one, many = resource.place.at("InstanceType"), resource.place.at("Instances")
            if one and many:
                report.say("instance-type-or-instances", many, "InstanceType and Instances stand together")
            elif not resource.types and not resource.reservation:
                report.say("instance-type-missing", resource.place, f"{resource.name} has no instance type")
            for name in {name for name in resource.types if resource.types.count(name) > 1}:
                report.say("duplicate-instance-type", many, f"{name} stands twice")


def counts(config: Config, report: Report) -> None:
    """MaxCount is not below MinCount; a capacity block's nodes are all always on."""
    for resource in config.resources():
        place = resource.place.at("MaxCount") if resource.place.at("MaxCount") else resource.place.at("MinCount")
        if resource.most < resource.least:
            report.say("counts", place, f"MaxCount {resource.most} is below MinCount {resource.least}")
        elif resource.queue.capacity == "CAPACITY_BLOCK" and not 0 < resource.least == resource.most:
            report.say(
                "capacity-block-counts",
                place,
                f"A capacity block's nodes are always on; MinCount is {resource.least} and MaxCount {resource.most}",
            )


def capacity(config: Config, report: Report) -> None:
    """Capacity blocks name their reservation; reservation and strategy go with the capacity type."""
    for queue in config.queues:
        _strategy(queue, report)
        for resource in queue.resources:
            if queue.capacity == "CAPACITY_BLOCK" and not resource.reservation:
                report.say(
                    "capacity-without-id",
                    queue.place.at("CapacityType"),
                    f"{resource.name} is to run in a capacity block, but no reservation is named",
                )
            if queue.capacity == "SPOT" and resource.reservation:
                report.say("reservation-on-spot", resource.target, "Spot instances cannot use a capacity reservation")
            price = resource.place.at("SpotPrice")
            if price and queue.capacity != "SPOT":
                report.say("spot-price-without-spot", price, "The queue's capacity is not SPOT", level="warning")


def _strategy(queue: Queue, report: Report) -> None:
    place = queue.place.at("AllocationStrategy")
    if not any(resource.flexible for resource in queue.resources):
        return
    refused = {
        "ONDEMAND": {"capacity-optimized", "price-capacity-optimized", "capacity-optimized-prioritized"},
        "SPOT": {"prioritized"},
        "CAPACITY_BLOCK": {place.text()},
    }.get(queue.capacity, set())
    if place and place.text() in refused:
        report.say("allocation-strategy", place, f"{place.text()} does not go with CapacityType {queue.capacity}")


def reservation_targets(config: Config, report: Report) -> None:
    """A reservation target is an id or a group, and only one type can use an id."""
    places = [*(queue.place for queue in config.queues), *(resource.place for resource in config.resources())]
    targets = [place.at("CapacityReservationTarget") for place in places]
    for target in targets:
        if not target.is_section:
            continue
        found = target.at("CapacityReservationId"), target.at("CapacityReservationResourceGroupArn")
        if bool(found[0]) == bool(found[1]):
            report.say("reservation-target", target, "A reservation target is either an id or a resource group")
        if found[0].text() and not re.fullmatch(r"cr-([0-9a-z]{8}|[0-9a-z]{17})", found[0].text()):
            report.say("cr-id", found[0], f"{shown(found[0].text())} is not a capacity reservation's id")
        if found[1].text() and not _GROUP_ARN.fullmatch(found[1].text()):
            example = "`arn:aws:resource-groups:us-west-2:111122223333:group/demo`"
            words = f"{shown(found[1].text())} is not the ARN of a group of reservations"
            report.say("arn", found[1], words, f"Write it in full, as in {example}.")
    for resource in config.resources():
        if resource.reservation and resource.flexible:
            report.say("reservation-with-instances", resource.target, "A reservation's id needs one InstanceType")


def subnets(config: Config, report: Report) -> None:
    """Several subnets go only with several instance types, without EFA and without placement groups."""
    for queue in config.queues:
        place = queue.networking.at("SubnetIds")
        for name in {name for name in queue.subnets if queue.subnets.count(name) > 1}:
            report.say("duplicate-subnet", place, f"{name} stands twice")
        if len(set(queue.subnets)) < 2:
            continue
        if any(not resource.flexible for resource in queue.resources):
            report.say("several-subnets", place, f"The queue {queue.name} has {len(queue.subnets)} subnets")
        for resource in queue.resources:
            if resource.efa:
                report.say("efa-several-subnets", resource.place.at("Efa"), "EFA does not reach across zones")
            if resource.group.used:
                report.say("placement-group-several-subnets", resource.group.place, "The group would span zones")


# ------------------------------------------------------------------------------------------------------ Slurm


def slurm_settings(config: Config, report: Report) -> None:
    """Settings that ParallelCluster writes itself stay unset, at every level."""
    accounting = _SLURM_ACCOUNTING_DENIED if config.settings.at("Database") else set()
    for item in config.settings.at("CustomSlurmSettings").sections():
        if len(item.keys()) == 1:  # several settings on one line describe nodes or partitions of the user's own
            _denied(item, rules.SLURM_CONF_DENIED | accounting, report)
        for key in item.keys():  # noqa: SIM118  # a Place is no mapping
            if key.lower() == "nodename" and re.search("-(st|dy)-", item.at(key).text()):
                report.say(
                    "slurm-node-name",
                    item.at(key),
                    f"{shown(item.at(key).text())} looks like one of ParallelCluster's nodes",
                )
    of_resources = _SLURM_RESOURCE_DENIED | (set() if config.version >= _FEATURES_ALLOWED_SINCE else {"features"})
    for queue in config.queues:
        _denied(queue.place.at("CustomSlurmSettings"), rules.SLURM_QUEUE_DENIED, report)
        for resource in queue.resources:
            _denied(resource.place.at("CustomSlurmSettings"), of_resources, report)
    include = config.settings.at("CustomSlurmSettingsIncludeFile")
    if include and config.settings.at("CustomSlurmSettings"):
        report.say("slurm-settings-twice", include, "CustomSlurmSettings and an include file stand together")


def _denied(place: Place, denied: set[str], report: Report) -> None:
    for key in place.keys():  # noqa: SIM118  # a Place is no mapping
        if key.lower() in denied:
            more = " Slurm has no resource for NeuronCores: nodes are given whole (JobExclusiveAllocation: true)."
            report.say(
                "slurm-setting-denied",
                place.at(key),
                f"ParallelCluster sets {key} itself and refuses another value",
                "Remove it." + (more if "gres" in key.lower() else ""),
            )


def exclusive_jobs(config: Config, report: Report) -> None:
    """Slurm cannot share NeuronCores between jobs."""
    for queue in config.queues:
        neuron = any(resource.neuron for resource in queue.resources)
        if neuron and queue.place.at("JobExclusiveAllocation").flag() is None:
            report.say("jobs-share-nodes", queue.place, f"Two jobs could share a node of {queue.name}")


def memory(config: Config, report: Report) -> None:
    """SchedulableMemory is what the type has, at most, and is used only with memory-based scheduling."""
    for resource in config.resources():
        place = resource.place.at("SchedulableMemory")
        wanted = place.integer()
        if wanted is None:
            continue
        if wanted < 1:
            report.say("schedulable-memory", place, "SchedulableMemory is at least 1 MiB")
        for facts in resource.facts:
            if wanted > facts.host_gib * 1024:
                report.say(
                    "schedulable-memory", place, f"{facts.type} has {facts.host_gib * 1024} MiB, less than {wanted}"
                )
        if not config.settings.at("EnableMemoryBasedScheduling").flag():
            report.say("memory-not-scheduled", place, "SchedulableMemory has no effect without memory-based scheduling")


def priorities(config: Config, report: Report) -> None:
    """Static nodes are taken before dynamic ones (a smaller number goes first)."""
    for queue in config.queues:
        static = [
            resource.place.at("StaticNodePriority").integer() or 1 for resource in queue.resources if resource.least
        ]
        dynamic = [
            resource.place.at("DynamicNodePriority").integer() or 1000
            for resource in queue.resources
            if resource.most > resource.least
        ]
        if static and dynamic and max(static) >= min(dynamic):
            report.say(
                "node-priorities",
                queue.place.at("ComputeResources"),
                f"In {queue.name} dynamic nodes go before static ones",
            )


RULES: tuple[Callable[[Config, Report], None], ...] = (
    names, duplicate_names, numbers_of_things, queue_contents, counts, capacity, reservation_targets,
    subnets, slurm_settings, exclusive_jobs, memory, priorities,
)  # fmt: skip
