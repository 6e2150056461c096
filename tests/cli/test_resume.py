"""Runs that lose a node, are cancelled, or start from another: they go on from the newest whole checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.trnctl_runner import SIXTEEN, Trnctl, eventually, sandbox

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

STEPS = 26  # of one start; a data shard, and with it a checkpoint, ends after ten


@pytest.fixture(scope="module")
def cluster() -> Iterator[Trnctl]:
    """A cluster on which bert-large was compiled for four nodes, and stopped after its first checkpoint."""
    with sandbox(SIXTEEN, "--steps", str(STEPS)) as trnctl:
        trnctl("cluster", "create", "-y", timeout=120)
        trnctl.place_needs()
        trnctl("submit", "bert-large", "-N", "4", "--name", "stopped")
        reach(trnctl, "stopped", 11)
        trnctl("cancel", "stopped")
        ended(trnctl, "stopped")
        yield trnctl


def state(trnctl: Trnctl, run: str) -> Any:
    (found,) = [one for one in trnctl.json("runs")["runs"] if one["run"] == run]
    return found


def reach(trnctl: Trnctl, run: str, step: int) -> None:
    eventually(lambda: (state(trnctl, run)["step"] or 0) >= step, f"{run} at step {step}", timeout=90)


def ended(trnctl: Trnctl, run: str) -> Any:
    over = {"completed", "failed", "cancelled"}
    eventually(lambda: state(trnctl, run)["state"] in over, f"{run} over", timeout=150)
    return state(trnctl, run)


def step_of(checkpoint: str) -> int:
    """The number in ckpt_10.pt."""
    return int(checkpoint.rpartition("_")[2].removesuffix(".pt"))


def train_log(trnctl: Trnctl, run: str) -> str:
    return trnctl.shared(f"/fsx/trnctl/runs/{run}/train.log").read_text()


def test_a_run_that_was_cancelled_is_resumed_without_the_nodes_that_are_drained(cluster: Trnctl) -> None:
    assert "train cancelled" in cluster("results", "stopped").out
    nodes = cluster.json("results", "stopped")["node_list"]
    node = cluster.slurm("scontrol", "show", "hostnames", nodes).split()[1]
    cluster.slurm("scontrol", "update", f"nodename={node}", "state=drain", "reason=a test")
    answer = cluster.json("resume", "stopped")
    assert answer["excluded"] == [node]
    assert "/runs/stopped/checkpoints/ckpt_" in answer["checkpoint"]
    assert 10 <= step_of(answer["checkpoint"]) < STEPS
    assert set(answer["jobs"]) == {"train"}
    assert "goes on: its train job" in cluster("resume", "stopped", code=3).talk
    assert ended(cluster, "stopped")["state"] == "completed"
    results = cluster.json("results", "stopped")
    assert (results["restarts"], results["complete"]) == (1, True)
    assert results["steps_done"] == step_of(answer["checkpoint"]) + STEPS
    assert node not in cluster.slurm("scontrol", "show", "hostnames", results["node_list"]).split()
    assert "has done all its steps" in cluster("resume", "stopped", code=3).talk
    # Unless ParallelCluster has replaced it already: then Slurm says that there is nothing to resume.
    cluster.slurm("scontrol", "update", f"nodename={node}", "state=resume", code=None)


def test_a_new_run_starts_from_the_checkpoint_of_another(cluster: Trnctl) -> None:
    cluster("submit", "bert-large", "-N", "4", "--name", "heir", "--from", "stopped", "--set", "lr=0.1")
    reach(cluster, "heir", 12)
    log = train_log(cluster, "heir")
    assert "going on from" in log
    assert "/runs/stopped/checkpoints/ckpt_" in log
    cluster("cancel", "heir")
    ended(cluster, "heir")


def test_what_cannot_be_resumed_or_started_from(cluster: Trnctl) -> None:
    cluster("submit", "bert-large", "-N", "4", "--name", "fresh", "--hold")
    assert (
        "has no whole checkpoint"
        in cluster("submit", "bert-large", "-N", "4", "--name", "x", "--from", "fresh", "--hold", code=3).talk
    )
    cluster("cancel", "fresh")
    cluster("submit", "bert-large", "-N", "4", "--name", "y", "--from", "nobody", "--hold", code=8)
    cluster("resume", "nobody", code=8)


def test_a_run_that_loses_a_node_goes_on_from_its_newest_whole_checkpoint(cluster: Trnctl) -> None:
    cluster("submit", "bert-large", "-N", "4", "--name", "survivor")
    reach(cluster, "survivor", 11)
    cluster("sandbox", "fault", "node-death")
    (saved,) = cluster.shared("/fsx/trnctl/runs/survivor/checkpoints").glob("*.pt")
    # What a writer leaves that dies in the middle.
    saved.with_name("ckpt_99.pt").write_bytes(saved.read_bytes()[: saved.stat().st_size // 2])
    assert ended(cluster, "survivor")["state"] == "completed"
    assert re.search(rf"going on from \S+/survivor/checkpoints/{saved.name}\n", train_log(cluster, "survivor"))
    results = cluster.json("results", "survivor")
    assert (results["restarts"], results["complete"]) == (1, True)
    assert results["steps_done"] == step_of(saved.name) + STEPS
    half = [one for one in results["checkpoints"] if not one["complete"]]
    assert [one["name"] for one in half] == ["ckpt_99.pt"]
