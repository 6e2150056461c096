"""`trnctl cluster`: render, create, update, look at and delete a cluster."""

from typing import Annotated

import typer

from trnctl.cli.session import Session

app = typer.Typer(no_args_is_help=True, help="Clusters: render, create, update, look at, delete.")
fleet = typer.Typer(no_args_is_help=True, help="The compute fleet.")
app.add_typer(fleet, name="fleet")
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]
PriceOf = Annotated[
    list[str] | None, typer.Option("--price", metavar="TYPE=USD", help="What a type costs you an hour.")
]
Suppress = Annotated[
    list[str] | None,
    typer.Option("--suppress", help="A finding's code that is not to count; may be given again.", show_default=False),
]


@app.command()
def render(context: typer.Context) -> None:
    """Print the ParallelCluster YAML of the cluster file; with -o json the same as JSON."""
    from trnctl.cli import cluster_screens as screens
    from trnctl.cli.output import Screen
    from trnctl.render.cluster import cluster_document
    from trnctl.render.node import own_actions

    session: Session = context.obj
    spec = session.spec()
    screens.document(Screen(session), cluster_document(spec, own_actions=own_actions(spec)))


@app.command()
def validate(
    context: typer.Context,
    file: Annotated[
        str | None, typer.Argument(help="A ParallelCluster 3 file, or another trnctl.yaml.", show_default=False)
    ] = None,
    online: Annotated[
        bool, typer.Option("--online", help="Also ask AWS and ParallelCluster's own validators.")
    ] = False,
    pcluster_version: Annotated[
        str, typer.Option("--pcluster-version", help="Whose rules: 3.0 to 3.16.", show_default=False)
    ] = "",
    suppress: Suppress = None,
) -> None:
    """Check a cluster file; every problem at once, with its line and the way out."""
    from trnctl.cli import preflight_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    checked = screens.check(session, file, online=online, version=pcluster_version, suppress=suppress or [])
    Screen(session).findings(checked.findings, checked.as_json())
    if checked.errors:
        raise typer.Exit(2)


@app.command()
def create(
    context: typer.Context,
    new_storage: Annotated[
        bool, typer.Option("--new-storage", help="Make file systems anew, also where an earlier cluster has left some.")
    ] = False,
    price: PriceOf = None,
    online: Annotated[bool, typer.Option("--online", help="Ask AWS's price list, not the dated table.")] = False,
    keep_failed: Annotated[
        bool, typer.Option("--keep-failed", help="Keep what a failure leaves, to look at its head node; it costs.")
    ] = False,
    yes: Yes = False,
    suppress: Suppress = None,
) -> None:
    """Create the cluster: the plan with its price, then ParallelCluster, then progress to the end."""
    from trnctl.cli import create_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    prices = screens.prices(session, price or [], online=online)
    screen, adopts = Screen(session), not new_storage
    screens.create(screen, session, prices, adopts=adopts, yes=yes, suppress=suppress or [], keep_failed=keep_failed)


@app.command()
def update(
    context: typer.Context,
    set_count: Annotated[
        list[str] | None,
        typer.Option("--set-count", metavar="QUEUE/RESOURCE=MIN:MAX", help="Change counts, and the file with them."),
    ] = None,
    requeue_runs: Annotated[
        bool, typer.Option("--requeue-runs", help="Stop the fleet under running jobs: they wait, and go on after it.")
    ] = False,
    yes: Yes = False,
    suppress: Suppress = None,
) -> None:
    """Change the cluster to what its file says now; the fleet is stopped and started again where that is needed."""
    from trnctl.cli import update_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    screens.update(Screen(session), session, set_count or [], requeue=requeue_runs, yes=yes, suppress=suppress or [])


@app.command(name="list")
def list_clusters(context: typer.Context) -> None:
    """All ParallelCluster clusters of the region."""
    from trnctl.cli import cluster_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    region = session.region_alone()
    services, screen = session.services(region, session.cluster or "", None), Screen(session)
    screen.notice(services.notice)
    screens.clusters(screen, services.provisioner.clusters(), region)


@app.command()
def describe(context: typer.Context) -> None:
    """What ParallelCluster says of the cluster, whole."""
    from trnctl.cli import cluster_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    opened = session.open()
    told = dict(opened.services.provisioner.describe(opened.cluster))
    if opened.spec is not None and opened.spec.ttl is not None:
        told["trnctl"] = {"ttl": str(opened.spec.ttl)}
    screen = Screen(session)
    screen.notice(opened.services.notice)
    screens.mapping(screen, told)


@app.command()
def events(context: typer.Context) -> None:
    """The stack's events, oldest first, with the reasons that `describe` hides."""
    from trnctl.actions.stack import stack_events
    from trnctl.cli import cluster_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    opened = session.open()
    screen = Screen(session)
    screen.notice(opened.services.notice)
    screens.events(screen, stack_events(opened.cluster, opened.region, opened.services))


@app.command()
def delete(context: typer.Context, yes: Yes = False) -> None:
    """Delete the stack only. `trnctl teardown` also looks after runs, storage and what is left."""
    from trnctl.actions.removal import delete_stack
    from trnctl.actions.stack import require_stack
    from trnctl.cli.output import Screen
    from trnctl.cli.progress import follow_stack

    session: Session = context.obj
    opened = session.open()
    name, services = opened.cluster, opened.services
    require_stack(name, opened.region, services)
    screen = Screen(session)
    screen.confirm(f"Delete the stack of {name}? Runs on it end; retained file systems stay and cost.", yes=yes)
    follow_stack(screen, delete_stack(name, services), f"trnctl cluster delete --cluster {name} takes up the wait")
    screen.done({"deleted": name}, f"{name} is deleted.", after=f"trnctl teardown --cluster {name} lists what is left")


@fleet.command()
def start(context: typer.Context) -> None:
    """Start the compute fleet."""
    _set_fleet(context.obj, running=True)


@fleet.command()
def stop(context: typer.Context, yes: Yes = False) -> None:
    """Stop the compute fleet: running jobs are requeued or end, compute nodes go away."""
    _set_fleet(context.obj, running=False, yes=yes)


def _set_fleet(session: Session, *, running: bool, yes: bool = True) -> None:
    from trnctl.actions.stack import require_stack
    from trnctl.actions.update import forget_stop, set_fleet
    from trnctl.cli.output import Screen
    from trnctl.cli.progress import follow_fleet

    opened = session.open()
    name, services = opened.cluster, opened.services
    require_stack(name, opened.region, services)
    screen = Screen(session)
    screen.confirm(f"Stop the compute fleet of {name}? Its running jobs end.", yes=yes)
    status = follow_fleet(screen, set_fleet(name, services, running=running))
    if running:
        forget_stop(name, services)
    screen.done({"fleet": status}, f"The compute fleet of {name} is {status}.", after="trnctl status")
