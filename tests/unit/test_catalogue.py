"""The shipped recipes: each one's whole command line, how it scales, and what the public scripts really do."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Snapshot
from tests.recipes import layout, recipe, request
from trnctl.actions.submit import Facts, Wishes, plan_submit
from trnctl.plan.arguments import fill_in
from trnctl.plan.layout import resolve
from trnctl.plan.outlook import admit
from trnctl.plan.proposal import propose
from trnctl.render import templates
from trnctl.render.job import documents
from trnctl.specs.workload import Scaling, WorkloadSpec

SHIPPED = [recipe(Path(name).stem) for name in templates.names("workloads/")]
SUBMITTABLE = [one for one in SHIPPED if not one.plan_only]
PUBLIC = [one for one in SUBMITTABLE if not one.source.shipped]  # with a script that somebody else wrote
EACH = pytest.mark.parametrize("spec", SUBMITTABLE, ids=lambda spec: spec.name)
BERT = [one for one in SUBMITTABLE if one.name.startswith("bert-large")]


def scripts(spec: WorkloadSpec) -> dict[str, str]:
    """The batch scripts of a run of the recipe, on its own nodes of its first type."""
    asked = replace(request(folder=f"/fsx/trnctl/runs/{spec.name}"), instance_type=next(iter(spec.ranks_per_node)))
    made = documents(spec, resolve(spec, asked.instance_type, spec.nodes), asked)
    return {file.name: file.text for file in made if file.name.endswith(".sbatch")}


def training(spec: WorkloadSpec, nodes: int, scaling: Scaling = "strong") -> set[str]:
    """The words of the training command."""
    made = layout(nodes, scaling, spec)
    return set(fill_in(spec, made, folder="/fsx/r", mount="/fsx", arguments={}, environment={}).training)


@EACH
def test_what_each_recipe_runs(spec: WorkloadSpec, snapshot: Snapshot) -> None:
    """The environment and the arguments of both stages, whole; the rest of the scripts is the same for all."""
    made = scripts(spec)
    assert set(made) == ({"compile.sbatch", "train.sbatch"} if spec.compile != "none" else {"train.sbatch"})
    for text in made.values():
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    values = [f"# {name}\n" + text[text.index("\nrun=") + 1 : text.index("\nsay()")] for name, text in made.items()]
    snapshot(f"recipes/{spec.name}.sh", "\n".join(values))


@pytest.mark.parametrize("name", ["llama3-8b", "llama3-8b-nxdt", "gpt-neox-20b"])  # the others have the same form
def test_shellcheck_takes_the_training_job(name: str) -> None:
    text = scripts(recipe(name))["train.sbatch"]
    argv = ["shellcheck", "-s", "bash", "-"]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@EACH
def test_each_recipe_is_admitted_on_its_own_nodes(spec: WorkloadSpec) -> None:
    admitted = admit(propose(spec, next(iter(spec.ranks_per_node)), spec.nodes, "strong"))
    assert admitted.overruled == ()
    assert admitted.layout.global_batch == spec.batch.global_size


@pytest.mark.parametrize("spec", PUBLIC, ids=lambda spec: spec.name)
def test_each_recipe_says_what_a_stop_would_lose_and_where_it_comes_from(spec: WorkloadSpec) -> None:
    assert not spec.checkpoint.on_signal, "none of the public scripts has a signal handler"
    assert spec.checkpoint.cadence
    assert spec.software.os == ("ubuntu2404",)
    told = " ".join([*spec.sources, *spec.sources.values()])
    assert all(word in told for word in ("batch", "arguments", "checkpoint", "log", "published"))
    for one in spec.choices:
        assert one.sources, f"{one.what}: who says otherwise"


def test_a_recipe_that_cannot_be_submitted_says_why() -> None:
    reasons = {one.name: one.plan_only for one in SHIPPED if one.plan_only}
    assert set(reasons) == {"llama3.1-405b", "qwen3-8b-torchtitan"}
    assert "no commit of it can be pinned" in reasons["qwen3-8b-torchtitan"]


@pytest.mark.parametrize(
    ("name", "nodes", "scaling", "words"),
    [
        ("llama3-8b", 4, "strong", {"--grad_accum_usteps=256", "--tensor_parallel_size=32"}),
        ("llama3-8b", 16, "strong", {"--grad_accum_usteps=64", "--tensor_parallel_size=32"}),
        ("llama3-8b", 16, "weak", {"--grad_accum_usteps=256"}),
        ("llama2-7b", 8, "strong", {"--grad_accum_usteps=32", "--tensor_parallel_size=8"}),
        ("llama2-13b", 32, "strong", {"--train_batch_size=32", "--num_microbatches=32"}),
        ("llama3-70b", 32, "strong", {"--train_batch_size=256", "--num_microbatches=256"}),
        ("llama3-70b", 16, "strong", {"--train_batch_size=512", "--num_microbatches=512"}),
        ("llama3-70b", 64, "weak", {"--train_batch_size=256", "--num_microbatches=256"}),
        ("llama3-8b-nxdt", 16, "strong", {"data.global_batch_size=1024", "trainer.num_nodes=16"}),
        ("llama3-8b-nxdt", 16, "weak", {"data.global_batch_size=4096", "trainer.num_nodes=16"}),
        ("gpt-neox-20b", 8, "strong", {"--grad_accum_usteps=32"}),
        ("bert-large-lamb", 16, "strong", {"--grad_accum_usteps=8", "--batch_size=16"}),
        ("bert-large-phase2-fp32", 16, "strong", {"--grad_accum_usteps=64", "--batch_size=1"}),
    ],
)
def test_nodes_and_scaling_change_the_argument_that_the_script_reads(
    name: str, nodes: int, scaling: Scaling, words: set[str]
) -> None:
    assert words <= training(recipe(name), nodes, scaling)


@EACH
def test_plan_and_submit_lay_out_the_same(spec: WorkloadSpec) -> None:
    from tests.unit.test_submit import NOW, example

    cluster = example()
    instance_type = next(iter(spec.ranks_per_node))
    wide = replace(cluster.queues[0].compute_resources[0], max_count=64, instance_type=instance_type)
    sdk = spec.software.first_sdk or cluster.neuron_sdk
    cluster = replace(cluster, neuron_sdk=sdk, queues=(replace(cluster.queues[0], compute_resources=(wide,)),))
    given = {spec.from_run.argument: "/fsx/ckpt_1.pt"} if spec.from_run.argument else {}
    wishes = Wishes(arguments=given)
    made = plan_submit(spec, cluster, wishes, run="r", now=NOW, facts=Facts())
    assert made.layout == resolve(spec, instance_type, spec.nodes)
    (manifest,) = [json.loads(file.text) for file in made.submission.files if file.name == "run.json"]
    assert manifest["layout"]["global_batch"] == spec.batch.global_size


def test_bert_differs_only_where_phase_optimizer_and_precision_do() -> None:
    assert len(BERT) == 8
    allowed = {"name", "title", "arguments", "batch", "steps", "from_run", "published", "claims", "choices", "sources"}
    allowed |= {"dataset", "data_source", "compile_arguments", "compile_minutes", "graph_neutral", "environment"}
    allowed |= {"checkpoint", "master_port", "data"}
    first = recipe()
    for one in BERT:
        different = {key for key in vars(first) if getattr(one, key) != getattr(first, key)}
        assert different <= allowed, one.name
        rounding = "NEURON_RT_STOCHASTIC_ROUNDING_EN" in one.environment
        assert rounding == (not one.name.endswith("fp32")) == (not one.arguments.get("enable_fp32"))
        phase2 = "phase2" in one.name
        assert bool(one.from_run.recipes) == phase2 == (one.batch.sequence == 512)
        lamb = "lamb" in one.name
        assert (one.arguments.get("optimizer") == "LAMB") == lamb
        for name in one.from_run.recipes:
            before = recipe(name)
            assert before.steps == one.arguments["phase1_end_step"]
            assert before.arguments.get("optimizer") != "LAMB" or lamb


def test_phase_2_needs_no_checkpoint_to_compile_and_finds_one_when_it_trains() -> None:
    spec = recipe("bert-large-phase2")
    made = fill_in(spec, layout(1, workload=spec), folder="/fsx/r", mount="/fsx", arguments={}, environment={})
    assert "--resume_ckpt" in made.training
    assert "--resume_ckpt" not in made.compiling
    assert "--phase2" in made.compiling
    assert spec.checkpoint.resume_arguments == ("--resume_ckpt_path", "{checkpoint}")
