"""The recipe's words filled for one run, and the user's own on top."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.recipes import layout, recipe
from trnctl.errors import UsageError
from trnctl.plan.arguments import Filled, fill_in, planned_steps
from trnctl.plan.layout import Layout
from trnctl.specs.workload import Checkpoint, Value, WorkloadSpec


def filled(
    workload: WorkloadSpec | None = None,
    made: Layout | None = None,
    arguments: dict[str, Value] | None = None,
    environment: dict[str, str] | None = None,
) -> Filled:
    return fill_in(
        workload or recipe(),
        made or layout(16),
        folder="/fsx/trnctl/runs/r",
        mount="/fsx",
        arguments=arguments or {},
        environment=environment or {},
    )


def test_training_gets_the_layout_and_the_folders() -> None:
    words = filled().training
    assert "--batch_size=16" in words
    assert "--grad_accum_usteps=2" in words
    assert "--output_dir=/fsx/trnctl/runs/r/checkpoints" in words
    assert "--steps_this_run=28125" in words
    assert "--data_dir=/fsx/trnctl/data/bert_pretrain_wikicorpus_tokenized_hdf5_seqlen128/" in words


def test_the_trial_run_differs_only_where_the_recipe_says() -> None:
    both = filled()
    assert set(both.compiling) - set(both.training) == {
        "--steps_this_run=5",
        "--output_dir=/fsx/trnctl/runs/r/output/compile",
        "--metrics_file=/fsx/trnctl/runs/r/output/compile/metrics.json",
    }
    assert len(both.compiling) == len(both.training)


def test_network_variables_are_for_several_nodes_only() -> None:
    assert filled().environment["FI_PROVIDER"] == "efa"
    alone = filled(made=layout(1)).environment
    assert "FI_PROVIDER" not in alone
    assert alone["NEURON_RT_EXEC_TIMEOUT"] == "600"


def test_the_user_comes_last() -> None:
    mine = filled(
        arguments={"lr": "0.0002", "enable_pt_autocast": "true", "seed": "false"},
        environment={"NEURON_RT_EXEC_TIMEOUT": "900", "MINE": "{steps}"},
    )
    assert "--lr=0.0002" in mine.training
    assert "--lr=0.0002" in mine.compiling
    assert "--enable_pt_autocast" in mine.training
    assert not [word for word in mine.training if word.startswith("--seed")]
    assert mine.environment["NEURON_RT_EXEC_TIMEOUT"] == "900"
    assert mine.environment["MINE"] == "{steps}", "what the user writes is not filled"


def test_the_user_may_end_the_run_earlier() -> None:
    short = filled(arguments={"steps_this_run": "100"})
    assert short.steps == planned_steps(recipe(), {"steps_this_run": 100}) == 100
    assert "--steps_this_run=100" in short.training
    assert "--max_steps=28125" in short.training, "the learning rate's schedule stays"
    assert "--steps_this_run=5" in short.compiling


@pytest.mark.parametrize("steps", ["0", "-5", "many", "1.5", "", "9" * 13])
def test_steps_must_be_a_number_of_steps(steps: str) -> None:
    with pytest.raises(UsageError, match="no such number"):
        filled(arguments={"steps_this_run": steps})


@pytest.mark.parametrize("name", ["grad_accum_usteps", "batch_size", "output_dir", "metrics_file"])
def test_what_the_layout_decides_cannot_be_set_by_hand(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} follows from the layout"):
        filled(arguments={name: "4"})


@pytest.mark.parametrize("name", ["--lr", "", "a b", "a=b", "$(id)", "a\nb"])
def test_an_argument_needs_a_name(name: str) -> None:
    with pytest.raises(UsageError, match="name of an argument"):
        filled(arguments={name: "1"})


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=B", "A;id", "BASH_FUNC_x%%", "a\n"])
def test_a_variable_needs_a_name(name: str) -> None:
    with pytest.raises(UsageError, match="environment variable"):
        filled(environment={name: "1"})


def test_flags_and_other_braces_in_a_recipe() -> None:
    workload = replace(
        recipe(),
        arguments={"yes": True, "no": False, "json": '{"steps": {steps}}', "many": "{nodes}x{ranks}={world}"},
        virtualenv="{mount}/venv",
    )
    made = filled(workload)
    assert made.training == ("--yes", '--json={"steps": 28125}', "--many=16x32=512")
    assert made.virtualenv == "/fsx/venv"


def hydra() -> WorkloadSpec:
    """A script that takes its configuration from Hydra."""
    return replace(
        recipe("llama3-8b"),
        arguments={"config-name": "llama"},
        overrides={"trainer.max_steps": "{steps}", "data.batch": "{replica_batch}", "split": "{tensor}x{pipeline}",
                   "saves.every": "{every_steps}", "dir": "{checkpoints}", "bf16": True},
        compile_arguments={},
        compile_overrides={"trainer.max_steps": 10},
        compile_environment={"COMPILE": "1", "WHERE": "{run}"},
        checkpoint=Checkpoint("*", every_steps=50),
    )  # fmt: skip


def test_overrides_are_written_as_hydra_reads_them() -> None:
    made = filled(hydra(), layout(4, workload=hydra()))
    assert made.training == (
        "--config-name=llama", "trainer.max_steps=10000", "data.batch=256", "split=32x1", "saves.every=50",
        "dir=/fsx/trnctl/runs/r/checkpoints", "bf16=true",
    )  # fmt: skip
    assert set(made.compiling) ^ set(made.training) == {"trainer.max_steps=10000", "trainer.max_steps=10"}
    assert (made.trial["COMPILE"], made.trial["WHERE"]) == ("1", "/fsx/trnctl/runs/r")
    assert "COMPILE" not in made.environment


def test_what_the_user_sets_goes_where_the_script_reads_it() -> None:
    wanted: dict[str, Value] = {"trainer.max_steps": "7", "model.layers": "4", "saves.every": "3", "config-name": "b"}
    made = filled(hydra(), layout(4, workload=hydra()), wanted)
    assert {"trainer.max_steps=7", "model.layers=4", "saves.every=3", "--config-name=b"} <= set(made.training)
    assert (made.steps, made.every_steps) == (7, 3)
    assert "trainer.max_steps=10" in made.compiling
    with pytest.raises(UsageError, match="after how many steps the script saves"):
        filled(hydra(), layout(4, workload=hydra()), {"saves.every": "often"})
    with pytest.raises(UsageError, match="follows from the layout"):
        filled(hydra(), layout(4, workload=hydra()), {"split": "1x1"})
    plain = filled(recipe(), None, {"model.layers": "4"})
    assert "--model.layers=4" in plain.training, "without overrides a dot is part of an argument's name"
