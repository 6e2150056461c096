"""What one device must hold, by row, and whether it can; modelled, with a band where the model is rough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Literal

from trnctl.plan.proposal import Proposal
from trnctl.specs.instances import InstanceFacts
from trnctl.specs.model import Model

Verdict = Literal["fits", "tight", "no", "unknown"]

GIB = 2.0**30
RESERVE = 0.15  # of a device: what the runtime, its buffers and fragmentation take
TIGHT = 0.85  # of what is usable
BAND = (0.8, 1.7)  # of the activations, where none are recomputed or only some
# Bytes of activations of a layer for each token and unit of the hidden size (Korthikanti et al. 2022): all that the
# backward pass reads, and the layer's input alone. What selective recomputation keeps depends on the stack; 24 brings
# the memory that torchtitan reports for 8B on 8 and on 128 GPUs (82.4 and 67.0 GiB) out within 5 %.
KEPT = {"none": 34.0, "selective": 24.0, "full": 2.0}
_SCORES = 5.0  # bytes for each head and pair of tokens, where flash attention does not spare them
_LOGITS = 8.0  # bytes for each token and word: fp32, and their gradient


@dataclass(frozen=True)
class Memory:
    """Bytes on each device, and on the host of each node (`host`: offloaded activations). `low` and `high` bound the
    device's total where activations are rough."""

    parameters: float
    gradients: float
    optimizer: float
    gathered: float
    activations: float
    logits: float
    host: float
    low: float
    high: float
    device: float
    host_capacity: float

    @property
    def rows(self) -> Mapping[str, float]:
        """What lies on the device, by name, in bytes."""
        return {name.name: getattr(self, name.name) for name in fields(self)[:6]}

    @property
    def total(self) -> float:
        """Bytes on the device."""
        return sum(self.rows.values())

    @property
    def usable(self) -> float:
        """Bytes of a device that training may fill."""
        return self.device * (1 - RESERVE)

    @property
    def verdict(self) -> Verdict:
        """`no` when the device or the host cannot hold it, `tight` above 85 % of what is usable."""
        if not self.device:
            return "unknown"
        if self.total > self.usable or self.host > self.host_capacity:
            return "no"
        return "tight" if self.total > TIGHT * self.usable else "fits"

    def as_json(self) -> dict[str, object]:
        """The stable JSON form, in GiB."""
        return {
            **{f"{name}_gib": round(value / GIB, 3) for name, value in self.rows.items()},
            "total_gib": round(self.total / GIB, 3),
            "low_gib": round(self.low / GIB, 3),
            "high_gib": round(self.high / GIB, 3),
            "usable_gib": round(self.usable / GIB, 3),
            "host_gib_per_node": round(self.host / GIB, 3),
            "verdict": self.verdict,
        }


def memory_of(p: Proposal) -> Memory | None:
    """The memory of a proposal that divides; None without the model's shape."""
    model = p.model
    if model is None:
        return None
    share = model.stage_parameters(p.words.pipeline) / p.words.tensor
    parameters, gradients, optimizer = (rate * share for rate in _state_rates(p))
    kept, working = _activations(p, model)
    on_device, on_host = _placed(p, model, kept)
    activations = on_device + working
    logits = _LOGITS * _tokens(p) * model.vocab / p.words.tensor
    facts = p.facts
    rows = (parameters, gradients, optimizer, _gathered(p, model, share), activations, logits)
    rough = p.checkpoint != "full"
    bounds = [sum(rows) + activations * ((side if rough else 1.0) - 1.0) for side in BAND]
    return Memory(
        *rows,
        host=on_host * p.ranks,
        low=bounds[0],
        high=bounds[1],
        device=_device_gib(facts) * GIB / p.ranks if facts is not None else 0.0,
        host_capacity=facts.host_gib * GIB if facts is not None else 0.0,
    )


def _device_gib(facts: InstanceFacts) -> int:
    """All devices' memory; without any, the workers train in the host's."""
    return facts.device_gib if facts.devices else facts.host_gib


