"""`trnctl parallel`: SageMaker's model parallel JSON to our words, and a recipe's layout to its stack's files."""

from typing import Annotated

import typer

from trnctl.cli.session import Session

app = typer.Typer(no_args_is_help=True, help="Parallelism: import SMP v2's JSON, export a layout to its stack.")


@app.command(name="import")
def import_(
    context: typer.Context, file: Annotated[str, typer.Argument(help="SMP v2's JSON: smp_config.json.")]
) -> None:
    """Print the `parallelism` section that says what an SMP v2 configuration says."""
    from trnctl.cli.files import read_text
    from trnctl.cli.output import Screen
    from trnctl.cli.parallel_screens import imported as show
    from trnctl.plan.smp import imported

    session: Session = context.obj
    show(Screen(session), imported(read_text(file, "configuration"), file))


@app.command()
def export(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A recipe's name or file, or a file with a parallelism section alone.")],
    backend: Annotated[
        str, typer.Option("--backend", metavar="smp|fsdp|…", help="For which stack (auto: the recipe's own).")
    ] = "smp",
    nodes: Annotated[int | None, typer.Option("-N", "--nodes", min=1, help="How many nodes.")] = None,
    instance_type: Annotated[
        str | None, typer.Option("--instance-type", metavar="TYPE", help="On which type (else the recipe's own).")
    ] = None,
    write: Annotated[str | None, typer.Option("--write", metavar="DIR", help="Write the documents there.")] = None,
) -> None:
    """Print what a stack reads: smp_config.json, or parallel.json, an NxDT overlay, commands."""
    from trnctl.actions.export import ExportWishes, export_layout
    from trnctl.cli.files import read_layout
    from trnctl.cli.output import Screen
    from trnctl.cli.parallel_screens import compiled as show

    session: Session = context.obj
    found = session.find_file()
    source = read_layout(file, found)
    wishes = ExportWishes(backend, nodes, instance_type)
    show(Screen(session), export_layout(source, found.cluster if found else None, wishes), write)
