"""Nodes are looked at before they work: one that fails is told of, drained, and left out by the run that asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli import fault_story
from tests.cli.trnctl_runner import SIXTEEN, Trnctl, eventually, sandbox

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

STRUCK = "compute1-dy-i1-2"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Trnctl]:
    """A cluster whose four first nodes are up."""
    with sandbox(SIXTEEN, "--steps", "2") as trnctl:
        trnctl("cluster", "create", "-y", timeout=120)
        trnctl.place_needs()
        refused = trnctl("health", code=3)
        assert "trnctl health -N 1 starts a node" in refused.talk
        well = trnctl("health", "-N", "4", timeout=120)
        assert "at most 14m20s once they are there, $20.54 at most" in well.talk
        words = " ".join(well.out.split())
        assert "4 nodes: 16 Neuron devices; 8 EFA devices" in words
        assert "52.8 GB/s emulated, judged against the median of the nodes" in words
        assert "46.5 GB/s emulated, judged against the fastest pair; published: 47.09" in words
        yield trnctl


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        pytest.param("missing-device", "node-devices", marks=pytest.mark.fault("missing-device")),
        pytest.param("slow-link", "node-link", marks=pytest.mark.fault("slow-link")),
        pytest.param("old-driver", "node-software", marks=pytest.mark.fault("old-driver")),
    ],
)
def test_a_node_that_fails_is_told_of_and_drained_when_that_is_asked_for(
    cluster: Trnctl, fault: str, code: str
) -> None:
    with fault_story.fault(cluster, fault):
        if fault == "missing-device":
            alone = cluster.json("health", code=6)
            assert (alone["failed"], alone["drained"]) == ([STRUCK], [])
            assert "drained" not in cluster.json("status")["nodes"]
        found = cluster.json("health", "-N", "4", "--drain", "-y", code=6, timeout=240)
        assert [(one["code"], one["node"]) for one in found["findings"]] == [(code, STRUCK)]
        assert (found["failed"], found["drained"]) == ([STRUCK], [STRUCK])
        assert {one["state"] for one in found["nodes"] if one["node"] != STRUCK} == {"well"}
        is_told(cluster, fault, code)


def is_told(cluster: Trnctl, fault: str, code: str) -> None:
    """`why` says for what the node was drained; ParallelCluster replaces it, and then that is over."""
    told = fault_story.told(cluster, fault)
    assert f"({code})" in told["message"]
    assert STRUCK in told["message"]
    assert f"trnctl why {code}" in told["remedy"]
    back = ("sinfo", "-h", "-n", STRUCK, "-o", "%t")
    eventually(lambda: cluster.slurm(*back).strip() in {"idle", "idle~"}, f"{STRUCK} is there again", 120)
    fault_story.over(cluster)


@pytest.mark.fault("hung-link")
def test_a_collective_that_hangs_is_ended_and_its_node_drained(cluster: Trnctl) -> None:
    with fault_story.fault(cluster, "hung-link"):
        ended = cluster("health", "-N", "4", "--patience", "2", "--drain", "-y", code=6, timeout=240)
    assert f"{STRUCK} node-link-hung: its all-reduce with compute1-dy-i1-1 did not end in 2 s" in " ".join(
        ended.out.split()
    )
    assert f"drained     {STRUCK}" in ended.out
    is_told(cluster, "hung-link", "node-link-hung")
    # ParallelCluster replaces a node that is drained: when its place is taken again, it is by one that is well.
    assert cluster.json("health", "--no-collectives")["failed"] == []


def test_a_run_that_asked_for_the_check_goes_on_without_the_node_that_fails(cluster: Trnctl) -> None:
    # The node that was drained is taken away and comes back; only then can a job get it.
    back = ("sinfo", "-h", "-n", STRUCK, "-o", "%t")
    eventually(lambda: cluster.slurm(*back).strip() in {"idle", "idle~"}, f"{STRUCK} is there again", 90)
    cluster("sandbox", "fault", "missing-device")
    try:
        ended = cluster("submit", "bert-large", "-N", "4", "--check", "--name", "checked", "-f", timeout=180)
    finally:
        cluster("sandbox", "fault", "clear")
    assert "each job first looks at its nodes" in ended.talk
    results = cluster.json("results", "checked")
    assert (results["complete"], results["restarts"]) == (True, 1)
    log = cluster.shared("/fsx/trnctl/runs/checked/compile.log").read_text()
    assert "the job waits for other nodes" in log
    (told,) = [one for one in cluster.json("why", "checked")["findings"] if one["code"] == "node-failed-check"]
    assert f"Node {STRUCK} did not pass the check before the run: neuron-ls sees 15" in told["message"]


def test_after_the_teardown_the_bucket_tells_of_the_runs(cluster: Trnctl) -> None:
    before = cluster.json("results", "checked")
    proof = cluster.json("teardown", "-y", "--delete-storage", timeout=120)
    assert (proof["left"], proof["records"]) == ([], "1 run in s3://my-trnctl-bucket/trnctl/ultra1/runs/")
    ended = cluster("runs")
    assert "There is no cluster ultra1" in ended.talk
    assert "What follows is from s3://my-trnctl-bucket, last written at" in ended.talk
    told = cluster.json("runs")
    assert [(one["run"], one["state"]) for one in told["runs"]] == [("checked", "completed")]
    assert (told["source"], bool(told["known_from"])) == ("mirror", True)
    assert cluster.json("results", "checked") == before
    assert "holds no run nobody" in cluster("results", "nobody", code=8).talk
