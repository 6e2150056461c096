"""The door to nodes that a person works on: taken for a shell, given back at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Allocation:
    """What is asked for. `queue` '' means Slurm's default; `time_limit` is in Slurm's form."""

    nodes: int
    time_limit: str
    queue: str = ""


class Allocator(Protocol):
    """Takes nodes from Slurm for as long as a shell on them is open."""

    def shell(self, wish: Allocation) -> int:
        """Hand over the terminal: wait for the nodes, saying for what, then open a shell on the first of them; its exit
        code. The nodes are given back however it ends, also when the connection breaks."""
