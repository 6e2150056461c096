"""How a workload is spread over nodes: workers, micro-batches, accumulation; which node counts are legal, which fit."""

from __future__ import annotations

from dataclasses import dataclass

from trnctl.errors import RefusedError, UsageError
from trnctl.specs.cluster import Queue
from trnctl.specs.workload import Scaling, WorkloadSpec


@dataclass(frozen=True)
class Layout:
    """One legal way to run a workload. Always: world = nodes x ranks_per_node = tensor x pipeline x data, and
    global_batch = micro_batch x accumulation x data (in sequences).

    `shard` workers together hold one copy of the optimizer state, and there are `replicas` such groups.
    """

    nodes: int
    ranks_per_node: int
    world: int
    tensor: int
    pipeline: int
    context: int
    data: int
    shard: int
    replicas: int
    micro_batch: int
    accumulation: int
    global_batch: int
    scaling: Scaling


def resolve(workload: WorkloadSpec, instance_type: str, nodes: int, scaling: Scaling = "strong") -> Layout:
    """The layout on so many nodes. Strong scaling keeps the global batch and divides the accumulation; weak scaling
    keeps the accumulation, so that the global batch grows with the nodes.

    Raises UsageError, naming the node counts that work, when the batch cannot be divided exactly: the public scripts
    use integer division there, and train on a smaller batch, or none, without a word.
    """
    ranks = _ranks(workload, instance_type)
    if nodes < 1:
        raise UsageError(
            f"{nodes} nodes cannot run {workload.name}: it needs at least one.", remedy="Give --nodes 1 or more."
        )
    batch = workload.batch
    world = nodes * ranks
    accumulation = batch.accumulation if scaling == "weak" else batch.global_size // (batch.micro * world)
    if scaling == "strong" and accumulation * batch.micro * world != batch.global_size:
        raise _indivisible(workload, instance_type, nodes)
    return Layout(
        nodes=nodes,
        ranks_per_node=ranks,
        world=world,
        tensor=1,
        pipeline=1,
        context=1,
        data=world,
        shard=1,
        replicas=world,
        micro_batch=batch.micro,
        accumulation=accumulation,
        global_batch=batch.micro * accumulation * world,
        scaling=scaling,
    )


def legal_nodes(workload: WorkloadSpec, instance_type: str, limit: int, scaling: Scaling = "strong") -> tuple[int, ...]:
    """All node counts from 1 to `limit` that `resolve` accepts. UsageError for an instance type that cannot run it."""
    ranks = _ranks(workload, instance_type)
    if scaling == "weak":
        return tuple(range(1, limit + 1))
    passes = workload.batch.global_size // (workload.batch.micro * ranks)
    return tuple(nodes for nodes in range(1, min(limit, passes) + 1) if passes % nodes == 0)


def check_queue(layout: Layout, queue: Queue, instance_type: str | None = None) -> None:
    """Raises RefusedError when the queue can never have so many nodes (of that type, when one is given)."""
    resources = [r for r in queue.compute_resources if instance_type in {None, r.instance_type}]
    most = sum(resource.max_count for resource in resources)
    if layout.nodes <= most:
        return
    of_type = f" of {instance_type}" if instance_type else ""
    counts = " + ".join(f"{r.name}: {r.max_count}" for r in resources) or "none"
    raise RefusedError(
        f"The queue {queue.name} has at most {_count(most)}{of_type} (max_count of {counts}), and "
        f"{layout.nodes} do not fit.",
        remedy=f"Use --nodes {most} or fewer, or another queue; or raise max_count in the cluster file and run "
        "trnctl cluster update."
        if most
        else "Use another queue, or add such nodes to this one and run trnctl cluster update.",
    )


def _ranks(workload: WorkloadSpec, instance_type: str) -> int:
    """Workers on each node of that type. UsageError when the recipe names no number for it."""
    ranks = workload.ranks_per_node.get(instance_type)
    if ranks is None:
        types = ", ".join(workload.ranks_per_node)
        raise UsageError(
            f"{workload.name} cannot run on {instance_type}: its recipe names no number of workers for that type.",
            remedy=f"Use a queue of {types}, or add the type to ranks_per_node of a recipe of your own.",
        )
    return ranks


def _indivisible(workload: WorkloadSpec, instance_type: str, nodes: int) -> UsageError:
    """What is wrong with a node count, what the public script would do with it, and the counts that work."""
    batch, ranks = workload.batch, workload.ranks_per_node[instance_type]
    passes = batch.global_size // (batch.micro * ranks)
    left = passes // nodes
    if left == 0:
        why = (
            f"the {passes} accumulation steps of one node become zero on {nodes}, and nothing would be left to train "
            "(integer division in the public script gives exactly that)"
        )
    else:
        truncated = batch.micro * ranks * nodes * left
        why = (
            f"its {passes} accumulation steps do not divide by {nodes} (integer division in the public script would "
            f"train with {truncated:,} sequences a step instead of {batch.global_size:,}, without a word)"
        )
    counts = ", ".join(str(count) for count in legal_nodes(workload, instance_type, passes))
    weak = batch.micro * batch.accumulation * ranks * nodes
    return UsageError(
        f"{workload.name} cannot keep its global batch of {batch.global_size:,} on {_count(nodes)}: {why}.",
        remedy=f"Use --nodes with one of {counts}; or --scaling weak, which keeps the accumulation and makes the "
        f"global batch {weak:,}.",
    )


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"
