"""`trnctl run-local`: the layout on this machine's ranks, the command, and what can go wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes.shell import ScriptedShell
from tests.recipes import recipe
from trnctl.actions.run_local import LocalPlan, LocalWishes, plan_local, run_local
from trnctl.errors import RunFailed, ToolMissing, UsageError
from trnctl.specs.workload import WorkloadSpec

TINY = "fsdp-llama-tiny"
LOOKS, STARTS = 'command -v "$1"', 'exec "$@" 2>&1'
FOLDER = "/home/me/run 1"


def planned(
    ranks: int,
    workload: WorkloadSpec | None = None,
    *,
    python: str = "",
    checkpoint: str = "",
    **arguments: str,
) -> LocalPlan:
    wishes = LocalWishes(ranks, FOLDER, arguments, {}, python=python, checkpoint=checkpoint)
    return plan_local(workload or recipe(TINY), wishes)


def layout(plan: LocalPlan) -> dict[str, Any]:
    (text,) = [file.text for file in plan.files if file.name == "parallel.json"]
    return dict(json.loads(text))


def test_the_global_batch_is_kept_on_any_number_of_ranks() -> None:
    for ranks, accumulation in ((1, 8), (2, 4), (4, 2), (8, 1)):
        batch = layout(planned(ranks))["batch"]
        assert (batch["micro"], batch["accumulation"], batch["global"]) == (4, accumulation, 32)
    assert layout(planned(4))["mesh"] == {"replicate": 2, "shard": 2, "tensor": 1}


def test_a_degree_of_sharding_that_does_not_fit_is_changed_aloud() -> None:
    plan = planned(1)
    assert layout(plan)["mesh"] == {"replicate": 1, "shard": 1, "tensor": 1}
    assert plan.said == (f"{TINY} shards over 2 ranks, which do not divide 1: over all.",)
    assert planned(2).said == ()


def test_the_command_is_the_one_of_a_cluster_under_a_local_rendezvous() -> None:
    plan = planned(2, steps="7")
    assert plan.words[:2] == ("--standalone", "--nproc_per_node=2")
    assert plan.words[3] == f"{FOLDER}/code/train.py"
    assert f"--parallel={FOLDER}/parallel.json" in plan.words
    assert "--steps=7" in plan.words
    assert plan.steps == 7
    assert "--resume" not in plan.words
    assert plan.environment["OMP_NUM_THREADS"] == "1"
    assert {"code/train.py", "parallel.json"} <= {file.name for file in plan.files}


def test_no_variable_stands_in_the_command_which_everybody_may_read() -> None:
    wishes = LocalWishes(2, FOLDER, {}, {"HF_TOKEN": "hf_secret"})
    plan = plan_local(recipe(TINY), wishes)
    assert "hf_secret" not in " ".join(plan.argv)
    assert plan.environment["HF_TOKEN"] == "hf_secret"


def test_a_run_that_is_there_goes_on() -> None:
    assert planned(2, checkpoint="/c/step-00000020").words[-2:] == ("--resume", "/c/step-00000020")


def test_the_python_that_is_named_brings_its_torchrun() -> None:
    assert planned(2).torchrun == "torchrun"
    assert planned(2, python="/opt/torch/bin/python3").torchrun == "/opt/torch/bin/torchrun"


def test_a_machine_without_gpus_is_not_promised_nccl() -> None:
    large = replace(recipe("fsdp-llama3-8b"), batch=replace(recipe("fsdp-llama3-8b").batch, global_size=8))
    assert layout(planned(8, large))["collectives"] == "nccl"  # which the trainer changes aloud where it must
    assert layout(planned(8, large, device="cpu"))["collectives"] == "gloo"


@pytest.mark.parametrize(
    ("workload", "ranks", "said", "remedy"),
    [
        (recipe(TINY), 3, "micro-batches of 4 on 3 do not divide its global batch of 32", "one of 1, 2, 4, 8"),
        (recipe("bert-large"), 2, "in a repository", "shipped"),
    ],
)
def test_what_cannot_run_here(workload: WorkloadSpec, ranks: int, said: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        planned(ranks, workload)
    assert remedy in caught.value.remedy


def test_tensor_parallelism_needs_as_many_ranks() -> None:
    wide = replace(recipe(TINY), parallelism=replace(recipe(TINY).parallelism, tensor=2))
    with pytest.raises(UsageError, match="do not divide by tensor 2") as caught:
        planned(1, wide)
    assert "one of 2, 4" in caught.value.remedy
    assert layout(planned(2, wide))["mesh"] == {"replicate": 1, "shard": 1, "tensor": 2}


def test_without_torchrun_nothing_is_started_and_the_remedy_installs_it() -> None:
    with ScriptedShell().on("sh", LOOKS, "torchrun", returncode=127) as shell:
        with pytest.raises(ToolMissing, match="no torchrun on PATH") as caught:
            run_local(planned(2), shell)
        assert "pip install 'trnctl[trainer]'" in caught.value.remedy
        assert caught.value.exit_code == 4
    with ScriptedShell().on("sh", LOOKS, returncode=127) as shell, pytest.raises(ToolMissing, match="/x/bin/to"):
        run_local(planned(2, python="/x/bin/python"), shell)


def test_its_lines_come_as_they_are_and_a_failure_after_them() -> None:
    with ScriptedShell().on("sh", LOOKS) as shell:
        shell.on("sh", STARTS, "torchrun", stdout="one\ntwo\n", returncode=3)
        lines = run_local(planned(2), shell)
        assert [next(lines), next(lines)] == ["one", "two"]
        with pytest.raises(RunFailed, match="exit code 3") as caught:
            next(lines)
        assert caught.value.exit_code == 6
        assert f"{FOLDER}/checkpoints" in caught.value.remedy
