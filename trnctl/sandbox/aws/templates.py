"""What a CloudFormation template says about the order and the tags of its resources; pure functions."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

Resource = Mapping[str, Any]

WAIT_CONDITION = "AWS::CloudFormation::WaitCondition"
NESTED_STACK = "AWS::CloudFormation::Stack"
INSTANCE = "AWS::EC2::Instance"

# Where each taggable type keeps its tags. CloudFormation puts a stack's tags on every resource that takes tags;
# EC2 resources are missing here because moto tags them itself.
_TAGS_PROPERTY = {
    "AWS::DynamoDB::Table": "Tags",
    "AWS::EFS::FileSystem": "FileSystemTags",
    "AWS::FSx::FileSystem": "Tags",
    "AWS::IAM::Role": "Tags",
    "AWS::Lambda::Function": "Tags",
    "AWS::Logs::LogGroup": "Tags",
    "AWS::Route53::HostedZone": "HostedZoneTags",
}


def references(node: object) -> Iterator[str]:
    """The names that Ref, Fn::GetAtt and Fn::Sub mention anywhere below `node`; parameters are among them."""
    if isinstance(node, Mapping):
        if isinstance(node.get("Ref"), str):
            yield node["Ref"]
        if target := node.get("Fn::GetAtt"):
            yield target.split(".")[0] if isinstance(target, str) else target[0]
        if substitution := node.get("Fn::Sub"):
            text = substitution if isinstance(substitution, str) else substitution[0]
            yield from re.findall(r"\$\{([A-Za-z0-9:]+)", text)
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def needs(resources: Mapping[str, Resource]) -> dict[str, set[str]]:
    """For each resource the others that must exist before it: DependsOn, and every reference to one of them."""
    result = {}
    for name, resource in resources.items():
        depends = resource.get("DependsOn", [])
        named = {depends} if isinstance(depends, str) else set(depends)
        result[name] = ((named | set(references(resource))) & resources.keys()) - {name}
    return result


def creation_order(resources: Mapping[str, Resource]) -> list[str]:
    """The names so that each comes after all it needs. ValueError on a circle."""
    waiting = needs(resources)
    order: list[str] = []
    while waiting:
        ready = [name for name, before in waiting.items() if before <= set(order)]
        if not ready:
            raise ValueError(f"Circular dependency between resources: [{', '.join(sorted(waiting))}]")
        order += ready
        for name in ready:
            del waiting[name]
    return order


def with_tags(resource: Resource, tags: Mapping[str, str]) -> dict[str, Any]:
    """A copy of a resource that carries the stack's tags too, where its type takes tags; its own tags win."""
    result = copy.deepcopy(dict(resource))
    properties = result.setdefault("Properties", {})
    if key := _TAGS_PROPERTY.get(result["Type"]):
        own = properties.get(key, [])
        names = {tag["Key"] for tag in own}
        properties[key] = own + [{"Key": name, "Value": tags[name]} for name in tags if name not in names]
    return result


def retained(resource: Resource) -> bool:
    """Whether the resource outlives its stack."""
    return resource.get("DeletionPolicy") in ("Retain", "RetainExceptOnCreate")
