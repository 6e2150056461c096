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


def of_bytes(done: int | None, total: int | None) -> str:
    """`, 3.2 of 24.0 GiB`; `, 3.2 GiB` when nobody knows of how many; '' without numbers."""
    if done is None:
        return ""
    scales = (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10))
    unit, size = next((one for one in scales if max(done, total or 0) >= one[1]), scales[-1])
    whole = f" of {total / size:,.1f}" if total else ""
    return f", {done / size:,.1f}{whole} {unit}"
