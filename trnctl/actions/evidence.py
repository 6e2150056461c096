"""The evidence of `why`, gathered through the doors: stack events, fleet, the head node's logs, CloudWatch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from trnctl.diagnose.evidence import Origin
from trnctl.errors import CloudError, ToolError
from trnctl.ports import Gathered, Instance, Observed, Services, StackEvent
from trnctl.specs.cluster import ClusterSpec

_STARTS = frozenset({"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"})
_NESTED = "AWS::CloudFormation::Stack"
_INSTANCE = "AWS::EC2::Instance"  # of a cluster's stack only the head node is one
Saved = tuple[Origin, Iterable[bytes]]


def events_of(cluster: str, services: Services) -> list[StackEvent]:
    """The events of a cluster's stack; where a nested stack failed, its own behind them, which say why.

    ParallelCluster puts the queues (launch templates, placement groups, roles) into a nested stack.
    """
    events = services.cloud.stack_events(cluster)
    failed = {
        one.physical_id: one
        for one in newest(cluster, events)
        if one.resource_type == _NESTED and one.logical_id != cluster and one.status.endswith("_FAILED")
    }
    nested = [event for stack in failed if stack for event in services.cloud.stack_events(stack)]
    return [*events, *sorted(nested, key=lambda event: event.at)]


def newest(cluster: str, events: Iterable[StackEvent]) -> list[StackEvent]:
    """The events of the newest creation or update, with those of a deletion behind it."""
    kept: list[StackEvent] = []
    for event in events:
        if event.logical_id == cluster and event.status in _STARTS and event.status != "DELETE_IN_PROGRESS":
            kept = []
        kept.append(event)
    return kept


def running_head(seen: Observed) -> Instance | None:
    """The head node, where it runs."""
    return seen.head if seen.head and seen.head.state == "running" else None


def ask_head(services: Services, seen: Observed) -> tuple[Gathered, tuple[str, ...]]:
    """What the head node has written down; a note when it cannot be asked."""
    head, nothing = running_head(seen), Gathered("", ())
    if head is None:
        return nothing, ("there is no head node that runs, so its logs were not read",)
    try:
        return services.head.evidence(head).gather(), ()
    except ToolError as error:
        return nothing, (f"the head node could not be asked: {error.message}",)


def ask_cloud_watch(
    cluster: str, services: Services, seen: Observed, events: Sequence[StackEvent], since: datetime | None
) -> tuple[Gathered, tuple[str, ...]]:
    """What has reached CloudWatch, and EC2's console of the head node, with a note of what that was."""
    try:
        sent = tuple(services.cloud.sent_logs(cluster, _head_ids(cluster, seen, events), since))
    except CloudError as error:
        return Gathered("", ()), (f"CloudWatch could not be asked: {error.message}",)
    if not sent:
        return Gathered("", ()), ("nothing of it has reached CloudWatch, and its console is empty",)
    names = [one.name.rpartition(".")[2] if one.name.startswith("CloudWatch ") else one.name for one in sent]
    listed = [f"{name} (×{names.count(name)})" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    return Gathered("", sent), (f"what has reached CloudWatch was read: {', '.join(listed)}",)


def _head_ids(cluster: str, seen: Observed, events: Sequence[StackEvent]) -> list[str]:
    """The head node; where a rollback has ended it, the events name it, and EC2 keeps its console for an hour."""
    if seen.head:
        return [seen.head.id]
    ids = [event.physical_id for event in newest(cluster, events) if event.resource_type == _INSTANCE]
    return [one for one in ids if one.startswith("i-")][-1:]


def of_stack(cluster: str, seen: Observed, events: Iterable[StackEvent]) -> Iterator[Saved]:
    """The events of the newest operation on a stack; none when it ended well, since old failures are over."""
    if seen.stack is not None and seen.stack.phase == "running":
        return
    lines = (
        f"{event.at:%Y-%m-%dT%H:%M:%S} {event.status} {event.resource_type} {event.logical_id}: {event.reason}\n"
        for event in newest(cluster, events)
    )
    yield Origin("stack-event", "stack events"), [line.encode() for line in lines]


def of_fleet(seen: Observed) -> Iterator[Saved]:
    """The fleet's status as a line."""
    if seen.fleet is not None:
        yield Origin("fleet", "compute fleet"), [f"fleet status: {seen.fleet.status.upper()}\n".encode()]


def of_head(gathered: Gathered, since: str = "") -> Iterator[Saved]:
    """What was gathered on the head node, or had been sent by nodes; of consoles what was noted from `since` on."""
    for one in gathered.texts:
        text = _noted(one.text, since) if one.source == "compute-console" and since else one.text
        yield Origin(one.source, one.name, one.node), [text.encode()]


def _noted(text: str, since: str) -> str:
    """The console outputs that clustermgtd noted from then on: a line that tells a time, and those behind it, which
    only count the seconds since their boot."""
    kept, recent = [], True
    for line in text.splitlines(keepends=True):
        if found := re.match(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", line):
            recent = found[0].replace(" ", "T") >= since
        if recent:
            kept.append(line)
    return "".join(kept)


def facts_of(services: Services, spec: ClusterSpec | None, seen: Observed) -> dict[str, str]:
    """What is known besides the texts, from the cluster file and from AWS."""
    facts: dict[str, str] = {}
    if seen.stack is not None and seen.stack.version:
        facts["version"] = seen.stack.version
    if spec is None:
        return facts
    facts.setdefault("version", spec.pcluster.version)
    facts["os"], facts["os_family"] = spec.os, spec.os.rstrip("0123456789")
    counts = [resource.max_count for queue in spec.queues for resource in queue.compute_resources]
    if counts:
        facts["max_count"] = str(max(counts))
    route = _head_route(services, spec)
    return {**facts, "head_route": route} if route else facts


def _head_route(services: Services, spec: ClusterSpec) -> str:
    """Where the head node's way out leads: `igw` (an internet gateway, and the node has no public address), `nat`,
    `none`, `open` (a gateway, and it has one), or '' when AWS does not say."""
    try:
        subnets = {subnet.id: subnet for subnet in services.account.subnets()}
    except CloudError:
        return ""
    subnet = subnets.get(spec.network.head_subnet)
    if subnet is None:
        return ""
    if subnet.way_out == "internet":
        return "open" if subnet.public_ips or spec.head_node.elastic_ip else "igw"
    return subnet.way_out
