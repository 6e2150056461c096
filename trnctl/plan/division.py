"""Rules of division: what must divide what, so that every worker has the same share and no sequence is lost."""

from __future__ import annotations

import math
from collections.abc import Iterator

from trnctl.findings import Finding, Level
from trnctl.plan.proposal import Proposal
from trnctl.plan.words import count, listed

# Of the public BERT script and NxD's, which divide with `//`.
_SILENTLY = "integer division in the public scripts would train with"


def finding(rule: str, code: str, message: str, remedy: str, *, path: str = "", level: Level = "error") -> Finding:
    """A finding of a rule; `path` is the word of the recipe that it speaks of."""
    return Finding(code, level, message, remedy, path=path, evidence=f"rule {rule}")


def world_divides(p: Proposal) -> Iterator[Finding]:
    """P01: the workers are a whole number of models."""
    if p.data:
        return
    words = p.words
    step = p.model_ranks // math.gcd(p.model_ranks, p.ranks)
    factors = f"tensor {words.tensor} × pipeline {words.pipeline} × context {words.context} = {p.model_ranks:,}"
    yield finding(
        "P01",
        "world-indivisible",
        f"{count(p.nodes)} of {p.instance_type} have {p.world:,} workers, which do not divide by {factors}.",
        f"Use --nodes {step} or a multiple of it, or degrees whose product divides {p.world:,}.",
        path="parallelism",
    )


def shards_divide(p: Proposal) -> Iterator[Finding]:
    """P02: the workers that may share a state are a whole number of shard groups."""
    if p.sharding_ranks and not p.replicas:
        fits = [n for n in divisors(p.sharding_ranks) if n > 1]
        yield finding(
            "P02",
            "shard-indivisible",
            f"{p.sharding_ranks:,} workers can share the state (world {p.world:,} / tensor {p.words.tensor} / pipeline "
            f"{p.words.pipeline}), and groups of {p.shard:,} do not divide them.",
            f"Write shard: full, or one of {listed(fits)}.",
            path="parallelism.shard",
        )


def shard_holds_context(p: Proposal) -> Iterator[Finding]:
    """P03: context-parallel workers hold the same parameters, so they shard them together."""
    if p.shard > 1 and p.shard % p.words.context:
        yield finding(
            "P03",
            "shard-context",
            f"A shard group of {p.shard:,} is no whole number of context groups of {p.words.context}.",
            f"Write a shard that is a multiple of {p.words.context}.",
            path="parallelism.shard",
        )


def experts_divide(p: Proposal) -> Iterator[Finding]:
    """P04: experts are spread over workers that would otherwise be replicas; each stack counts them in its own way."""
    words = p.words
    if words.expert == 1 or not p.data:
        return
    if p.nxd:
        group, ok = "tensor × pipeline × expert", p.world % (words.tensor * words.pipeline * words.expert) == 0
    elif p.backend == "smp":
        group, ok = "shard × tensor × expert", p.world % (p.shard * words.tensor * words.expert) == 0
    else:
        group, ok = "data × context × tensor", (p.data * words.context * words.tensor) % words.expert == 0
    if not ok:
        yield finding(
            "P04",
            "expert-indivisible",
            f"An expert degree of {words.expert} does not divide the {p.world:,} workers ({group} on {p.backend}).",
            "Choose an expert degree that does, or 1.",
            path="parallelism.expert",
        )


def tensor_stays_in_node(p: Proposal) -> Iterator[Finding]:
    """P05: tensor parallelism speaks in every layer, so its workers share a node."""
    tensor = p.words.tensor
    if tensor <= p.ranks and p.ranks % tensor == 0:
        return
    yield finding(
        "P05",
        "tensor-across-nodes",
        f"A tensor degree of {tensor} does not divide the {p.ranks} workers of one {p.instance_type}: it would cross "
        "nodes, in every layer.",
        f"Write a tensor degree of {listed(divisors(p.ranks))}.",
        path="parallelism.tensor",
        level="warning" if p.backend == "fsdp" else "error",
    )


def heads_divide(p: Proposal) -> Iterator[Finding]:
    """P06: every tensor-parallel worker has whole heads and a whole part of the feed-forward layer."""
    model, tensor = p.model, p.words.tensor
    if model is None or tensor == 1:
        return
    if model.heads % tensor or model.ffn % tensor:
        fits = [n for n in divisors(model.heads) if model.ffn % n == 0]
        what = f"{model.heads} heads" if model.heads % tensor else f"a feed-forward width of {model.ffn:,}"
        yield finding(
            "P06",
            "heads-indivisible",
            f"A tensor degree of {tensor} does not divide the {what} of {model.name}.",
            f"Write one of {listed(fits)}.",
            path="parallelism.tensor",
        )
    elif model.kv_heads % tensor and not p.nxd:
        yield finding(
            "P06",
            "kv-heads-indivisible",
            f"A tensor degree of {tensor} does not divide the {model.kv_heads} key-value heads of {model.name}, and "
            f"{p.backend} does not repeat them.",
            f"Write one of {listed(divisors(model.kv_heads))}; nxd and nxdt repeat key-value heads.",
            path="parallelism.tensor",
        )


