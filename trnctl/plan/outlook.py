"""All that is known of a proposal before it runs: whether it is legal, whether it fits, how long and how dear."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from trnctl.errors import RefusedError
from trnctl.findings import Finding, errors_among
from trnctl.plan.communication import Communication, communication_of
from trnctl.plan.layout import Layout, laid_out, numbers
from trnctl.plan.memory import GIB, Memory, memory_of, ways_to_fit
from trnctl.plan.pace import Pace, pace
from trnctl.plan.proposal import Proposal
from trnctl.plan.rules import check
from trnctl.plan.words import count
from trnctl.specs.instances import PRICE_DATE, PRICE_REGION
from trnctl.specs.workload import Published

Status = Literal["ok", "illegal", "does-not-fit"]


@dataclass(frozen=True)
class Assumptions:
    """What the user gives instead of what is known: dollars an hour for a node, the utilisation, the tokens to train
    on, a run of their own. `head_usd` is the head node's price an hour, where there is a cluster."""

    price: float | None = None
    mfu: float | None = None
    tokens: float | None = None
    own_run: Published | None = None
    head_usd: float = 0.0


NOTHING_ASSUMED = Assumptions()


@dataclass(frozen=True)
class Outlook:
    """One proposal, judged. An illegal one has findings alone; `hours` is training, without `compile_hours`."""

    proposal: Proposal
    findings: tuple[Finding, ...]
    layout: Layout
    memory: Memory | None = None
    communication: Communication | None = None
    pace: Pace | None = None
    tokens: float = 0.0
    steps: int = 0
    hours: float | None = None
    compile_hours: float = 0.0
    cost_usd: float | None = None
    cost_basis: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def status(self) -> Status:
        """Legality is judged before capacity."""
        codes = {finding.code for finding in errors_among(self.findings)}
        if codes - CAPACITY:
            return "illegal"
        return "does-not-fit" if codes else "ok"

    @property
    def basis(self) -> str:
        """On what time and cost rest."""
        return "; ".join(part for part in (self.pace.basis if self.pace else "", self.cost_basis) if part)

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        made = numbers(self.proposal)
        names = (
            "world", "tensor", "pipeline", "context", "data", "shard", "replicas", "micro_batch", "accumulation",
            "global_batch", "expert", "zero", "backend",
        )  # fmt: skip
        tempo = self.pace
        return {
            "nodes": self.proposal.nodes,
            "scaling": self.proposal.scaling,
            "status": self.status,
            "layout": {name: getattr(made, name) for name in names},
            "memory": self.memory.as_json() if self.memory else None,
            "communication": self.communication.as_json() if self.communication else None,
            "step_seconds": tempo.step_seconds if tempo else None,
            "sequences_per_second": tempo.rate if tempo else None,
            "tokens_per_second": tempo.rate * self.proposal.workload.batch.sequence if tempo and tempo.rate else None,
            "mfu": tempo.mfu if tempo else None,
            "spread": tempo.spread if tempo else None,
            "source": tempo.ground if tempo else None,
            "tokens": self.tokens,
            "steps": self.steps,
            "time_hours": self.hours,
            "compile_hours": self.compile_hours,
            "cost_usd": self.cost_usd,
            "basis": self.basis,
            "notes": list(self.notes),
            "findings": [finding.as_json() for finding in self.findings],
        }


CAPACITY = frozenset({"memory-exceeded", "host-memory-exceeded", "queue-limit"})


def outlook(p: Proposal, assumptions: Assumptions = NOTHING_ASSUMED) -> Outlook:
    """Judge a proposal, and estimate it where it is legal."""
    findings = check(p)
    if errors_among(findings):
        return Outlook(p, tuple(findings), numbers(p))
    memory, communication = memory_of(p), communication_of(p)
    findings += memory_findings(p, memory)
    tempo = pace(p, communication, mfu=assumptions.mfu, own_run=assumptions.own_run)
    batch = p.workload.batch
    tokens = assumptions.tokens or float(p.workload.steps * batch.global_size * batch.sequence)
    hours = tokens / (tempo.rate * batch.sequence) / 3600 if tempo.rate else None
    compile_hours = (p.workload.compile_minutes or 0.0) / 60 if p.workload.compile != "none" else 0.0
    cost, basis = _cost(p, assumptions, hours, compile_hours)
    return Outlook(
        p,
        tuple(findings),
        numbers(p),
        memory,
        communication,
        tempo,
        tokens=tokens,
        steps=math.ceil(tokens / (p.global_batch * batch.sequence)),
        hours=hours,
        compile_hours=compile_hours,
        cost_usd=cost,
        cost_basis=basis,
        notes=tuple(_claims(p, hours)) if assumptions.tokens is None else (),
    )


