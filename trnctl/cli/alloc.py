"""`trnctl alloc`: nodes to work on by hand."""

from typing import Annotated

import typer

from trnctl.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(alloc)


def alloc(
    context: typer.Context,
    nodes: Annotated[int, typer.Option("-N", "--nodes", help="How many nodes.")] = 1,
    queue: Annotated[str | None, typer.Option("-p", "--queue", help="Which queue (else the first).")] = None,
    time_limit: Annotated[
        str, typer.Option("--time", metavar="[D-]HH:MM:SS", help="When they are taken back at the latest.")
    ] = "1:00:00",
) -> None:
    """A shell on nodes of your own: waits for them, says for what, and gives them back when the shell ends."""
    from trnctl.actions.alloc import alloc as carry_out
    from trnctl.actions.alloc import plan_alloc
    from trnctl.cli import alloc_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    plan = plan_alloc(session.name_and_region()[2], nodes=nodes, queue=queue, time_limit=time_limit)
    screen = Screen(session)
    screens.require_terminal()
    opened = session.open()
    screens.alloc_plan(screen, plan, opened.services.notice)
    raise typer.Exit(carry_out(plan, opened))
