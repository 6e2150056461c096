"""`trnctl network`: the VPC, subnets and gateways that a cluster stands in."""

from typing import TYPE_CHECKING, Annotated

import typer

from trnctl.cli.session import Session

if TYPE_CHECKING:
    from trnctl.actions.network import NetworkWish

app = typer.Typer(no_args_is_help=True, help="The network that clusters stand in: create, show, delete.")
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]


@app.command()
def create(
    context: typer.Context,
    instance_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="What the compute nodes are (else the cluster file's types).")
    ] = None,
    max_nodes: Annotated[int | None, typer.Option(min=1, metavar="N", help="How many there may be at once.")] = None,
    cidr: Annotated[str | None, typer.Option(metavar="CIDR", help="The VPC's addresses (10.0.0.0/16).")] = None,
    zone: Annotated[str | None, typer.Option(metavar="ZONE", help="The zone, among those that offer the type.")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The stack's name (trnctl-network).")] = None,
    yes: Yes = False,
) -> None:
    """Make a VPC with a public and a private subnet, NAT gateway and endpoints in a zone that offers the type."""
    from trnctl.actions.network import create_network, plan_network
    from trnctl.cli import network_screens as screens
    from trnctl.cli.output import Screen
    from trnctl.cli.progress import follow_stack

    session: Session = context.obj
    region = session.region_alone()
    services = session.services(region, "", None)
    screen = Screen(session)
    plan = plan_network(_wish(session, instance_type, max_nodes, cidr, zone, name), region, services.account)
    screens.create_plan(screen, plan, services.notice)
    if plan.asks:
        screen.confirm("Create it?", yes=yes)
    follow_stack(screen, create_network(plan, services), "trnctl network show shows it; network create goes on")
    screens.created(screen, plan, services.account)


@app.command()
def show(context: typer.Context) -> None:
    """The networks of the region that trnctl made, with the addresses that are free."""
    from trnctl.actions.network import show_networks
    from trnctl.cli import network_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    region = session.region_alone()
    services = session.services(region, "", None)
    screens.networks(Screen(session), show_networks(services.account), region, services.notice)


@app.command()
def delete(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Which one; without a name, the only one.")] = None,
    yes: Yes = False,
) -> None:
    """Delete a network and prove that nothing of it is left; refused while anything lives in its subnets."""
    from trnctl.actions.network import check_empty, chosen_network, delete_network
    from trnctl.cli import network_screens as screens
    from trnctl.cli.output import Screen
    from trnctl.cli.progress import follow_stack

    session: Session = context.obj
    region = session.region_alone()
    services = session.services(region, "", None)
    network = chosen_network(name, region, services.account)
    screen = Screen(session)
    check_empty(network, services.account)
    screens.delete_plan(screen, network, services.notice)
    screen.confirm("Delete it?", yes=yes)
    follow_stack(screen, delete_network(network, services), "trnctl network delete takes up the wait")
    screens.deleted(screen, network)


def _wish(
    session: Session,
    instance_type: str | None,
    max_nodes: int | None,
    cidr: str | None,
    zone: str | None,
    name: str | None,
) -> "NetworkWish":
    """Options win over the cluster file, where there is one, and that over the defaults."""
    from trnctl.actions import network as verbs
    from trnctl.specs.cluster import Pcluster

    found = session.find_file()
    spec = found.cluster if found else None
    fleet = verbs.fleet_of(spec) if spec else {verbs.DEFAULT_TYPE: verbs.DEFAULT_NODES}
    if instance_type or max_nodes:
        kind = instance_type or next(iter(fleet))
        fleet = {kind: max_nodes or fleet.get(kind, verbs.DEFAULT_NODES)}
    return verbs.NetworkWish(
        fleet=fleet,
        name=name or verbs.DEFAULT_NAME,
        cidr=cidr or verbs.DEFAULT_CIDR,
        zone=zone or "",
        pcluster_version=(spec.pcluster if spec else Pcluster()).version,
        tags=spec.tags if spec else {},
    )
