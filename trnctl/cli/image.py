"""`trnctl image`: the AMI that nodes start from, built from Neuron's own with ParallelCluster in it."""

from typing import Annotated

import typer

from trnctl.cli.session import Session

app = typer.Typer(no_args_is_help=True, help="Images that nodes start from: build one from Neuron's, list them.")


@app.command()
def build(
    context: typer.Context,
    name: Annotated[str, typer.Option(metavar="NAME", help="Its name (else from what is in it).")] = "",
    parent: Annotated[str, typer.Option(metavar="AMI", help="What to build from (else Neuron's own image).")] = "",
    instance_type: Annotated[str, typer.Option(metavar="TYPE", help="What to build on (c5.4xlarge).")] = "",
    subnet: Annotated[str, typer.Option(metavar="ID", help="Where to build (else in the default VPC).")] = "",
    security_group: Annotated[str, typer.Option(metavar="ID", help="Its security group; goes with --subnet.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the build configuration; make nothing.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Build an AMI for the nodes, and write it to the cluster file.

    It goes through pcluster build-image. Run again it takes up a build that is under way.
    """
    from trnctl.actions.image import ImageWish
    from trnctl.cli import image_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    wish = ImageWish(name, parent, instance_type, subnet, security_group)
    screens.build(Screen(session), session, wish, dry=dry_run, yes=yes)


@app.command(name="list")
def list_them(context: typer.Context) -> None:
    """The images of the region: built, building, failed."""
    from trnctl.actions.image import list_images
    from trnctl.cli import image_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    region = session.region_alone()
    services = session.services(region, "", None)
    screens.images(Screen(session), list_images(services), region, services)
