"""Findings on a rendered configuration, brought back to where the person wrote it: the lines of `trnctl.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from trnctl.errors import UsageError
from trnctl.findings import Finding
from trnctl.preflight.place import Place
from trnctl.specs.nodes import Entries, Items, parse

# The loader says the same of the cluster file in its own words, where trnctl's jobs, which use addresses, count.
SAID_BY_THE_LOADER = frozenset({"fqdn-too-long", "fqdn-near-limit"})

_QUEUE = r"Scheduling\.SlurmQueues\[(?P<queue>\d+)\]"
_RESOURCE = rf"{_QUEUE}\.ComputeResources\[(?P<resource>\d+)\]"
# How the rendered path begins, and where that comes from; the first that matches counts. `extra` may override any of
# them, and is not looked at: a line of the thing itself is where people look.
_PLACES: tuple[tuple[str, str], ...] = (
    (rf"{_RESOURCE}\.MinCount", "queues[{queue}].compute_resources[{resource}].min_count"),
    (rf"{_RESOURCE}\.MaxCount", "queues[{queue}].compute_resources[{resource}].max_count"),
    (rf"{_RESOURCE}\.InstanceType", "queues[{queue}].compute_resources[{resource}].instance_type"),
    (rf"{_RESOURCE}\.Efa", "queues[{queue}].compute_resources[{resource}].efa"),
    (rf"{_RESOURCE}\.SpotPrice", "queues[{queue}].compute_resources[{resource}].spot_price"),
    (_RESOURCE, "queues[{queue}].compute_resources[{resource}]"),
    (rf"{_QUEUE}\.Networking\.SubnetIds", "queues[{queue}].subnet|network.compute_subnet"),
    (rf"{_QUEUE}\.Networking\.PlacementGroup", "queues[{queue}].placement_group"),
    (rf"{_QUEUE}\.Networking\.SecurityGroups", "network.security_groups"),
    (rf"{_QUEUE}\.Networking\.AdditionalSecurityGroups", "network.additional_security_groups"),
    (rf"{_QUEUE}\.Capacity", "queues[{queue}].capacity"),
    (rf"{_QUEUE}\.ComputeSettings\.LocalStorage\.RootVolume", "queues[{queue}].root_gib"),
    (rf"{_QUEUE}\.ComputeSettings\.LocalStorage\.EphemeralVolume", "queues[{queue}].ephemeral_mount"),
    (rf"{_QUEUE}\.CustomSlurmSettings", "queues[{queue}].custom_settings"),
    (rf"{_QUEUE}\.(CustomActions|Iam)", "custom_actions.compute"),
    (_QUEUE, "queues[{queue}]"),
    (r"Scheduling\.SlurmQueues", "queues"),
    (r"Scheduling\.SlurmSettings\.CustomSlurmSettings", "custom_settings"),
    (r"HeadNode\.InstanceType", "head_node.instance_type"),
    (r"HeadNode\.Networking\.SubnetId", "network.head_subnet"),
    (r"HeadNode\.Networking\.ElasticIp", "head_node.elastic_ip"),
    (r"HeadNode\.Ssh\.KeyName", "head_node.key_name"),
    (r"HeadNode\.Ssh\.AllowedIps", "head_node.ssh_from"),
    (r"HeadNode\.LocalStorage", "head_node.root_gib"),
    (r"HeadNode\.CustomActions", "custom_actions.head"),
    (r"HeadNode", "head_node"),
    (r"SharedStorage\[(?P<storage>\d+)\]", "storage[{storage}]"),
    (r"SharedStorage", "storage"),
    (r"Image\.CustomAmi", "image.ami"),
    (r"Image\.Os", "os"),
    (r"Region", "region"),
    (r"Iam", "iam"),
    (r"Tags", "tags"),
)  # fmt: skip


def mapped(findings: Iterable[Finding], source: str, file: str) -> list[Finding]:
    """The findings at their places in the cluster file `source`; what the loader has said already is left out.

    The path stays ParallelCluster's where nothing in the file matches it (`extra`), with the line of `cluster`.
    """
    try:
        node, _ = parse(source, file)
    except UsageError:  # then the loader has refused it
        node = None
    root = Place("", 1, 1, node).at("cluster")
    return [_moved(finding, root, file) for finding in findings if finding.code not in SAID_BY_THE_LOADER]


def _moved(finding: Finding, root: Place, file: str) -> Finding:
    for pattern, places in _PLACES:
        found = re.match(pattern, finding.path)
        if found is None:
            continue
        options = [_at(root, place.format(**found.groupdict())) for place in places.split("|")]
        best = next((place for place in options if place), options[-1])
        line = best.line if best else _nearest(best, root).line
        return replace(finding, path=best.path, file=file, line=line, column=best.column if best else None)
    evidence = finding.evidence or (f"of the rendered configuration: {finding.path}" if finding.path else "")
    return replace(finding, file=file, line=root.line, column=None, evidence=evidence)


def _at(root: Place, words: str) -> Place:
    """The place below a dotted path with numbers in brackets."""
    here = root
    for word in re.findall(r"[^.\[\]]+", words):
        if word.isdigit():
            items = list(here.items())
            here = items[int(word)] if int(word) < len(items) else Place(f"{here.path}[{word}]", here.line, 1, None)
        else:
            here = here.at(word)
    return here


def _nearest(place: Place, root: Place) -> Place:
    """The innermost thing above a place that is written; `cluster` itself at the outermost."""
    words = re.findall(r"[^.\[\]]+", place.path.removeprefix("cluster."))
    while words:
        words.pop()
        above = _at(root, ".".join(words))
        if above and isinstance(above.node, Entries | Items):
            return above
    return root
