"""Recipes whose code comes with trnctl: what travels in the run's folder, and how it is started there."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePath

import pytest

from tests.conftest import Snapshot
from tests.recipes import recipe, recipe_text, request
from tests.unit.test_render_job import judged
from trnctl.actions.submit import Facts, Wishes, plan_submit
from trnctl.errors import UsageError
from trnctl.plan.layout import resolve
from trnctl.plan.memory import memory_of
from trnctl.plan.proposal import propose
from trnctl.plan.rules import check
from trnctl.render import templates
from trnctl.render.job import documents
from trnctl.specs.loading import load_cluster_file
from trnctl.specs.workload_loading import load_workload

WHEN = datetime(2026, 11, 29, tzinfo=UTC)
TINY, LARGE = "fsdp-llama-tiny", "fsdp-llama3-8b"
CASES = [(TINY, 1, "c5.xlarge"), (TINY, 2, "c5.xlarge"), (LARGE, 2, "p4d.24xlarge"), (LARGE, 4, "p5.48xlarge")]


def files(name: str, nodes: int, instance_type: str) -> dict[str, str]:
    spec = recipe(name)
    laid = resolve(spec, instance_type, nodes)
    asked = replace(request(), instance_type=instance_type)
    return {file.name: file.text for file in documents(spec, laid, asked)}


@pytest.mark.parametrize(("name", "nodes", "instance_type"), CASES)
def test_the_training_job_and_its_layout(name: str, nodes: int, instance_type: str, snapshot: Snapshot) -> None:
    made = files(name, nodes, instance_type)
    script = made["train.sbatch"]
    if nodes == recipe(name).nodes:
        snapshot(f"jobs/{name}.train.sbatch", script)
    snapshot(f"jobs/{name}-{nodes}.parallel.json", made["parallel.json"])
    assert judged(script) == ""
    laid = json.loads(made["parallel.json"])
    assert laid["batch"]["global"] == recipe(name).batch.global_size


def test_the_whole_trainer_travels_with_the_run_and_needs_nothing_else() -> None:
    made = files(TINY, 2, "c5.xlarge")
    scripts = templates.example("fsdp_trainer")
    assert {name.removeprefix("code/"): text for name, text in made.items() if name.startswith("code/")} == scripts
    assert "train.py" in scripts
    spec = load_cluster_file(CLUSTER, "trnctl.yaml").cluster
    plan = plan_submit(recipe(TINY), spec, Wishes(nodes=2), run="r", now=WHEN, facts=Facts())
    assert [need for need in plan.submission.needs if "code" in need.what] == []


CLUSTER = """\
cluster:
  name: mixed
  region: us-west-2
  bucket: b-1
  network: {head_subnet: subnet-0aa11bb22cc33dd41, compute_subnet: subnet-0aa11bb22cc33dd42}
  head_node: {key_name: demo, ssh_from: [203.0.113.0/24]}
  queues:
    - name: small
      compute_resources:
        - {name: c5, instance_type: c5.xlarge, max_count: 4}
    - name: gpus
      compute_resources:
        - {name: p4d, instance_type: p4d.24xlarge, max_count: 4}
"""


def test_what_is_emulated_is_said_and_what_is_real_too() -> None:
    spec, facts = load_cluster_file(CLUSTER, "trnctl.yaml").cluster, Facts(notice="All is emulated")

    def notice(name: str, nodes: int, told: Facts) -> str:
        plan = plan_submit(recipe(name), spec, Wishes(nodes=nodes), run="r", now=WHEN, facts=told)
        (manifest,) = [file.text for file in plan.submission.files if file.name == "run.json"]
        return str(json.loads(manifest)["notice"])

    assert notice(TINY, 2, facts).startswith("All is emulated; the training is real")
    assert notice(LARGE, 2, facts) == "All is emulated", "there are no GPUs in an emulated world"
    assert notice(TINY, 2, Facts()) == ""


def test_the_patterns_of_the_recipes_read_what_the_trainer_prints() -> None:
    """The line is made from the script's own text, so that neither can change alone."""
    trainer = templates.example("fsdp_trainer")["train.py"]
    (made,) = re.findall(r'say\((f"step \{step\}.*")\)', trainer)
    line = eval(made, {"step": 12, "loss": 5.8712, "norm": 1.2, "rate": 118.4})  # noqa: S307  our own f-string
    for name in (TINY, LARGE):
        match = re.search(recipe(name).log.step, line)
        assert match is not None
        assert match.groupdict() == {"step": "12", "loss": "5.871200", "throughput": "118.400"}


def test_a_checkpoint_that_is_being_written_is_none() -> None:
    for name in (TINY, LARGE):
        pattern = recipe(name).checkpoint.pattern
        assert PurePath("step-00000040").match(pattern)
        assert not PurePath("step-00000040.partial").match(pattern)


def test_trn1_does_not_run_it() -> None:
    """P17: there is no native PyTorch for the first Trainium."""
    spec = replace(recipe(LARGE), ranks_per_node={"trn1.32xlarge": 32})
    assert "fsdp-on-trn1" in [finding.code for finding in check(propose(spec, "trn1.32xlarge", 4))]
    with pytest.raises(UsageError, match="native PyTorch"):
        resolve(spec, "trn1.32xlarge", 4)


def test_only_examples_that_are_shipped_can_be_named() -> None:
    text = recipe_text(TINY)
    with pytest.raises(UsageError) as caught:
        load_workload(text.replace("shipped: fsdp_trainer", "shipped: fsdp_trainr"), "mine.yaml")
    assert "fsdp_trainer" in str(caught.value.findings[0].remedy) + caught.value.remedy
    with pytest.raises(UsageError) as both:
        load_workload(text.replace("{shipped: fsdp_trainer}", "{shipped: fsdp_trainer, commit: abc}"), "mine.yaml")
    assert "commit" in str(both.value.findings or both.value.message)


def test_memory_of_workers_on_cpus_is_the_hosts() -> None:
    memory = memory_of(propose(recipe(TINY), "c5.xlarge", 1))
    assert memory is not None
    assert memory.device == 8 * 2**30 / 2
    assert memory.verdict == "fits"
