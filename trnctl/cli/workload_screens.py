"""What `workloads list` and `workloads show` draw."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen, finding_line
from trnctl.cli.words import plural

if TYPE_CHECKING:
    from trnctl.actions.workloads import Description
    from trnctl.plan.layout import Layout
    from trnctl.specs.workload import WorkloadSpec


def listed(screen: Screen, recipes: Sequence[WorkloadSpec], own: Sequence[str]) -> None:
    """`workloads list`."""
    if screen.json:
        from trnctl.actions.workloads import catalogue

        screen.data({"workloads": catalogue(recipes, own)})
        return
    rows = [(_marked(one, own), one.title, one.nodes, "plan" if one.plan_only else "submit") for one in recipes]
    screen.table(["NAME", "WHAT", "NODES", "CAN BE"], rows, right=(2,))
    if any(one.experimental for one in recipes):
        screen.say("! experimental; trnctl workloads show NAME tells why, and what each one runs", style="dim")


def _marked(one: WorkloadSpec, own: Sequence[str]) -> str:
    mark = " !" if one.experimental else ""
    return f"{one.name}{mark}" + (" (yours)" if one.name in own else "")


def shown(screen: Screen, described: Description) -> None:
    """`workloads show`."""
    recipe = described.recipe
    if screen.json:
        screen.data(described.as_json())
        return
    screen.text(f"{recipe.name} — {recipe.title}")
    for name, words in [*_what(described), *_command(described), *_software(described), *_risk(described)]:
        if words:
            screen.field(name, words, data=True)
    for finding in described.findings:
        screen.out.print(finding_line(finding))
    _provenance(screen, recipe)
    if recipe.plan_only:
        screen.say(f"  next: trnctl plan {recipe.name}", style="dim")
    else:
        screen.say(f"  next: trnctl plan {recipe.name}; trnctl submit {recipe.name} --dry-run", style="dim")


def _what(described: Description) -> Iterable[tuple[str, str]]:
    recipe, layout = described.recipe, described.layout
    yield "plan only", recipe.plan_only
    yield "! unproven", recipe.experimental
    model = recipe.shape
    size = f" ({model.parameters / 1e9:,.3g}B parameters)" if model is not None else ""
    yield "model", f"{recipe.model}{size}, sequences of {recipe.batch.sequence:,} tokens, {recipe.steps:,} steps"
    yield "data", recipe.dataset
    types = ", ".join(recipe.ranks_per_node) or described.instance_type
    yield "on", f"{plural(layout.nodes, 'node')} of {types}, {layout.ranks_per_node} workers each; {recipe.stack}"
    yield "layout", layout_words(layout)
    counts = ", ".join(map(str, described.legal))
    yield "nodes", f"{counts}: what divides the batch; trnctl plan tells what fits" if counts else "none is legal"
    if recipe.from_run.recipes:
        yield "needs", f"a run of {' or '.join(recipe.from_run.recipes)} (--from RUN): {recipe.from_run.why}"


def layout_words(layout: Layout) -> str:
    """`tensor 32, data 4; 1 × 256 × 4 = 1,024 sequences a step`."""
    degrees = {name: getattr(layout, name) for name in ("tensor", "pipeline", "context")}
    split = ", ".join([*(f"{name} {degree}" for name, degree in degrees.items() if degree > 1), f"data {layout.data}"])
    batch = f"{layout.micro_batch} × {layout.accumulation:,} × {layout.data:,} = {layout.global_batch:,}"
    return f"{split}; {batch} sequences a step"


def _command(described: Description) -> Iterable[tuple[str, str]]:
    recipe, filled = described.recipe, described.filled
    if filled is None:
        return
    yield from _fetched(recipe)
    yield "arguments", shlex.join(filled.training)
    yield "environment", shlex.join(f"{name}={value}" for name, value in filled.environment.items())
    trial = f"neuron_parallel_compile{f', about {recipe.compile_minutes:g} min' if recipe.compile_minutes else ''}"
    yield "compile", trial if recipe.compile != "none" else "just in time: there is no compile stage"
    yield "data from", recipe.data_source.replace("{data}", "MOUNT/trnctl/data")


def _fetched(recipe: WorkloadSpec) -> Iterable[tuple[str, str]]:
    """What must lie on shared storage, and where it comes from."""
    source = recipe.source
    if source.shipped:
        yield "code", f"trnctl's own example {source.shipped}, {recipe.script}: it comes with each run"
    elif recipe.workdir:
        yield "code", f"{recipe.workdir}/{recipe.script} of your own, as it is at submit"
    else:
        yield "code", f"{source.repository} at {source.commit[:12]}, {source.path}/{recipe.script}"
    yield "packages", " ".join(recipe.requirements)
    for data in recipe.data:
        yield "data from", f"{data.source} → MOUNT/trnctl/data/{data.path}"
    for model in recipe.hub:
        yield "model from", f"the Hugging Face hub: {model.model} at {model.revision[:12]}"


def _software(described: Description) -> Iterable[tuple[str, str]]:
    wanted, cluster = described.recipe.software, described.cluster
    ends = (wanted.first_sdk, wanted.last_sdk)
    to = f" to {ends[1]}" if ends[1] else " or later"
    releases = f"Neuron {ends[0] or 'any'}{to}" if any(ends) else ""
    yield "software", " with ".join(part for part in (releases, " or ".join(wanted.os)) if part)
    if cluster is not None and not described.queues:
        yield "", f"{cluster.name} has no queue of nodes that it runs on"
    elif cluster is not None:
        said = "which can run it" if not described.findings else "see below"
        yield "", f"{cluster.name} has Neuron {cluster.neuron_sdk} with {cluster.os}, {said}"


def _risk(described: Description) -> Iterable[tuple[str, str]]:
    if described.recipe.plan_only:
        return
    yield "! at risk" if not described.risk.on_signal else "at risk", described.risk.words()


def _provenance(screen: Screen, recipe: WorkloadSpec) -> None:
    """What is published, where sources disagree, and where each number comes from."""
    for row in recipe.published:
        note = f" ({row.note})" if row.note else ""
        words = f"{row.rate:,.6g} {recipe.log.unit} on {plural(row.nodes, 'node')}, {row.scaling}: {row.source}{note}"
        screen.field("published", words, data=True)
    for choice in recipe.choices:
        screen.field("choice", f"{choice.what}: {choice.ours}", data=True)
        for who, said in choice.sources.items():
            screen.field("", f"— {who}: {said}", data=True)
        screen.field("", f"why: {choice.why}", data=True)
    for what, where in recipe.sources.items():
        screen.field("source", f"{what}: {where}", data=True)
