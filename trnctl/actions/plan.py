"""Plan a workload on several numbers of nodes: what is legal, what fits, how long it takes and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trnctl.errors import RefusedError, TrnctlError, UsageError
from trnctl.findings import Finding, errors_among
from trnctl.plan.layout import check_queue, numbers
from trnctl.plan.outlook import CAPACITY, NOTHING_ASSUMED, Assumptions, Outlook, outlook
from trnctl.plan.pace import MFU_DEFINITION
from trnctl.plan.proposal import Proposal, propose
from trnctl.specs.instances import INSTANCES, PRICE_DATE, instance
from trnctl.specs.workload import Published, Scaling, WorkloadSpec

if TYPE_CHECKING:
    from trnctl.plan.suggest import Suggestion
    from trnctl.specs.cluster import ClusterSpec, Queue

USUAL_TYPE = "trn1.32xlarge"


@dataclass(frozen=True)
class PlanWishes:
    """What the person asked for; empty means the recipe's own. `scaling` None shows both, and judges strong."""

    nodes: Sequence[int] = ()
    scaling: Scaling | None = None
    queue: str | None = None
    instance_type: str | None = None
    suggest: bool = False
    assumptions: Assumptions = NOTHING_ASSUMED


@dataclass(frozen=True)
class PlanAnswer:
    """`outlooks` are in the order of the nodes; `weak` beside them, where both scalings were asked for. `place` says
    where the instance type comes from."""

    workload: WorkloadSpec
    instance_type: str
    place: str
    outlooks: tuple[Outlook, ...]
    weak: tuple[Outlook, ...] = ()
    suggestions: tuple[Suggestion, ...] | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that was found, each once; what is only found under weak scaling is not among it."""
        return tuple(dict.fromkeys(finding for one in self.outlooks for finding in one.findings))

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        from trnctl.plan.targets import compiled  # the screen does without

        beside = {one.proposal.nodes: one for one in self.weak}
        plans = []
        for one in self.outlooks:
            plan = one.as_json()
            if one.proposal.nodes in beside:
                plan["weak"] = beside[one.proposal.nodes].as_json()
            plan["target"] = compiled(one.proposal).as_json() if one.status != "illegal" else None
            plans.append(plan)
        told: dict[str, object] = {
            "findings": [finding.as_json() for finding in self.findings],
            "workload": self.workload.name,
            "instance_type": self.instance_type,
            "place": self.place,
            "mfu_definition": MFU_DEFINITION,
            "price_date": PRICE_DATE,
            "plans": plans,
        }
        if self.suggestions is not None:
            told["suggestions"] = [one.as_json() for one in self.suggestions]
        return told

    def refusal(self) -> TrnctlError | None:
        """The error to end with: UsageError when some of the numbers of nodes is illegal, RefusedError when some does
        not fit; with suggestions, only when there is none."""
        if self.suggestions:
            return None
        for status, kind in (("illegal", UsageError), ("does-not-fit", RefusedError)):
            wrong = [one for one in self.outlooks if one.status == status]
            if wrong:
                found = [f for f in errors_among(wrong[0].findings) if (f.code in CAPACITY) == (status != "illegal")]
                others = tuple(f for one in wrong for f in errors_among(one.findings) if f is not found[0])
                return kind(found[0].message, remedy=found[0].remedy + self._way_on(wrong[0]), findings=others)
        return None

    def _way_on(self, one: Outlook) -> str:
        """Where other layouts are to be had, for those whose stack has any."""
        if self.suggestions is not None or one.proposal.backend == "torchrun-ddp":
            return ""
        return " --suggest lists the layouts that are legal and fit."


def plan_layouts(workload: WorkloadSpec, spec: ClusterSpec | None, wishes: PlanWishes) -> PlanAnswer:
    """Judge every number of nodes. UsageError for a type that is not known or cannot run the recipe; all that is
    wrong with a layout is in the answer instead."""
    instance_type, queue, where = place(workload, spec, wishes)
    platform = spec.platform if spec is not None else "parallelcluster"
    assumptions = wishes.assumptions
    if spec is not None:
        from trnctl.plan.cost import price_of  # only where there is a cluster: a plan without one starts sooner

        assumptions = replace(assumptions, head_usd=price_of([(spec.head_node.instance_type, 1)]).usd)
    nodes = tuple(dict.fromkeys(wishes.nodes)) or (workload.nodes,)

    def proposals(scaling: Scaling) -> list[Proposal]:
        return [propose(workload, instance_type, n, scaling, platform=platform) for n in nodes]

    def judged(scaling: Scaling) -> tuple[Outlook, ...]:
        made = (_judged(p, assumptions) for p in proposals(scaling))
        return tuple(_in_queue(one, queue, instance_type) for one in made)

    chosen = wishes.scaling or "strong"
    return PlanAnswer(
        workload=workload,
        instance_type=instance_type,
        place=where,
        outlooks=judged(chosen),
        weak=judged("weak") if wishes.scaling is None else (),
        suggestions=_suggestions(proposals(chosen), assumptions) if wishes.suggest else None,
    )


def _judged(p: Proposal, assumptions: Assumptions) -> Outlook:
    one = outlook(p, assumptions)
    if one.status == "ok":
        return one
    from trnctl.plan.suggest import reconsidered  # only what is refused needs a search

    return reconsidered(one, assumptions)


def _suggestions(proposals: Iterable[Proposal], assumptions: Assumptions) -> tuple[Suggestion, ...]:
    """Of all numbers of nodes together, cheapest first."""
    from trnctl.plan.suggest import suggest

    found = [one for p in proposals for one in suggest(p, assumptions)]
    return tuple(sorted(found, key=lambda one: one.outlook.cost_usd or one.outlook.hours or 0.0))


def place(workload: WorkloadSpec, spec: ClusterSpec | None, wishes: PlanWishes) -> tuple[str, Queue | None, str]:
    """The instance type, the queue that limits it, and where the type comes from. UsageError for what is not there."""
    if wishes.instance_type is not None:
        if instance(wishes.instance_type) is None:
            known = [facts.type for facts in INSTANCES.values() if facts.devices]
            raise UsageError(f"{wishes.instance_type} is not in the table", remedy=f"known are {', '.join(known)}")
        return wishes.instance_type, None, "as you chose"
    if spec is not None:
        from trnctl.actions.submit import pick_queue

        queue, instance_type = pick_queue(spec, workload, wishes.queue, planning=True)
        return instance_type, queue, f"queue {queue.name} of {spec.name}"
    if wishes.queue is not None:
        raise UsageError("--queue names a queue of a cluster file, and there is none", remedy="name the file with -c")
    own = next(iter(workload.ranks_per_node), None)
    if own is not None:
        return own, None, "the recipe's own type: there is no cluster file"
    return USUAL_TYPE, None, "assumed: there is no cluster file"


def _in_queue(one: Outlook, queue: Queue | None, instance_type: str) -> Outlook:
    """The outlook, with a finding where the queue can never have so many nodes."""
    if queue is None or one.status == "illegal":
        return one
    try:
        check_queue(numbers(one.proposal), queue, instance_type)
    except RefusedError as refused:
        finding = Finding("queue-limit", "error", refused.message, refused.remedy, path="nodes")
        return replace(one, findings=(*one.findings, finding))
    return one


def own_row(results: Mapping[str, object], workload: WorkloadSpec) -> Published:
    """A run's results.json as a row to plan from. UsageError when it is of something else, or holds no rate."""
    rate, nodes = results.get("average_throughput"), results.get("nodes")
    run = str(results.get("run") or "the run")
    if not isinstance(rate, int | float) or not isinstance(nodes, int) or rate <= 0 or nodes <= 0:
        raise UsageError(f"{run} has no throughput to plan from", remedy="take a run that has trained for some steps")
    for word, here in (("model", workload.model), ("sequence", workload.batch.sequence)):
        if results.get(word) != here:
            raise UsageError(
                f"{run} was of {word} {results.get(word)}, and {workload.name} has {here}",
                remedy="take a run of the same model and sequence",
            )
    if results.get("unit") != "seq/s":
        raise UsageError(f"{run} counts {results.get('unit')}, not seq/s", remedy="take a run that counts sequences")
    source = f"{run}, EMULATED" if results.get("emulated") else run
    scaling: Scaling = "weak" if results.get("scaling") == "weak" else "strong"
    instance_type = str(results.get("instance_type") or USUAL_TYPE)
    return Published(nodes=nodes, rate=float(rate), scaling=scaling, source=source, instance_type=instance_type)
