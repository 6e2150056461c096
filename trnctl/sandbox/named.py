"""What a user's own cluster file names, so that the emulated account has it: the file then works as it is."""

from __future__ import annotations

from trnctl.sandbox.aws.seeds import ReservationSeed, Seeds
from trnctl.specs.cluster import ClusterSpec, Queue


def seeds_of(spec: ClusterSpec) -> Seeds:
    """Subnets, key, file systems, reservations and buckets of a file."""
    systems = [storage for storage in spec.storage if storage.file_system_id]
    subnets = [spec.network.compute_subnet, *(queue.subnet for queue in spec.queues if queue.subnet)]
    links = [link.uri for storage in spec.storage for link in storage.s3]
    scripts = [
        action.script
        for actions in (spec.custom_actions.head, spec.custom_actions.compute)
        for action in (*actions.start, *actions.configured, *actions.updated)
        if action.script.startswith("s3://")
    ]
    buckets = [uri.removeprefix("s3://").partition("/")[0] for uri in (*links, *scripts)]
    return Seeds(
        public_subnets=(spec.network.head_subnet,),
        private_subnets=tuple(dict.fromkeys(subnets)),
        keys=(spec.head_node.key_name,) if spec.head_node.key_name else (),
        lustre=tuple(str(one.file_system_id) for one in systems if one.kind == "fsx"),
        efs=tuple(str(one.file_system_id) for one in systems if one.kind == "efs"),
        reservations=tuple(seed for queue in spec.queues for seed in _reservation(queue)),
        buckets=tuple(dict.fromkeys([*([spec.bucket] if spec.bucket else []), *buckets])),
    )


def _reservation(queue: Queue) -> list[ReservationSeed]:
    """The reservation that a queue names, large enough for it."""
    if queue.capacity.id is None:
        return []
    first = queue.compute_resources[0]
    count = sum(resource.max_count for resource in queue.compute_resources)
    block = queue.capacity.type == "capacity-block"
    return [ReservationSeed(queue.capacity.id, first.instance_type, count, block)]
