"""`trnctl sync` and `cp`: code to the cluster's shared storage, results and any other file back."""

from typing import Annotated

import typer

from trnctl.cli.session import Session

Delete = Annotated[
    bool, typer.Option("--delete", help="Remove there what is no longer here, but not what .gitignore names.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be copied and removed; change nothing.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(sync)
    app.command()(cp)


def sync(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="WORKLOAD|DIR", help="A recipe with workdir, or a folder.")] = ".",
    results: Annotated[
        str | None, typer.Option("--results", metavar="RUN", help="Bring what that run left instead, to ./RUN.")
    ] = None,
    delete: Delete = False,
    dry_run: DryRun = False,
) -> None:
    """Copy your code to the shared storage, without what .gitignore names; only what differs."""
    from trnctl.actions.code import results as bring_results
    from trnctl.actions.code import sync as carry_out
    from trnctl.cli import sync_screens as screens
    from trnctl.cli.output import Screen
    from trnctl.cli.planning import code_to_sync

    session: Session = context.obj
    screen = Screen(session)
    if results is not None:
        screens.brought(screen, *bring_results(results, ".", session.open(), dry_run=dry_run), dry_run=dry_run)
        return
    code, path, opened = code_to_sync(session, what)
    screens.begins(screen, code, path)
    screens.synced(screen, path, carry_out(code, path, opened, delete=delete, dry_run=dry_run), dry_run=dry_run)


def cp(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SRC", help="A path here, RUN:PATH or head:PATH.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="A path here, RUN:PATH or head:PATH.")],
    dry_run: DryRun = False,
) -> None:
    """Copy files or folders between this machine and the cluster, as scp does: trnctl cp RUN:results.json ."""
    from trnctl.actions.code import copy
    from trnctl.cli import sync_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    screens.copied(Screen(session), source, target, copy(source, target, session.open(), dry_run=dry_run)[1])
