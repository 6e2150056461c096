"""A cluster spec as the ParallelCluster YAML that `pcluster` takes, with secure defaults written out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trnctl import __version__
from trnctl.render.engine import render
from trnctl.specs.cluster import Action, ClusterSpec, ComputeResource, CustomActions, NodeActions, Queue
from trnctl.specs.instances import instance
from trnctl.specs.known import partition

_CAPACITY_TYPES = {
    "on-demand": "ONDEMAND",
    "spot": "SPOT",
    "reservation": "ONDEMAND",  # a targeted on-demand reservation is on-demand capacity for ParallelCluster
    "capacity-block": "CAPACITY_BLOCK",
}
# ParallelCluster opens ssh to the whole internet when AllowedIps is absent; this network holds no machine.
_NOBODY = "0.0.0.0/32"
_NO_ACTIONS = CustomActions()


def cluster_document(spec: ClusterSpec, *, own_actions: CustomActions = _NO_ACTIONS) -> str:
    """The whole YAML text. `own_actions` are trnctl's node scripts; the user's custom actions run after them.

    `spec.extra` is merged last: mappings key by key, lists of named things (`Name`, a tag's `Key`) by name, any other
    value replaced, and what is null removed. Raises UsageError when a value holds what YAML cannot carry.
    """
    text = render("yaml", "cluster/cluster.yaml.j2", _context(spec, own_actions))
    return _with_extra(text, spec.extra) if spec.extra else text


def _context(spec: ClusterSpec, own: CustomActions) -> dict[str, object]:
    head_policies = list(spec.iam.policies)
    if spec.head_node.ssm:
        head_policies.append(f"arn:{partition(spec.region)}:iam::aws:policy/AmazonSSMManagedInstanceCore")
    ssh_from = spec.head_node.ssh_from
    return {
        "version": __version__,
        "spec": spec,
        "head": {
            "ssh_from": ssh_from[0] if ssh_from else _NOBODY,
            **_node(spec, own.head, spec.custom_actions.head, head_policies),
        },
        "compute": _node(spec, own.compute, spec.custom_actions.compute, spec.iam.policies),
        "queues": [_queue(spec, queue) for queue in spec.queues],
    }


def _node(spec: ClusterSpec, own: NodeActions, user: NodeActions, policies: Iterable[str]) -> dict[str, object]:
    """What head and compute nodes have in common: custom actions, and the access that these need."""
    actions = {
        "start": [*own.start, *user.start],
        "configured": [*own.configured, *user.configured],
        "updated": [*own.updated, *user.updated],
    }
    scripts = [action for moment in actions.values() for action in moment]
    buckets = [{"name": name, "write": name == spec.bucket} for name in _buckets(spec.bucket, scripts)]
    wanted = list(dict.fromkeys(policies))
    return {
        **actions,
        "buckets": buckets,
        "policies": wanted,
        "has_actions": bool(scripts),
        "has_any": bool(scripts or buckets or wanted),
    }


def _buckets(own: str | None, scripts: Iterable[Action]) -> list[str]:
    """The cluster's bucket and those that scripts come from, each once."""
    from_scripts = [
        action.script.removeprefix("s3://").partition("/")[0] for action in scripts if action.script.startswith("s3://")
    ]
    return list(dict.fromkeys([*([own] if own else []), *from_scripts]))


def _queue(spec: ClusterSpec, queue: Queue) -> dict[str, object]:
    group = queue.placement_group
    return {
        "name": queue.name,
        "capacity_type": _CAPACITY_TYPES[queue.capacity.type],
        "reservation": queue.capacity.id,
        "job_exclusive": queue.job_exclusive,
        "custom_settings": queue.custom_settings,
        "resources": [_resource(resource) for resource in queue.compute_resources],
        "subnet": queue.subnet or spec.network.compute_subnet,
        "placement_group_enabled": bool(group),
        "placement_group_name": group if isinstance(group, str) else "",
        "root_gib": queue.root_gib,
        "ephemeral_mount": queue.ephemeral_mount,
    }


def _resource(resource: ComputeResource) -> dict[str, object]:
    facts = instance(resource.instance_type)
    return {
        "name": resource.name,
        "instance_type": resource.instance_type,
        "min_count": resource.min_count,
        "max_count": resource.max_count,
        "spot_price": resource.spot_price,
        "efa": resource.efa if resource.efa is not None else facts is not None and facts.efa,
    }


# ------------------------------------------------------------------------------------------------ extra


def _with_extra(text: str, extra: Mapping[str, object]) -> str:
    import yaml

    header = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    merged = _merged(yaml.safe_load(text), extra)
    body = yaml.safe_dump(merged, sort_keys=False, default_flow_style=False, width=120)
    return f"{header}# Merged with `extra` of the cluster file.\n{body}"


def _merged(base: object, extra: object) -> object:
    """`extra` laid over `base`."""
    if isinstance(base, Mapping) and isinstance(extra, Mapping):
        laid = {key: _merged(base.get(key), value) for key, value in extra.items()}
        return {key: value for key, value in {**base, **laid}.items() if value is not None}
    if isinstance(base, list) and isinstance(extra, list):
        for key in ("Name", "Key", "BucketName", "Policy"):
            if extra and all(isinstance(item, Mapping) and key in item for item in (*base, *extra)):
                return _merged_by(key, base, extra)
    return extra


def _merged_by(key: str, base: list[Mapping[str, object]], extra: list[Mapping[str, object]]) -> list[object]:
    merged: dict[object, object] = {item[key]: item for item in base}
    for item in extra:
        merged[item[key]] = _merged(merged.get(item[key]), item)
    return list(merged.values())
