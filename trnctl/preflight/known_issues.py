"""Known faults of ParallelCluster's releases that would meet a cluster, as a table.

Sources are the issues of aws/aws-parallelcluster that each row names.
"""

from __future__ import annotations

from collections.abc import Callable

from trnctl.preflight.config import Config


def _reserves(config: Config) -> bool:
    return any(resource.reservation for resource in config.resources())


def _is_large(config: Config) -> bool:
    return config.nodes >= 64


def _has_static_nodes(config: Config) -> bool:
    return any(resource.least for resource in config.resources())


# First release that has it, first that no longer has it, what happens, and which clusters it meets.
ISSUES: tuple[tuple[tuple[int, ...], tuple[int, ...], str, Callable[[Config], bool]], ...] = (
    ((3, 8), (3, 13, 2), "an expired capacity reservation breaks updates (6870)", _reserves),
    ((3, 9), (3, 14, 1), "tightly coupled jobs lose performance at scale (7095)", _is_large),
    ((3, 8), (3, 15, 2), "a maintenance reservation on a static node replaces it in a loop (7470)", _has_static_nodes),
)
