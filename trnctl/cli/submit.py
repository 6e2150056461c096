"""`trnctl submit`, `runs`, `results` and `cancel`: runs from the plan to what they left."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from trnctl.cli.session import Session
from trnctl.errors import UsageError

if TYPE_CHECKING:
    from trnctl.cli.output import Screen
    from trnctl.cli.planning import Ready

Word = TypeVar("Word", bound=str)
_SCALINGS: Mapping[str, Literal["strong", "weak"]] = {"strong": "strong", "weak": "weak"}
_COMPILES: Mapping[str, Literal["auto", "force", "skip"]] = {"auto": "auto", "force": "force", "skip": "skip"}

Nodes = Annotated[int | None, typer.Option("-N", "--nodes", help="How many nodes.")]
QueueName = Annotated[str | None, typer.Option("-p", "--queue", help="Which queue (else the first that fits).")]
ScalingWord = Annotated[str, typer.Option("--scaling", metavar="strong|weak", help="strong keeps the global batch.")]
Arguments = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An argument of the training script.")
]
Environment = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="K[=V]", help="A variable of the jobs; without =V with the value it has here."),
]
RunName = Annotated[str | None, typer.Option("--name", help="The run's name.")]
Exclude = Annotated[str | None, typer.Option("--exclude", metavar="NODES", help="Nodes not to use.")]
FromRun = Annotated[
    str | None, typer.Option("--from", metavar="RUN", help="Start from the newest whole checkpoint of that run.")
]
CompileWord = Annotated[str, typer.Option("--compile", metavar="auto|force|skip", help="The compile stage.")]
TimeLimit = Annotated[
    str | None, typer.Option("--time", metavar="[D-]HH:MM:SS", help="Time limit of each job, in Slurm's form.")
]
Notify = Annotated[
    str | None,
    typer.Option("--notify", metavar="COMMAND|URL|@FILE", help="Told of the run's end; @FILE keeps a token off here."),
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", metavar="USD", help="All jobs of the run together may cost so much.")
]
PriceOf = Annotated[
    list[str] | None, typer.Option("--price", metavar="TYPE=USD", help="What a node of that type costs you an hour.")
]
Hold = Annotated[bool, typer.Option("--hold", help="Submit the jobs held.")]
SkipPrepare = Annotated[bool, typer.Option("--skip-prepare", help="Do not look for the code and the data first.")]
Force = Annotated[bool, typer.Option("--force", help="Submit what the plan forbids; run.json says what was overruled.")]
Check = Annotated[
    bool, typer.Option("--check", help="Each job first looks at its nodes (trnctl health) and drains what fails.")
]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Follow the run to its end.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be written and run; no cluster.")]
WriteTo = Annotated[str | None, typer.Option("--write", metavar="DIR", help="With --dry-run: write it there.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(submit)
    app.command()(runs)
    app.command()(results)
    app.command()(cancel)
    app.command()(resume)


def submit(
    context: typer.Context,
    workload: Annotated[str, typer.Argument(help="A recipe's name, or a recipe file.")],
    nodes: Nodes = None,
    queue: QueueName = None,
    scaling: ScalingWord = "strong",
    arguments: Arguments = None,
    environment: Environment = None,
    name: RunName = None,
    exclude: Exclude = None,
    from_run: FromRun = None,
    compile_: CompileWord = "auto",
    time_limit: TimeLimit = None,
    max_cost: MaxCost = None,
    notify: Notify = None,
    price: PriceOf = None,
    hold: Hold = False,
    skip_prepare: SkipPrepare = False,
    force: Force = False,
    check: Check = False,
    follow: Follow = False,
    dry_run: DryRun = False,
    write: WriteTo = None,
) -> None:
    """Submit a workload: checks, a plan, a compile job, the training job. Options of sbatch go after --."""
    from trnctl.actions.submit import Wishes
    from trnctl.cli import run_screens as screens
    from trnctl.cli.cost_screens import own_prices
    from trnctl.cli.files import secret_text
    from trnctl.cli.output import Screen
    from trnctl.cli.planning import prepare
    from trnctl.specs.prices import Prices

    session: Session = context.obj
    wishes = Wishes(
        nodes=nodes,
        queue=queue,
        scaling=one_of("--scaling", scaling, _SCALINGS),
        name=name,
        arguments=pairs("--set", arguments),
        environment=pairs("--env", environment),
        exclude=exclude,
        compile=one_of("--compile", compile_, _COMPILES),
        time_limit=time_limit,
        max_cost=max_cost,
        notify=secret_text("--notify", notify),
        prices=Prices(own_prices(price or [])),
        from_run=from_run,
        hold=hold,
        skip_prepare=skip_prepare,
        force=force,
        check=check,
        sbatch_args=session.rest or (),
    )
    screen, ready = Screen(session), prepare(session, workload, wishes, ask=not (dry_run or write))
    if dry_run or write:
        screens.dry_run(screen, ready.plan, write, wishes.environment or {})
        return
    _carry_out(screen, ready, follow=follow)


def _carry_out(screen: "Screen", ready: "Ready", *, follow: bool) -> None:
    from trnctl.actions.submit import send
    from trnctl.cli import run_screens as screens

    screens.submit_plan(screen, ready.plan, ready.opened.services.notice)
    opened, run, slurm = ready.opened, ready.plan.run, ready.opened.queue(work=True)
    if ready.code is not None:
        screens.code_brought(screen, ready.code.bring(opened))
    screens.submitted(screen, ready.plan, send(ready.plan, slurm), follow=follow)
    if follow:
        screens.follow_run(screen, run, slurm.follow(run, opened.runs_folder), opened=opened)


def runs(
    context: typer.Context,
    newest: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
) -> None:
    """The runs of the cluster, the living first; from the copies in its bucket when it is gone."""
    from trnctl.actions.mirror import list_runs
    from trnctl.cli import status_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    opened, screen = session.open(), Screen(session)
    screen.notice(opened.services.notice)
    screens.runs(screen, list_runs(opened, newest=newest))


def results(
    context: typer.Context, run: Annotated[str, typer.Argument(help="The run's name or its last digits.")]
) -> None:
    """What a run achieved: results.json, also while it runs and when it failed."""
    from trnctl.actions.mirror import find_record
    from trnctl.actions.runs import results_of
    from trnctl.cli import results_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    opened = session.open()
    record, mirror = find_record(opened, run)
    screens.results(Screen(session), results_of(record), record, opened.services.notice, mirror)


def cancel(
    context: typer.Context, run: Annotated[str, typer.Argument(help="The run's name or its last digits.")]
) -> None:
    """Cancel a run's jobs; its folder, log and checkpoints stay."""
    from trnctl.actions.runs import cancel as carry_out
    from trnctl.cli.output import Screen

    session: Session = context.obj
    record, jobs = carry_out(session.open(), run)
    Screen(session).done(
        {"run": record.run, "cancelled": jobs},
        f"{record.run}: cancelled job {', '.join(jobs)}." if jobs else f"{record.run} had no job that was alive.",
        after=f"trnctl results {record.run}",
    )


def resume(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="The run's name or its last digits.")],
    hold: Annotated[bool, typer.Option("--hold", help="Submit the jobs held.")] = False,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow the run to its end.")] = False,
) -> None:
    """Let a run that ended too soon go on from its newest whole checkpoint, without nodes that are down."""
    from trnctl.actions.runs import resume as carry_out
    from trnctl.cli import run_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    opened, screen = session.open(), Screen(session)
    answer = carry_out(opened, run, hold=hold)
    screens.resumed(screen, answer, follow=follow)
    if follow:
        events = opened.queue().follow(answer.run, opened.runs_folder, from_start=False)
        screens.follow_run(screen, answer.run, events, opened=opened)


def one_of(option: str, value: str, allowed: Mapping[str, Word]) -> Word:
    """The word that is meant. UsageError names the words that are known."""
    if value not in allowed:
        raise UsageError(f"{option} {value} is not known", remedy=f"use one of {', '.join(allowed)}")
    return allowed[value]


def pairs(option: str, texts: list[str] | None) -> dict[str, str]:
    """The values by key. UsageError for a text that is not KEY=VALUE."""
    found = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {text} is not KEY=VALUE", remedy=f"write it as {option} key=value")
        found[key] = value
    return found
