"""Prepare: what a run needs is fetched on the head node, once, whoever is killed meanwhile, and nothing half stays."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.trnctl_runner import SIXTEEN, Trnctl, eventually, sandbox

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

SHARDS = "s3://neuron-s3/training_datasets/bert_pretrain_wikicorpus_tokenized_hdf5/"
# A recipe of one's own, whose data set lies in a bucket of the emulated account.
RECIPE = f"""\
name: own
title: Reads a data set
source: {{repository: REPOSITORY, commit: COMMIT}}
script: train.py
ranks_per_node: {{trn1.32xlarge: 32}}
batch: {{global: 32, micro: 1, accumulation: 1, sequence: 1}}
steps: 1
arguments: {{folder: "{{data}}/mine"}}
data:
  - path: mine
    source: {SHARDS}bert_pretrain_wikicorpus_tokenized_hdf5_seqlen128.tar
    files: 1000
compile: none
log: {{step: 'step (?P<step>[0-9]+)', unit: words}}
checkpoint: {{pattern: "*.none"}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Trnctl]:
    """A cluster whose shared storage is empty."""
    with sandbox(SIXTEEN, "--steps", "2") as trnctl:
        trnctl("cluster", "create", "-y", timeout=400)
        yield trnctl


def run_of(trnctl: Trnctl, name: str) -> Any:
    (found,) = [run for run in trnctl.json("runs")["runs"] if run["run"] == name]
    return found


def own_recipe(folder: Path, **changes: str) -> str:
    """The recipe with a repository of its own; `changes` are further lines of its data set."""
    import subprocess

    origin = folder / "origin"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(origin)]
    subprocess.run(["git", "init", "-q", str(origin)], check=True, timeout=30)
    (origin / "train.py").write_text("print('step 1')\n")
    subprocess.run([*git, "add", "."], check=True, timeout=30)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True, timeout=30)
    done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True, timeout=30)
    more = "".join(f"    {key}: {value}\n" for key, value in changes.items())
    text = RECIPE.replace("REPOSITORY", str(origin)).replace("COMMIT", done.stdout.strip())
    path = folder / "own.yaml"
    path.write_text(text.replace("    files: 1000\n", f"    files: 1000\n{more}"))
    return str(path)


def test_the_first_submit_prepares_and_the_second_does_not(cluster: Trnctl) -> None:
    first = cluster("submit", "bert-large", "-N", "2", "--name", "first", "-f", "-o", "json", timeout=300)
    answer, *events = first.lines
    assert isinstance(answer["jobs"]["prepare"], int)
    assert any("the training code" in what for what in answer["preparing"])
    assert {"stage": "prepare", "job": str(answer["jobs"]["prepare"]), "state": "completed", "reason": ""} in events
    assert any("everything is there; job" in str(event.get("line")) for event in events)
    assert events[-1]["states"]["train"] == "completed"
    assert (
        "emulated by the trnctl sandbox"
        in cluster.shared("/fsx/trnctl/src").rglob("EMULATED.txt").__next__().read_text()
    )
    second = cluster.json("submit", "bert-large", "-N", "2", "--name", "second", "--hold")
    assert (second["jobs"]["prepare"], second["preparing"]) == (None, [])
    assert run_of(cluster, "second")["state"] == "held"
    cluster("cancel", "second")
    assert set(cluster.json("results", "first")["stages"]) == {"prepare", "compile", "train"}


def test_a_preparer_that_is_killed_is_noticed_and_goes_on(cluster: Trnctl, tmp_path: Path) -> None:
    recipe = own_recipe(tmp_path)
    gate = cluster.cluster_folder() / "bin" / "git"
    slow = gate.read_text()
    gate.write_text("#!/bin/sh\nsleep 600\n")  # a repository that answers slowly
    answer = cluster.json("submit", recipe, "-N", "1", "--name", "killed")
    eventually(lambda: "fetches" in run_of(cluster, "killed")["reason"], "it fetches")
    shown = cluster("status").out
    assert "prepare  preparing" in " ".join(shown.split(" ")) or "preparing" in shown
    os.killpg(answer["jobs"]["prepare"], signal.SIGKILL)
    seen = cluster.json("status")
    assert [alert["code"] for alert in seen["alerts"]] == ["preparer-died"]
    assert "trnctl resume killed" in seen["alerts"][0]["remedy"]
    assert (run_of(cluster, "killed")["stage"], run_of(cluster, "killed")["state"]) == ("prepare", "held")
    gate.write_text(slow)
    again = cluster.json("submit", recipe, "-N", "1", "--name", "killed")
    assert again["again"]
    assert again["jobs"]["train"] == answer["jobs"]["train"]
    assert again["jobs"]["prepare"] != answer["jobs"]["prepare"]
    cluster("logs", "killed", "-f", timeout=240)
    assert run_of(cluster, "killed")["state"] == "completed"


