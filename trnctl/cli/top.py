"""`trnctl top`: what the nodes of running runs do now."""

from typing import Annotated

import typer

from trnctl.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(top)


def top(
    context: typer.Context,
    run: Annotated[
        str | None, typer.Argument(help="The run's name or its last digits (else all that run).", show_default=False)
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One look, when all nodes have reported.")] = False,
    interval: Annotated[float, typer.Option(min=1, help="Seconds between two reports of a node.")] = 5.0,
) -> None:
    """Neuron utilisation of all nodes, live: idle cores, stragglers, memory and errors are marked.

    It looks from inside the run's own job, takes no node of its own, and ends with Ctrl-C.
    """
    from trnctl.actions.top import top as look
    from trnctl.cli import top_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    screen = Screen(session)
    single = once or not (screen.json or screen.out.is_terminal)  # a table in a pipe is not redrawn
    screens.top(screen, look(session.open(), run or "", period=interval, once=single), once=single)
