"""What to ask an account about a configuration, and the rules that compare the two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from trnctl.ports.survey import Survey, Wanted
from trnctl.preflight.config import Config, Resource
from trnctl.preflight.place import Place
from trnctl.preflight.report import Report
from trnctl.preflight.rules_fabric import several_interfaces

ON_DEMAND_TRN, SPOT_TRN = "L-2C3B7624", "L-6B0D517C"  # EC2's quotas of vCPUs: running on-demand Trn, Trn spot requests
_QUOTAS = {
    "ONDEMAND": (ON_DEMAND_TRN, "Running On-Demand Trn instances"),
    "SPOT": (SPOT_TRN, "All Trn Spot Instance Requests"),
}
_NEEDED_ENDPOINTS = ("s3", "dynamodb", "ec2", "cloudformation", "logs")
_SOON = timedelta(hours=24)
_RED_HAT = "Red Hat Enterprise Linux"
# What creating a cluster takes at least; trnctl doctor --policy prints all of it.
ACTIONS = (
    "cloudformation:CreateStack", "ec2:RunInstances", "ec2:CreateLaunchTemplate", "ec2:CreateSecurityGroup",
    "ec2:CreatePlacementGroup", "iam:CreateRole", "iam:PassRole", "iam:CreateInstanceProfile", "lambda:CreateFunction",
    "dynamodb:CreateTable", "route53:CreateHostedZone", "logs:CreateLogGroup", "s3:CreateBucket",
)  # fmt: skip


def wanted(config: Config) -> Wanted:
    """Everything that the file names and an account can answer for."""
    groups = [place.texts() for place in _group_lists(config)]
    quotas = [_QUOTAS[kind][0] for kind in _QUOTAS if needed_vcpus(config)[kind]]
    managed_fsx = any(storage.kind == "FsxLustre" and storage.managed for storage in config.storage)
    return Wanted(
        cluster=config.cluster,
        subnets=_once([config.head.at("Networking", "SubnetId").text(), *config.compute_subnets]),
        instance_types=_once(
            [
                config.head.at("InstanceType").text(),
                *(name for resource in config.resources() for name in resource.types),
            ]
        ),
        security_groups=_once([name for names in groups for name in names]),
        key=config.head.at("Ssh", "KeyName").text(),
        reservations=_once([resource.reservation for resource in config.resources()]),
        images=_once([place.text() for place in _images(config)]),
        quotas=tuple(quotas),
        actions=(*ACTIONS, *(("fsx:CreateFileSystem",) if managed_fsx else ())),
    )


def _once(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))


def _group_lists(config: Config) -> Iterator[Place]:
    for node in (config.head, *(queue.place for queue in config.queues)):
        yield node.at("Networking", "SecurityGroups")
        yield node.at("Networking", "AdditionalSecurityGroups")


def _images(config: Config) -> Iterator[Place]:
    yield config.root.at("Image", "CustomAmi")
    for node in (config.head, *(queue.place for queue in config.queues)):
        if node.at("Image", "CustomAmi"):
            yield node.at("Image", "CustomAmi")


def needed_vcpus(config: Config) -> Counter[str]:
    """vCPUs of Trn instances at MaxCount, by capacity type. Reserved ones were counted when they were reserved, and a
    capacity block has a quota of its own."""
    needed = Counter[str]()
    for resource in config.resources():
        trn = [facts for facts in resource.facts if facts.type.startswith("trn")]
        if trn and not resource.reservation:
            needed[resource.queue.capacity] += resource.most * max(facts.vcpus for facts in trn)
    return needed


# ------------------------------------------------------------------------------------------------- the rules


def quotas(config: Config, seen: Survey, report: Report) -> None:
    """All nodes together stay within the account's quota of vCPUs."""
    needed = needed_vcpus(config)
    for kind, (code, name) in _QUOTAS.items():
        has = seen.quotas.get(code)
        if has is not None and needed[kind] > has:
            place = config.root.at("Scheduling", "SlurmQueues")
            region = f" in {config.region}" if config.region else ""
            report.say(
                "quota-short",
                place,
                f"All nodes need {needed[kind]:,} vCPUs of Trn, and the account may run {has:,.0f}{region}",
                f"Ask for {needed[kind]:,} in Service Quotas ({name}, {code}), or lower MaxCount.",
                evidence=f"{code} = {has:.0f}",
            )


