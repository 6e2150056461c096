"""All rules of a layout, in their order, and the judgement that they make together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trnctl.errors import UsageError
from trnctl.findings import Finding, errors_among
from trnctl.plan import division, stacks
from trnctl.plan.proposal import Proposal

Rule = Callable[[Proposal], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    division.world_divides,  # P01
    division.shards_divide,  # P02
    division.shard_holds_context,  # P03
    division.experts_divide,  # P04
    division.tensor_stays_in_node,  # P05
    division.heads_divide,  # P06
    division.sequence_divides,  # P07
    division.stages_are_filled,  # P08
    division.tied_embeddings_stay_together,  # P09
    division.batch_divides,  # P10, P11
    stacks.offload_needs_checkpointing,  # P12
    stacks.smp_has_its_places,  # P13
    stacks.smddp_has_its_places,  # P14
    stacks.collectives_fit_the_device,  # P14
    stacks.nxd_has_its_words,  # P15
    stacks.words_are_known,  # P15
    stacks.trn2_has_its_degrees,  # P16
    stacks.backend_fits_the_device,  # P17
    stacks.workers_are_legal,  # P18
)


def check(proposal: Proposal) -> list[Finding]:
    """Everything that the rules have to say, in their order; a proposal without errors is legal."""
    return [found for rule in RULES for found in rule(proposal)]


def refusal(proposal: Proposal, findings: list[Finding]) -> UsageError:
    """The error of an illegal proposal: its first problem in the message, the others beside it."""
    first, *others = errors_among(findings)
    return UsageError(first.message, remedy=first.remedy, findings=others)
