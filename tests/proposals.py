"""Small workloads to plan with, for the tests of planning."""

from __future__ import annotations

from dataclasses import replace

from tests.recipes import TRN1, recipe
from trnctl.plan.proposal import Proposal, propose
from trnctl.specs.cluster import Platform
from trnctl.specs.model import PRESETS
from trnctl.specs.parallelism import Parallelism
from trnctl.specs.workload import Batch, Scaling, WorkloadSpec

P4D, P4DE, P5, TRN2 = "p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "trn2.48xlarge"


def workload(model: str = "llama3-8b", *, batch: Batch | None = None, **changes: object) -> WorkloadSpec:
    """A recipe that is only planned, with no published row and no word of parallelism."""
    base = recipe("llama3-8b-nxdt")
    made = replace(
        base,
        name="mine",
        plan_only="to be planned only",
        environment={},
        master_port=2022,
        shape=PRESETS[model],
        published=(),
        parallelism=Parallelism(),
        ranks_per_node={},
        batch=batch or Batch(1024, 1, 256, 8192),
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # each test gives fields of the right type


def proposal(
    words: Parallelism,
    *,
    nodes: int = 4,
    instance_type: str = TRN1,
    model: str = "llama3-8b",
    batch: Batch | None = None,
    scaling: Scaling = "strong",
    platform: Platform = "parallelcluster",
    **changes: object,
) -> Proposal:
    """A proposal of that workload."""
    made = workload(model, batch=batch, **changes)
    return propose(made, instance_type, nodes, scaling, platform=platform, words=words)