def test_another_checksum_stops_with_a_clear_word(cluster: Trnctl, tmp_path: Path) -> None:
    recipe = own_recipe(tmp_path, sha256="a" * 64)
    path = Path(recipe)
    path.write_text(path.read_text().replace("mine", "other"))
    ended = cluster("submit", recipe, "-N", "1", "--name", "wrong", "-f", code=6, timeout=240)
    assert "has the SHA-256" in ended.talk
    assert not list(cluster.shared("/fsx/trnctl/data").glob("other*"))
    run = run_of(cluster, "wrong")
    assert (run["stage"], run["state"]) == ("prepare", "failed")
    assert "has the SHA-256" in run["reason"]
    assert "prepare failed: s3://" in " ".join(cluster("results", "wrong").out.split())
    assert "SHA-256" in " ".join(cluster("why", "wrong", code=None).out.split())
    assert "remedy: What the source holds" in cluster("logs", "wrong", "--stage", "prepare").out
    path.write_text(path.read_text().replace(f"    sha256: {'a' * 64}\n", ""))
    mended = cluster("submit", recipe, "-N", "1", "--name", "wrong", "-f", "-o", "json", timeout=240).lines
    assert mended[-1]["states"] == {"prepare": "completed", "train": "completed"}


def test_what_is_held_stays_held_and_what_is_cancelled_is_not_fetched(cluster: Trnctl, tmp_path: Path) -> None:
    recipe = own_recipe(tmp_path)
    path = Path(recipe)
    path.write_text(path.read_text().replace("mine", "third"))
    cluster("submit", recipe, "-N", "1", "--name", "kept", "--hold")
    eventually(lambda: run_of(cluster, "kept")["stage"] == "train", "it is prepared")
    assert run_of(cluster, "kept")["state"] == "held"
    cluster("cancel", "kept")
    assert json.loads(cluster.shared("/fsx/trnctl/runs/kept/ended/prepare.json").read_text())["exit_code"] == 0


# ------------------------------------------------------------------------------------------------- one's own code


OWN = """\
name: mine
title: Code of my own
workdir: code
script: train.py
ranks_per_node: {trn1.32xlarge: 32}
batch: {global: 64, micro: 1, accumulation: 1, sequence: 1}
nodes: 2
steps: 1
arguments: {steps: "{steps}"}
compile: none
log: {step: 'step (?P<step>[0-9]+)', unit: words}
checkpoint: {pattern: "*.none"}
"""


def own_code(folder: Path) -> Path:
    """A recipe beside its code, of which .gitignore leaves something out."""
    (folder / "code/pkg").mkdir(parents=True)
    (folder / "code/train.py").write_text("import pkg\nprint('step 1', pkg.word, flush=True)\n")
    (folder / "code/pkg/__init__.py").write_text("word = 'first'\n")
    (folder / "code/.gitignore").write_text("*.log\n")
    (folder / "code/notes.log").write_text("not for the cluster")
    path = folder / "mine.yaml"
    path.write_text(OWN)
    return path


def test_ones_own_code_runs_as_it_was_when_it_was_submitted(cluster: Trnctl, tmp_path: Path) -> None:
    recipe = own_code(tmp_path)
    ended = cluster("submit", str(recipe), "-N", "2", "--name", "own1", "-f", timeout=240)
    assert "step 1 first" in ended.out
    assert "3 files as they are now, copied" in ended.talk
    waiting = cluster("submit", str(recipe), "-N", "2", "--name", "own2", "--hold")
    assert "there already" in waiting.talk
    (tmp_path / "code/pkg/__init__.py").write_text("word = 'second'\n")
    assert "step 1 second" in cluster("submit", str(recipe), "-N", "2", "--name", "own3", "-f", timeout=240).out
    job = cluster.slurm("squeue", "-h", "-o", "%i").split()[0]
    cluster.slurm("scontrol", "release", job)
    assert "step 1 first" in cluster("logs", "own2", "-f", timeout=240).out
    states = sorted(path.name for path in cluster.shared("/fsx/trnctl/src").glob("mine-*"))
    assert len(states) == 2
    assert not list(cluster.shared("/fsx/trnctl/src").rglob("*.log"))


def test_sync_and_cp_bring_files_up_and_down(cluster: Trnctl, tmp_path: Path) -> None:
    recipe = str(own_code(tmp_path))
    here = Trnctl(cluster.folder, cluster.config, where=tmp_path)
    plan = here.json("sync", recipe, "--dry-run")
    assert sorted(plan["copied"]) == [".gitignore", "pkg/__init__.py", "train.py"]
    copies = cluster.shared("/fsx/trnctl/code")
    assert not list(copies.glob("mine-*"))
    assert here.json("sync", recipe)["copied"]
    assert here.json("sync", recipe)["copied"] == []
    (tmp_path / "code/train.py").unlink()
    assert here.json("sync", "code")["removed"] == []  # another folder there: it is called after this one
    assert here.json("sync", recipe)["removed"] == []
    assert here.json("sync", recipe, "--delete")["removed"] == ["train.py"]
    [copy] = copies.glob("mine-*")
    assert (copy / "pkg/__init__.py").is_file()
    assert not (copy / "train.py").exists()
    (tmp_path / "data.bin").write_text("data")
    assert here.json("cp", "data.bin", "head:/fsx/data.bin")["copied"] == ["data.bin"]
    assert cluster.shared("/fsx/data.bin").read_text() == "data"
    here("cp", "first:results.json", "copy.json")
    assert json.loads((tmp_path / "copy.json").read_text())["run"] == "first"
    assert "results.json" in here.json("sync", "--results", "first")["copied"]
    assert not list((tmp_path / "first").glob("checkpoints"))
    assert "no such file" in here("cp", "first:nothing", ".", code=8).talk
    assert "must be on the cluster" in here("cp", "a", "b", code=2).talk
    assert "comes from" in here("sync", "bert-large", code=2).talk
