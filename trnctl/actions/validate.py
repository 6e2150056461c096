"""Validate a cluster file: what the file alone tells, and on request what AWS and ParallelCluster say of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from trnctl.actions.preflight import Preflight, of_cluster, without
from trnctl.errors import UsageError
from trnctl.plan.software import file_findings
from trnctl.ports import Services
from trnctl.specs.cluster import ClusterFile, ClusterSpec
from trnctl.specs.workload import WorkloadSpec


def validate(
    load: Callable[[], ClusterFile],
    recipes: Callable[[ClusterFile], Mapping[str, WorkloadSpec]],
    online: Callable[[ClusterSpec], Services] | None,
    *,
    source: str = "",
    suppressed: Collection[str] = (),
    version: str = "",
) -> Preflight:
    """Preflight of a `trnctl.yaml`; an unreadable file is a UsageError without findings, a wrong one is its findings.

    `recipes` reads those that the file names, by name. `online` opens the doors when the account and ParallelCluster's
    own dry run are wanted; they are not asked about a file with errors. `source` is the file's text, for the lines of
    what only the rendered configuration shows. `version` is ParallelCluster's ('': the file's).
    """
    try:
        file = load()
        found = [*file.findings, *file_findings(file, recipes(file))]
    except UsageError as error:
        if not error.findings:
            raise
        return Preflight(without(error.findings, suppressed), 1)
    return of_cluster(
        file.cluster,
        source,
        file.path,
        said=found,
        suppressed=suppressed,
        services=online(file.cluster) if online is not None else None,
        version=version,
        may_stand=True,
    )
