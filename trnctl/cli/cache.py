"""`trnctl cache`: the compiled graphs that runs share."""

from typing import Annotated

import typer

from trnctl.cli.session import Session

app = typer.Typer(no_args_is_help=True, help="The compile cache: look, verify, unlock, prune.")


@app.command(name="ls")
def list_entries(context: typer.Context) -> None:
    """What is compiled: fingerprint, state, size, age and last use."""
    from trnctl.actions.cache import look
    from trnctl.cli import cache_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    opened, screen = session.open(), Screen(session)
    screen.notice(opened.services.notice)
    screens.entries(screen, look(opened))


@app.command()
def verify(context: typer.Context) -> None:
    """Look at every graph and lock; exit 3 when one is damaged, or locked by a compiler that no longer runs."""
    from trnctl.actions.cache import look
    from trnctl.actions.cache import verify as judge
    from trnctl.cli import cache_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    picture = look(session.open())
    findings = judge(picture)
    screens.verified(Screen(session), picture, findings)
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(3)


@app.command()
def unlock(context: typer.Context) -> None:
    """Remove the locks that no living job can hold."""
    from trnctl.actions.cache import unlock as carry_out
    from trnctl.cli import cache_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    screens.unlocked(Screen(session), carry_out(session.open()))


@app.command()
def prune(
    context: typer.Context,
    fingerprints: Annotated[list[str] | None, typer.Argument(help="Which ones (else by age).")] = None,
    older_than: Annotated[
        float, typer.Option("--older-than", min=0, metavar="DAYS", help="Those not used for so long.")
    ] = 30,
    strays: Annotated[bool, typer.Option("--strays", help="Also graphs that belong to no fingerprint.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Remove compiled graphs, but nothing that a living run uses; shows what would go, and asks."""
    from trnctl.actions.cache import look, plan_prune
    from trnctl.actions.cache import prune as carry_out
    from trnctl.cli import cache_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    opened = session.open()
    plan = plan_prune(look(opened), fingerprints or (), days=older_than, strays=strays)
    screen = Screen(session)
    screens.prune_plan(screen, plan)
    if not plan.empty:
        screen.confirm("Remove them?", yes=yes)
    screens.pruned(screen, None if plan.empty else carry_out(opened, plan))
