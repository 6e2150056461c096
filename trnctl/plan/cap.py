"""A cap on what one run may cost: how long its jobs may last, and what is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from trnctl.errors import RefusedError, UsageError
from trnctl.plan.estimate import Estimate
from trnctl.specs.prices import Prices

# Slurm looks for jobs over their limit now and then, and leaves them 30 s (KillWait) to end: one with a limit of one
# minute was seen to end after 85 s. templates/job/results.py keeps the same time back.
GRACE_S = 90
# Options of sbatch that would make a job longer or larger than what the cap was reckoned for.
# Short ones without a value may stand before another one: -Ht600.
_OVERRULING = re.compile(r"-[HhIkOQsuVvW]*[tNa].*|(--time|--nodes|--ar|--arr|--arra|--array)(=.*)?")


@dataclass(frozen=True)
class Cap:
    """`usd` buys `node_seconds` on these nodes, for all jobs and restarts of a run together.

    `minutes` is the time limit of one job that has them all: whole minutes, less what Slurm may need to end it.
    """

    usd: float
    price: float
    node_seconds: int
    minutes: int

    def clip(self, time_limit: str | None) -> str:
        """The shorter of the cap and the time limit that the person gave (Slurm's form)."""
        asked = minutes_of(time_limit) if time_limit else None
        # Slurm takes a limit of nothing for none at all.
        return time_limit if time_limit and asked and asked <= self.minutes else slurm_time(self.minutes)


def check_cap(usd: float | None) -> None:
    """UsageError for what cannot be a cap."""
    if usd is not None and not (math.isfinite(usd) and usd > 0):
        raise UsageError(
            f"--max-cost {usd:g} is no amount of money",
            remedy="give US dollars, more than 0, or leave it out for no cap",
        )


def cap_of(
    usd: float, guess: Estimate, *, nodes: int, instance_type: str, prices: Prices, capacity: str, words: Sequence[str]
) -> Cap:
    """The cap of one run; `words` are options of sbatch. UsageError for one that would overrule it; RefusedError when
    no price is known, when the run is expected to cost more, or when so little money is less than a minute of these
    nodes."""
    overruling = next((word for word in words if _OVERRULING.fullmatch(word)), None)
    if overruling is not None:
        raise UsageError(
            f"{overruling} after -- would overrule --max-cost",
            remedy="give trnctl's own --time and --nodes, before the --",
        )
    price = prices.of(instance_type, capacity)
    if not price:
        raise RefusedError(
            f"--max-cost needs a price, and none is known for {instance_type} ({capacity})",
            remedy=f"give yours: --price {instance_type}=USD an hour",
        )
    if guess.cost_usd is not None and guess.cost_usd > usd:
        raise RefusedError(
            f"the run is expected to cost ${guess.cost_usd:,.2f}, more than --max-cost {usd:,.2f} ({guess.basis})",
            remedy=f"raise it to {math.ceil(guess.cost_usd)} or more, train fewer steps (--set), or look for a cheaper "
            "number of nodes with trnctl plan",
        )
    seconds = usd / price * 3600
    minutes = int((seconds / nodes - GRACE_S) / 60)
    if minutes < 1:
        raise RefusedError(
            f"--max-cost {usd:,.2f} buys {seconds / nodes:.0f} s of {nodes} × {instance_type}, and "
            f"Slurm counts in minutes and needs up to {GRACE_S} s to end a job",
            remedy=f"give at least {math.ceil(nodes * price * (GRACE_S + 60) / 36) / 100:,.2f}, or use fewer nodes",
        )
    return Cap(usd, price, int(seconds), minutes)


def slurm_time(minutes: int) -> str:
    """`1-02:03:00`, `5:07:00`."""
    days, rest = divmod(minutes, 24 * 60)
    return f"{days}-{rest // 60:02d}:{rest % 60:02d}:00" if days else f"{rest // 60}:{rest % 60:02d}:00"


def minutes_of(text: str) -> float | None:
    """Minutes of one of Slurm's forms: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S. None for another text."""
    day, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in [*parts, *([day] if dash else [])]) or len(parts) > 3:
        return None
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return int(day) * 1440 + hours * 60 + minutes + seconds / 60
    if len(numbers) == 3:
        return numbers[0] * 60 + numbers[1] + numbers[2] / 60
    return numbers[0] + (numbers[1] / 60 if len(numbers) == 2 else 0)
