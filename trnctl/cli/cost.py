"""`trnctl cost`: what the cluster has cost and costs."""

from collections.abc import Mapping
from typing import Annotated, Literal

import typer

from trnctl.cli.session import Session
from trnctl.errors import UsageError

_WAYS: Mapping[str, Literal["kind", "run", "day"]] = {"": "kind", "run": "run", "day": "day"}
PriceOf = Annotated[
    list[str] | None,
    typer.Option("--price", metavar="TYPE=USD", help="What a type costs you an hour; may be given again."),
]
Online = Annotated[bool, typer.Option("--online", help="Ask AWS's price list, instead of the dated table.")]


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(cost)


def cost(
    context: typer.Context,
    by: Annotated[str, typer.Option("--by", metavar="run|day", help="A line a run, or a line a day.")] = "",
    price: PriceOf = None,
    online: Online = False,
) -> None:
    """What the cluster has cost and costs, from the records that its nodes keep."""
    from trnctl.actions.cost import cost as add_up
    from trnctl.cli import cost_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    if by not in _WAYS:
        raise UsageError(f"--by {by} is not known", remedy="use run or day, or leave it out")
    opened = session.open()
    prices = screens.prices_of(opened, price or [], online=online)
    screens.report(Screen(session), add_up(opened, _WAYS[by], prices))
