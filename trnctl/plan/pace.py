"""How fast a layout trains, and on what that rests: a published row, your own run, or an assumed utilisation.

One definition of MFU holds everywhere: the model's work (six operations a parameter and token, and the attention term
12 x layers x hidden x sequence) in a second, against the dense BF16 peak of all devices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from trnctl.plan.communication import Communication
from trnctl.plan.estimate import predicted_rate
from trnctl.plan.layout import numbers
from trnctl.plan.proposal import Proposal
from trnctl.specs.instances import instance
from trnctl.specs.workload import Published

Ground = Literal["published", "interpolated", "extrapolated", "yours", "assumed", "unknown"]

MFU_DEFINITION = "MFU: 6N + 12·layers·hidden·sequence operations a token, against the dense BF16 peak"
ASSUMED = {"trainium": (0.25, 0.20), "gpu": (0.40, 0.25)}  # the middle of the usual range, and its spread to each side
_TRANSFER = 0.20  # spread of a rate or utilisation that was published for other numbers of nodes, or another layout
_RECOMPUTED = 1 / 3  # of the forward and backward pass: a second forward pass


@dataclass(frozen=True)
class Pace:
    """`rate` is in sequences a second, `step_seconds` for one optimizer step; `spread` is how far off either may be
    (0.2 for ±20 %), 0 where it is published. None for what is not known; `basis` says on what it rests."""

    rate: float | None
    step_seconds: float | None
    mfu: float | None
    spread: float
    ground: Ground
    basis: str


def pace(
    p: Proposal,
    communication: Communication | None = None,
    *,
    mfu: float | None = None,
    own_run: Published | None = None,
) -> Pace:
    """The pace of a legal proposal. `mfu` is the user's word and `own_run` a run of theirs with the same model and
    sequence; then come published rows, the utilisation of the nearest of them, and an assumption."""
    if mfu is not None:
        ratio, words = _against_recipe(p)
        return _at(p, communication, mfu * ratio, 0.0, "yours", f"your MFU of {mfu:.1%}{words}")
    if own_run is not None:
        told = f"{own_run.source}: {own_run.rate:,.1f} seq/s on {own_run.nodes} nodes"
        return _like(p, communication, own_run, "yours", told)
    same = tuple(row for row in p.workload.published if _peak(row.instance_type) == _peak(p.instance_type))
    rate, basis = predicted_rate(replace(p.workload, published=same), numbers(p), p.instance_type)
    if rate is not None and p.ranks == _published_ranks(p):
        return _published(p, rate, basis)
    alike = [row for row in p.workload.published if _kind(row.instance_type) == p.kind]
    rows = sorted(alike, key=lambda row: (row.scaling != p.scaling, abs(row.nodes - p.nodes)))
    if rows and p.model is not None:
        where = "" if rows[0].instance_type == p.instance_type else f" on {rows[0].instance_type}"
        told = f"as published for {rows[0].nodes} nodes{where}, {rows[0].scaling} scaling ({rows[0].source})"
        return _like(p, communication, rows[0], "assumed", told)
    usual, spread = ASSUMED.get(p.kind, (0.0, 0.0))
    if not usual or p.model is None:
        return Pace(None, None, None, 0.0, "unknown", basis)
    ratio, words = _against_recipe(p)
    told = f"assumed MFU of {usual:.0%}{words}, no run of this is published"
    return _at(p, communication, usual * ratio, spread, "assumed", told)


def _published(p: Proposal, rate: float, basis: str) -> Pace:
    """A row of these nodes, or between rows; another layout than the recipe's own wastes more or less."""
    ratio, words = _against_recipe(p)
    grounds: tuple[Ground, ...] = ("published", "interpolated", "extrapolated")
    ground: Ground = next((word for word in grounds if basis.startswith(word)), "assumed")
    if ratio != 1:
        ground = "assumed"
        basis += words
    rate *= ratio
    return Pace(
        rate, p.global_batch / rate, mfu_of(p, rate), 0.0 if ground == "published" else _TRANSFER, ground, basis
    )


def _against_recipe(p: Proposal) -> tuple[float, str]:
    """What this layout leaves of the recipe's own efficiency on these nodes, and the words for it."""
    ratio = efficiency(p) / efficiency(_as_published(p, p.nodes))
    return ratio, f" ({ratio:.2f} × that for another layout)" if ratio != 1 else ""


def _as_published(p: Proposal, nodes: int) -> Proposal:
    """The recipe's own layout, in which its rows were measured."""
    return replace(p, words=p.workload.parallelism, nodes=nodes)


def _peak(instance_type: str) -> float | None:
    facts = instance(instance_type)
    return facts.bf16_tflops if facts is not None else None


def _kind(instance_type: str) -> str:
    facts = instance(instance_type)
    return facts.kind if facts is not None else "unknown"


def _published_ranks(p: Proposal) -> int:
    """Workers of the node that the rows were measured on; another number of workers is another layout."""
    return next(iter(p.workload.ranks_per_node.values()), p.ranks)


def _like(p: Proposal, communication: Communication | None, row: Published, ground: Ground, told: str) -> Pace:
    """The utilisation of a row, corrected for what the layouts waste differently."""
    before = mfu_of_row(p, row)
    if before is None:
        return Pace(None, None, None, 0.0, "unknown", f"the rate is unknown: {told}, and no peak of its type is known")
    scaled = before * efficiency(p) / efficiency(_as_published(p, row.nodes))
    word = "MFU of" if ground == "yours" else "assumed MFU of"
    spread = 0.0 if row.nodes == p.nodes and row.instance_type == p.instance_type else _TRANSFER
    return _at(p, communication, scaled, spread, ground, f"{word} {scaled:.1%}, {told}")


def _at(  # noqa: PLR0917  # private, and called with all of them
    p: Proposal, communication: Communication | None, mfu: float, spread: float, ground: Ground, told: str
) -> Pace:
    if p.model is None or p.facts is None or p.facts.bf16_tflops is None:
        return Pace(None, None, None, 0.0, "unknown", f"the rate is unknown: no peak of {p.instance_type} is known")
    work = p.model.flops_per_token(p.workload.batch.sequence) * p.workload.batch.sequence
    rate = mfu * p.facts.bf16_tflops * 1e12 * p.nodes / work
    step = p.global_batch / rate
    if communication is not None and communication.seconds is not None and communication.seconds > step:
        step = communication.seconds
        rate = p.global_batch / step
        told += "; the network is the limit"
    return Pace(rate, step, mfu_of(p, rate), spread, ground, told)


def mfu_of(p: Proposal, rate: float) -> float | None:
    """The utilisation that a rate (sequences a second) is; None where the shape or the peak is not known."""
    if p.model is None or p.facts is None or p.facts.bf16_tflops is None:
        return None
    sequence = p.workload.batch.sequence
    return rate * sequence * p.model.flops_per_token(sequence) / (p.facts.bf16_tflops * 1e12 * p.nodes)


def mfu_of_row(p: Proposal, row: Published) -> float | None:
    """The utilisation of a published row, on the type that it was measured on."""
    return mfu_of(replace(p, nodes=row.nodes, instance_type=row.instance_type), row.rate)


def bubble(p: Proposal) -> float:
    """What a pipeline waits in a step, as a part of what it works."""
    return (p.words.pipeline - 1) / p.accumulation if p.accumulation else 0.0


def efficiency(p: Proposal) -> float:
    """What is left of the devices' time after pipeline bubbles and recomputation."""
    recomputed = _RECOMPUTED if p.checkpoint == "full" else 0.0
    return 1 / ((1 + bubble(p)) * (1 + recomputed))
