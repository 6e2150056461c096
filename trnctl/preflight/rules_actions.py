"""Rules on custom actions: that nodes can fetch the scripts, and that Neuron's installers fit the system."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from trnctl.preflight.config import Config
from trnctl.preflight.place import Place
from trnctl.preflight.report import Report
from trnctl.preflight.rules_cluster import node_sections
from trnctl.preflight.unfilled import unfilled
from trnctl.specs.values import shown

_S3 = re.compile(r"s3://([^/]+)/(.+)")
_NEURON_PUBLIC = re.compile(r"s3://neuron-s3/pcluster/post-install-scripts/neuron-installation/[^/]+/([a-z]+\d+)/")
# The systems for which Neuron's published scripts exist, by the folder's name.
_NEURON_SYSTEMS = {"u18": "ubuntu1804", "u20": "ubuntu2004", "u22": "ubuntu2204", "u24": "ubuntu2404", "al2": "alinux2"}
_SMALL_ROOT_GIB = 100


def scripts(node: Place) -> Iterator[Place]:
    """Every `Script` of a node's custom actions."""
    for moment in ("OnNodeStart", "OnNodeConfigured", "OnNodeUpdated"):
        action = node.at("CustomActions", moment)
        if action.at("Script"):
            yield action.at("Script")
        for item in action.at("Sequence").sections():
            yield item.at("Script")


def addresses(config: Config, report: Report) -> None:
    """Scripts lie where a node can fetch them: in a bucket or on a web server, not on this machine."""
    for _, node in node_sections(config):
        for place in scripts(node):
            address = place.text()
            fits = _S3.fullmatch(address) or re.fullmatch(r"https://[^\s/]+(/\S*)?", address)
            if address and not fits and not unfilled(address):
                report.say("script-url", place, f"{shown(address)} cannot be fetched by a node")
            elif re.fullmatch(r"https://[^\s/]+/?", address):
                words = f"{shown(address)} is a server's address and names no script"
                report.say("script-url", place, words, level="warning")


def access(config: Config, report: Report) -> None:
    """A node that runs a script from a bucket may read it there."""
    for what, node in node_sections(config):
        iam = node.at("Iam")
        if any(iam.at(key) for key in ("InstanceRole", "InstanceProfile", "AdditionalIamPolicies")):
            continue  # what these allow is not in the file
        rights = [
            (one.at("BucketName").text(), one.at("KeyName").text() or "*") for one in iam.at("S3Access").sections()
        ]
        for place in scripts(node):
            found = _S3.fullmatch(place.text())
            if found and not any(fnmatchcase(found[1], b) and fnmatchcase(found[2], k) for b, k in rights):
                report.say(
                    "s3-access-missing",
                    place,
                    f"{what.capitalize()} runs a script from {found[1]}, and nothing lets it read there",
                    f"Add the bucket to Iam.S3Access of {what}: - BucketName: {found[1]}",
                )


def neuron_installers(config: Config, report: Report) -> None:
    """Neuron's published install scripts are each for one system."""
    for _, node in node_sections(config):
        for place in scripts(node):
            found = _NEURON_PUBLIC.match(place.text())
            made_for = _NEURON_SYSTEMS.get(found[1], "") if found else ""
            if made_for and made_for != config.os:
                report.say("neuron-script-os", place, f"This script installs Neuron on {made_for}, not on {config.os}")


def root_volumes(config: Config, report: Report) -> None:
    """Neuron's packages need room on the root volume."""
    for queue in config.queues:
        if not any(resource.neuron for resource in queue.resources):
            continue
        place = queue.place.at("ComputeSettings", "LocalStorage", "RootVolume", "Size")
        size = place.integer()
        if size is None or size < _SMALL_ROOT_GIB:
            words = f"{size} GiB" if size else "the image's size, about 45 GiB"
            report.say(
                "root-volume-small", place if place else queue.place, f"The root volume of {queue.name} has {words}"
            )


RULES: tuple[Callable[[Config, Report], None], ...] = (addresses, access, neuron_installers, root_volumes)
