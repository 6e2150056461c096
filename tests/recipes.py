"""The shipped recipes and small variations of them, for tests."""

from __future__ import annotations

from trnctl.plan.layout import Layout, resolve
from trnctl.render import templates
from trnctl.render.job import JobRequest
from trnctl.specs.workload import Scaling, WorkloadSpec
from trnctl.specs.workload_loading import load_workload

TRN1 = "trn1.32xlarge"


def recipe_text(name: str = "bert-large") -> str:
    """The text of a shipped recipe."""
    return templates.read(f"workloads/{name}.yaml")


def recipe(name: str = "bert-large") -> WorkloadSpec:
    """A shipped recipe."""
    return load_workload(recipe_text(name), f"{name}.yaml")


def layout(nodes: int, scaling: Scaling = "strong", workload: WorkloadSpec | None = None) -> Layout:
    """A legal layout of bert-large, or of another workload, on trn1."""
    return resolve(workload or recipe(), TRN1, nodes, scaling)


def request(
    *,
    folder: str = "/fsx/trnctl/runs/bert-large-1129-a3f",
    mount: str = "/fsx",
    partition: str = "compute1",
    time_limit: str | None = None,
    exclude: str = "",
    environment: dict[str, str] | None = None,
    arguments: dict[str, str] | None = None,
    compile: bool = True,  # noqa: A002  # the field's own name
    notice: str = "",
) -> JobRequest:
    """What a submit asks for, the same at any time of day."""
    return JobRequest(
        run="bert-large-1129-a3f",
        folder=folder,
        cluster="ultra1",
        partition=partition,
        mount=mount,
        instance_type=TRN1,
        sdk="2.31.1",
        submitted_at="2026-11-29T12:00:00+00:00",
        time_limit=time_limit,
        exclude=exclude,
        environment=environment or {},
        arguments=arguments or {},
        compile=compile,
        notice=notice,
    )
