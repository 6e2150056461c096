"""Validate a cluster file: what the file alone tells, and on request what AWS and ParallelCluster say of it."""

from __future__ import annotations

from collections.abc import Callable

from trnctl.errors import UsageError
from trnctl.findings import Finding
from trnctl.ports import Services
from trnctl.render.cluster import cluster_document
from trnctl.specs.cluster import ClusterFile, ClusterSpec


def validate(load: Callable[[], ClusterFile], online: Callable[[ClusterSpec], Services] | None) -> list[Finding]:
    """All findings; an unreadable file is a UsageError without findings, a wrong one is its findings.

    `online` opens the doors when ParallelCluster's own dry run is wanted; it is not asked about a file with errors.
    """
    try:
        spec = load().cluster
    except UsageError as error:
        if not error.findings:
            raise
        return list(error.findings)
    if online is None:
        return []
    return online(spec).provisioner.check(spec.name, cluster_document(spec))
