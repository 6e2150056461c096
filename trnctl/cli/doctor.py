"""`trnctl doctor`: whether this machine can do the work, and what its user must be allowed to do."""

from typing import TYPE_CHECKING, Annotated

import typer

from trnctl.cli.session import Session

if TYPE_CHECKING:
    from trnctl.actions.doctor import Check
    from trnctl.specs.cluster import ClusterSpec


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(doctor)


def doctor(
    context: typer.Context,
    policy: Annotated[
        bool, typer.Option("--policy", help="Print the least IAM policy for the cluster file (or for any) instead.")
    ] = False,
) -> None:
    """Look at this machine: pcluster, node.js, ssh, credentials, region, SDK and OS; works offline."""
    from trnctl.actions.doctor import examine, verdict
    from trnctl.cli import doctor_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    screen = Screen(session)
    if policy:
        screens.policy(screen, session.find_file(), session.region)
        return
    file, spec = _file(session)
    region = _region(session, spec)
    # Tools and credentials are the same everywhere: any region will do to ask for them.
    services = session.services(region or "us-east-1", spec.name if spec else "", spec)
    checks = [file, *examine(services, region, spec)]
    screens.checks(screen, checks, services.notice)
    raise typer.Exit(verdict(checks))


def _file(session: Session) -> "tuple[Check, ClusterSpec | None]":
    """The cluster file as a check: a wrong one is told, and the rest is looked at all the same."""
    from trnctl.actions.doctor import Check
    from trnctl.errors import UsageError

    try:
        found = session.find_file()
    except UsageError as error:
        if not error.findings:
            raise
        return Check("cluster file", "cannot be used", error.findings, exit_code=error.exit_code), None
    if found is None:
        return Check("cluster file", "none in this folder or above it", done=False), None
    return Check("cluster file", found.path, found.findings, exit_code=UsageError.exit_code), found.cluster


def _region(session: Session, spec: "ClusterSpec | None") -> str | None:
    """The region that commands would use; None when nothing names one."""
    from trnctl.errors import UsageError
    from trnctl.targets import default_region

    try:
        return session.region or (spec.region if spec else default_region(session.target, session.profile))
    except UsageError:
        return None
