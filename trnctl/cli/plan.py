"""`trnctl plan`: legality, memory, communication, time and cost of a layout, before a node starts."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trnctl.cli.session import Session
from trnctl.errors import UsageError

if TYPE_CHECKING:
    from trnctl.plan.outlook import Assumptions
    from trnctl.specs.cluster import ClusterFile
    from trnctl.specs.workload import Published, WorkloadSpec

_SCALINGS: Mapping[str, Literal["strong", "weak"] | None] = {"both": None, "strong": "strong", "weak": "weak"}
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?(?:e\d{1,2})?)([kmbt]?)", re.IGNORECASE)
_MOST_NODES = 4096


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(plan)


def plan(
    context: typer.Context,
    workload: Annotated[str, typer.Argument(help="A recipe's name, or a recipe file.")],
    nodes: Annotated[
        str | None, typer.Option("-N", "--nodes", metavar="N[,N…]", help="How many nodes, as in 8,16,32.")
    ] = None,
    scaling: Annotated[str, typer.Option(metavar="strong|weak|both", help="strong keeps the global batch.")] = "both",
    suggest: Annotated[bool, typer.Option("--suggest", help="All legal layouts that fit, cheapest first.")] = False,
    queue: Annotated[str | None, typer.Option("-p", "--queue", help="Which queue (else the first that fits).")] = None,
    instance_type: Annotated[
        str | None, typer.Option("--instance-type", metavar="TYPE", help="Plan for this type instead.")
    ] = None,
    price: Annotated[
        float | None, typer.Option("--price", metavar="USD", help="What a node costs you an hour.")
    ] = None,
    mfu: Annotated[
        float | None, typer.Option("--mfu", metavar="F", help="The utilisation that you reach, as in 0.3.")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option("--tokens", metavar="N", help="Train on so many tokens, as in 100B.")
    ] = None,
    results: Annotated[
        str | None, typer.Option("--results", metavar="FILE", help="Plan from a run of yours: its results.json.")
    ] = None,
    svg: Annotated[str | None, typer.Option("--svg", metavar="FILE", help="Write memory by nodes as a chart.")] = None,
) -> None:
    """What a layout needs and costs before a node starts: exit 2 when it is illegal, 3 when it does not fit."""
    from trnctl.actions.plan import PlanWishes, plan_layouts
    from trnctl.cli import plan_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    if scaling not in _SCALINGS:
        raise UsageError(f"--scaling {scaling} is not known", remedy="use one of both, strong, weak")
    file, recipe = _read(session, workload)
    wishes = PlanWishes(
        nodes=_counts(nodes) if nodes is not None else (),
        scaling=_SCALINGS[scaling],
        queue=queue,
        instance_type=instance_type,
        suggest=suggest,
        assumptions=_assumptions(recipe, price, mfu, tokens, results),
    )
    answer = plan_layouts(recipe, file.cluster if file else None, wishes)
    screens.plan(Screen(session), answer)
    if svg is not None:
        screens.write_chart(Screen(session), answer, svg)
    refused = answer.refusal()
    if refused is not None:
        raise refused


def _read(session: Session, workload: str) -> "tuple[ClusterFile | None, WorkloadSpec]":
    """The cluster file, if there is one, and the recipe. What is wrong in them is told as JSON too."""
    from trnctl.cli.files import read_workload
    from trnctl.cli.output import Screen

    try:
        file = session.find_file()
        return file, read_workload(workload, file)
    except UsageError as error:
        if session.json and error.findings:
            Screen(session).findings(error.findings, {"plans": []})
        raise


def _counts(text: str) -> list[int]:
    """The numbers of nodes. UsageError for what is no such list."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,4}", part) and 1 <= int(part) <= _MOST_NODES for part in parts):
        raise UsageError(
            f"--nodes {text} is no list of numbers from 1 to {_MOST_NODES}", remedy="write it as in --nodes 8,16,32"
        )
    return [int(part) for part in parts]


def _assumptions(
    recipe: "WorkloadSpec", price: float | None, mfu: float | None, tokens: str | None, results: str | None
) -> "Assumptions":
    """What the person gives; UsageError for figures that cannot be."""
    from trnctl.plan.outlook import Assumptions

    if price is not None and price < 0:
        raise UsageError(f"--price {price:g} is no price", remedy="give US dollars an hour for one node, as in 8.6")
    if mfu is not None and not 0 < mfu <= 1:
        raise UsageError(f"--mfu {mfu:g} is no utilisation", remedy="give a number above 0 and up to 1, as in 0.3")
    amount = None
    if tokens is not None:
        match = _AMOUNT.fullmatch(tokens.replace("_", ""))
        amount = float(match[1]) * _UNITS[match[2].lower()] if match else 0.0
        if not 0 < amount <= 1e18:
            raise UsageError(f"--tokens {tokens} is no number of tokens", remedy="write it as in 100B or 1e11")
    row = _own_row(recipe, results) if results is not None else None
    return Assumptions(price=price, mfu=mfu, tokens=amount, own_run=row)


def _own_row(recipe: "WorkloadSpec", path: str) -> "Published":
    """The row that a run's results.json makes. UsageError when it cannot be read, or is of something else."""
    import json

    from trnctl.actions.plan import own_row
    from trnctl.cli.files import read_text

    try:
        found = json.loads(read_text(path, "results file"))
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{path}:{error.lineno} is not JSON: {error.msg}", remedy="trnctl results RUN -o json writes one"
        ) from error
    return own_row(found if isinstance(found, dict) else {}, recipe)
