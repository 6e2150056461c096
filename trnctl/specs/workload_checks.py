"""What must hold between the parts of a recipe: batch, names, words in braces. Each problem comes with its line."""

from __future__ import annotations

import re

from trnctl.specs.reading import Section
from trnctl.specs.workload import PLACEHOLDERS, WorkloadSpec

ARGUMENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
OVERRIDE_NAME = re.compile(r"\+{0,2}[A-Za-z][A-Za-z0-9_.@/-]*")  # Hydra's + adds a key that the file lacks
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED_WORD = re.compile(r"(?<!\$)\{([a-z_]+)\}")
# The mappings of a recipe whose values may hold placeholders.
FILLED = (
    "arguments", "compile_arguments", "overrides", "compile_overrides", "environment", "multi_node_environment",
    "compile_environment",
)  # fmt: skip


def check_batch(root: Section, section: Section, spec: WorkloadSpec) -> None:
    """On the recipe's own nodes of the first type the factors make the global batch; other types divide it."""
    batch = spec.batch
    words = spec.parallelism
    sharing = words.tensor * words.pipeline * words.context
    if 0 in {batch.global_size, batch.micro, batch.accumulation}:
        return  # reported already
    for place, (name, ranks) in enumerate(spec.ranks_per_node.items()):
        data, left = divmod(spec.nodes * ranks, sharing)
        made = batch.micro * batch.accumulation * data
        if left:
            continue  # the rules of `plan` say more of it
        if place == 0 and made != batch.global_size:
            section.problem(
                "batch-product",
                f"micro {batch.micro} × accumulation {batch.accumulation} × {data} workers with different data "
                f"({spec.nodes} × {name}) is {made:,}, not {batch.global_size:,}",
                f"Write global: {made}, or change one of its factors.",
                key="global",
            )
        elif place > 0 and (not data or batch.global_size % (batch.micro * data)):
            root.problem(
                "batch-product",
                f"{ranks} workers with micro batches of {batch.micro} do not divide {batch.global_size:,}",
                "Choose another number of workers for this type, or leave it out.",
                key="ranks_per_node",
                item=name,
            )


def check_names(root: Section, spec: WorkloadSpec) -> None:
    """Names that no command line or environment could carry."""
    for key in ("arguments", "compile_arguments", "overrides", "compile_overrides"):
        rule = OVERRIDE_NAME if key.endswith("overrides") else ARGUMENT_NAME
        for name in getattr(spec, key):
            if rule.fullmatch(name) is None:
                root.problem(
                    "argument-name",
                    f"{name!r} cannot be the name of an argument",
                    "Write it without dashes in front.",
                    key=key,
                    item=name,
                )
    for key in ("environment", "multi_node_environment", "compile_environment"):
        for name in getattr(spec, key):
            if VARIABLE_NAME.fullmatch(name) is None:
                root.problem(
                    "variable-name",
                    f"{name!r} cannot be the name of an environment variable",
                    "Use letters, digits and underscores, and no digit in front.",
                    key=key,
                    item=name,
                )


def check_placeholders(root: Section, spec: WorkloadSpec) -> None:
    """Words in braces that nothing will fill: a misspelt one would reach the script as it stands."""
    places: list[tuple[str, str | None, str]] = [("virtualenv", None, spec.virtualenv)]
    for key in FILLED:
        places += [(key, name, str(value)) for name, value in getattr(spec, key).items()]
    for key, name, value in places:
        for word in _BRACED_WORD.findall(value):
            if word not in PLACEHOLDERS:
                root.problem(
                    "unknown-placeholder",
                    f"Nothing fills {{{word}}}",
                    f"Known are {', '.join(f'{{{known}}}' for known in PLACEHOLDERS)}.",
                    key=key,
                    item=name,
                )


def check_from_run(root: Section, spec: WorkloadSpec) -> None:
    """The argument that must tell how far the earlier run got has to be there, as a number."""
    name = spec.from_run.step_argument
    if name and type(spec.arguments.get(name)) is not int:
        root.section("from_run").problem(
            "unknown-argument",
            f"{name} is no argument of this recipe with a whole number",
            "Name the one that tells the script how many steps the earlier run did, and give it in `arguments`.",
            key="step_argument",
        )
