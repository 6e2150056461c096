"""`trnctl init`: a commented cluster file from what the account has and a few answers."""

from typing import Annotated

import typer

from trnctl.cli.session import CONFIG_NAME, Session


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(init)


def init(
    context: typer.Context,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The cluster's name.")] = None,
    instance_type: Annotated[str | None, typer.Option(metavar="TYPE", help="What the compute nodes are.")] = None,
    max_nodes: Annotated[int | None, typer.Option(min=1, metavar="N", help="How many there may be at once.")] = None,
    compute_subnet: Annotated[str | None, typer.Option(metavar="ID", help="A private subnet with NAT.")] = None,
    head_subnet: Annotated[str | None, typer.Option(metavar="ID", help="A public subnet of the same VPC.")] = None,
    key_name: Annotated[str | None, typer.Option(metavar="NAME", help="An ed25519 key pair of EC2.")] = None,
    ssh_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its private half on this machine.")] = None,
    ssh_from: Annotated[str | None, typer.Option(metavar="CIDR", help="From where ssh is allowed.")] = None,
    ssm: Annotated[bool, typer.Option("--ssm", help="A shell through Session Manager.")] = False,
    reservation: Annotated[str | None, typer.Option(metavar="CR", help="A capacity reservation or block.")] = None,
    bucket: Annotated[str | None, typer.Option(metavar="NAME", help="For node scripts and run records.")] = None,
    output_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where it is written (else -c, else trnctl.yaml here).")
    ] = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask: take the best choice for each.")] = False,
) -> None:
    """Write a commented trnctl.yaml: asks, or takes options; looks up what fits; never overwrites a file."""
    from trnctl.actions.init import Answers, complete, look_up
    from trnctl.actions.network import DEFAULT_TYPE
    from trnctl.cli import init_screens as screens
    from trnctl.cli.files import local_keys, write_new
    from trnctl.cli.output import Screen

    session: Session = context.obj
    screen = Screen(session)
    path = output_file or session.config or CONFIG_NAME
    screens.require_room(path, yes=yes)
    region = screens.region_of(screen, session, yes=yes)
    said = Answers(
        name, instance_type, max_nodes, compute_subnet, head_subnet, key_name, ssh_key, ssh_from, ssm, reservation,
        bucket,
    )  # fmt: skip
    services = session.services(region, "", None)
    screen.notice(services.notice)
    if not yes:
        said = screens.ask_size(screen, said)
    found = look_up(services.account, region, said.instance_type or DEFAULT_TYPE, local_keys())
    if not yes:
        said = screens.ask_rest(screen, said, found)
    draft = complete(said, found)
    text = screens.checked_text(draft, path)
    write_new(path, text)
    screens.written(screen, draft, path)
