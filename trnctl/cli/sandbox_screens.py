"""What `trnctl sandbox …` shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen

if TYPE_CHECKING:
    from trnctl.sandbox.home import Sandbox

_EXAMPLE = "examples/trn1-16-nodes.yaml"


def world(screen: Screen, up: Sandbox) -> None:
    """Where the world is and what a cluster file can name in it."""
    if screen.json:
        screen.data({"up": True, "endpoint": up.endpoint, "region": up.region, "home": str(up.home), "pid": up.pid})
        return
    screen.say(f"The sandbox is up in {up.home}: AWS is emulated at {up.endpoint}, region {up.region}.")
    screen.say("  pcluster, Slurm and ssh are real; AWS's answers and the Neuron tools are emulated", style="dim")
    screen.say(f"  next: {_next()}", style="dim")


def _next() -> str:
    """A cluster from an example where the checkout is, else from a file that is written for it."""
    if Path(_EXAMPLE).is_file():
        return f"trnctl --sandbox -c {_EXAMPLE} cluster create"
    return (
        "trnctl --sandbox init -y --ssh-from 203.0.113.0/24 --bucket my-trnctl-bucket; trnctl --sandbox cluster create"
    )


def faults(screen: Screen, known: Mapping[str, str], name: str | None) -> None:
    """All faults with what each does, or a word that one is set."""
    if name is not None:
        told = f"{name} is set: {known[name]}." if name != "clear" else "All faults are cleared."
        screen.done(
            {"fault": name}, told, after="trnctl sandbox fault clear, when it has failed" if name != "clear" else ""
        )
    elif screen.json:
        screen.data({"faults": dict(known)})
    else:
        screen.table(["FAULT", "WHAT HAPPENS"], sorted(known.items()))
