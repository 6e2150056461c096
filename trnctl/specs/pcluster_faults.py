"""Known faults of ParallelCluster's releases, as a table; numbers are issues and changes of aws/aws-parallelcluster.

Only what a user has reported or AWS has announced stands here. Whether a fault meets a cluster depends on what it uses,
which the words say; rules that look at a whole configuration are elsewhere (trnctl.preflight).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trnctl.findings import Finding

Release = tuple[int, int, int]


@dataclass(frozen=True)
class Fault:
    """`first` and `last` are the releases that have it, both included (`last` None: none is known that has it not).
    `systems`: how the operating systems that it meets begin ('' all). `of`: what a cluster must have to be met, a word
    that trnctl.preflight.known_issues knows ('' any cluster)."""

    first: Release
    last: Release | None
    words: str
    source: str
    systems: str = ""
    of: str = ""


FAULTS: tuple[Fault, ...] = (
    Fault((3, 0, 0), (3, 5, 1), "nodes with several network cards may get a wrong address", "#5143", of="cards"),
    Fault(
        (3, 0, 0),
        (3, 10, 1),
        "making a managed FSx file system or deleting a placement group may fail",
        "changelog 3.11.0",
        of="lustre or group",
    ),
    Fault((3, 0, 0), (3, 16, 0), "its Slurm has published security faults", "#7601"),
    Fault((3, 3, 0), (3, 9, 0), "an update that removes shared storage can delete its data", "#6211", of="storage"),
    Fault(
        (3, 6, 0),
        (3, 6, 1),
        "names and addresses of nodes with several network cards may not match",
        "#5682",
        of="cards by EC2's names",
    ),
    Fault((3, 8, 0), (3, 13, 1), "an expired capacity reservation breaks updates", "#6870", of="reservation"),
    Fault(
        (3, 8, 0),
        (3, 15, 1),
        "a maintenance reservation on a static node replaces it in a loop",
        "#7470",
        of="static nodes",
    ),
    Fault(
        (3, 9, 0),
        (3, 9, 2),
        "the addresses of new nodes are not passed on: they boot and end in a loop",
        "cookbook #2755",
    ),
    Fault((3, 9, 0), (3, 10, 1), "updates fail at their readiness check", "#6412"),
    Fault((3, 9, 0), (3, 14, 0), "tightly coupled jobs on many nodes lose performance", "#7095", of="many nodes"),
    Fault((3, 9, 0), None, "munge refuses its key on Rocky Linux 9.4", "#6442", systems="rocky"),
    Fault(
        (3, 11, 0),
        (3, 11, 1),
        "nodes with NVIDIA devices may not boot in time",
        "#6571",
        systems="alinux2023",
        of="NVIDIA devices",
    ),
)


def release_of(version: str) -> Release | None:
    """`3.16.1` as numbers; None when it is none."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def known_faults(version: str, system: str = "") -> list[Finding]:
    """A warning for each fault of a release that may meet clusters of an operating system ('' = any)."""
    return [
        Finding(
            "pcluster-known-issue",
            "warning",
            f"ParallelCluster {version}: {fault.words}",
            way_out(fault),
            evidence=f"aws-parallelcluster {fault.source}",
        )
        for fault in faults_of(release_of(version), system)
    ]


def faults_of(release: Release | None, system: str = "") -> list[Fault]:
    """The faults of a release, of those that depend on the system the ones that may meet it ('' = any); [] for None."""
    if release is None:
        return []
    return [
        fault
        for fault in FAULTS
        if fault.first <= release <= (fault.last or release) and system.startswith(fault.systems)
    ]


def way_out(fault: Fault) -> str:
    """What to use instead."""
    return f"Use a release after {'.'.join(map(str, fault.last))}." if fault.last else "Use another system."
