"""Validate a cluster file: what the file alone tells, and on request what AWS and ParallelCluster say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trnctl.errors import UsageError
from trnctl.findings import Finding, by_severity
from trnctl.plan.software import file_findings
from trnctl.ports import Services
from trnctl.render.cluster import cluster_document
from trnctl.specs.cluster import ClusterFile, ClusterSpec
from trnctl.specs.workload import WorkloadSpec


def validate(
    load: Callable[[], ClusterFile],
    recipes: Callable[[ClusterFile], Mapping[str, WorkloadSpec]],
    online: Callable[[ClusterSpec], Services] | None,
) -> list[Finding]:
    """All findings; an unreadable file is a UsageError without findings, a wrong one is its findings.

    `recipes` reads those that the file names, by name. `online` opens the doors when ParallelCluster's own dry run is
    wanted; it is not asked about a file with errors, and not about trnctl's node scripts, which create puts in place.
    """
    try:
        file = load()
        found = [*file.findings, *file_findings(file, recipes(file))]
    except UsageError as error:
        if not error.findings:
            raise
        return list(error.findings)
    if online is not None and not any(finding.level == "error" for finding in found):
        spec = file.cluster
        found += online(spec).provisioner.check(spec.name, cluster_document(spec))
    return by_severity(found)
