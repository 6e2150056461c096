"""All legal layouts of a model on so many nodes, the cheapest first, and why each stands where it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trnctl.findings import Finding, errors_among
from trnctl.plan.division import divisors
from trnctl.plan.memory import GIB
from trnctl.plan.outlook import NOTHING_ASSUMED, Assumptions, Outlook, layout_words, outlook
from trnctl.plan.pace import bubble
from trnctl.plan.proposal import Proposal
from trnctl.plan.rules import check
from trnctl.plan.words import count
from trnctl.specs.parallelism import CHECKPOINTING, Activation, Parallelism

_FURTHEST = 1024  # nodes
_FASTER_INSIDE = 40  # links inside a node together, by the network: 61 on trn1 and 41 on trn2, by Neuron's pages


@dataclass(frozen=True)
class Suggestion:
    """A legal layout that fits, and the reason for its place."""

    outlook: Outlook
    reason: str

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        activation = self.outlook.proposal.words.activation
        return {"reason": self.reason, "checkpoint": activation.checkpoint or "none", **self.outlook.as_json()}


def legal_proposals(p: Proposal) -> Iterator[Proposal]:
    """Every legal choice of tensor, pipeline and shard degree and of checkpointing, with the recipe's other words."""
    for words in _choices(p):
        candidate = replace(p, words=words)
        if not errors_among(check(candidate)):
            yield candidate


def suggest(p: Proposal, assumptions: Assumptions = NOTHING_ASSUMED) -> list[Suggestion]:
    """What fits, cheapest first. Equal costs: less traffic first, then more room in memory."""
    seen = [outlook(candidate, assumptions) for candidate in legal_proposals(p)]
    fitting = sorted((one for one in seen if one.status == "ok"), key=_place)
    return [Suggestion(one, _reason(one)) for one in fitting]


def least_memory(p: Proposal) -> Outlook | None:
    """The legal layout that needs the least memory, whether it fits or not; None when nothing is legal."""
    seen = [outlook(candidate) for candidate in legal_proposals(p)]
    return min(seen, key=lambda one: one.memory.total if one.memory else 0.0, default=None)


def nodes_that_fit(p: Proposal) -> Outlook | None:
    """The smallest doubling of the nodes on which some legal layout fits, in its layout with the most room."""
    nodes = p.nodes
    while (nodes := nodes * 2) <= _FURTHEST:
        found = least_memory(p.on(nodes))
        if found is not None and found.status == "ok":
            return found
    return None


def _choices(p: Proposal) -> Iterator[Parallelism]:
    words = p.words
    plain = p.backend == "torchrun-ddp"
    for tensor in [1] if plain else divisors(p.world):
        left = p.world // tensor
        pipelines = [n for n in divisors(left) if p.model is None or n <= p.model.layers] if p.nxd else [1]
        shards = divisors(left) if p.backend in {"fsdp", "smp"} else [None]
        for pipeline in pipelines:
            for shard in shards:
                for checkpoint in ("none",) if plain else CHECKPOINTING:
                    yield replace(
                        words,
                        tensor=tensor,
                        pipeline=pipeline,
                        shard="none" if shard == 1 else shard,
                        zero=words.zero if shard is None else None,
                        activation=replace(words.activation, checkpoint=checkpoint)
                        if checkpoint != "none"
                        else Activation(checkpoint="none"),
                    )


def _place(one: Outlook) -> tuple[float, bool, float, float]:
    """Cost, else time, to three digits; then tight ones last, traffic, memory."""
    worth = one.cost_usd if one.cost_usd is not None else one.hours or 0.0
    memory, traffic = one.memory, one.communication
    sent = (
        (sum(traffic.inside.values()) * one.proposal.ranks / _FASTER_INSIDE + traffic.total)
        if traffic is not None
        else 0.0
    )
    return (
        float(f"{worth:.3g}"),
        memory is not None and memory.verdict == "tight",
        sent,
        memory.total if memory is not None else 0.0,
    )


def _reason(one: Outlook) -> str:
    """What speaks for it and against it, in the order in which they were compared."""
    p, parts = one.proposal, []
    if p.words.pipeline > 1:
        parts.append(f"bubble {bubble(p):.1%}")
    elif p.nxd:
        parts.append("no bubble")
    if p.checkpoint == "full":
        parts.append("+33 % work")
    if one.communication is not None and one.communication.total:
        parts.append(f"{one.communication.total / 1e9:,.0f} GB sent")
    if one.memory is not None and one.memory.device:
        parts.append(f"{(one.memory.usable - one.memory.total) / GIB:.1f} GiB free")
        parts += ["tight"] if one.memory.verdict == "tight" else []
    return ", ".join(parts)


def reconsidered(one: Outlook, assumptions: Assumptions = NOTHING_ASSUMED) -> Outlook:
    """The same outlook with a better way out where it is refused: which layout would fit on these nodes or more. Where
    the recipe's degrees do not divide the workers and no other legal layout could hold the model either, the nodes
    are too few, and that is said: capacity, not a division, is what is wrong."""
    p = one.proposal
    codes = {finding.code for finding in errors_among(one.findings)}
    if codes == {"memory-exceeded"}:
        return _with_way_out(one, one.findings[-1])
    if "world-indivisible" not in codes:
        return one
    least = least_memory(p)
    if least is None:
        return one
    if least.status == "ok":
        first = replace(
            one.findings[0],
            remedy=f"{one.findings[0].remedy} As {layout_words(least.proposal)} it would fit on {count(p.nodes)}.",
        )
        return replace(one, findings=(first, *one.findings[1:]))
    judged = outlook(least.proposal, assumptions)
    finding = judged.findings[-1]
    told = (
        f"{p.workload.name} does not fit on {count(p.nodes)} in any legal layout: {layout_words(least.proposal)} needs "
        f"least, and that is {finding.message.partition(' needs ')[2]}"
    )
    return _with_way_out(judged, replace(finding, message=told))


def _with_way_out(one: Outlook, finding: Finding) -> Outlook:
    """The finding of memory, with the number of nodes that would hold the model."""
    more = nodes_that_fit(one.proposal)
    if more is not None:
        told = f"On {count(more.proposal.nodes)}, {layout_words(more.proposal)} would fit."
        finding = replace(finding, remedy=f"{told} {finding.remedy}")
    return replace(one, findings=(*one.findings[:-1], finding))
