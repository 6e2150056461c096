"""Every recipe in one sandbox of its size: Slurm takes its jobs, shellcheck passes them, and three really run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.trnctl_runner import SIXTEEN, Trnctl, empty_folder, eventually, sandbox
from tests.unit.test_catalogue import SUBMITTABLE, scripts

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

ON_TRN1 = [one for one in SUBMITTABLE if "trn1.32xlarge" in one.ranks_per_node]
STEPS = 12  # of one start


@pytest.fixture(scope="module")
def cluster() -> Iterator[Trnctl]:
    """A cluster of up to 64 nodes."""
    with empty_folder() as folder:
        config = folder / "trnctl.yaml"
        config.write_text(SIXTEEN.read_text().replace("max_count: 16", "max_count: 64"))
        with sandbox(config, "--steps", str(STEPS)) as trnctl:
            trnctl("cluster", "create", "-y", timeout=120)
            yield trnctl


def ended(trnctl: Trnctl, run: str) -> Any:
    def over() -> bool:
        (found,) = [one for one in trnctl.json("runs")["runs"] if one["run"] == run]
        return found["state"] in {"completed", "failed", "cancelled"}

    eventually(over, f"{run} over", timeout=400)
    return trnctl.json("results", run)


def test_slurm_and_shellcheck_take_the_jobs_of_every_recipe(cluster: Trnctl, tmp_path: Path) -> None:
    nodes = {}
    for spec in ON_TRN1:
        for name, text in scripts(spec).items():
            path = tmp_path / f"{spec.name}.{name}"
            path.write_text(text)
            nodes[str(path)] = spec.nodes
    assert len(nodes) == 2 * len(ON_TRN1)
    checked = subprocess.run(["shellcheck", *nodes], capture_output=True, text=True, timeout=120, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")
    loop = f'for script in "$@"; do echo "$script"; sbatch --test-only --chdir={tmp_path} "$script" 2>&1; done'
    said = cluster.slurm("sh", "-c", loop, "sh", *nodes)
    for place, count in nodes.items():
        answer = said[said.index(place) :].splitlines()[1]
        assert f"using {count * 128} processors" in answer, place


def test_a_llama_compiles_passes_the_gate_and_trains_with_its_own_log(cluster: Trnctl) -> None:
    cluster("submit", "llama3-8b", "--name", "llama", "--set", "checkpoint_freq=5")
    results = ended(cluster, "llama")
    assert (results["complete"], results["steps_done"], results["total_steps"]) == (True, STEPS, 10_000)
    assert (results["world_size"], results["global_batch"], results["accumulation"]) == (128, 1024, 256)
    assert results["emulated"]
    assert results["average_throughput"] > 0
    assert [(one["name"], one["complete"]) for one in results["checkpoints"]] == [("step_5", True), ("step_10", True)]
    log = cluster.shared("/fsx/trnctl/runs/llama/logs/train/node-0.log").read_text()
    assert "throughput : " in log
    assert "seq/s" in log
    ledger = json.loads(next(cluster.shared("/fsx/trnctl/cache").rglob("ledger/*.json")).read_text())
    assert (ledger["workload"], ledger["state"]) == ("llama3-8b", "complete")
    again = cluster.json(
        "submit", "llama3-8b", "--name", "again", "--set", "lr=0.1", "--set", "checkpoint_freq=5", "--hold"
    )
    assert again["compile"] == "cached"
    cluster("cancel", "again")
    refused = cluster("submit", "llama3-8b", "--from", "llama", "--hold", code=2)
    assert "trnctl resume llama" in refused.talk


def test_the_steps_of_a_pipeline_are_read_where_its_last_stage_runs(cluster: Trnctl) -> None:
    cluster("submit", "llama3-70b", "-N", "8", "--name", "deep", timeout=120)
    results = ended(cluster, "deep")
    assert (results["steps_done"], results["final_loss"] is not None) == (STEPS, True)
    (row,) = [one for one in cluster.json("status")["runs"] if one["run"] == "deep"]
    assert row["step"] == STEPS
    assert json.loads(cluster.shared("/fsx/trnctl/runs/deep/run.json").read_text())["log_node"] == 7


def test_phase_2_starts_from_a_whole_phase_1_and_from_nothing_else(cluster: Trnctl) -> None:
    cluster("submit", "bert-large", "--name", "first")
    assert ended(cluster, "first")["checkpoints"][-1]["name"] == f"ckpt_{STEPS}.pt"
    assert "starts from a run of" in cluster("submit", "bert-large-phase2", "--hold", code=2).talk
    short = cluster("submit", "bert-large-phase2", "--from", "first", "--name", "x", "--hold", code=3)
    assert f"is ckpt_{STEPS}.pt, and this one starts from step 28125" in " ".join(short.talk.split())
    wrong = cluster("submit", "bert-large-phase2-lamb", "--from", "first", "--name", "y", "--hold", code=3)
    assert "is a run of bert-large, and this one starts from bert-large-lamb" in " ".join(wrong.talk.split())
    told = ["--from", "first", "--set", f"phase1_end_step={STEPS}"]
    # On eight nodes: the stand-in keeps the published pace, and one node takes a minute for a step of phase 2.
    cluster("submit", "bert-large-phase2", *told, "-N", "8", "--name", "second", timeout=120)
    results = ended(cluster, "second")
    assert (results["steps_done"], results["sequence"]) == (STEPS, 512)
    assert f"/runs/first/checkpoints/ckpt_{STEPS}.pt" in cluster.shared("/fsx/trnctl/runs/second/train.log").read_text()
