"""Whether the software of a cluster can run a recipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from trnctl.errors import UsageError
from trnctl.findings import Finding, errors_among
from trnctl.specs.cluster import ClusterFile, ClusterSpec
from trnctl.specs.sdk import PROVEN_OS, ROWS, pairing
from trnctl.specs.workload import WorkloadSpec


def software_findings(spec: ClusterSpec, workload: WorkloadSpec) -> list[Finding]:
    """What is wrong with the cluster's `os` and `neuron_sdk` for a recipe; nothing where none of its types is there."""
    types = {resource.instance_type for queue in spec.queues for resource in queue.compute_resources}
    used = sorted(name for name in types & workload.ranks_per_node.keys() if name.startswith("trn"))
    if not used:
        return []
    native = workload.stack == "fsdp"
    found = pairing(spec.os, spec.neuron_sdk, used, torch_xla=_speaks_xla(workload), torch_native=native)
    return found or list(_outside(spec, workload))  # one doubt about the pair says enough


def _outside(spec: ClusterSpec, workload: WorkloadSpec) -> Iterator[Finding]:
    """Where the cluster's software is not what the recipe was written for; nobody knows more of it than that."""
    wanted, system = workload.software, spec.os
    known = [release.version for release in reversed(ROWS)]
    first, last = wanted.first_sdk or known[0], wanted.last_sdk or known[-1]
    if spec.neuron_sdk in known and not known.index(first) <= known.index(spec.neuron_sdk) <= known.index(last):
        yield Finding(
            "sdk-unproven",
            "warning",
            f"{workload.name} was written for Neuron SDK {first} to {last}, and this cluster has {spec.neuron_sdk}",
            f'The pair that is known: `neuron_sdk: "{last if spec.neuron_sdk > last else first}"` with '
            f"`os: {PROVEN_OS}`.",
        )
    if wanted.os and system not in wanted.os:
        yield Finding(
            "sdk-unproven",
            "warning",
            f"{workload.name} was written for {' or '.join(wanted.os)}, and this cluster has {system}",
            f"Write `os: {wanted.os[0]}`, or try it on one node before you count on it.",
        )


def _speaks_xla(workload: WorkloadSpec) -> bool:
    """neuron_parallel_compile, NxD and NxDT exist for PyTorch/XLA only."""
    return workload.compile == "neuron_parallel_compile" or workload.stack in ("nxd", "nxdt")


def admit_software(spec: ClusterSpec, workload: WorkloadSpec) -> list[Finding]:
    """What is doubtful about the cluster's software for a recipe. UsageError, with the pair that works, when it cannot
    run it at all."""
    found = software_findings(spec, workload)
    wrong = errors_among(found)
    if wrong:
        raise UsageError(
            f"{workload.name} cannot run with this cluster's software: {wrong[0].message}",
            remedy=wrong[0].remedy,
            findings=found,
        )
    return found


def instead(spec: ClusterSpec, workload: WorkloadSpec, recipes: Iterable[WorkloadSpec]) -> list[str]:
    """Recipes that train the same model on a type that the cluster has, each with what the cluster's software would
    have to be if it cannot run that either; those first that run as it is."""
    types = {resource.instance_type for queue in spec.queues for resource in queue.compute_resources}
    told: list[tuple[int, str]] = []
    for one in recipes:
        same = one.model == workload.model and one.name != workload.name
        if not same or one.plan_only or not types & one.ranks_per_node.keys():
            continue
        wrong = errors_among(software_findings(spec, one))
        told.append((len(wrong), f"{one.name} ({wrong[0].remedy.rstrip('.')})" if wrong else one.name))
    return [words for _, words in sorted(told)]


def file_findings(file: ClusterFile, recipes: Mapping[str, WorkloadSpec]) -> list[Finding]:
    """The same for each of a cluster file's own recipes, by name, at its place in the file."""
    return [
        replace(finding, message=f"{name}: {finding.message}", path=f"workloads.{name}", file=file.path)
        for name, workload in recipes.items()
        for finding in software_findings(file.cluster, workload)
    ]
