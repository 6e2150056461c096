"""Export a layout to what its training stack reads, wherever that stack runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from trnctl.actions.plan import PlanWishes, place
from trnctl.errors import UsageError
from trnctl.findings import errors_among
from trnctl.plan.proposal import propose
from trnctl.plan.smp import exported
from trnctl.plan.stacks import unknown_words
from trnctl.plan.targets import SMP_DOCUMENT, Compiled, compiled
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.parallelism import BACKENDS, Backend, Parallelism
from trnctl.specs.workload import WorkloadSpec


@dataclass(frozen=True)
class ExportWishes:
    """For which stack (auto: the recipe's own), on how many nodes of which type; None is the recipe's own."""

    backend: str = "smp"
    nodes: int | None = None
    instance_type: str | None = None


def export_layout(source: WorkloadSpec | Parallelism, spec: ClusterSpec | None, wishes: ExportWishes) -> Compiled:
    """The documents and commands of a recipe's layout. SMP's configuration needs the words alone and says nothing of
    nodes; all other stacks need the recipe. UsageError for what the stack does not know, or a rule refuses."""
    backend = _backend(wishes.backend)
    if backend == "smp":
        return _smp(source if isinstance(source, Parallelism) else source.parallelism)
    if isinstance(source, Parallelism):
        raise UsageError(
            f"{wishes.backend} needs a batch and a model, and the file has a parallelism section alone",
            remedy="name a recipe; --backend smp needs the section alone",
        )
    instance_type, _, _ = place(source, spec, PlanWishes(instance_type=wishes.instance_type))
    words = source.parallelism if backend is None else replace(source.parallelism, backend=backend)
    nodes = wishes.nodes or source.nodes
    platform = spec.platform if spec is not None else "parallelcluster"
    return compiled(propose(source, instance_type, nodes, platform=platform, words=words))


def _backend(name: str) -> Backend | None:
    if name != "auto" and name not in BACKENDS:
        raise UsageError(f"--backend {name} is not known", remedy=f"use one of auto, {', '.join(BACKENDS)}")
    return next((backend for backend in BACKENDS if backend == name), None)


def _smp(words: Parallelism) -> Compiled:
    findings = list(unknown_words("smp", words))
    wrong = errors_among(findings)
    if wrong:
        raise UsageError(wrong[0].message, remedy=wrong[0].remedy, findings=wrong[1:])
    text = json.dumps(exported(words), indent=2) + "\n"
    return Compiled("smp", {SMP_DOCUMENT: text}, (), tuple(findings))
