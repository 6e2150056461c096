"""What `trnctl alloc` says before it hands over the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen
from trnctl.cli.words import plural
from trnctl.errors import UsageError

if TYPE_CHECKING:
    from trnctl.actions.alloc import AllocPlan


def require_terminal() -> None:
    """UsageError where nobody could use a shell."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "alloc opens a shell, and there is no terminal",
            remedy="submit a job instead: trnctl submit, or trnctl ssh -- sbatch",
        )


def alloc_plan(screen: Screen, plan: AllocPlan, notice: str) -> None:
    """What is asked for, what it costs, and how it ends."""
    wish = plan.allocation
    screen.notice(notice)
    kind = f"{wish.nodes} × {plan.instance_type}" if plan.instance_type else plural(wish.nodes, "node")
    cost = f"{plan.price} while you have them" if plan.price else "price unknown: no cluster file tells their type"
    screen.say(f"{kind}{f' of {wish.queue}' if wish.queue else ''} — {cost}")
    if plan.price:
        screen.say(f"  {plan.price.basis}", style="dim")
    screen.say(f"  at most {wish.time_limit} (--time); leave the shell to give them back, Ctrl-C to stop waiting")
