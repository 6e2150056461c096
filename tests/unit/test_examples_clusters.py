"""Every cluster file in examples/ loads, renders to its snapshot, and is accepted by ParallelCluster's own schema."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.conftest import Snapshot
from tests.oracles import load_in_pcluster
from trnctl.render.cluster import cluster_document
from trnctl.render.node import own_actions
from trnctl.specs.cluster import ClusterFile
from trnctl.specs.loading import load_cluster_file

EXAMPLES = sorted(
    path for path in (Path(__file__).parents[2] / "examples").glob("*.yaml") if "\ncluster:" in path.read_text()
)


def load(path: Path) -> ClusterFile:
    return load_cluster_file(path.read_bytes(), path.name)


def document(file: ClusterFile) -> str:
    """As `cluster create` hands it to ParallelCluster."""
    return cluster_document(file.cluster, own_actions=own_actions(file.cluster))


def test_the_promised_examples_are_there() -> None:
    assert {path.stem for path in EXAMPLES} >= {
        "trn1-16-nodes", "two-queues", "smallest", "capacity-block", "reservation", "spot", "storage-everything",
        "existing-fsx", "custom-actions", "trn2",
    }  # fmt: skip


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, snapshot: Snapshot) -> None:
    file = load(path)
    expected = ["no-accelerator"] if path.stem == "cpu-and-gpu" else []  # its CPUs are for a recipe that wants them
    assert [finding.code for finding in file.findings if finding.level != "info"] == expected
    text = document(file)
    snapshot(f"clusters/{path.name}", text)
    loaded = load_in_pcluster(file.cluster.name, text)
    assert [queue.name for queue in loaded.scheduling.queues] == [queue.name for queue in file.cluster.queues]
    assert [storage.mount_dir for storage in loaded.shared_storage or []] == [one.mount for one in file.cluster.storage]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_renders_the_same_again(path: Path) -> None:
    assert document(load(path)) == document(load(path))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_secure(path: Path) -> None:
    loaded = yaml.safe_load(document(load(path)))
    assert loaded["Imds"] == {"ImdsSupport": "v2.0"}
    head = loaded["HeadNode"]
    assert head["Imds"] == {"Secured": True}
    assert head["Ssh"]["AllowedIps"] in {"203.0.113.0/24", "0.0.0.0/32"}
    assert head["LocalStorage"]["RootVolume"]["Encrypted"] is True
    for queue in loaded["Scheduling"]["SlurmQueues"]:
        assert queue["Networking"]["AssignPublicIp"] is False
        assert queue["ComputeSettings"]["LocalStorage"]["RootVolume"]["Encrypted"] is True
        assert "Enabled" in queue["Networking"]["PlacementGroup"]
