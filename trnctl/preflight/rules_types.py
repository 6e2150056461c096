"""Rules on instance types: that they are some, and go together in one cluster, one resource, one capacity block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from trnctl.preflight.config import Config
from trnctl.preflight.place import Place
from trnctl.preflight.report import Report
from trnctl.preflight.unfilled import unfilled
from trnctl.specs.instances import INSTANCES, architecture, instance, vcpus
from trnctl.specs.values import shown

_IN_BLOCKS = ("p", "trn")  # how the names of the families begin that EC2 sells capacity blocks of


def _types(place: Place) -> Iterator[Place]:
    """The instance types at an `InstanceType` or a list of `Instances`."""
    for one in [place, *(item.at("InstanceType") for item in place.sections())]:
        if one.text() and not unfilled(one.text()):
            yield one


def forms(config: Config, report: Report) -> None:
    """Instance types look like instance types, and those with Trainium are in trnctl's table."""
    found = [
        config.head.at("InstanceType"),
        *(pool.at("InstanceType") for pool in config.pools),
        *(resource.type_place for resource in config.resources()),
    ]
    for place in found:
        for one in _types(place):
            if not re.fullmatch(r"[a-z0-9-]+\.[a-z0-9-]+", one.text()):
                report.say("instance-type-form", one, f"{shown(one.text())} is not an instance type")
            elif one.text().startswith("trn") and instance(one.text()) is None:
                known = ", ".join(name for name in INSTANCES if name.startswith("trn"))
                words = f"trnctl does not know {one.text()}: its EFA and its size are not checked"
                report.say("instance-type-unknown", one, words, f"Check its spelling; known are {known}.")


def processors(config: Config, report: Report) -> None:
    """All nodes run on the head node's kind of processor, for which their image is made."""
    head = config.head.at("InstanceType").text()
    wanted = architecture(head)
    places = [*(pool.at("InstanceType") for pool in config.pools), *(one.type_place for one in config.resources())]
    for place in places:
        for one in _types(place):
            other = architecture(one.text())
            if wanted and other and other != wanted:
                report.say(
                    "architecture-mixed", one, f"{one.text()} is {other}, and the head node's {head} is {wanted}"
                )


def flexible_types(config: Config, report: Report) -> None:
    """Among several types of one resource a job must find as many CPUs on any."""
    for resource in config.resources():
        many = resource.place.at("Instances")
        if not many or resource.place.at("DisableSimultaneousMultithreading").flag():
            continue  # then ParallelCluster counts cores
        counted = {name: count for name in resource.types if (count := vcpus(name))}
        if len(set(counted.values())) > 1:
            words = ", ".join(f"{name} has {count} vCPUs" for name, count in counted.items())
            report.say("instances-differ", many, words)


def blocks(config: Config, report: Report) -> None:
    """Capacity blocks are sold of accelerated types only."""
    for queue in config.queues:
        for resource in queue.resources:
            for one in _types(resource.type_place):
                family = one.text().partition(".")[0]
                if queue.capacity == "CAPACITY_BLOCK" and not family.startswith(_IN_BLOCKS):
                    report.say("capacity-block-type", one, f"EC2 sells no capacity blocks of {one.text()}")


RULES: tuple[Callable[[Config, Report], None], ...] = (forms, processors, flexible_types, blocks)
