"""`trnctl health`: look at nodes before they work, and keep jobs off those that fail."""

from typing import Annotated

import typer

from trnctl.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(health)


def health(
    context: typer.Context,
    nodes: Annotated[
        int | None, typer.Option("-N", "--nodes", help="So many, started if they must be (else all that are idle).")
    ] = None,
    queue: Annotated[str | None, typer.Option("-p", "--queue", help="Of which queue (else the first).")] = None,
    collectives: Annotated[
        bool, typer.Option("--collectives/--no-collectives", help="All-reduces in each node and between nodes.")
    ] = True,
    patience: Annotated[
        float, typer.Option("--patience", min=1, metavar="SECONDS", help="How long one all-reduce may take.")
    ] = 120,
    drain: Annotated[
        bool | None, typer.Option("--drain/--no-drain", help="Drain nodes that fail (else asks on a terminal).")
    ] = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Look at nodes: devices, EFA, all-reduces, disks, clock, versions; exit 6 when one fails, and drain it."""
    from trnctl.actions.health import HealthWishes, check, door, plan_health, verdict
    from trnctl.cli import health_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    screen, opened = Screen(session), session.open()
    plan = plan_health(opened, session.spec(), HealthWishes(nodes, queue, collectives, patience))
    screens.health_plan(screen, plan, opened.services.notice)
    doors = door(opened)
    report = screens.follow_check(screen, check(plan, doors))
    drained = screens.drain(screen, report, doors, wanted=drain, yes=yes)
    screens.health(screen, plan, report, drained)
    verdict(report, drained)
