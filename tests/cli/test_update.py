"""Two queues side by side, and a cluster that grows and shrinks with its file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.trnctl_runner import SIXTEEN, TWO_QUEUES, Trnctl, eventually, sandbox

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


@pytest.fixture(scope="module")
def twins() -> Iterator[Trnctl]:
    """The cluster of examples/two-queues.yaml; the file lies where it can be changed."""
    with sandbox(TWO_QUEUES) as trnctl:
        file = trnctl.folder / "trnctl.yaml"
        file.write_text(TWO_QUEUES.read_text())
        changed = trnctl.of(file)
        changed("cluster", "create", "-y", timeout=120)
        changed.place_needs("twins")
        yield changed


def sizes(trnctl: Trnctl) -> dict[str, int]:
    """How many nodes each partition has, in Slurm's own words."""
    rows = trnctl.slurm("sinfo", "-h", "-o", "%R %D").split()
    counts: dict[str, int] = {}
    for name, count in zip(rows[::2], rows[1::2], strict=True):
        counts[name] = counts.get(name, 0) + int(count)
    return counts


def limit(trnctl: Trnctl, resource: str, count: int) -> None:
    """Set a compute resource's max_count in the cluster file."""
    assert trnctl.config is not None
    text, found = re.subn(rf"(name: {resource},.*max_count:) \d+", rf"\1 {count}", trnctl.config.read_text())
    assert found == 1
    trnctl.config.write_text(text)


def test_both_queues_are_there_with_their_nodes(twins: Trnctl) -> None:
    assert sizes(twins) == {"standard": 16, "wide": 4}
    assert "standard" in twins("status").out
    assert "wide" in twins("status").out


@pytest.mark.parametrize(
    ("queue", "instance_type", "price"), [("standard", "trn1.32xlarge", 21.50), ("wide", "trn1n.32xlarge", 24.78)]
)
def test_a_run_gets_the_instances_of_its_queue(twins: Trnctl, queue: str, instance_type: str, price: float) -> None:
    before = twins.json("status")["cost"]["per_hour_usd"]
    words = ["-N", "1", "-p", queue, "--name", queue, "--set", "steps_this_run=1", "-f"]
    ended = twins("submit", "bert-large", *words, timeout=120)
    assert f"1 × {instance_type} ({queue})" in ended.talk
    assert twins.json("results", queue)["instance_type"] == instance_type
    assert twins.json("results", queue)["node_list"].startswith(f"{queue}-dy-")
    assert twins.json("status")["cost"]["per_hour_usd"] - before == pytest.approx(price, abs=0.01)


def test_each_queue_has_its_own_limit(twins: Trnctl) -> None:
    ended = twins("submit", "bert-large", "-N", "8", "-p", "wide", code=3)
    assert "at most 4 nodes of trn1n.32xlarge" in ended.talk


def test_growing_needs_no_stop(twins: Trnctl) -> None:
    limit(twins, "n1", 6)
    ended = twins("cluster", "update", "-y", "-o", "json", timeout=120)
    assert ended.json == {"updated": "twins"}
    assert "4 → 6" in ended.talk
    assert sizes(twins) == {"standard": 16, "wide": 6}
    assert twins.json("cluster", "update") == {"updated": None}


def test_shrinking_by_one_flag_stops_the_fleet_and_starts_it_again(twins: Trnctl) -> None:
    assert twins.config is not None
    twins("submit", "bert-large", "-N", "1", "-p", "standard", "--name", "busy", "--compile", "skip")
    eventually(lambda: "busy" in twins.slurm("squeue", "-h", "-t", "R", "-o", "%j"), "the run is on its node", 60)
    before = twins.config.read_text()
    refused = twins("cluster", "update", "--set-count", "standard/i1=0:8", "-y", code=3)
    assert "busy would lose its nodes" in refused.talk
    assert "--requeue-runs" in refused.err.splitlines()[-1]
    assert (sizes(twins)["standard"], twins.config.read_text()) == (16, before)
    twins("cancel", "busy")
    with twins.start("cluster", "update", "--set-count", "standard/i1=0:8", "-y") as running:
        running.until(lambda one: "compute fleet" in one.err, "the fleet is being stopped")
        running.interrupt()
        ended = running.end()
    assert ended.code == 130
    assert "run the same command again" in ended.talk
    ended = twins("cluster", "update", "--set-count", "standard/i1=0:8", "-y", "-o", "json", timeout=180)
    assert ended.json == {"updated": "twins"}
    assert twins.json("status")["cluster"]["fleet"] == "running"
    assert sizes(twins)["standard"] == 8
    changed = twins.config.read_text()
    assert changed != before
    assert changed.replace("min_count: 0", "").replace("max_count: 8", "").count("\n") == before.count("\n")
    assert twins.json("cluster", "update", "--set-count", "standard/i1=0:8") == {"updated": None}
    assert "at most 8 nodes" in twins("submit", "bert-large", "-N", "16", "-p", "standard", code=3).talk


def test_counts_of_a_queue_that_is_not_there_are_exit_code_2(twins: Trnctl) -> None:
    assert "it has standard, wide" in twins("cluster", "update", "--set-count", "x/i1=0:8", code=2).talk


def test_an_update_of_a_cluster_that_is_not_there_is_exit_code_8(twins: Trnctl, tmp_path: Path) -> None:
    assert "there is no cluster ultra1" in twins.of(SIXTEEN)("cluster", "update", "-y", code=8).talk
