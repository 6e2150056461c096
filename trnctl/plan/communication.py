"""What a step sends between nodes and inside them: bytes by kind, and what hybrid sharding would change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trnctl.plan.proposal import Proposal
from trnctl.specs.model import Model

_WEIGHT = 2.0  # bytes of a gathered parameter: bf16
_ACTIVATION = 2.0  # bytes of an activation: bf16
_BYTES = {"fp32": 4.0, "bf16": 2.0}


@dataclass(frozen=True)
class Communication:
    """Bytes of one optimizer step. `between` is what one node sends to others, by kind; `inside` is what one worker
    sends to workers of its own node. `seconds` is what `between` takes at the network's full bandwidth if nothing is
    hidden behind computing; None when the bandwidth is not known. `hybrid` says when hybrid sharding pays."""

    between: Mapping[str, float]
    inside: Mapping[str, float]
    seconds: float | None
    hybrid: str

    @property
    def total(self) -> float:
        """Bytes that one node sends to others."""
        return sum(self.between.values())

    @property
    def dominant(self) -> str:
        """The largest kind between nodes; empty when nothing is sent."""
        sent = {name: size for name, size in self.between.items() if size > 0}
        return max(sent, key=lambda name: sent[name]) if sent else ""

    def as_json(self) -> dict[str, object]:
        """The stable JSON form, in GB."""
        return {
            "between_nodes_gb": {name: round(size / 1e9, 3) for name, size in self.between.items()},
            "between_nodes_total_gb": round(self.total / 1e9, 3),
            "inside_node_gb_per_worker": {name: round(size / 1e9, 3) for name, size in self.inside.items()},
            "dominant": self.dominant,
            "seconds_unhidden": round(self.seconds, 4) if self.seconds is not None else None,
            "hybrid_sharding": self.hybrid,
        }


def communication_of(p: Proposal) -> Communication | None:
    """The communication of a proposal that divides; None without the model's shape."""
    model = p.model
    if model is None:
        return None
    between = {name: size for name, size in {**_state(p, model), **_pipeline(p, model)}.items() if size}
    facts = p.facts
    rate = facts.network_gbs * 1e9 if facts is not None else 0.0
    return Communication(
        between=between,
        inside={"tensor": _tensor(p, model)} if p.words.tensor > 1 else {},
        seconds=sum(between.values()) / rate if rate else None,
        hybrid=_hybrid(p, model),
    )


def _state(p: Proposal, model: Model) -> dict[str, float]:
    """Weights and gradients, in bytes a node and step.

    A node carries the parameters of its pipeline stage, since tensor-parallel workers share a node. They are shared
    out over `group` nodes, and there are `copies` of such groups. All-gather comes twice in every micro-step, before
    forward and before backward (once when weights stay), reduce-scatter once in every micro-step: gradients that
    waited whole for the last one would take as much memory as the model.
    """
    parameters, gradient = model.parameters / p.words.pipeline, _BYTES[p.reduce]
    stage_nodes = max(1.0, p.nodes / p.words.pipeline)
    if p.zero == 1:  # each gradient once to the worker that updates it, each weight once back
        part = _part(stage_nodes)
        return {"reduce-scatter": gradient * parameters * part, "all-gather": _WEIGHT * parameters * part}
    group = min(stage_nodes, max(1.0, p.shard * p.words.tensor / p.ranks))
    copies = stage_nodes / group
    steps = max(1, p.accumulation)
    gathers = (2 if p.reshards else 1) * steps if p.shard > 1 else 0
    return {
        "all-gather": gathers * _WEIGHT * parameters * _part(group),
        "reduce-scatter": steps * gradient * parameters * _part(group) if p.shard > 1 else 0.0,
        "replica all-reduce": 2 * gradient * parameters / group * _part(copies),
    }


def _part(nodes: float) -> float:
    """What of a buffer leaves a node, in a ring of so many."""
    return (nodes - 1) / nodes


def _pipeline(p: Proposal, model: Model) -> dict[str, float]:
    """Activations forward and gradients backward, between stages on different nodes."""
    if p.words.pipeline == 1 or p.nodes == 1:
        return {}
    groups = max(1.0, p.ranks / (p.words.tensor * p.words.context))
    volume = p.micro * p.workload.batch.sequence / p.words.context * model.hidden * _ACTIVATION
    return {"pipeline": 2 * max(1, p.accumulation) * groups * volume}


def _tensor(p: Proposal, model: Model) -> float:
    """Bytes that a worker sends to its tensor-parallel peers: four all-reduces a layer and micro-step (two more where
    the layer is recomputed), of which sequence parallelism makes as many gathers and scatters of the same volume."""
    reduces = 6 if p.checkpoint == "full" else 4
    volume = p.micro * p.workload.batch.sequence / p.words.context * model.hidden * _ACTIVATION
    layers = model.layers / p.words.pipeline
    return reduces * 2 * (p.words.tensor - 1) / p.words.tensor * volume * layers * max(1, p.accumulation)


def _hybrid(p: Proposal, model: Model) -> str:
    """Whether sharding inside a node and replicating between nodes sends less than sharding over all."""
    if p.zero != 3:
        return (
            f"Hybrid sharding does not apply: {p.backend} shards the optimizer's state only."
            if p.zero == 1
            else "Hybrid sharding does not apply: nothing is sharded."
        )
    if p.nodes == 1:
        return "Hybrid sharding does not apply on one node."
    sizes = {name: sum(_state(_with_shard(p, name), model).values()) for name in ("full", "node")}
    told = f"{sizes['node'] / 1e9:,.0f} instead of {sizes['full'] / 1e9:,.0f} GB leave a node in each step"
    if sizes["node"] < 0.999 * sizes["full"]:
        reasons = [f"each of {p.accumulation} micro-steps gathers the weights again"] if p.accumulation > 1 else []
        reasons += ["gradients are summed in bf16"] if p.reduce == "bf16" else []
        return f"Hybrid sharding pays here: with a state in each node, {told}, since {' and '.join(reasons)}."
    if sizes["node"] > 1.001 * sizes["full"]:
        return f"Hybrid sharding costs here: {told}, since weights that stay are gathered once."
    return (
        "Hybrid sharding sends no less here: with one micro-step and fp32 reduction the bytes between nodes are the "
        "same for every shard degree."
    )


def _with_shard(p: Proposal, how: str) -> Proposal:
    inside = max(1, p.ranks // p.words.tensor)
    return replace(p, words=replace(p.words, shard="full" if how == "full" else inside))
