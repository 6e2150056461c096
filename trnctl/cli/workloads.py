"""`trnctl workloads`: the catalogue of recipes."""

from typing import Annotated

import typer

from trnctl.cli.session import Session

app = typer.Typer(no_args_is_help=True, help="The catalogue of workload recipes.")


@app.command(name="list")
def show_all(context: typer.Context) -> None:
    """All recipes that can be submitted by name."""
    from trnctl.cli import workload_screens as screens
    from trnctl.cli.files import read_workload, workload_names
    from trnctl.cli.output import Screen

    session: Session = context.obj
    found = session.find_file()
    recipes = [read_workload(name, found) for name in workload_names(found)]
    screens.listed(Screen(session), recipes, tuple(found.workloads) if found else ())


@app.command()
def show(context: typer.Context, name: Annotated[str, typer.Argument(help="A recipe's name or file.")]) -> None:
    """One recipe: what will run, on what, what a stop would lose, and where its numbers come from."""
    from trnctl.actions.workloads import describe
    from trnctl.cli import workload_screens as screens
    from trnctl.cli.files import read_workload
    from trnctl.cli.output import Screen

    session: Session = context.obj
    found = session.find_file()
    screens.shown(Screen(session), describe(read_workload(name, found), found.cluster if found else None))


@app.command()
def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The name of the new recipe.")],
    source: Annotated[str, typer.Option("--from", metavar="RECIPE", help="The recipe to begin with.")] = "bert-large",
    output_file: Annotated[
        str | None, typer.Option("--output-file", help="Where to write it (else NAME.yaml).")
    ] = None,
) -> None:
    """Write a recipe of your own, with comments, from one that works; never over a file that is there."""
    from trnctl.actions.workloads import new_recipe
    from trnctl.cli.files import read_workload_text, write_new
    from trnctl.cli.output import Screen

    session: Session = context.obj
    target = output_file or f"{name}.yaml"
    write_new(target, new_recipe(name, read_workload_text(source, session.find_file()).text, source))
    after = f"trnctl workloads show ./{target}; trnctl submit ./{target} --dry-run"
    Screen(session).done({"name": name, "file": target, "from": source}, f"Wrote {target}.", after=after)
