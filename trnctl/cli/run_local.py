"""`trnctl run-local`: the training of a recipe on this machine, before a cluster is paid for."""

from pathlib import Path
from typing import Annotated

import typer

from trnctl.cli.session import Session
from trnctl.cli.submit import Arguments, Environment, pairs


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("run-local")(run_local)


def run_local(
    context: typer.Context,
    workload: Annotated[str, typer.Argument(help="A recipe's name, or a recipe file.")],
    ranks: Annotated[int, typer.Option("--ranks", min=1, max=64, help="How many processes.")] = 2,
    arguments: Arguments = None,
    environment: Environment = None,
    write: Annotated[
        str | None, typer.Option("--write", metavar="DIR", help="The run's folder; a run that is there goes on.")
    ] = None,
    python: Annotated[
        str | None,
        typer.Option("--python", metavar="FILE", help="The Python with PyTorch (else torchrun on PATH)."),
    ] = None,
) -> None:
    """Train on this machine, with the script and the layout of a cluster's run: no AWS, no cluster file."""
    from trnctl.actions.run_local import LocalWishes, plan_local, run_local
    from trnctl.cli import run_local_screens as screens
    from trnctl.cli.files import newest, read_workload
    from trnctl.cli.output import Screen
    from trnctl.targets import this_machine

    session: Session = context.obj
    recipe = read_workload(workload, session.find_file())
    folder = screens.run_folder(recipe.name, write)
    wishes = LocalWishes(
        ranks=ranks,
        folder=str(folder),
        arguments=pairs("--set", arguments),
        environment=pairs("--env", environment),
        python=str(Path(python).expanduser().absolute()) if python else "",
        checkpoint=newest(folder / "checkpoints", recipe.checkpoint.pattern),
    )
    plan = plan_local(recipe, wishes)
    screens.train(Screen(session), plan, run_local(plan, this_machine(screens.GRACE, plan.environment)))
