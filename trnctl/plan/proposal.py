"""A proposal: a workload on so many nodes of one type, with every word of its parallelism decided, before any rule
has judged it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trnctl.errors import UsageError
from trnctl.specs.instances import InstanceFacts, instance
from trnctl.specs.model import Model
from trnctl.specs.parallelism import NATIVE_HORIZON, Backend, Checkpointing, Collectives, Parallelism, Precision
from trnctl.specs.workload import Scaling, WorkloadSpec

if TYPE_CHECKING:
    from trnctl.specs.cluster import Platform

_SHARDS = ("fsdp", "smp")
_NXD = ("nxd", "nxdt")


@dataclass(frozen=True)
class Proposal:
    """What is to be judged. `words` are what the recipe says; the properties say what holds where it says nothing.

    Degrees need not divide anything yet: `data`, `replicas` and `accumulation` are 0 where a division leaves a rest.
    """

    workload: WorkloadSpec
    words: Parallelism
    instance_type: str
    ranks: int
    nodes: int
    scaling: Scaling = "strong"
    platform: Platform = "parallelcluster"

    @property
    def facts(self) -> InstanceFacts | None:
        """What is known of the instance type."""
        return instance(self.instance_type)

    @property
    def model(self) -> Model | None:
        """The model's shape, where the recipe gives one."""
        return self.workload.shape

    @property
    def kind(self) -> str:
        """trainium, gpu, cpu, or unknown."""
        return self.facts.kind if self.facts is not None else "unknown"

    @property
    def backend(self) -> Backend:
        """The training stack: the recipe's word, else fsdp on GPUs and what the training code speaks elsewhere."""
        if self.words.backend is not None:
            return self.words.backend
        return "fsdp" if self.kind == "gpu" else self.workload.stack

    @property
    def nxd(self) -> bool:
        """Whether it is one of NeuronX Distributed's two stacks."""
        return self.backend in _NXD

    @property
    def world(self) -> int:
        """Workers in all."""
        return self.nodes * self.ranks

    @property
    def model_ranks(self) -> int:
        """Workers that work on the same sequences: tensor x pipeline x context."""
        return self.words.tensor * self.words.pipeline * self.words.context

    @property
    def data(self) -> int:
        """Workers that see different sequences; 0 when the world does not divide."""
        return _quotient(self.world, self.model_ranks)

    @property
    def sharding_ranks(self) -> int:
        """Workers that may share one copy of the state: all with the same part of the layers."""
        return _quotient(self.world, self.words.tensor * self.words.pipeline)

    @property
    def shard(self) -> int:
        """Workers that together hold one copy of the state."""
        said = self.words.shard
        if said is None:
            said = "full" if self.backend in _SHARDS and self.words.zero != 0 else "none"
        if said == "full":
            return max(1, self.sharding_ranks)
        return 1 if said == "none" else said

    @property
    def replicas(self) -> int:
        """Copies of the state; 0 when the division leaves a rest."""
        return _quotient(self.sharding_ranks, self.shard)

    @property
    def zero(self) -> int:
        """The ZeRO stage."""
        if self.words.zero is not None:
            return self.words.zero
        if self.backend in _SHARDS:
            return 3 if self.shard > 1 else 0
        return 1 if self.nxd else 0

    @property
    def micro(self) -> int:
        """Sequences in one forward pass."""
        return self.workload.batch.micro

    @property
    def accumulation(self) -> int:
        """Forward passes in an optimizer step; 0 when the global batch does not divide."""
        if self.scaling == "weak":
            return self.workload.batch.accumulation
        return _quotient(self.workload.batch.global_size, self.micro * self.data) if self.data else 0

    @property
    def global_batch(self) -> int:
        """Sequences in an optimizer step."""
        return self.micro * self.accumulation * self.data

    @property
    def sequence_parallel(self) -> bool:
        """Whether activations between the tensor-parallel parts are split along the sequence."""
        if self.words.tensor == 1 or self.backend == "torchrun-ddp":
            return False
        return self.words.sequence_parallel is not False

    @property
    def reshards(self) -> bool:
        """Whether gathered parameters are dropped after the forward pass."""
        return self.words.reshard_after_forward is not False

    @property
    def checkpoint(self) -> Checkpointing:
        """How activations are recomputed. NxD's example scripts know only selective and full."""
        return self.words.activation.checkpoint or ("full" if self.backend == "nxd" else "none")

    @property
    def horizon(self) -> int | None:
        """Layers whose activations stay on the device while the others are in host memory; None: all stay."""
        activation = self.words.activation
        return (activation.horizon or NATIVE_HORIZON) if activation.offload else None

    @property
    def collectives(self) -> Collectives:
        """The library that carries the collectives."""
        return self.words.collectives or {"trainium": "neuron", "gpu": "nccl"}.get(self.kind, "gloo")  # type: ignore[return-value]  # mypy widens the dict's values to str

    @property
    def reduce(self) -> Precision:
        """The precision in which gradients are summed: fp32, but as they are where DDP trains in bf16."""
        return self.words.reduce or ("bf16" if self.backend == "torchrun-ddp" else "fp32")

    @property
    def kv_multiplier(self) -> int:
        """How often key-value heads are repeated so that tensor parallelism divides them."""
        model = self.model
        return 1 if model is None else self.words.tensor // math.gcd(model.kv_heads, self.words.tensor)

    @property
    def logical_cores(self) -> int:
        """On Trainium2, how many physical cores one worker has (LNC): 128 cores in sixteen chips, or 8 in one."""
        return 8 * self.facts.devices // self.ranks if self.facts is not None and self.ranks else 1

    def on(self, nodes: int) -> Proposal:
        """The same on another number of nodes."""
        return replace(self, nodes=nodes)


def propose(
    workload: WorkloadSpec,
    instance_type: str,
    nodes: int,
    scaling: Scaling = "strong",
    *,
    platform: Platform = "parallelcluster",
    words: Parallelism | None = None,
) -> Proposal:
    """A proposal to judge; `words` replace the recipe's own. UsageError when the recipe cannot run on that type, and
    for less than one node."""
    ranks = ranks_on(workload, instance_type)
    if ranks is None:
        types = ", ".join(workload.ranks_per_node)
        raise UsageError(
            f"{workload.name} cannot run on {instance_type}: its recipe names no number of workers for that type.",
            remedy=f"Use a queue of {types}, or add the type to ranks_per_node of a recipe of your own.",
        )
    if nodes < 1:
        raise UsageError(
            f"{nodes} nodes cannot run {workload.name}: it needs at least one.", remedy="Give --nodes 1 or more."
        )
    chosen = workload.parallelism if words is None else words
    return Proposal(workload, chosen, instance_type, ranks, nodes, scaling, platform)


def ranks_on(workload: WorkloadSpec, instance_type: str) -> int | None:
    """Workers on each node of that type: the recipe's number. On types that its script does not run on, to plan with,
    one for each device core, where the model is one that another stack can split. None when there is no number."""
    ranks = workload.ranks_per_node.get(instance_type)
    if ranks is None and (workload.plan_only or workload.stack != "torchrun-ddp"):
        facts = instance(instance_type)
        return facts.ranks or None if facts is not None else None
    return ranks


def _quotient(whole: int, part: int) -> int:
    """The exact quotient, or 0."""
    return whole // part if part and whole % part == 0 else 0
