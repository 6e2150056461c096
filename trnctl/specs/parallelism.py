"""One vocabulary for the ways to split training over devices; `plan` compiles it to each training stack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Backend = Literal["torchrun-ddp", "nxd", "nxdt", "fsdp", "smp"]
Stack = Literal["torchrun-ddp", "nxd", "nxdt", "fsdp"]
Checkpointing = Literal["none", "selective", "full"]
Collectives = Literal["nccl", "smddp", "gloo", "neuron"]
Precision = Literal["fp32", "bf16"]
ShardWord = Literal["full", "none"]

STACKS: tuple[Stack, ...] = ("torchrun-ddp", "nxd", "nxdt", "fsdp")
BACKENDS: tuple[Backend, ...] = (*STACKS, "smp")
CHECKPOINTING: tuple[Checkpointing, ...] = ("none", "selective", "full")
COLLECTIVES: tuple[Collectives, ...] = ("nccl", "smddp", "gloo", "neuron")
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")
SHARD_WORDS: tuple[ShardWord, ...] = ("full", "none")
NATIVE_HORIZON = 2  # SMP's default of activation_loading_horizon


@dataclass(frozen=True)
class Activation:
    """What happens to activations between forward and backward: recomputed (`checkpoint`), or moved to host memory
    (`offload`), of which `horizon` groups are on the device at a time. None means that the recipe does not say."""

    checkpoint: Checkpointing | None = None
    offload: bool | None = None
    horizon: int | None = None


@dataclass(frozen=True)
class SmpWords:
    """What only SageMaker's library knows; kept so that its configuration survives the way through ours."""

    fsdp_cache_flush_warnings: bool | None = None
    allow_empty_shards: bool | None = None


@dataclass(frozen=True)
class Parallelism:
    """How a model is spread. None means that the recipe does not say, and the back end's own default holds.

    `backend` None is auto: what the recipe's stack speaks on Trainium, fsdp on GPUs, never smp. `tensor`, `pipeline`,
    `context` and `expert` are degrees. `shard` is how many ranks together hold one copy of the state ("full": all that
    there are; SMP calls it hybrid_shard_degree), `zero` the ZeRO stage. `reduce` and `master_weights` are the
    precision in which gradients are summed and weights are kept by the optimizer.
    """

    backend: Backend | None = None
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    shard: int | ShardWord | None = None
    zero: int | None = None
    reshard_after_forward: bool | None = None
    sequence_parallel: bool | None = None
    ring_attention: bool | None = None
    activation: Activation = field(default_factory=Activation)
    deferred_init: bool | None = None
    collectives: Collectives | None = None
    reduce: Precision | None = None
    master_weights: Precision | None = None
    seed: int | None = None
    smp: SmpWords = field(default_factory=SmpWords)
