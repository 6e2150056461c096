"""Rules on what connects nodes: EFA, placement groups, public addresses, and names that Neuron can resolve."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trnctl.preflight.config import Config, Resource
from trnctl.preflight.place import Place
from trnctl.preflight.report import Report

_LONGEST_ADDRESS = 63  # characters of host name, colon and port that the Neuron runtime resolves
_PORT = "48620"  # the port that Neuron's samples reserve; five digits, as any that is likely
_SHORTEST = "……"  # stands for a cluster's name of two characters


def efa(config: Config, report: Report) -> None:
    """EFA only on types that have it, and on every Trn type that trains across nodes."""
    for resource in config.resources():
        without = [facts.type for facts in resource.facts if not facts.efa]
        able = [facts for facts in resource.facts if facts.efa]
        place = resource.place.at("Efa") if resource.place.at("Efa") else resource.place
        if resource.efa and without:
            report.say("efa-unsupported", place, f"{', '.join(without)} has no EFA")
        elif not resource.efa and able and resource.most > 1 and resource.neuron:
            report.say(
                "efa-off-multi-node",
                place,
                f"EFA is off on up to {resource.most} {able[0].type}: training across nodes would fail",
            )
        elif not resource.efa and able and len(resource.queue.subnets) < 2:
            report.say("efa-off", place, f"{able[0].type} has EFA, and it is off")
        if resource.place.at("Efa", "GdrSupport").flag() and not resource.efa:
            report.say("gdr-without-efa", resource.place.at("Efa", "GdrSupport"), "GdrSupport is on and EFA is off")


def placement_groups(config: Config, report: Report) -> None:
    """With EFA the file says whether a placement group is used; names and capacity go with it."""
    for resource in config.resources():
        group, block = resource.group, resource.queue.capacity == "CAPACITY_BLOCK"
        several = len(resource.queue.subnets) > 1
        if resource.efa and not group.stated and not block and not several:
            report.say(
                "placement-group-unstated", group.place, f"{resource.name} has EFA, but no placement group is stated"
            )
        elif resource.efa and not group.used and group.enabled is False and not block and not several:
            report.say("placement-group-off", group.place, f"{resource.name} has EFA without a placement group")
        if group.used and (block or resource.reservation):
            report.say("placement-group-with-reservation", group.place, f"{resource.name} uses reserved instances")
    for group_place in _group_sections(config):
        named = [key for key in ("Id", "Name") if group_place.at(key).text()]
        if len(named) == 2:
            report.say("placement-group-names", group_place.at("Name"), "Id and Name stand together")
        elif named and group_place.at("Enabled").flag() is False:
            report.say("placement-group-names", group_place.at(named[0]), "The group has a name, but Enabled is false")


def _group_sections(config: Config) -> Iterator[Place]:
    for queue in config.queues:
        yield queue.networking.at("PlacementGroup")
        for resource in queue.resources:
            yield resource.place.at("Networking", "PlacementGroup")


def public_addresses(config: Config, report: Report) -> None:
    """EC2 gives no public address to instances with several network interfaces."""
    for queue in config.queues:
        place = queue.networking.at("AssignPublicIp")
        many = [resource.types[0] for resource in queue.resources if several_interfaces(config, resource)]
        if place.flag() and many:
            report.say("public-ip-multi-nic", place, f"{many[0]} has several network interfaces")


def several_interfaces(config: Config, resource: Resource) -> bool:
    """Whether its instances are launched with more than one network interface: a card each, and since 3.15 a second
    interface on the first card where EFA is on."""
    if any(facts.network_cards > 1 for facts in resource.facts):
        return True
    return resource.efa and any(facts.efa for facts in resource.facts) and not config.legacy_efa


# ------------------------------------------------------------------------------------------------- node names


def node_addresses(config: Config, report: Report) -> None:
    """The longest node's name, and then the name with a port, stay within what Neuron's bootstrap resolves.

    Neuron's own page says 63 characters; its example of a name that fails has 59, and 65 with its port. Without a
    cluster's name the shortest that can be is assumed.
    """
    for resource in config.resources():
        if not resource.neuron or resource.most < 2 or not resource.name:
            continue
        cluster = config.cluster or _SHORTEST
        node = f"{resource.queue.name}-dy-{resource.name}-{resource.most}.{cluster}.pcluster"
        length, place = len(f"{node}:{_PORT}"), resource.place.at("Name")
        words = f"{node} has {len(node)} characters, {length} with a port; Neuron resolves {_LONGEST_ADDRESS}"
        if len(node) > _LONGEST_ADDRESS:
            report.say("fqdn-too-long", place, words)
        elif length > _LONGEST_ADDRESS:
            report.say("fqdn-near-limit", place, words)


RULES: tuple[Callable[[Config, Report], None], ...] = (efa, placement_groups, public_addresses, node_addresses)