def memory_findings(p: Proposal, memory: Memory | None) -> list[Finding]:
    """What memory forbids, and what is only close; at most one finding."""
    if memory is None:
        return [
            Finding(
                "model-shape-unknown",
                "info",
                "The recipe gives no shape of the model, so that memory and communication are not computed.",
                "Add model: {preset: …}, or layers, hidden, heads, ffn and vocab.",
                path="model",
            )
        ]
    if memory.device and memory.total > memory.usable:
        return [_exceeded(p, memory)]
    if memory.host > memory.host_capacity > 0:
        return [_host_exceeded(p, memory)]
    if memory.verdict == "tight" or memory.high > memory.usable > 0:
        return [_tight(p, memory)]
    return []


def _exceeded(p: Proposal, memory: Memory) -> Finding:
    return Finding(
        "memory-exceeded",
        "error",
        f"{p.workload.name} on {count(p.nodes)} as {layout_words(p)} needs {memory.total / GIB:.1f} GiB a worker, more "
        f"than the {_usable(p, memory)} (15 % of {memory.device / GIB:.0f} are kept free).",
        f"What would help: {'; '.join([*ways_to_fit(p), 'more nodes'])}.",
        path="parallelism",
    )


def _host_exceeded(p: Proposal, memory: Memory) -> Finding:
    return Finding(
        "host-memory-exceeded",
        "error",
        f"Offloaded activations take {memory.host / GIB:,.0f} GiB on the host of each node, more than the "
        f"{memory.host_capacity / GIB:,.0f} GiB of {p.instance_type}.",
        "Use a smaller batch.micro or sequence, or leave offload out.",
        path="parallelism.activation.offload",
    )


def _tight(p: Proposal, memory: Memory) -> Finding:
    return Finding(
        "memory-tight",
        "warning",
        f"{layout_words(p)} on {count(p.nodes)} needs {memory.total / GIB:.1f} GiB (between {memory.low / GIB:.1f} and "
        f"{memory.high / GIB:.1f}) of the {_usable(p, memory)}.",
        f"What would help: {'; '.join(ways_to_fit(p)) or 'more nodes'}.",
        path="parallelism",
    )


def _usable(p: Proposal, memory: Memory) -> str:
    return f"{memory.usable / GIB:.1f} GiB that {p.instance_type} has for each of {p.ranks} workers"


def layout_words(p: Proposal) -> str:
    """`tp32 pp8 dp4`; degrees of 1 are left out."""
    shards = p.shard > 1
    degrees = [
        ("tp", p.words.tensor), ("pp", p.words.pipeline), ("cp", p.words.context), ("ep", p.words.expert),
        ("dp", p.data if not shards else 1), ("shard", p.shard), ("rep", p.replicas if shards else 1),
    ]  # fmt: skip
    return " ".join(f"{name}{degree}" for name, degree in degrees if degree != 1) or "dp1"


def _cost(p: Proposal, assumed: Assumptions, hours: float | None, compile_hours: float) -> tuple[float | None, str]:
    listed = p.facts.price_usd if p.facts is not None else None
    price = assumed.price if assumed.price is not None else listed
    if price is None:
        return None, f"no price of {p.instance_type} is known (--price gives one)"
    source = "your price" if assumed.price is not None else f"on-demand list price of {PRICE_REGION}, {PRICE_DATE}"
    parts = ["the head node"] if assumed.head_usd else []
    parts += [f"{compile_hours * 60:.0f} min of compiling"] if compile_hours else []
    with_ = f", with {' and '.join(parts)}" if parts else ""
    basis = f"${price:,.2f} a node and hour, {source}{with_}; without storage"
    if hours is None:
        return None, basis
    return (hours + compile_hours) * (p.nodes * price + assumed.head_usd), basis


def _claims(p: Proposal, hours: float | None) -> list[str]:
    """What others say of the same run, held against the prediction."""
    told = []
    for claim in p.workload.claims:
        if claim.nodes == p.nodes and p.scaling == "strong" and hours is not None:
            holds = "agrees" if hours < claim.hours_under else "does not agree"
            told.append(
                f"{claim.source} says under {claim.hours_under:g} h on {count(claim.nodes)}: {hours:.1f} h {holds}."
            )
    return told


@dataclass(frozen=True)
class Admitted:
    """A layout that may be submitted, and the codes of what `force` overruled."""

    layout: Layout
    overruled: tuple[str, ...] = ()


def admit(p: Proposal, *, force: bool = False) -> Admitted:
    """The same judgement for a submit: UsageError when it is illegal, RefusedError when it does not fit. `force`
    overrules all but the rules of division."""
    layout = laid_out(p, force=force)
    findings = errors_among([*check(p), *memory_findings(p, memory_of(p))])
    too_large = [finding for finding in findings if finding.code in CAPACITY]
    if too_large and not force:
        raise RefusedError(too_large[0].message, remedy=too_large[0].remedy)
    return Admitted(layout, tuple(finding.code for finding in findings))
