"""`trnctl teardown`: everything away, with proof."""

from typing import Annotated

import typer

from trnctl.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(teardown)


def teardown(
    context: typer.Context,
    cancel_runs: Annotated[bool, typer.Option("--cancel-runs", help="Cancel runs that are alive.")] = False,
    keep_storage: Annotated[bool, typer.Option("--keep-storage", help="Keep file systems that outlive it.")] = False,
    delete_storage: Annotated[bool, typer.Option("--delete-storage", help="Delete them and their data.")] = False,
    export: Annotated[
        str, typer.Option("--export", metavar="s3://…", help="First copy results, logs, output and checkpoints there.")
    ] = "",
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Delete the cluster, wait until it is gone, and list what is left (exit 7 when anything is)."""
    from trnctl.actions.teardown import check, check_export, check_storage, plan_teardown
    from trnctl.actions.teardown import teardown as carry_out
    from trnctl.cli import cluster_screens as screens
    from trnctl.cli.output import Screen
    from trnctl.cli.progress import follow_teardown

    if keep_storage and delete_storage:
        raise UsageError("--keep-storage and --delete-storage exclude each other", remedy="give one of them")
    opened = (session := context.obj).open()
    plan = plan_teardown(opened)
    screen = Screen(session)
    storage = True if delete_storage else False if keep_storage else None
    screens.teardown_plan(screen, plan, opened.services.notice, delete_storage=storage)
    storage = screens.ask_storage(screen, plan) if storage is None else storage
    if export:
        check_export(plan, export)
    check(plan, cancel_runs=cancel_runs, delete_storage=storage)
    if storage:
        check_storage(plan, opened.services)
    screen.confirm("Delete it?", yes=yes)
    steps = carry_out(plan, opened, delete_storage=bool(storage), export=export)
    proof = follow_teardown(screen, steps, opened.cluster)
    screens.proof(screen, proof, opened.cluster)
