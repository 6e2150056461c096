"""Recipe text -> WorkloadSpec: every problem at once, each with file and line."""

from __future__ import annotations

import re

from trnctl.specs.parallelism import STACKS
from trnctl.specs.parallelism_loading import read_model, read_parallelism
from trnctl.specs.preparation_loading import INSIDE, read_data, read_hub, read_requirements, read_source
from trnctl.specs.reading import Section, matching, read
from trnctl.specs.sdk import ROWS, unknown_sdk
from trnctl.specs.workload import (
    COMPLETE_WHEN,
    Batch,
    Checkpoint,
    Choice,
    Claim,
    FromRun,
    LogPattern,
    Published,
    Software,
    Source,
    WorkloadSpec,
)
from trnctl.specs.workload_checks import check_batch, check_from_run, check_names, check_placeholders

_NAME = matching(
    "name-format",
    r"[a-z0-9][a-z0-9.-]{0,39}",
    "cannot name a recipe: its runs' folders and jobs are called after it",
    "Use at most 40 small letters, digits, dots and hyphens, beginning with a letter or digit.",
)
_PORTS = matching(
    "ports-format",
    r"[0-9]{1,5}(,[0-9]{1,5})*",
    "is no list of ports",
    'Write ports with commas between, in quotes: "44000,48620".',
)
_GROUPS = {"step", "loss", "throughput"}
_LAST_PORT = 65535


def load_workload(text: str | bytes, path: str) -> WorkloadSpec:
    """The recipe in a file's text; `path` is only named in messages.

    Raises UsageError whose findings hold every problem, unknown keys with the nearest known one.
    """
    root = read(text, path, to_start="`trnctl workloads new` writes one to start from.")
    batch = root.section("batch")
    spec = _workload(root, batch)
    check_batch(root, batch, spec)
    check_names(root, spec)
    check_placeholders(root, spec)
    check_from_run(root, spec)
    root.finish()
    return spec


