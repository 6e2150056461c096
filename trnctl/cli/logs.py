"""`trnctl logs`: what a run prints, followed live if wanted."""

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
        str | None, typer.Option(metavar="prepare|compile|train", help="Which stage (else all, in order).")
    ] = None,
    node: Annotated[int | None, typer.Option(min=0, help="Only that node's log, counted from 0 in the run.")] = None,
    last: Annotated[int | None, typer.Option("-n", "--tail", min=1, help="The last so many lines of each log.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="10m|2h|TIME", help="What was written in that time, or since (UTC).")
    ] = None,
) -> None:
    """Print a run's logs; exit 6 when the followed run failed."""
    from trnctl.actions.runs import check_log, find_run
    from trnctl.cli import run_screens as screens
    from trnctl.cli.output import Screen
    from trnctl.cli.words import moment

    session: Session = context.obj
    opened = session.open()
    record = find_run(opened, run)[1]
    check_log(record, stage=stage, node=node)
    begin = moment("--since", since, opened.services.clock.now()) if since else None
    events = opened.queue().follow(
        record.run, opened.runs_folder, stage=stage or "", node=node, wait=follow, last=last, since=begin
    )
    screens.follow_run(Screen(session), record.run, events, judge=follow, opened=opened)
