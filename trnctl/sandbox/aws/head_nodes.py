"""What a head node reads when it boots: the files that ParallelCluster puts into its launch template's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml
from moto.cloudformation.parsing import clean_json

from trnctl.sandbox.aws.backends import Backends
from trnctl.sandbox.aws.templates import INSTANCE
from trnctl.sandbox.ports import HeadNodeBoot

# dna.json names mount directories and ids in two lists of the same order (ParallelCluster's cluster_stack.py).
_MOUNTS = (
    ("fsx_shared_dirs", "fsx_fs_ids"),
    ("efs_shared_dirs", "efs_fs_ids"),
    ("ebs_shared_dirs", "volume"),
    ("raid_shared_dir", "raid_vol_ids"),
)


def head_node(resources: Mapping[str, Any]) -> str | None:
    """The logical id of a template's head node, None for a stack that is no cluster."""
    for name, resource in resources.items():
        tags = resource.get("Properties", {}).get("Tags", []) if resource["Type"] == INSTANCE else []
        if {"Key": "parallelcluster:node-type", "Value": "HeadNode"} in tags:
            return name
    return None


def boot_of(stack: Any) -> HeadNodeBoot:
    """What the head node of a stack boots with; the stack's resources that it refers to must exist."""
    resources = stack.resource_map._resource_json_map
    name = head_node(resources)
    if name is None:
        raise LookupError(f"The stack {stack.name} has no head node.")
    instance = stack.resource_map[name]
    facts = json.loads(_file(stack, "dna.json"))["cluster"]
    return HeadNodeBoot(
        cluster=stack.name,
        region=stack.region_name,
        instance_id=instance.id,
        public_ip=instance.public_ip or "",
        private_ip=instance.private_ip,
        config=_config(Backends(stack.region_name), facts),
        file_systems=_file_systems(facts),
    )


def launch_template(stack: Any, queue: str, compute_resource: str) -> tuple[str, str]:
    """Id and version of the launch template from which a cluster's head node starts these nodes."""
    queues = _file(stack, "launch-templates-config.json")["Queues"]
    found = queues[queue]["ComputeResources"][compute_resource]["LaunchTemplate"]
    return str(found["Id"]), str(found["Version"])


def _file(stack: Any, name: str) -> Any:
    """The content of one of the files of cfn-init, with every reference resolved."""
    resources = stack.resource_map._resource_json_map
    node = resources[str(head_node(resources))]
    template = resources[node["Properties"]["LaunchTemplate"]["LaunchTemplateId"]["Ref"]]
    files = template["Metadata"]["AWS::CloudFormation::Init"]["deployConfigFiles"]["files"]
    path = next(path for path in files if path.endswith(f"/{name}"))
    return clean_json(files[path]["content"], stack.resource_map)


def _config(backends: Backends, facts: Mapping[str, str]) -> Mapping[str, object]:
    """The configuration with ParallelCluster's defaults filled in; settings without a value are left out."""
    key = backends.s3.get_object(
        facts["cluster_s3_bucket"], facts["cluster_config_s3_key"], version_id=facts["cluster_config_version"]
    )
    config = _without_nulls(yaml.safe_load(key.value))
    if not isinstance(config, dict):
        raise LookupError(f"{facts['cluster_config_s3_key']} holds no configuration.")
    return config


def _without_nulls(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _without_nulls(value) for name, value in node.items() if value is not None}
    if isinstance(node, list):
        return [_without_nulls(value) for value in node]
    return node


def _file_systems(facts: Mapping[str, str]) -> dict[str, str]:
    result = {}
    for directories, ids in _MOUNTS:
        pairs = zip(facts.get(directories, "").split(","), facts.get(ids, "").split(","), strict=False)
        result.update({directory: found for directory, found in pairs if directory and found not in ("", "NONE")})
    return result
