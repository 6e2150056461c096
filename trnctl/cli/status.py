"""`trnctl status` and `trnctl ssh`: one screen of the cluster, and the way onto it."""

from __future__ import annotations

from typing import Annotated

import typer

from trnctl.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(status)
    app.command()(ssh)


def status(
    context: typer.Context,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Look again until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.5, help="Seconds between two looks.")] = 5.0,
) -> None:
    """One screen: phase, fleet, head node, nodes by state, cost, runs with stage, step, rate and ETA, alerts."""
    from trnctl.actions.status import status as look
    from trnctl.cli.output import Screen

    session: Session = context.obj
    door = session.door()
    screen = Screen(session)
    if watch:
        screen.watch(lambda: look(door.cluster, door.region, door.services, door.runs_folder), interval)
    else:
        screen.status(look(door.cluster, door.region, door.services, door.runs_folder))


def ssh(
    context: typer.Context,
    node: Annotated[str | None, typer.Argument(help="A compute node; without one, the head node.")] = None,
) -> None:
    """A shell on the head node or on a compute node; `-- CMD` runs one command there."""
    from trnctl.actions.submit import head_of

    session: Session = context.obj
    door = session.door()
    shell = door.services.head.shell(head_of(door.cluster, door.services))
    command = list(session.rest or ())
    # Compute nodes have no way in from outside; the head node's own key opens them.
    argv = ["ssh", *([] if command else ["-t"]), node, *command] if node else command
    raise typer.Exit(shell.interact(argv))
