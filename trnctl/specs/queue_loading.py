"""Reads `cluster.queues`: names, capacity, compute resources, and what their instance types allow."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import get_args

from trnctl.specs import rules
from trnctl.specs.cluster import Capacity, CapacityType, ComputeResource, Queue
from trnctl.specs.instances import INSTANCES, InstanceFacts, instance
from trnctl.specs.reading import Section, shown

DEFAULT_QUEUE = Queue("compute1", (ComputeResource("i1", "trn1.32xlarge"),))
_CAPACITIES: tuple[CapacityType, ...] = get_args(CapacityType)
_MOST = 50  # queues in a cluster, compute resources in a cluster (ParallelCluster 3.16.1)


def read_queues(cluster: Section) -> tuple[Queue, ...]:
    """All queues; one of 0 to 16 trn1.32xlarge when the file names none."""
    if not cluster.has("queues"):
        return (DEFAULT_QUEUE,)
    queues = tuple(_queue(section) for section in cluster.sections("queues"))
    if not queues:
        cluster.problem(
            "no-queues", "The cluster has no queue", "Leave `queues` out for the default one.", key="queues"
        )
    refuse_duplicates(cluster, "queues", [queue.name for queue in queues], "queue")
    resources = sum(len(queue.compute_resources) for queue in queues)
    if len(queues) > _MOST or resources > _MOST:
        cluster.problem(
            "too-many-queues",
            f"There are {len(queues)} queues and {resources} compute resources",
            f"ParallelCluster takes at most {_MOST} of each.",
            key="queues",
        )
    return queues


def refuse_duplicates(section: Section, key: str, names: list[str], what: str) -> None:
    """Report each later item of a list whose name another has already."""
    for number, name in enumerate(names):
        if name and name in names[:number]:
            section.problem(
                "duplicate-name",
                f"Two {what}s have the name {shown(name)}",
                "Rename one of them.",
                key=key,
                item=number,
            )


def _queue(section: Section) -> Queue:
    name = section.text("name", rule=rules.QUEUE_NAME)
    capacity = _capacity(section)
    resources = _resources(section, capacity)
    settings = section.scalars("custom_settings")
    refuse_settings(section, settings.keys(), rules.SLURM_QUEUE_DENIED)
    return Queue(
        name=name,
        compute_resources=resources,
        capacity=capacity,
        placement_group=_placement_group(section, capacity),
        subnet=section.text("subnet", None, rule=rules.SUBNET_ID),
        root_gib=section.integer("root_gib", Queue.root_gib, minimum=50, maximum=16384),
        ephemeral_mount=_ephemeral_mount(section),
        job_exclusive=section.flag("job_exclusive", True),
        custom_settings=plain_settings(settings),
    )


def _capacity(section: Section) -> Capacity:
    """`on-demand`, `spot`, `{reservation: cr-…}` or `{capacity_block: cr-…}`."""
    if section.shape("capacity") != "mapping":
        word: CapacityType = section.choice("capacity", _CAPACITIES, "on-demand")
        if word in {"reservation", "capacity-block"}:
            section.problem(
                "capacity-without-id",
                f"The capacity `{word}` needs an id",
                f"Write `capacity: {{{word.replace('-', '_')}: cr-…}}`.",
                key="capacity",
            )
        return Capacity(word)
    form = section.section("capacity")
    reservation = form.text("reservation", None, rule=rules.RESERVATION_ID)
    block = form.text("capacity_block", None, rule=rules.RESERVATION_ID)
    if form.has("reservation") == form.has("capacity_block"):
        form.problem(
            "capacity-form",
            "A capacity is either a reservation or a capacity block",
            "Write one of `{reservation: cr-…}` and `{capacity_block: cr-…}`.",
        )
    return Capacity("capacity-block", block) if form.has("capacity_block") else Capacity("reservation", reservation)


def _placement_group(section: Section, capacity: Capacity) -> bool | str:
    """By default one is made; not for reserved instances, which stand where the reservation is."""
    reserved = capacity.type in {"reservation", "capacity-block"}
    group = section.flag_or_text("placement_group", not reserved, rule=rules.PLACEMENT_GROUP)
    if group and (capacity.type == "capacity-block" or (reserved and group is True)):
        section.problem(
            "placement-group-with-reservation",
            "A placement group that is not the reservation's own can leave reserved instances unreachable",
            "Leave `placement_group` out, or name the group in which the reservation was made.",
            key="placement_group",
            level="warning",
        )
    return group


def _ephemeral_mount(section: Section) -> str | None:
    mount = section.flag_or_text("ephemeral_mount", Queue.ephemeral_mount or False, rule=rules.MOUNT)
    if mount is True:
        return Queue.ephemeral_mount
    if mount and rules.reserved_mount(mount):
        reserved_problem(section, "ephemeral_mount", mount)
    return mount or None


def reserved_problem(section: Section, key: str, mount: str) -> None:
    """Report a mount directory that belongs to the system."""
    section.problem(
        "mount-reserved",
        f"{shown(mount)} belongs to the operating system or to ParallelCluster",
        "Choose a directory of its own, as in `/fsx`.",
        key=key,
    )


def refuse_settings(section: Section, names: Iterable[str], denied: set[str]) -> None:
    """Report Slurm settings that ParallelCluster does not let users change."""
    for name in names:
        if name.lower() in denied:
            section.problem(
                "slurm-setting-denied",
                f"ParallelCluster sets {shown(name)} itself and refuses another value",
                "Remove it."
                + (" Slurm has no resource for NeuronCores: nodes are given whole." if "gres" in name.lower() else ""),
                key="custom_settings",
                item=name,
            )


def plain_settings(settings: dict[str, str | int | float | bool]) -> dict[str, str | int]:
    """Slurm settings as slurm.conf takes them: whole numbers and texts; true and false become YES and NO."""
    made: dict[str, str | int] = {}
    for name, value in settings.items():
        if isinstance(value, bool):
            made[name] = "YES" if value else "NO"
        else:
            made[name] = value if isinstance(value, str | int) else str(value)
    return made


# ------------------------------------------------------------------------------------------ compute resources


def _resources(section: Section, capacity: Capacity) -> tuple[ComputeResource, ...]:
    if not section.has("compute_resources"):
        if capacity.type == "capacity-block":
            section.problem(
                "capacity-block-counts",
                "A capacity block's nodes are always on, and the default compute resource begins at 0",
                "Write `compute_resources` with `min_count` = `max_count` = the block's instances.",
                key="capacity",
            )
        return DEFAULT_QUEUE.compute_resources
    made = tuple(
        _resource(one, number, capacity) for number, one in enumerate(section.sections("compute_resources"), start=1)
    )
    if not made:
        section.problem("no-compute-resources", "The queue has no nodes", "Add one.", key="compute_resources")
    refuse_duplicates(section, "compute_resources", [one.name for one in made], "compute resource")
    return made


def _resource(section: Section, number: int, capacity: Capacity) -> ComputeResource:
    instance_type = section.text("instance_type", rule=rules.INSTANCE_TYPE)
    least = section.integer("min_count", 0, minimum=0)
    most = section.integer("max_count", max(least, ComputeResource.max_count), minimum=1)
    made = ComputeResource(
        name=section.text("name", f"i{number}", rule=rules.QUEUE_NAME),
        instance_type=instance_type,
        min_count=least,
        max_count=most,
        efa=_efa(section),
        spot_price=section.number("spot_price", None, minimum=0.0001),
    )
    _check_counts(section, made, capacity)
    if instance_type:
        facts = _facts(section, instance_type)
        if facts is not None:
            _check_efa(section, made, facts)
    if made.spot_price is not None and capacity.type != "spot":
        section.problem(
            "spot-price-without-spot",
            "A spot price is given, but the queue's capacity is not spot",
            "Write `capacity: spot` at the queue, or remove the price.",
            key="spot_price",
        )
    return made


def _efa(section: Section) -> bool | None:
    wish = section.flag_or_text("efa", "auto")
    if isinstance(wish, bool):
        return wish
    if wish != "auto":
        section.problem("unknown-value", f"{shown(wish)} is not known here", "Write auto, true or false.", key="efa")
    return None


def _check_counts(section: Section, made: ComputeResource, capacity: Capacity) -> None:
    if made.max_count < made.min_count:
        section.problem(
            "counts",
            f"max_count {made.max_count} is below min_count {made.min_count}",
            f"Write max_count: {made.min_count} or more.",
            key="max_count",
        )
    elif capacity.type == "capacity-block" and not 0 < made.min_count == made.max_count:
        section.problem(
            "capacity-block-counts",
            f"A capacity block's nodes are always on, but min_count is {made.min_count} and max_count {made.max_count}",
            "Write the same number above 0 for both: as many as the block has.",
            key="min_count" if section.has("min_count") else "max_count",
        )


def _facts(section: Section, instance_type: str) -> InstanceFacts | None:
    facts = instance(instance_type)
    if facts is None:
        near = get_close_matches(instance_type, INSTANCES, n=1)
        section.problem(
            "instance-type-unknown",
            f"trnctl does not know the instance type {shown(instance_type)}: its EFA, size and price are not checked",
            f"Did you mean `{near[0]}`?" if near else "Check its spelling.",
            key="instance_type",
            level="warning",
        )
    elif not facts.devices:
        section.problem(
            "no-accelerator",
            f"{instance_type} has no Neuron device and no GPU",
            "Choose trn1.32xlarge, or leave it if the queue is for other work.",
            key="instance_type",
            level="warning",
        )
    return facts


def _check_efa(section: Section, made: ComputeResource, facts: InstanceFacts) -> None:
    if made.efa and not facts.efa:
        section.problem(
            "efa-unsupported",
            f"{facts.type} has no EFA",
            "Remove `efa: true`, or choose trn1.32xlarge.",
            key="efa",
        )
    elif made.efa is False and facts.efa and facts.devices and made.max_count > 1:
        section.problem(
            "efa-off-multi-node",
            f"EFA is off on up to {made.max_count} {facts.type}: training across nodes would fail",
            "Remove `efa: false`, or write max_count: 1.",
            key="efa",
        )
