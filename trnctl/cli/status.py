"""`trnctl status` and `trnctl ssh`: one screen of the cluster, and the way onto it."""

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
    from trnctl.cli import status_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    opened = session.open()
    if watch:
        screens.watch(Screen(session), lambda: look(opened), interval)
    else:
        screens.status(Screen(session), look(opened))


def ssh(
    context: typer.Context,
    node: Annotated[str | None, typer.Argument(help="A compute node; without one, the head node.")] = None,
) -> None:
    """A shell on the head node or on a compute node; `-- CMD` runs one command there, and its exit code is ours."""
    from trnctl.actions.head_node import head_of
    from trnctl.errors import ToolError

    session: Session = context.obj
    opened = session.open()
    shell = opened.services.head.shell(head_of(opened.cluster, opened.services))
    command = " ".join(session.rest or ())  # as ssh does: the words are joined, and the shell there reads them
    # Compute nodes have no way in from outside; the head node's own key opens them.
    if node:
        code = shell.interact(["ssh", node, command] if command else ["ssh", "-t", node])
    else:
        code = shell.interact(["bash", "-c", command] if command else [])
    if code == 255:  # ssh's own; a command there may end so too, and has said why
        raise ToolError(
            f"ssh to {node or 'the head node'} of {opened.cluster} ended with 255: it says why above",
            remedy="trnctl status shows which nodes are up; a job or trnctl alloc starts one that is powered down",
        )
    raise typer.Exit(code)
