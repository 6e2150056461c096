"""How a workload is spread over nodes: workers, micro-batches, accumulation; which node counts are legal, which fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnctl.errors import RefusedError
from trnctl.findings import errors_among
from trnctl.plan.division import whole_batches
from trnctl.plan.proposal import Proposal, propose
from trnctl.plan.rules import check, refusal
from trnctl.plan.words import count
from trnctl.specs.parallelism import Backend
from trnctl.specs.workload import Scaling, WorkloadSpec

if TYPE_CHECKING:
    from trnctl.specs.cluster import Platform, Queue


@dataclass(frozen=True)
class Layout:
    """One way to run a workload. Always: world = nodes x ranks_per_node = tensor x pipeline x context x data, and
    global_batch = micro_batch x accumulation x data (in sequences).

    `shard` workers together hold one copy of the state, and there are `replicas` such groups; `zero` is the ZeRO stage.
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
    expert: int = 1
    zero: int = 0
    backend: Backend = "torchrun-ddp"


def resolve(
    workload: WorkloadSpec,
    instance_type: str,
    nodes: int,
    scaling: Scaling = "strong",
    *,
    platform: Platform = "parallelcluster",
    force: bool = False,
) -> Layout:
    """The layout on so many nodes. Strong scaling keeps the global batch and divides the accumulation; weak scaling
    keeps the accumulation, so that the global batch grows with the nodes.

    Raises UsageError, naming what works, when a rule refuses it. `force` overrules all rules but those of division:
    where something does not divide there is no layout, and the public scripts, which use integer division there, train
    on a smaller batch, or none, without a word.
    """
    return laid_out(propose(workload, instance_type, nodes, scaling, platform=platform), force=force)


def laid_out(proposal: Proposal, *, force: bool = False) -> Layout:
    """The layout of a proposal. UsageError as `resolve`."""
    findings = check(proposal)
    exists = proposal.data and proposal.accumulation and proposal.replicas
    if errors_among(findings) and not (force and exists):
        raise refusal(proposal, findings)
    return numbers(proposal)


def numbers(proposal: Proposal) -> Layout:
    """The numbers of a proposal as they are, legal or not; what does not divide is 0."""
    words = proposal.words
    return Layout(
        nodes=proposal.nodes,
        ranks_per_node=proposal.ranks,
        world=proposal.world,
        tensor=words.tensor,
        pipeline=words.pipeline,
        context=words.context,
        data=proposal.data,
        shard=proposal.shard,
        replicas=proposal.replicas,
        micro_batch=proposal.micro,
        accumulation=proposal.accumulation,
        global_batch=proposal.global_batch,
        scaling=proposal.scaling,
        expert=words.expert,
        zero=proposal.zero,
        backend=proposal.backend,
    )


def legal_nodes(workload: WorkloadSpec, instance_type: str, limit: int, scaling: Scaling = "strong") -> tuple[int, ...]:
    """All node counts from 1 to `limit` that `resolve` accepts. UsageError for an instance type that cannot run it."""
    one = propose(workload, instance_type, 1, scaling)
    worth = range(1, limit + 1) if scaling == "weak" else [n for n in whole_batches(one) if n <= limit]
    return tuple(n for n in worth if not errors_among(check(one.on(n))))


def check_queue(layout: Layout, queue: Queue, instance_type: str | None = None) -> None:
    """Raises RefusedError when the queue can never have so many nodes (of that type, when one is given)."""
    resources = [r for r in queue.compute_resources if instance_type in {None, r.instance_type}]
    most = sum(resource.max_count for resource in resources)
    if layout.nodes <= most:
        return
    of_type = f" of {instance_type}" if instance_type else ""
    sizes = " + ".join(f"{r.name}: {r.max_count}" for r in resources) or "none"
    raise RefusedError(
        f"The queue {queue.name} has at most {count(most)}{of_type} (max_count of {sizes}), and "
        f"{layout.nodes} do not fit.",
        remedy=f"Use --nodes {most} or fewer, or another queue; or raise max_count in the cluster file and run "
        "trnctl cluster update."
        if most
        else "Use another queue, or add such nodes to this one and run trnctl cluster update.",
    )