def _state_rates(p: Proposal) -> tuple[float, float, float]:
    """Bytes a parameter of the weights, their gradients and Adam's state. 16 in all without sharding, of which the
    fp32 master copy counts as the optimizer's where weights are bf16; ZeRO 1 adds fp32 accumulation of gradients. A
    script that keeps bf16 alone, as BERT's does with stochastic rounding, holds less: this is safe to plan with."""
    master = 10.0 if p.words.master_weights == "bf16" else 12.0
    if p.zero == 3:
        return 4.0 / p.shard, 4.0 / p.shard, 8.0 / p.shard
    if p.zero == 1:
        return 2.0, 4.0, master / max(1, p.data)
    return (2.0, 2.0, master) if p.nxd else (4.0, 4.0, 8.0)


def _gathered(p: Proposal, model: Model, share: float) -> float:
    """bf16 copies of sharded weights: of the layer at work and the next; of all of them when they stay after the
    forward pass."""
    if p.zero != 3 or p.shard == 1:
        return 0.0
    whole = 2.0 * share
    two_layers = 2 * 2.0 * model.layer_parameters / p.words.tensor
    return min(whole, two_layers) + (0.0 if p.reshards else whole)


def _tokens(p: Proposal) -> float:
    """Tokens of a micro-batch on one worker, before tensor parallelism."""
    return p.micro * p.workload.batch.sequence / p.words.context


def _activations(p: Proposal, model: Model) -> tuple[float, float]:
    """Bytes that one layer keeps of one micro-batch, and the working set of the layer that is recomputed."""
    everything = _layer_bytes(p, model, KEPT["none"]) + _scores(p, model)
    if p.checkpoint == "none":
        return everything, 0.0
    kept = _layer_bytes(p, model, KEPT[p.checkpoint])
    return kept, everything if p.checkpoint == "full" else _scores(p, model)


def _layer_bytes(p: Proposal, model: Model, rate: float) -> float:
    """Tensor parallelism splits all of a layer's activations with sequence parallelism, and else all but the ten
    bytes (of 34) around norms and dropout, and the layer's input."""
    tensor, volume = p.words.tensor, _tokens(p) * model.hidden
    if p.sequence_parallel or tensor == 1:
        return rate * volume / tensor
    whole = min(rate, 10.0)
    return (whole + (rate - whole) / tensor) * volume


def _scores(p: Proposal, model: Model) -> float:
    if model.flash_attention:
        return 0.0
    return _SCORES * model.heads * _tokens(p) * p.workload.batch.sequence / p.words.tensor


def _placed(p: Proposal, model: Model, kept: float) -> tuple[float, float]:
    """Bytes of kept activations on the device, and on the host for it. A pipeline's first stage holds as many
    micro-batches as there are stages, each with its part of the layers."""
    layers = -(-model.layers // p.words.pipeline)
    in_flight = min(p.words.pipeline, p.accumulation) if p.accumulation else p.words.pipeline
    if p.horizon is None:
        return layers * in_flight * kept, 0.0
    here = min(layers, p.horizon)
    return here * kept, (layers * in_flight - here) * kept


def ways_to_fit(p: Proposal) -> Iterator[str]:
    """What would bring the memory down, in the words of the recipe."""
    if p.checkpoint != "full" and p.backend != "torchrun-ddp":
        yield "activation: {checkpoint: full}"
    if p.zero == 0 and p.nxd:
        yield "zero: 1"
    if p.backend in {"fsdp", "smp"} and p.shard < p.sharding_ranks:
        yield "shard: full"
    if p.micro > 1:
        yield "a smaller batch.micro"
    if p.backend != "torchrun-ddp" and p.words.tensor < p.ranks:
        yield f"a tensor degree above {p.words.tensor}"
    if p.nxd:
        yield f"a pipeline degree above {p.words.pipeline}"
