"""The stand-ins for the Llama and GPT-NeoX scripts, started as the recipes start them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.recipes import layout, recipe
from tests.sandbox.neuron_cluster import NeuronCluster
from trnctl.plan.arguments import Filled, fill_in
from trnctl.render.places import code_folder
from trnctl.sandbox.neuron.pace import modelled_rate
from trnctl.specs.workload import Value, WorkloadSpec

# With 32 workers in all, which one emulated node stands for: the pipeline of the 70B recipe is cut to none.
ON_ONE_NODE = ["llama2-7b", "llama3-8b", "llama3-8b-nxdt", "gpt-neox-20b", "gpt-neox-6.9b"]


@pytest.fixture
def cluster(tmp_path: Path) -> NeuronCluster:
    return NeuronCluster(tmp_path)


def one_node(name: str) -> WorkloadSpec:
    return replace(recipe(name), nodes=1)


def filled(cluster: NeuronCluster, spec: WorkloadSpec, **arguments: Value) -> Filled:
    made = layout(1, workload=spec)
    return fill_in(spec, made, folder=str(cluster.shared / "run"), mount=str(cluster.shared), arguments=arguments,
                   environment={})  # fmt: skip


def words(
    cluster: NeuronCluster, spec: WorkloadSpec, arguments: tuple[str, ...], nodes: int = 1, node: int = 0
) -> list[str]:
    script = Path(code_folder(str(cluster.shared), spec.source)) / spec.script
    if not script.exists():
        cluster.place_source()
    launch = ["--nproc_per_node=32", f"--nnodes={nodes}", f"--node_rank={node}", "--master_addr=127.0.0.1"]
    argv = ["torchrun", *launch, "--master_port=2022", script.name, *arguments]
    return ["sh", "-c", 'cd "$0" && exec "$@"', str(script.parent), *argv]


def every(spec: WorkloadSpec) -> dict[str, Value]:
    """The argument that makes it save every third step."""
    named = [name for name, value in {**spec.arguments, **spec.overrides}.items() if value == "{every_steps}"]
    return dict.fromkeys(named, "3")


@pytest.mark.parametrize("name", ON_ONE_NODE)
def test_it_compiles_trains_and_goes_on_as_the_recipe_says(cluster: NeuronCluster, name: str) -> None:
    spec = one_node(name)
    made = filled(cluster, spec, **every(spec))
    variables = dict(made.environment)
    compiled = cluster.run("neuron_parallel_compile", *words(cluster, spec, made.compiling), **made.trial)
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    assert "Total successful compilations: 5" in compiled.stdout
    trained = cluster.run(*words(cluster, spec, made.training), **variables)
    assert trained.returncode == 0, trained.stderr
    assert "Call compiler" not in trained.stdout, "the graphs of the trial are those of the training"
    interval = int(spec.arguments.get("logging_interval", 1))
    steps = [int(found["step"]) + 1 - spec.log.first for found in re.finditer(spec.log.step, trained.stdout)]
    assert steps == [step for step in range(1, 7) if step % interval == 0]
    assert "emulated by the trnctl sandbox: nothing is trained" in trained.stdout
    whole = list((cluster.shared / "run/checkpoints").glob(spec.checkpoint.pattern))
    if spec.checkpoint.complete_when == "done-file":
        assert all((path / "done").is_file() for path in whole)
        assert len(whole) == 2
        newest = max(whole, key=lambda path: path.stat().st_mtime)
        more = [word.replace("{checkpoint}", str(newest)) for word in spec.checkpoint.resume_arguments]
        again = cluster.run(*words(cluster, spec, (*made.training, *more)), **variables)
        assert f"loading checkpoint from {newest.name}" in again.stdout
        assert "this start will stop after 6 steps, at 12 of" in again.stdout
    else:
        assert whole == [], "it saves at its very end only"


def test_a_pipeline_prints_on_the_node_of_its_last_stage(cluster: NeuronCluster) -> None:
    spec = recipe("llama2-13b")
    cluster.emulate(instance_types={"q-dy-i1": "trn1.32xlarge"})
    given = fill_in(spec, layout(32, workload=spec), folder=str(cluster.shared / "run"), mount=str(cluster.shared),
                    arguments={}, environment={})  # fmt: skip
    training = tuple(word.replace("pipeline_parallel_size=4", "pipeline_parallel_size=2") for word in given.training)
    nodes = [
        cluster.start(*words(cluster, spec, training, nodes=2, node=node), node=f"q-dy-i1-{node + 1}")
        for node in (0, 1)
    ]
    texts = [tool.communicate(timeout=30)[0] for tool in nodes]
    assert [len(re.findall(spec.log.step, text, re.MULTILINE)) for text in texts] == [0, 6]
    found = re.search(spec.log.step, texts[1], re.MULTILINE)
    assert found is not None
    assert found["step"] == "0"


@pytest.mark.parametrize(
    ("name", "change", "part"),
    [
        ("llama3-8b", {"data_dir": "/nowhere"}, "Directory /nowhere not found"),
        ("llama3-8b", {"model_path": "9B_config"}, "Can't load the configuration of '9B_config'"),
        ("llama3-8b", {"no_such_option": "1"}, "unrecognized arguments"),
        ("llama3-8b-nxdt", {"trainer.max_steps": "many"}, ""),
    ],
)
def test_what_the_originals_refuse_is_refused(
    cluster: NeuronCluster, name: str, change: dict[str, str], part: str
) -> None:
    spec = one_node(name)
    made = filled(cluster, spec)
    named = set(change)
    kept = tuple(word for word in made.training if word.lstrip("-").partition("=")[0] not in named)
    dashes = "" if spec.overrides else "--"
    done = cluster.run(*words(cluster, spec, (*kept, *(f"{dashes}{key}={value}" for key, value in change.items()))))
    assert done.returncode != 0
    assert part in done.stderr


def test_the_rule_of_thumb_is_near_what_is_published() -> None:
    for name, size in (("llama3-8b", 8), ("llama3-70b", 70), ("llama2-7b", 7)):
        (row,) = recipe(name).published
        assert modelled_rate(size, recipe(name).batch.sequence, row.nodes) == pytest.approx(row.rate, rel=0.4)
