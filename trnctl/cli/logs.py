"""`trnctl logs`: what a run prints, followed live if wanted."""

from __future__ import annotations

from typing import Annotated

import typer

from trnctl.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(logs)


def logs(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="The run's name or its last digits.")],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run ends.")] = False,
    stage: Annotated[
        str | None, typer.Option(metavar="compile|train", help="Which stage (else all, in order).")
    ] = None,
    node: Annotated[int, typer.Option(min=0, help="Which node's log, counted from 0 in the run.")] = 0,
) -> None:
    """Print a run's logs; exit 6 when the followed run failed."""
    from trnctl.cli.output import Screen

    session: Session = context.obj
    Screen(session).logs(session.door(), run, follow=follow, stage=stage, node=node)
