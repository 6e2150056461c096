"""`trnctl sandbox`: the embedded world up and down, its state, and faults on demand."""

from typing import Annotated

import typer

from trnctl.cli.session import Session

app = typer.Typer(
    no_args_is_help=True, help="The embedded world: real Slurm, ssh and pcluster; AWS and Neuron emulated."
)


@app.command()
def up(
    context: typer.Context,
    resource_seconds: Annotated[
        float, typer.Option(min=0.0, help="How long each emulated AWS resource takes to be made.")
    ] = 0.05,
    boot_seconds: Annotated[float, typer.Option(min=0.0, help="How long an emulated instance takes to boot.")] = 1.0,
    steps: Annotated[int, typer.Option(min=1, help="After how many steps the emulated training stops.")] = 20,
) -> None:
    """Start the world; it runs in the background until `trnctl sandbox down`."""
    from trnctl.cli import sandbox_screens as screens
    from trnctl.cli.output import Screen
    from trnctl.targets import sandbox_up

    session: Session = context.obj
    found = session.find_file()
    world = sandbox_up(
        region=session.region or (found.cluster.region if found else None),
        spec=found.cluster if found else None,
        resource_seconds=resource_seconds,
        boot_seconds=boot_seconds,
        steps=steps,
    )
    screens.world(Screen(session), world)


@app.command()
def down(context: typer.Context) -> None:
    """End every process of the world and remove every file of it."""
    from trnctl.cli.output import Screen
    from trnctl.targets import sandbox_down

    Screen(context.obj).done({"ended": sandbox_down()}, "The sandbox is down: no process and no file of it is left.")


@app.command(name="status")
def show(context: typer.Context) -> None:
    """Whether the world is up, and what it holds that a cluster file can name."""
    from trnctl.cli import sandbox_screens as screens
    from trnctl.cli.output import Screen
    from trnctl.targets import require_sandbox

    screens.world(Screen(context.obj), require_sandbox())


@app.command()
def fault(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Which fault; without a name, all are listed.")] = None,
    times: Annotated[int, typer.Option(min=1, help="How often it strikes.")] = 1,
) -> None:
    """Make something fail on demand: `trnctl sandbox fault compile-failure`; `clear` ends all faults."""
    from trnctl.cli import sandbox_screens as screens
    from trnctl.cli.output import Screen
    from trnctl.targets import sandbox_fault

    screens.faults(Screen(context.obj), sandbox_fault(name, times), name)