def zones(config: Config, seen: Survey, report: Report) -> None:
    """Each queue's subnet lies in a zone that offers its types; so does the head node's."""
    head = config.head
    rows = [(head.at("InstanceType"), [head.at("InstanceType").text()], [head.at("Networking", "SubnetId").text()])]
    rows += [(resource.type_place, list(resource.types), resource.queue.subnets) for resource in config.resources()]
    for place, types, subnets in rows:
        for name in types:
            offered = seen.zones.get(name)
            if offered is None:
                continue
            if not offered:
                report.say("zone-type-nowhere", place, f"{name} is not offered in {config.region or 'this region'}")
                continue
            for subnet in (seen.subnets[one] for one in subnets if one in seen.subnets):
                if subnet.zone not in offered:
                    words = f"{subnet.zone} of {subnet.id} does not offer {name}"
                    report.say("zone-without-type", place, words, f"Choose a subnet in {' or '.join(offered)}.")


def subnets(config: Config, seen: Survey, report: Report) -> None:
    """The subnets exist, in one VPC whose DNS is on."""
    if "subnets" in seen.refused:
        return
    for place in _subnet_places(config):
        if place.text() and place.text() not in seen.subnets:
            report.say("subnet-not-found", place, f"There is no subnet {place.text()}")
    vpcs = sorted({subnet.vpc for subnet in seen.subnets.values()})
    if len(vpcs) > 1:
        report.say(
            "subnets-of-several-vpcs", config.head.at("Networking", "SubnetId"), f"They are of {' and '.join(vpcs)}"
        )
    for vpc, on in seen.dns.items():
        if not on:
            report.say("vpc-dns-off", config.head.at("Networking", "SubnetId"), f"DNS is not wholly on in {vpc}")


def _subnet_places(config: Config) -> Iterator[Place]:
    yield config.head.at("Networking", "SubnetId")
    for queue in config.queues:
        yield from queue.networking.at("SubnetIds").items()


def routes(config: Config, seen: Survey, report: Report) -> None:
    """Every node reaches AWS's services: through a NAT gateway, with a public address, or by endpoints."""
    head = config.head.at("Networking", "SubnetId")
    found = seen.subnets.get(head.text())
    if found is not None and found.way_out == "internet" and not found.public_ips:
        elastic = config.head.at("Networking", "ElasticIp")
        if not (elastic.flag() or elastic.text().startswith("eip")):
            report.say(
                "head-without-address", head, f"{found.id} leads to the internet, and the head node has no address"
            )
    _isolated(config, seen, report, head)
    for queue in config.queues:
        for place in queue.networking.at("SubnetIds").items():
            subnet = seen.subnets.get(place.text())
            public = queue.networking.at("AssignPublicIp").flag() or (subnet is not None and subnet.public_ips)
            if subnet is not None and subnet.way_out == "internet" and not public:
                report.say(
                    "no-route-out", place, f"{subnet.id} leads to the internet, and its nodes have no public address"
                )
            _isolated(config, seen, report, place)


def _isolated(config: Config, seen: Survey, report: Report, place: Place) -> None:
    subnet = seen.subnets.get(place.text())
    if subnet is None or subnet.way_out != "none" or "endpoints" in seen.refused:
        return
    there = seen.endpoints.get(subnet.vpc, frozenset())
    missing = [name for name in _NEEDED_ENDPOINTS if name not in there]
    if not there:
        report.say("no-route-out", place, f"{subnet.id} has neither a route out nor an endpoint")
    elif missing:
        report.say(
            "endpoints-missing", place, f"{subnet.id} has no route out, and no endpoint for {', '.join(missing)}"
        )