def _workload(root: Section, batch: Section) -> WorkloadSpec:
    ports = root.text("reserved_ports", "48620", rule=_PORTS)
    plan_only = root.text("plan_only", "")
    nodes = root.integer("nodes", 1, minimum=1)
    ranks = _ranks(root, needed=not plan_only)
    parallelism = read_parallelism(root.section("parallelism"))
    model, shape = read_model(root)
    source, workdir = (Source("", ""), "") if plan_only else read_source(root)
    sharing = parallelism.tensor * parallelism.pipeline * parallelism.context
    return WorkloadSpec(
        name=root.text("name", rule=_NAME),
        title=root.text("title"),
        source=source,
        workdir=workdir,
        script="" if plan_only else root.text("script", rule=INSIDE),
        arguments=root.scalars("arguments"),
        batch=_batch(batch, nodes * next(iter(ranks.values()), 0) // sharing),
        steps=root.integer("steps", minimum=1),
        log=LogPattern(step="") if plan_only else _log(root.section("log")),
        checkpoint=Checkpoint(pattern="") if plan_only else _checkpoint(root.section("checkpoint")),
        nodes=nodes,
        ranks_per_node=ranks,
        environment=root.mapping("environment"),
        multi_node_environment=root.mapping("multi_node_environment"),
        compile=root.choice("compile", ("neuron_parallel_compile", "none"), "neuron_parallel_compile"),
        overrides=root.scalars("overrides"),
        compile_arguments=root.scalars("compile_arguments"),
        compile_overrides=root.scalars("compile_overrides"),
        compile_environment=root.mapping("compile_environment"),
        compile_minutes=root.number("compile_minutes", None, minimum=0),
        data=tuple(map(read_data, root.sections("data"))),
        data_source=root.text("data_source", ""),
        requirements=read_requirements(root),
        hub=tuple(map(read_hub, root.sections("hub"))),
        graph_neutral=root.texts("graph_neutral"),
        master_port=root.integer("master_port", 2022, minimum=1024, maximum=_LAST_PORT),
        reserved_ports=tuple(int(port) for port in ports.split(",") if port.isdigit()),
        virtualenv=root.text("virtualenv", ""),
        dataset=root.text("dataset", ""),
        model=model,
        shape=shape,
        parallelism=parallelism,
        stack=root.choice("stack", STACKS, "torchrun-ddp"),
        plan_only=plan_only,
        experimental=root.text("experimental", ""),
        from_run=_from_run(root.section("from_run"), given=root.has("from_run")),
        software=_software(root.section("software")),
        choices=tuple(map(_choice, root.sections("choices"))),
        published=tuple(map(_published, root.sections("published"))),
        claims=tuple(map(_claim, root.sections("claims"))),
        sources=root.mapping("sources"),
    )


def _batch(section: Section, data: int) -> Batch:
    """`data` is how many workers see different sequences on the recipe's own nodes; with it, the accumulation follows
    from the global batch where the recipe does not give it."""
    whole, micro = section.integer("global", minimum=1), section.integer("micro", minimum=1)
    accumulation = section.integer("accumulation", None, minimum=1)
    if accumulation is None:
        accumulation = whole // (micro * data) if micro * data else 0
        if whole and micro and data and accumulation * micro * data != whole:
            section.problem(
                "batch-product",
                f"micro batches of {micro} on {data} workers with different data do not divide {whole:,}",
                "Change the global size, the micro batch, or the recipe's `nodes`.",
                key="global",
            )
            accumulation = 0
    return Batch(whole, micro, accumulation, section.integer("sequence", minimum=1))


def _log(section: Section) -> LogPattern:
    step = section.text("step")
    try:
        groups = set(re.compile(step).groupindex)
    except re.error as error:
        section.problem("bad-pattern", f"The pattern is no regular expression: {error}", "Correct it.", key="step")
    else:
        if step and ("step" not in groups or groups - _GROUPS):
            section.problem(
                "bad-pattern",
                f"The pattern has the groups {', '.join(sorted(groups)) or 'none'}, but needs `step` and knows "
                "only `loss` and `throughput` besides",
                r"Name its groups, as in `step (?P<step>\d+) loss (?P<loss>\S+)`.",
                key="step",
            )
    first = section.integer("first", 1, minimum=0, maximum=1)
    return LogPattern(
        step=step,
        unit=section.text("unit", "seq/s"),
        first=0 if first == 0 else 1,
        printed_by=section.choice("printed_by", ("first-worker", "last-stage"), "first-worker"),
    )


def _checkpoint(section: Section) -> Checkpoint:
    return Checkpoint(
        pattern=section.text("pattern", rule=INSIDE),
        on_signal=section.flag("on_signal", False),
        cadence=section.text("cadence", ""),
        every_steps=section.integer("every_steps", None, minimum=1),
        resume_arguments=section.texts("resume_arguments"),
        resumes=section.text("resumes", ""),
        complete_when=section.choice("complete_when", COMPLETE_WHEN, "exists"),
    )


def _from_run(section: Section, *, given: bool) -> FromRun:
    if not given:
        return FromRun()
    recipes = section.texts("recipes", rule=_NAME)
    if not recipes:
        section.problem(
            "missing-key", "No recipe's run is named here", "Write recipes: [name], the one that comes before.",
            key="recipes",
        )  # fmt: skip
    return FromRun(
        recipes=recipes,
        why=section.text("why"),
        argument=section.text("argument", ""),
        step_argument=section.text("step_argument", ""),
    )


def _software(section: Section) -> Software:
    known = [row.version for row in ROWS]
    found = {key: section.text(key, "") for key in ("first_sdk", "last_sdk")}
    for key, version in found.items():
        if version and version not in known:
            finding = unknown_sdk(version)
            section.problem(finding.code, finding.message, finding.remedy, key=key)
    ends = [known.index(version) for version in found.values() if version in known]
    if len(ends) == 2 and ends[0] < ends[1]:  # the newest row is the first
        section.problem("out-of-range", "The last SDK is before the first", "Exchange them.", key="last_sdk")
    return Software(**found, os=section.texts("os"))


def _choice(section: Section) -> Choice:
    return Choice(
        what=section.text("what"),
        ours=section.text("ours"),
        sources=section.mapping("sources"),
        why=section.text("why"),
    )


def _published(section: Section) -> Published:
    return Published(
        nodes=section.integer("nodes", minimum=1),
        rate=section.number("rate", minimum=0.001),
        scaling=section.choice("scaling", ("strong", "weak")),
        source=section.text("source"),
        note=section.text("note", ""),
        instance_type=section.text("instance_type", "trn1.32xlarge"),
    )


def _claim(section: Section) -> Claim:
    return Claim(
        nodes=section.integer("nodes", minimum=1),
        hours_under=section.number("hours_under", minimum=0.001),
        source=section.text("source"),
    )


def _ranks(root: Section, *, needed: bool) -> dict[str, int]:
    """Without workers, a recipe that is only planned takes each type's own number."""
    ranks = root.integers("ranks_per_node")
    if needed and not root.has("ranks_per_node"):
        root.problem(
            "missing-key",
            "No instance type can run this recipe",
            "Add how many workers a node runs, as in `ranks_per_node: {trn1.32xlarge: 32}`.",
            key="ranks_per_node",
        )
    for name, count in ranks.items():
        if count < 1:
            root.problem(
                "out-of-range", f"{count} is out of range", "Write 1 or more.", key="ranks_per_node", item=name
            )
    return {name: max(count, 1) for name, count in ranks.items()}
