"""`trnctl workloads`: the catalogue of recipes."""

from typing import Annotated

import typer

from trnctl.cli.session import Session

app = typer.Typer(no_args_is_help=True, help="The catalogue of workload recipes.")


@app.command(name="list")
def show_all(context: typer.Context) -> None:
    """All recipes that can be submitted by name."""
    from trnctl.cli import run_screens as screens
    from trnctl.cli.files import read_workload, workload_names
    from trnctl.cli.output import Screen

    session: Session = context.obj
    found = session.find_file()
    screens.workloads(Screen(session), [read_workload(name, found) for name in workload_names(found)])


@app.command()
def show(context: typer.Context, name: Annotated[str, typer.Argument(help="A recipe's name or file.")]) -> None:
    """One recipe, with the node counts that work and where its numbers come from."""
    from trnctl.cli import run_screens as screens
    from trnctl.cli.files import read_workload
    from trnctl.cli.output import Screen

    session: Session = context.obj
    screens.workload(Screen(session), read_workload(name, session.find_file()))
