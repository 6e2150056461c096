"""The training code that comes with trnctl: its scripts, and what they read of the layout, as files of a run."""

from __future__ import annotations

from trnctl.plan.layout import Layout
from trnctl.plan.proposal import propose
from trnctl.plan.targets import documents_of
from trnctl.ports import File
from trnctl.render import templates
from trnctl.specs.workload import WorkloadSpec

CODE = "code"  # the folder of the scripts in the run's


def travelling(workload: WorkloadSpec, layout: Layout, instance_type: str) -> tuple[File, ...]:
    """Nothing, where the code is a repository's; else the scripts, and parallel.json of the layout."""
    name = workload.source.shipped
    if not name:
        return ()
    proposal = propose(workload, instance_type, layout.nodes, layout.scaling)
    scripts = [File(f"{CODE}/{file}", text) for file, text in templates.example(name).items()]
    return (*scripts, *(File(file, text) for file, text in documents_of(proposal).items()))
