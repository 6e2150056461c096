"""A compile stage that never pays twice: what is cached, what is not, what is wrong with it, and what may go."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fault_story import fault, said, told
from tests.cli.trnctl_runner import SIXTEEN, Trnctl, sandbox
from tests.recipes import recipe_text

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

GRAPHS = 5  # that bert-large has


@pytest.fixture(scope="module")
def compiled() -> Iterator[Trnctl]:
    """A cluster on which bert-large was compiled for four nodes, and trained, once."""
    with sandbox(SIXTEEN, "--steps", "2") as trnctl:
        trnctl("cluster", "create", "-y", timeout=120)
        trnctl.place_needs()
        trnctl("submit", "bert-large", "-N", "4", "--name", "first", "-f", timeout=120)
        yield trnctl


@pytest.fixture
def cluster(compiled: Trnctl) -> Iterator[Trnctl]:
    """The same, with the cache that the first run left, whatever a test does to it."""
    cache, kept = compiled.shared("/fsx/trnctl/cache"), compiled.folder / "cache"
    if not kept.exists():
        shutil.copytree(cache, kept)
    yield compiled
    compiled("sandbox", "fault", "clear")
    for run in compiled.json("runs")["runs"]:
        if run["state"] in {"held", "pending", "running", "configuring"}:
            compiled("cancel", run["run"])
    shutil.rmtree(cache)
    shutil.copytree(kept, cache)


def held(trnctl: Trnctl, name: str, *words: str, workload: str = "bert-large", nodes: int = 4) -> Any:
    """What a submit answers whose jobs do not start."""
    return trnctl.json("submit", workload, "-N", str(nodes), "--hold", "--name", name, *words)


def modules(trnctl: Trnctl) -> list[Path]:
    return sorted(trnctl.shared("/fsx/trnctl/cache/trn1/2.31.1").glob("neuronxcc-*/MODULE_*"))


def compiler_starts(trnctl: Trnctl, run: str) -> int:
    logs = trnctl.shared(f"/fsx/trnctl/runs/{run}/logs").glob("*/node-*.log")
    return sum(log.read_text().count("Call compiler with cmd") for log in logs)


def test_four_nodes_compile_each_graph_once(compiled: Trnctl) -> None:
    assert compiler_starts(compiled, "first") == GRAPHS
    assert len(modules(compiled)) == GRAPHS


def test_the_second_run_trains_at_once(cluster: Trnctl) -> None:
    answer = cluster("submit", "bert-large", "-N", "4", "--name", "second", "--set", "lr=0.1", "-f", timeout=120)
    assert "compile cached: 5 graphs of fingerprint" in answer.talk
    assert "compiled by first" in answer.talk
    assert compiler_starts(cluster, "second") == 0
    (run,) = [run for run in cluster.json("runs")["runs"] if run["run"] == "second"]
    assert (run["stage"], run["state"], set(run["jobs"])) == ("train", "completed", {"train"})
    results = cluster.json("results", "second")
    assert (results["compile"], results["compile_s"], list(results["stages"])) == ("cached", None, ["train"])
    assert cluster.json("results", "first")["compile"] == "scheduled"


def test_what_changes_no_graph_stays_cached_and_what_does_is_compiled(cluster: Trnctl, tmp_path: Path) -> None:
    other = tmp_path / "small-batch.yaml"
    text = recipe_text().replace("micro: 16", "micro: 8").replace("accumulation: 32", "accumulation: 64")
    other.write_text(text)
    assert held(cluster, "seed", "--set", "seed=7", "--env", "FI_LOG_LEVEL=warn")["compile"] == "cached"
    assert held(cluster, "weak", "--scaling", "weak")["compile"] == "cached"
    assert held(cluster, "micro", workload=str(other))["compile"] == "scheduled"
    assert held(cluster, "fewer", nodes=2)["compile"] == "scheduled"
    assert held(cluster, "forced", "--compile", "force")["compile"] == "scheduled"
    assert held(cluster, "skipped", "--compile", "skip")["compile"] == "skipped"


@pytest.mark.parametrize("lost", ["model.neff", "model.done", "*"])
def test_a_damaged_entry_is_compiled_again(cluster: Trnctl, lost: str) -> None:
    for path in modules(cluster)[2].glob(lost):
        path.unlink()
    answer = held(cluster, f"again-{lost.strip('*').replace('.', '-') or 'all'}x")
    assert answer["compile"] == "scheduled"
    assert f"1 of 5 graphs are not whole: {modules(cluster)[2].name}" in answer["why"]
    ended = cluster("cache", "verify", "-o", "json", code=3)
    assert [finding["code"] for finding in ended.json["findings"]] == ["cache-damaged"]


@pytest.mark.fault("compile-killed")
def test_a_killed_compile_leaves_a_lock_that_is_found_explained_and_removed(cluster: Trnctl) -> None:
    with fault(cluster, "compile-killed"):
        failed = cluster("submit", "bert-large", "-N", "2", "--name", "killed", "-f", code=6, timeout=240)
    assert "at most 2 at a time" in failed.out
    finding = told(cluster, "compile-killed", "killed")
    said(failed, finding)
    assert "Submit again (trnctl submit), which clears the dead compiler's lock" in finding["remedy"]
    found = cluster("cache", "verify", "-o", "json", code=3).json["findings"]
    stale = [one["message"] for one in found if one["code"] == "cache-lock-stale"]
    locked = [module for module in modules(cluster) if list(module.glob("*.lock"))]
    assert 1 <= len(locked) == len(stale) <= GRAPHS
    assert all(any(module.name in message for message in stale) for module in locked)
    answer = cluster("submit", "bert-large", "-N", "2", "--hold", "--name", "unlocks")
    for module in locked:
        assert f"{module.name} was locked by a compiler that no longer runs" in answer.talk
        assert not list(module.glob("*.lock"))
    assert cluster("cache", "unlock").out == "there was no lock to remove\n"


def test_unlock_leaves_what_a_living_job_may_hold(cluster: Trnctl) -> None:
    lock = modules(cluster)[0] / "model.hlo_module.pb.lock"
    cluster("ssh", "--", "sbatch --exclusive --output=/dev/null --wrap 'sleep 60'")
    job = cluster.slurm("squeue", "-h", "-o", "%i").strip()
    try:
        cluster("ssh", "--", "until squeue -h -t R -o %i | grep -q .; do sleep 0.3; done; sleep 6")
        lock.touch()
        refused = cluster("cache", "unlock", code=3)
        assert f"perhaps by job {job}" in refused.talk
        assert lock.exists()
    finally:
        cluster.slurm("scancel", job)
    cluster("ssh", "--", "while squeue -h | grep -q .; do sleep 0.3; done")
    assert cluster("cache", "unlock").out == "removed 1 lock\n"
    assert not lock.exists()


@pytest.mark.parametrize("name", ["compile-failure", "compile-failure-exit-0"])
def test_a_graph_that_fails_stops_the_run_with_its_name_and_is_tried_again(cluster: Trnctl, name: str) -> None:
    cluster("sandbox", "fault", name)
    cluster("submit", "bert-large", "-N", "2", "--name", f"{name}-one", "-f", code=6, timeout=120)
    (run,) = [run for run in cluster.json("runs")["runs"] if run["run"] == f"{name}-one"]
    found = re.fullmatch(r"graph (MODULE_\S+) did not compile", run["reason"])
    assert (run["stage"], run["state"], bool(found)) == ("compile", "failed", True)
    log = cluster.shared(f"/fsx/trnctl/runs/{name}-one/compile.log").read_text()
    assert re.search(r"graph failed: MODULE_\S+ \(log /.*/model\.log\)", log)
    assert "cache-partial" in cluster("cache", "verify").out
    cluster("sandbox", "fault", "clear")
    again = cluster("submit", "bert-large", "-N", "2", "--name", f"{name}-two", "-f", timeout=120)
    assert "was not complete" in again.talk
    assert compiler_starts(cluster, f"{name}-two") == 1, "the graph that failed, and no other"
    assert held(cluster, f"{name}-three", nodes=2)["compile"] == "cached"


def test_prune_shows_asks_and_leaves_what_is_used(cluster: Trnctl) -> None:
    (entry,) = cluster.json("cache", "ls")["entries"]
    assert (entry["state"], entry["graphs"], entry["nodes"], entry["run"]) == ("complete", GRAPHS, 4, "first")
    name = entry["fingerprint"]
    asked = cluster("cache", "prune", name[:6], code=2)
    assert "- " + name in asked.talk
    assert len(modules(cluster)) == GRAPHS
    held(cluster, "uses-it")
    used = cluster("cache", "prune", name, "-y")
    assert "stays: run uses-it" in used.talk
    assert len(modules(cluster)) == GRAPHS
    cluster("cancel", "uses-it")
    assert cluster.json("cache", "prune", name, "-y")["removed"] == [name]
    assert modules(cluster) == []
    assert cluster.json("cache", "ls")["entries"] == []
    assert "no cache has the fingerprint" in cluster("cache", "prune", "abc", "-y", code=8).talk


def test_strays_go_only_when_asked_for_and_nobody_uses_the_cache(cluster: Trnctl) -> None:
    stray = modules(cluster)[0].with_name("MODULE_1+d41d8cd9")
    stray.mkdir()
    (stray / "model.neff").write_text("x" * 100)
    assert cluster.json("cache", "ls")["strays"] == 1
    assert cluster("cache", "prune", "-y").out == "nothing was removed\n"
    assert cluster.json("cache", "prune", "--strays", "-y") == {"removed": [], "strays": 1, "bytes": 100, "kept": {}}
    assert not stray.exists()
    assert len(modules(cluster)) == GRAPHS


def test_a_cached_submit_of_many_graphs_is_one_connection_as_a_skipped_one_is(cluster: Trnctl) -> None:
    """How long it takes is measured by bench/bench.py, and what it opens by tests/unit/test_cache_scripts.py."""
    (ledger,) = cluster.shared("/fsx/trnctl/cache/trn1/2.31.1/ledger").glob("*.json")
    one = modules(cluster)[0]
    names = []
    for number in range(200):
        shutil.copytree(one, one.with_name(f"MODULE_{number}+d41d8cd9"))
        names.append(f'"{one.parent.name}/MODULE_{number}+d41d8cd9"')
    ledger.write_text(ledger.read_text().replace('"graphs": [', f'"graphs": [{", ".join(names)},'))
    count = cluster.counting_ssh()
    before = count()
    held(cluster, "skipped", "--compile", "skip")
    skipped, before = count() - before, count()
    cached = cluster("submit", "bert-large", "-N", "4", "--hold", "--name", "cached")
    assert "compile cached: 205 graphs" in cached.talk
    assert count() - before == skipped


def test_a_cache_in_s3_is_listed_judged_and_pruned(compiled: Trnctl) -> None:
    words = ("bert-large", "-N", "2", "--env", "NEURON_COMPILE_CACHE_URL=s3://my-trnctl-bucket/graphs")
    first = compiled("submit", *words, "--name", "far", "-f", timeout=180)
    assert "no graphs of fingerprint" in first.talk
    (entry,) = [one for one in compiled.json("cache", "ls")["entries"] if one["cache"].startswith("s3://")]
    assert (entry["state"], entry["graphs"], entry["run"], entry["chip"]) == ("complete", GRAPHS, "far", "trn1")
    again = compiled.json("submit", *words, "--hold", "--name", "near")
    assert again["compile"] == "cached"
    assert "stays: run near" in compiled("cache", "prune", entry["fingerprint"], "-y").talk
    compiled("cancel", "near")
    assert compiled.json("cache", "prune", entry["fingerprint"], "-y")["removed"] == [entry["fingerprint"]]
    assert compiled.json("submit", *words, "--hold", "--name", "later")["compile"] == "scheduled"
    compiled("cancel", "later")
