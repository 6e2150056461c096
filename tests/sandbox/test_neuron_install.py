"""The emulated tools on a cluster's PATH, and the stand-ins on its shared storage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.neuron_cluster import SECONDS, NeuronCluster
from trnctl.sandbox.neuron import install
from trnctl.sandbox.neuron.install import TOOLS

HEAVY = ("dataclasses", "inspect", "jinja2", "yaml", "boto3", "moto", "asyncio", "logging", "typer")


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_every_tool_is_executable_and_says_that_it_is_emulated(tool: str, tmp_path: Path) -> None:
    cluster = NeuronCluster(tmp_path / "a b $(touch oops)'\"")
    wrapper = cluster.bin / tool
    assert os.access(wrapper, os.X_OK)
    words = ["neuron-top"] if tool == "neuron-top" else [tool, "-h"]
    done = cluster.run(*words)
    assert done.returncode == 0, done.stderr
    assert "emulated by the trnctl sandbox" in " ".join(done.stdout.split())
    assert not (cluster.folder / "oops").exists()


@pytest.mark.parametrize("module", [*sorted(TOOLS.values()), "bert_training"])
def test_no_tool_starts_with_a_heavy_import(module: str) -> None:
    code = f"import sys, trnctl.sandbox.neuron.{module}; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", code],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.stdout.split() == []


def test_a_tool_refuses_an_emulation_file_that_it_cannot_read(tmp_path: Path) -> None:
    cluster = NeuronCluster(tmp_path)
    (cluster.folder / "emulation.json").write_text('{"steps": "many"}', encoding="utf-8")
    done = cluster.run("neuron-ls", "-j")
    assert done.returncode == 1
    assert f"{cluster.folder / 'emulation.json'} cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_stand_in_lies_where_the_recipe_expects_its_source(tmp_path: Path) -> None:
    cluster = NeuronCluster(tmp_path)
    script = cluster.place_source()
    folder = script.relative_to(cluster.shared).parts
    assert folder[:2] == ("trnctl", "src")
    assert folder[2].startswith("aws-neuron-samples-")
    assert len(folder[2].removeprefix("aws-neuron-samples-")) == 12
    assert folder[3:-1] == ("torch-neuronx", "training", "dp_bert_hf_pretrain")
    assert "stand-in" in script.read_text(encoding="utf-8")


def test_the_data_set_that_the_recipe_names_has_as_many_shards_as_the_public_one(tmp_path: Path) -> None:
    cluster = NeuronCluster(tmp_path)
    cluster.place_source()
    data = cluster.shared / "trnctl" / "data" / "bert_pretrain_wikicorpus_tokenized_hdf5_seqlen128"
    assert len(list(data.glob("*_training_*.hdf5"))) == 1024


def test_installing_again_changes_nothing(tmp_path: Path) -> None:
    cluster = NeuronCluster(tmp_path)
    first = cluster.place_source().read_bytes()
    assert cluster.place_source().read_bytes() == first


def test_a_script_without_a_stand_in_refuses(tmp_path: Path) -> None:
    refusing = Path(install.__file__).with_name("stand_ins") / "none.py"
    done = NeuronCluster(tmp_path).run("torchrun", "--nproc_per_node=32", str(refusing), "--any", "argument")
    assert done.returncode == 1
    assert "there is no stand-in for this training script" in done.stderr