def sequence_divides(p: Proposal) -> Iterator[Finding]:
    """P07: the sequence is cut evenly, with ring attention's two halves for each context-parallel worker."""
    sequence, words = p.workload.batch.sequence, p.words
    for cut, degree, why in (
        (words.tensor if p.sequence_parallel else 1, words.tensor, "tensor, with sequence parallelism"),
        (2 * words.context if words.context > 1 else 1, words.context, "context, in two halves each"),
    ):
        if sequence % cut:
            yield finding(
                "P07",
                "sequence-indivisible",
                f"A sequence of {sequence:,} tokens does not divide by {cut} ({why}: {degree}).",
                f"Use a sequence that is a multiple of {cut}, or a smaller degree.",
                path="batch.sequence",
            )


def stages_are_filled(p: Proposal) -> Iterator[Finding]:
    """P08: every pipeline stage has layers, as many as the others, and there are micro-batches to fill them all."""
    pipeline, model = p.words.pipeline, p.model
    if pipeline == 1:
        return
    if model is not None and pipeline > model.layers:
        yield finding(
            "P08",
            "pipeline-empty-stage",
            f"{pipeline} pipeline stages are more than the {model.layers} layers of {model.name}.",
            f"Write a pipeline degree of {model.layers} or less.",
            path="parallelism.pipeline",
        )
    elif model is not None and model.layers % pipeline:
        yield finding(
            "P08",
            "pipeline-uneven",
            f"{model.layers} layers do not divide by {pipeline} stages: the longest has {-(-model.layers // pipeline)} "
            "layers, and the others wait for it.",
            f"Even are {listed(divisors(model.layers))}.",
            path="parallelism.pipeline",
            level="warning" if p.nxd else "error",
        )
    if p.accumulation and p.accumulation < pipeline:
        most = p.nodes * p.accumulation // pipeline
        fewer = f"Use {count(most)} or fewer" if most else "Use fewer nodes"
        yield finding(
            "P08",
            "pipeline-starved",
            f"{p.accumulation} micro-batches in a step do not fill {pipeline} pipeline stages.",
            f"{fewer}, a larger global batch, or a pipeline degree of at most {p.accumulation}.",
            path="parallelism.pipeline",
        )


def tied_embeddings_stay_together(p: Proposal) -> Iterator[Finding]:
    """P09: with a pipeline, the embedding and the output layer are on different stages; NxDT cannot tie them then."""
    if p.backend == "nxdt" and p.words.pipeline > 1 and p.model is not None and p.model.tied:
        yield finding(
            "P09",
            "tied-pipeline",
            f"{p.model.name} ties its output layer to the embedding, and nxdt cannot do that over pipeline stages.",
            "Write pipeline: 1, or a model with tied: false.",
            path="parallelism.pipeline",
        )


def batch_divides(p: Proposal) -> Iterator[Finding]:
    """P10 and P11: the global batch is kept exactly."""
    batch = p.workload.batch
    if not p.data:
        return
    if p.scaling == "weak":
        if not batch.accumulation:
            yield finding(
                "P10",
                "accumulation-unknown",
                f"Weak scaling keeps the accumulation, and {p.workload.name} has none that its own nodes allow.",
                "Give batch.accumulation in the recipe, or use --scaling strong.",
                path="batch.accumulation",
            )
    elif not p.accumulation:
        yield _bare_indivisible(p) if p.model_ranks == 1 else _indivisible(p)


def _bare_indivisible(p: Proposal) -> Finding:
    """P11, with data parallelism alone, as the public BERT script has it: the accumulation of one node is divided by
    the nodes."""
    batch = p.workload.batch
    passes = batch.global_size // (batch.micro * p.ranks)
    left = passes // p.nodes
    if left == 0:
        why = (
            f"the {passes} accumulation steps of one node become zero on {p.nodes}, and nothing would be left to train "
            "(integer division in the public script gives exactly that)"
        )
    else:
        truncated = batch.micro * p.world * left
        why = (
            f"its {passes} accumulation steps do not divide by {p.nodes} (integer division in the public script would "
            f"train with {truncated:,} sequences a step instead of {batch.global_size:,}, without a word)"
        )
    return finding(
        "P11",
        "accumulation-indivisible",
        f"{p.workload.name} cannot keep its global batch of {batch.global_size:,} on {count(p.nodes)}: {why}.",
        f"Use --nodes with one of {listed(whole_batches(p))}; or --scaling weak, which keeps the accumulation and "
        f"makes the global batch {batch.micro * batch.accumulation * p.world:,}.",
    )


def _indivisible(p: Proposal) -> Finding:
    batch = p.workload.batch
    share = batch.micro * p.data
    left = batch.global_size // share
    instead = f"{_SILENTLY} {left * share:,}, without a word" if left else "nothing would be left to train"
    return finding(
        "P10",
        "batch-indivisible",
        f"{p.workload.name} cannot keep its global batch of {batch.global_size:,} on {count(p.nodes)}: micro "
        f"{batch.micro} × data {p.data:,} = {share:,} does not divide it ({instead}).",
        f"Use --nodes with one of {listed(whole_batches(p))}; or --scaling weak, which keeps the accumulation.",
        path="batch.global_size",
    )


def whole_batches(p: Proposal) -> list[int]:
    """The node counts on which the workers divide and the global batch is kept, as far as divisions tell."""
    passes, left = divmod(p.workload.batch.global_size, p.micro)
    if left:
        return []
    return [data * p.model_ranks // p.ranks for data in divisors(passes) if data * p.model_ranks % p.ranks == 0]


def divisors(number: int) -> list[int]:
    """All divisors, in order."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