def addresses(config: Config, seen: Survey, report: Report) -> None:
    """A subnet has an address for every interface that takes one."""
    needed = Counter[str]()
    for resource in config.resources():
        if len(resource.queue.subnets) == 1:
            needed[resource.queue.subnets[0]] += resource.most * interfaces(config, resource)
    for place in _subnet_places(config):
        subnet, wanted_here = seen.subnets.get(place.text()), needed[place.text()]
        if subnet is not None and wanted_here > subnet.free:
            report.say(
                "subnet-addresses-short",
                place,
                f"All nodes need {wanted_here} addresses, and {subnet.id} has {subnet.free} free",
            )
            needed[place.text()] = 0  # told once


def interfaces(config: Config, resource: Resource) -> int:
    """How many of a node's interfaces take an address: one on each network card, or, since 3.15, on the first alone
    where EFA is on (the others are `efa-only`, which have none)."""
    cards = max((facts.network_cards for facts in resource.facts), default=1)
    return 1 if resource.efa and not config.legacy_efa else cards


def public_subnets(config: Config, seen: Survey, report: Report) -> None:
    """Instances with several interfaces do not start in a subnet that gives public addresses."""
    for queue in config.queues:
        many = [resource.types[0] for resource in queue.resources if several_interfaces(config, resource)]
        for place in queue.networking.at("SubnetIds").items():
            subnet = seen.subnets.get(place.text())
            if many and subnet is not None and subnet.public_ips:
                report.say(
                    "subnet-gives-public-ips",
                    place,
                    f"{subnet.id} gives public addresses, and {many[0]} has several interfaces",
                )


def security_groups(config: Config, seen: Survey, report: Report) -> None:
    """The groups exist; one of a queue with EFA allows all traffic to and from itself."""
    if "security groups" in seen.refused:
        return
    for place in _group_lists(config):
        for item in place.items():
            if item.text() and item.text() not in seen.security_groups:
                report.say("security-group-not-found", item, f"There is no security group {item.text()}")
    for queue in config.queues:
        place = queue.networking.at("SecurityGroups")
        groups = [seen.security_groups[name] for name in place.texts() if name in seen.security_groups]
        if groups and any(r.efa for r in queue.resources) and not any(g.from_itself and g.to_itself for g in groups):
            report.say(
                "efa-group-no-self",
                place,
                f"None of {', '.join(g.id for g in groups)} allows all traffic to and from itself",
            )


def keys(config: Config, seen: Survey, report: Report) -> None:
    """The key pair exists, of a kind that the system takes."""
    place = config.head.at("Ssh", "KeyName")
    if not place.text() or "key pair" in seen.refused:
        return
    found = seen.keys.get(place.text())
    if found is None:
        report.say("key-not-found", place, f"There is no key pair {place.text()}")
    elif found.kind == "rsa" and config.os in {"ubuntu2204", "ubuntu2404"}:
        report.say("key-type", place, f"{place.text()} is an RSA key, which {config.os} refuses")


def file_systems(config: Config, seen: Survey, report: Report) -> None:
    """A file system that an earlier cluster of this name left can be mounted instead of a new one."""
    named = {storage.existing for storage in config.storage}
    for storage in config.storage:
        if storage.kind == "FsxLustre" and storage.managed:
            for one in seen.kept:
                if one.id not in named:
                    words = f"{one.id} ({one.gib} GiB) of an earlier {config.cluster} is still there"
                    report.say(
                        "file-system-adoptable",
                        storage.place,
                        words,
                        f"Mount it by its id, {one.id}, to have its data again.",
                    )


def permissions(config: Config, seen: Survey, report: Report) -> None:
    """The caller may do what creating the cluster takes."""
    if seen.denied:
        report.say("permission-denied", config.root, f"These are denied: {', '.join(seen.denied)}")


def unanswered(config: Config, seen: Survey, report: Report) -> None:
    """What AWS did not answer was not checked, and people are told."""
    for about, words in seen.refused.items():
        report.say("not-checked", config.root, f"The {about} could not be looked at: {words}")


# ------------------------------------------------------------------------------------ reservations and images


