"""Numbers in sentences."""

from __future__ import annotations

from collections.abc import Sequence

_MOST = 12


def count(nodes: int) -> str:
    """`1 node`, `16 nodes`."""
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def listed(numbers: Sequence[int]) -> str:
    """`1, 2, 4`; the middle of a long list is left out."""
    shown = [str(number) for number in numbers]
    if len(shown) > _MOST:
        shown = [*shown[: _MOST - 2], "…", shown[-1]]
    return ", ".join(shown)
