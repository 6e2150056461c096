"""`trnctl study`: one workload on several numbers of nodes, and what that tells."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trnctl.cli.session import Session
from trnctl.cli.submit import (
    Arguments,
    Check,
    Environment,
    Force,
    MaxCost,
    PriceOf,
    QueueName,
    ScalingWord,
    SkipPrepare,
    TimeLimit,
    one_of,
    pairs,
)
from trnctl.errors import UsageError

if TYPE_CHECKING:
    from trnctl.cli.output import Screen
    from trnctl.cli.planning import Prepared

app = typer.Typer(no_args_is_help=True, help="A scaling study: its runs, its table and chart beside published figures.")

_SCALINGS: Mapping[str, Literal["strong", "weak"]] = {"strong": "strong", "weak": "weak"}
_MOST_POINTS = 20
_FORMATS = {word: word for word in ("table", "csv", "json", "svg", "png", "html")}


@app.command()
def run(
    context: typer.Context,
    workload: Annotated[str, typer.Argument(help="A recipe's name, or a recipe file.")],
    nodes: Annotated[str, typer.Option("-N", "--nodes", metavar="N[,N…]", help="On how many nodes, as in 1,2,4,8,16.")],
    scaling: ScalingWord = "strong",
    name: Annotated[
        str | None, typer.Option("--name", help="The study's name (else WORKLOAD-SCALING); its runs are NAME-nN.")
    ] = None,
    arguments: Arguments = None,
    environment: Environment = None,
    queue: QueueName = None,
    time_limit: TimeLimit = None,
    max_cost: MaxCost = None,
    price: PriceOf = None,
    skip_prepare: SkipPrepare = False,
    force: Force = False,
    check: Check = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Print every change of a point as it comes.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the runs, or leave once submitted.")] = True,
) -> None:
    """Run a workload on each number of nodes; given again, it goes on where it ended."""
    from trnctl.actions.submit import Wishes
    from trnctl.cli.cost_screens import own_prices
    from trnctl.cli.output import Screen
    from trnctl.cli.planning import prepare_study
    from trnctl.specs.prices import Prices

    session: Session = context.obj
    wishes = Wishes(
        queue=queue,
        arguments=pairs("--set", arguments),
        environment=pairs("--env", environment),
        time_limit=time_limit,
        max_cost=max_cost,
        prices=Prices(own_prices(price or [])),
        skip_prepare=skip_prepare,
        force=force,
        check=check,
    )
    word = one_of("--scaling", scaling, _SCALINGS)
    prepared = prepare_study(session, workload, wishes, scaling=word, nodes=_counts(nodes), name=name)
    _carry_out(Screen(session), prepared, yes=yes, follow=follow, wait=wait)


def _carry_out(screen: "Screen", prepared: "Prepared", *, yes: bool, follow: bool, wait: bool) -> None:
    """Show the plan, ask, submit what is due, and wait for all points."""
    from trnctl.actions import study as actions
    from trnctl.actions import study_watch as watching
    from trnctl.cli import study_screens as screens
    from trnctl.cli.planning import bring

    plan, opened, spec, code = prepared
    slurm = opened.queue(work=True)
    plan = actions.take_up(plan, actions.look(plan, slurm, opened.runs_folder))
    screens.plan(screen, plan, opened.services.notice)
    if plan.due:
        screen.confirm(screens.question(plan), yes=yes)
        bring(code, opened)
    screens.submitted(screen, plan, actions.submit_due(plan, slurm, opened.runs_folder), follow=follow)
    if not wait:
        screens.left_alone(screen, plan, actions.look(plan, slurm, opened.runs_folder))
        return
    state = screens.watch(screen, plan, watching.watch(plan, opened, slurm), follow=follow)
    failed = watching.verdict(plan, state, opened, spec)
    screens.over(screen, plan, state, failed=failed is not None, follow=follow)
    if failed is not None:
        raise failed


@app.command()
def report(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="A study, a workload (all its runs) or a run; else the newest study.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", metavar="table|csv|json|svg|png|html", help="How (else as a table).")
    ] = None,
    write: Annotated[
        str | None, typer.Option("--write", metavar="DIR", help="Write it there; without --format, in every form.")
    ] = None,
    epoch: Annotated[
        float | None,
        typer.Option("--epoch", metavar="SEQUENCES", min=1, help="Also tell what an epoch of so many sequences costs."),
    ] = None,
) -> None:
    """Throughput, speed-up, efficiency, time and cost beside published figures; of a run, loss and rate by step."""
    from trnctl.actions.study_report import report as collect
    from trnctl.cli import study_files as files
    from trnctl.cli.mirror_screens import from_the_mirror
    from trnctl.cli.output import Screen

    session: Session = context.obj
    forms = [one_of("--format", form, _FORMATS)] if form else list(_FORMATS) if write else ["table"]
    files.check(forms, write)
    screen, (found, mirror) = Screen(session), collect(session.open(), name, epoch=epoch)
    if mirror is not None:
        from_the_mirror(screen, mirror)
    if write:
        files.write(screen, found, forms, write)
    else:
        files.show(screen, found, "json" if session.json else forms[0])


def _counts(text: str) -> tuple[int, ...]:
    """The numbers of nodes, each once, the smallest first. UsageError for what is no such list."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,4}", part) and int(part) for part in parts) or len(parts) > _MOST_POINTS:
        raise UsageError(
            f"--nodes {text} is no list of at most {_MOST_POINTS} numbers of nodes",
            remedy="write it as in --nodes 1,2,4,8,16",
        )
    return tuple(sorted({int(part) for part in parts}))
