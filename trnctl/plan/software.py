"""Whether the software of a cluster can run a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trnctl.errors import UsageError
from trnctl.findings import Finding, errors_among
from trnctl.specs.cluster import ClusterFile, ClusterSpec
from trnctl.specs.sdk import pairing
from trnctl.specs.workload import WorkloadSpec


def software_findings(spec: ClusterSpec, workload: WorkloadSpec) -> list[Finding]:
    """What is wrong with the cluster's `os` and `neuron_sdk` for a recipe; nothing where none of its types is there."""
    types = {resource.instance_type for queue in spec.queues for resource in queue.compute_resources}
    used = sorted(name for name in types & workload.ranks_per_node.keys() if name.startswith("trn"))
    if not used:
        return []
    return pairing(spec.os, spec.neuron_sdk, used, torch_xla=_speaks_xla(workload))


def _speaks_xla(workload: WorkloadSpec) -> bool:
    """neuron_parallel_compile, NxD and NxDT exist for PyTorch/XLA only."""
    return workload.compile == "neuron_parallel_compile" or workload.stack in ("nxd", "nxdt")


def refuse_software(spec: ClusterSpec, workload: WorkloadSpec) -> None:
    """UsageError, with the pair that works, when the cluster's software cannot run the recipe."""
    found = software_findings(spec, workload)
    wrong = errors_among(found)
    if wrong:
        raise UsageError(
            f"{workload.name} cannot run with this cluster's software: {wrong[0].message}",
            remedy=wrong[0].remedy,
            findings=found,
        )


def file_findings(file: ClusterFile, recipes: Mapping[str, WorkloadSpec]) -> list[Finding]:
    """The same for each of a cluster file's own recipes, by name, at its place in the file."""
    return [
        replace(finding, message=f"{name}: {finding.message}", path=f"workloads.{name}", file=file.path)
        for name, workload in recipes.items()
        for finding in software_findings(file.cluster, workload)
    ]
