"""Changes counts and the image in the text of a cluster file: everything else in it, comments too, stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnctl.errors import UsageError

if TYPE_CHECKING:
    from yaml.nodes import MappingNode
    from yaml.nodes import Node as YamlNode

_FORM = re.compile(r"([\w-]+)/([\w-]+)=(?:(\d{1,5}):)?(\d{1,5})")


@dataclass(frozen=True)
class Count:
    """How many nodes a compute resource is to have: `least` always on (None: as it is), `most` in all."""

    queue: str
    resource: str
    least: int | None
    most: int


def read_counts(words: list[str]) -> list[Count]:
    """`compute1/i1=0:32`, or `compute1/i1=32`. UsageError for what is no such thing."""
    found = []
    for word in words:
        match = _FORM.fullmatch(word)
        if match is None:
            raise UsageError(
                f"--set-count {word} is not QUEUE/RESOURCE=MIN:MAX", remedy="write it as --set-count compute1/i1=0:32"
            )
        queue, resource, least, most = match.groups()
        found.append(Count(queue, resource, int(least) if least is not None else None, int(most)))
    return found


def with_counts(text: str, counts: list[Count]) -> str:
    """The text of a cluster file with these counts. UsageError when it names no such queue or compute resource."""
    for count in counts:
        wanted = {"max_count": count.most, **({} if count.least is None else {"min_count": count.least})}
        for key, value in wanted.items():
            text = _with_value(text, count, key, value)
    return text


def with_ami(text: str, ami: str) -> str:
    """The text of a cluster file whose nodes start from this image: `image: {ami: …}`, replaced or added."""
    import yaml
    from yaml.nodes import MappingNode

    cluster = _entries(yaml.compose(text, Loader=yaml.SafeLoader)).get("cluster")
    entries = _entries(cluster)
    if not isinstance(cluster, MappingNode) or not entries:
        raise UsageError("the cluster file has no `cluster:`", remedy="trnctl init writes a file to start from")
    image = entries.get("image")
    if image is None:
        return _added(text, cluster, "image", f"{{ami: {ami}}}")
    if "ami" in _entries(image):
        return _replaced(text, _entries(image)["ami"], ami)
    if isinstance(image, MappingNode) and image.value:
        return _added(text, image, "ami", ami)
    return _replaced(text, image, f"{{ami: {ami}}}")


def _replaced(text: str, node: YamlNode, value: str) -> str:
    before = text[: node.start_mark.index]
    lead = " " if before.endswith(":") else ""  # a key without a value: the mark stands right behind it
    return f"{before}{lead}{value}{text[node.end_mark.index :]}"


def _added(text: str, mapping: MappingNode, key: str, value: str) -> str:
    if mapping.flow_style:
        at = mapping.value[-1][1].end_mark.index
        return f"{text[:at]}, {key}: {value}{text[at:]}"
    first = mapping.value[0][0].start_mark
    # Before the first key, whose place is known: behind the last one there may be comments and blank lines.
    return f"{text[: first.index]}{key}: {value}\n{' ' * first.column}{text[first.index :]}"


def _with_value(text: str, count: Count, key: str, value: int) -> str:
    """One number in one compute resource: replaced where it stands, added where it does not."""
    resource = _resource(text, count)
    entries = {name.value: node for name, node in resource.value}
    if key in entries:
        return _replaced(text, entries[key], str(value))
    return _added(text, resource, key, str(value))


def _resource(text: str, count: Count) -> MappingNode:
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)  # Python's own parser, whose marks count characters
    cluster = _entries(root).get("cluster")
    queues = _items(_entries(cluster).get("queues"))
    if not queues:
        raise UsageError(
            "the cluster file writes no queues, so that there are no counts to change",
            remedy="write the queue with its compute_resources into it first; trnctl cluster render shows what it is",
        )
    queue = _named(queues, count.queue, "queue")
    return _named(
        _items(_entries(queue).get("compute_resources")), count.resource, f"compute resource in {count.queue}"
    )


def _named(nodes: list[YamlNode], name: str, what: str) -> MappingNode:
    names = {str(_entries(node)["name"].value): node for node in nodes if "name" in _entries(node)}
    if name not in names:
        raise UsageError(
            f"--set-count: the cluster file has no {what} called {name}", remedy=f"it has {', '.join(names) or 'none'}"
        )
    return names[name]  # type: ignore[return-value]  # it has entries, so that it is a mapping


def _entries(node: YamlNode | None) -> Mapping[str, YamlNode]:
    from yaml.nodes import MappingNode

    return {key.value: value for key, value in node.value} if isinstance(node, MappingNode) else {}


def _items(node: YamlNode | None) -> list[YamlNode]:
    from yaml.nodes import SequenceNode

    return list(node.value) if isinstance(node, SequenceNode) else []