def reservations(config: Config, seen: Survey, report: Report, now: datetime) -> None:
    """A reservation is there, active, of the right type, zone, platform and size."""
    if "reservations" in seen.refused:
        return
    asked = Counter[str]()
    for resource in config.resources():
        if not resource.reservation:
            continue
        place = resource.target.at("CapacityReservationId")
        found = seen.reservations.get(resource.reservation)
        if found is None:
            report.say("reservation-not-found", place, f"There is no capacity reservation {resource.reservation}")
            continue
        for words in _mismatches(config, seen, resource):
            report.say("reservation-mismatch", place, f"{found.id} {words}")
        asked[found.id] += resource.most
        if asked[found.id] > found.total:
            report.say(
                "reservation-small",
                place,
                f"The queues ask for {asked[found.id]} instances, and {found.id} has {found.total}",
            )
        if found.state not in {"active", "scheduled", "pending"} or (found.ends and found.ends <= now):
            report.say("reservation-ended", place, f"{found.id} is {found.state}")
        elif found.ends and found.ends - now < _SOON:
            report.say("reservation-ends-soon", place, f"{found.id} ends at {found.ends:%Y-%m-%d %H:%M} UTC")


def _mismatches(config: Config, seen: Survey, resource: Resource) -> Iterator[str]:
    found = seen.reservations[resource.reservation]
    if resource.types and found.instance_type not in resource.types:
        yield f"is for {found.instance_type}, not for {resource.types[0]}"
    for subnet in (seen.subnets[name] for name in resource.queue.subnets if name in seen.subnets):
        if subnet.zone != found.zone:
            yield f"is in {found.zone}, and {subnet.id} in {subnet.zone}"
    if resource.queue.capacity == "CAPACITY_BLOCK" and not found.block:
        yield "is no capacity block"
    platform = _RED_HAT if config.os.startswith("rhel") else "Linux/UNIX"
    if config.os and found.platform and found.platform != platform:
        yield f"is for {found.platform}, and {config.os} needs {platform}"


def images(config: Config, seen: Survey, report: Report) -> None:
    """An image is there, built by this version for this system, and fits into the root volumes."""
    if "images" in seen.refused:
        return
    version = ".".join(map(str, config.release))
    for place in _images(config):
        if not place.text():
            continue
        found = seen.images.get(place.text())
        if found is None:
            report.say("image-not-found", place, f"There is no image {place.text()}")
        elif not found.version:
            report.say("image-untagged", place, f"{found.id} carries no mark of ParallelCluster")
        elif found.version != version:
            report.say("image-version", place, f"{found.id} was built by {found.version}, and {version} is used")
        elif not found.built:
            report.say("image-not-ready", place, f"{found.id} carries no mark that its build ended well")
        if found is not None and found.os and config.os and found.os != config.os:
            report.say("image-os", place, f"{found.id} is of {found.os}, and the file of {config.os}")
    _root_volumes(config, seen, report)


def _root_volumes(config: Config, seen: Survey, report: Report) -> None:
    everywhere = config.root.at("Image", "CustomAmi").text()
    for node in (config.head, *(queue.place for queue in config.queues)):
        image = seen.images.get(node.at("Image", "CustomAmi").text() or everywhere)
        settings = node if node == config.head else node.at("ComputeSettings")
        place = settings.at("LocalStorage", "RootVolume", "Size")
        size = place.integer()
        if image is not None and size is not None and size < image.root_gib:
            report.say("root-volume-too-small", place, f"{size} GiB, and {image.id} has {image.root_gib} GiB")


RULES: tuple[Callable[[Config, Survey, Report], None], ...] = (
    quotas, zones, subnets, routes, public_subnets, security_groups, keys, images, permissions, unanswered,
)  # fmt: skip
# Rules that speak of a cluster that is still to be made: one that stands holds addresses, and its own file system.
BEFORE: tuple[Callable[[Config, Survey, Report], None], ...] = (addresses, file_systems)


def compare(config: Config, seen: Survey, report: Report, now: datetime, *, stands: bool = False) -> int:
    """Run all rules on a configuration and a survey; how many there are. `now` is aware; `stands` says that the
    cluster is there already and is to be changed."""
    wanted_rules = RULES if stands else (*RULES, *BEFORE)
    for rule in wanted_rules:
        rule(config, seen, report)
    reservations(config, seen, report, now)
    return len(wanted_rules) + 1
