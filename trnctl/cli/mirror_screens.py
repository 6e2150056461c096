"""What is said when a cluster's bucket tells of its runs, and not the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnctl.cli.output import Screen
from trnctl.cli.words import clock

if TYPE_CHECKING:
    from trnctl.actions.mirror import Mirror


def from_the_mirror(screen: Screen, mirror: Mirror) -> None:
    """Say who tells, why, and from when it knows."""
    why = mirror.why.rstrip(".")
    screen.say(f"{why[:1].upper()}{why[1:]}.", style="dim")
    screen.say(f"What follows is from s3://{mirror.bucket}, last written at {clock(mirror.at)}.", style="dim")
