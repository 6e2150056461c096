"""What fails on demand is told in words, with the right exit code, and is mended by running again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.fault_story import TOLD, fault, over, said, strike, told
from tests.cli.trnctl_runner import Trnctl, eventually, sandbox
from trnctl.sandbox.faults import FAULTS

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

GRAPH = re.compile(r"MODULE_\d+\+[0-9a-f]+")
SHORT = ("--set", "steps_this_run=2")


@pytest.fixture(scope="module")
def faulty() -> Iterator[Trnctl]:
    """A cluster whose tests make it fail, each in another way."""
    with sandbox() as trnctl:
        yield trnctl


@pytest.mark.fault("slow-stack")
def test_a_stack_that_is_slow_is_told_with_what_it_waits_for_and_comes_up(faulty: Trnctl) -> None:
    with fault(faulty, "slow-stack"), faulty.start("cluster", "create", "-y") as running:
        running.until(lambda it: re.search(r" [1-9]\d*/\d\d ", it.err) is not None, "it is being created", timeout=240)
        finding = told(faulty, "slow-stack")
        assert "ultra1 is being created for" in finding["message"]
        assert "it waits for" in finding["message"]
        assert "Wait; trnctl cluster create" in finding["remedy"]
        faulty("sandbox", "fault", "clear")
        ended = running.end(timeout=300)
    assert ended.code == 0
    over(faulty)
    faulty.place_needs()


def run_of(trnctl: Trnctl, name: str) -> Any:
    """What status says of one run."""
    return next(run for run in trnctl.json("status")["runs"] if run["run"] == name)


def refused(trnctl: Trnctl, name: str) -> None:
    """Where AWS answers nothing, `why` itself is refused: its error carries the code, the cause and the evidence."""
    ended = trnctl("why", code=5, timeout=120)
    assert f"[{FAULTS[name].why}, " in ended.err
    assert "  evidence  " in ended.err
    assert ended.err.splitlines()[-1].startswith("remedy: ")
    TOLD.add(name)


def test_an_unknown_fault_names_the_nearest(faulty: Trnctl) -> None:
    assert "Did you mean throttling?" in faulty("sandbox", "fault", "trottling", code=2).talk


@pytest.mark.fault("throttling")
def test_a_throttled_request_is_tried_again_and_lasting_throttling_is_told(faulty: Trnctl) -> None:
    with fault(faulty, "throttling"):
        faulty("status")
    with fault(faulty, "throttling", "--times", "50"):
        ended = faulty("status", code=5)
        refused(faulty, "throttling")
    assert "AWS throttles" in ended.talk
    assert "Wait a minute" in ended.err.splitlines()[-1]
    over(faulty)


@pytest.mark.fault("expired-token")
def test_expired_credentials_are_told_with_the_way_to_new_ones(faulty: Trnctl) -> None:
    with fault(faulty, "expired-token"):
        ended = faulty("status", code=5)
    with fault(faulty, "expired-token"):
        refused(faulty, "expired-token")
    assert "credentials have expired" in ended.talk
    assert "aws sso login" in ended.err.splitlines()[-1]
    over(faulty)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("compile-failure", marks=pytest.mark.fault("compile-failure")),
        pytest.param("compile-failure-exit-0", marks=pytest.mark.fault("compile-failure-exit-0")),
    ],
)
def test_a_graph_that_does_not_compile_stops_the_run_before_it_trains(faulty: Trnctl, name: str) -> None:
    with fault(faulty, name):
        ended = faulty("submit", "bert-large", "-N", "2", "--name", name, "-f", code=6, timeout=120)
    graphs = {line.split()[3] for line in ended.out.splitlines() if line.startswith("trnctl: graph failed: ")}
    assert len(graphs) == 1
    graph = graphs.pop()
    assert GRAPH.fullmatch(graph)
    assert f"error: {name}: compile failed, train cancelled" in ended.talk
    run = run_of(faulty, name)
    assert (run["stage"], run["state"]) == ("compile", "failed")
    assert run["reason"] == f"graph {graph} did not compile"
    stages = faulty.json("results", name)["stages"]
    assert stages["compile"]["exit_code"] != 0
    assert stages["train"] is None
    assert faulty.slurm("squeue", "-h") == ""
    finding = told(faulty, name, name)
    said(ended, finding)
    assert "then compile again: trnctl submit" in finding["remedy"]  # which tests/cli/test_cache.py does


@pytest.mark.fault("training-crash")
def test_a_training_that_crashes_is_exit_code_6_and_keeps_its_log(faulty: Trnctl) -> None:
    with fault(faulty, "training-crash"):
        ended = faulty("submit", "bert-large", "-N", "2", "--name", "crash", "-f", *SHORT, code=6, timeout=120)
    assert "error: crash: train failed" in ended.talk
    assert "node 1 failed first" in ended.out
    run = run_of(faulty, "crash")
    assert (run["stage"], run["state"]) == ("train", "failed")
    assert "exit code" in run["reason"]
    assert "Failed to allocate" in faulty("logs", "crash", "--stage", "train", "--node", "1").out
    finding = told(faulty, "training-crash", "crash")
    said(ended, finding)
    assert "Lower the micro-batch" in finding["remedy"]
    assert "trnctl workloads new NAME --from WORKLOAD" in finding["remedy"]
    mine = faulty.folder / "mine.yaml"
    faulty("workloads", "new", "mine", "--from", "bert-large", "--output-file", str(mine))
    smaller = re.sub(r"accumulation: 32\b", "accumulation: 64", re.sub(r"micro: 16\b", "micro: 8", mine.read_text()))
    mine.write_text(smaller)
    faulty("plan", str(mine), "--nodes", "2")
    faulty("submit", str(mine), "-N", "2", "--name", "smaller", "-f", *SHORT, timeout=240)
    assert run_of(faulty, "smaller")["state"] == "completed"


@pytest.mark.fault("insufficient-capacity")
def test_a_run_waits_for_capacity_and_goes_on_when_it_is_back(faulty: Trnctl) -> None:
    alerts: list[str] = []

    def waits() -> bool:
        alerts[:] = [alert["message"] for alert in faulty.json("status")["alerts"]]
        return any("EC2 has no capacity for them now" in alert for alert in alerts)

    with fault(faulty, "insufficient-capacity"):
        nodes = ["--", "--nodelist=compute1-dy-i1-[5-8]"]  # which no other test has started
        faulty("submit", "bert-large", "-N", "4", "--name", "patient", *SHORT, *nodes)
        eventually(waits, "status says what the run waits for", timeout=40)
        assert run_of(faulty, "patient")["state"] in {"configuring", "pending", "requeued"}
        assert run_of(faulty, "patient")["reason"]
        for words in ((), ("patient",)):
            finding = told(faulty, "insufficient-capacity", *words)
            assert "do not have sufficient trn1.32xlarge capacity" in finding["evidence"]
            assert "Wait (the job stays in the queue and is tried again)" in finding["remedy"]
    faulty("logs", "patient", "-f", timeout=240)
    assert run_of(faulty, "patient")["state"] == "completed"
    over(faulty)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("node-death", marks=pytest.mark.fault("node-death")),
        pytest.param("first-node-death", marks=pytest.mark.fault("first-node-death")),
    ],
)
def test_a_node_that_dies_is_replaced_and_the_run_goes_on_from_its_checkpoint(faulty: Trnctl, name: str) -> None:
    # The same four nodes both times: the one that died must come back and be used again.
    nodes = ["--", "--nodelist=compute1-dy-i1-[1-4]"]
    faulty("submit", "bert-large", "-N", "4", "--name", name, "--set", "steps_this_run=12", *nodes)
    checkpoint = faulty.shared(f"/fsx/trnctl/runs/{name}/checkpoints/ckpt_10.pt")
    eventually(checkpoint.exists, "the first checkpoint is written", timeout=90)
    strike(faulty, name)
    ended = faulty("logs", name, "-f", timeout=240)  # half a minute until Slurm misses the node, and a minute more
    assert "trnctl: going on from " in ended.out
    assert f"/{name}/checkpoints/ckpt_10.pt at step 10" in ended.out
    found = faulty.json("results", name)
    assert (found["steps_done"], found["restarts"]) == (12, 1)
    assert run_of(faulty, name)["state"] == "completed"
    told(faulty, name, name)
    assert f"{name} has completed" in faulty("why", name, timeout=90).talk
    over(faulty)


@pytest.mark.fault("delete-failed", "placement-group-in-use")
def test_what_keeps_a_stack_from_being_deleted_is_waited_for_and_the_deletion_tried_again(faulty: Trnctl) -> None:
    for name in ("delete-failed", "placement-group-in-use"):
        strike(faulty, name, "--times", "5")  # as often as one teardown tries
    ended = faulty("teardown", "--delete-storage", "-y", code=4, timeout=400)
    findings = [told(faulty, name, first=False) for name in ("delete-failed", "placement-group-in-use")]
    assert all("run trnctl teardown again" in one["remedy"] for one in findings)
    assert any(f"[{one['code']}, " in ended.err for one in findings)
    proof = faulty.json("teardown", "--delete-storage", "-y", timeout=180)
    assert proof["left"] == []  # also not the file system of the create that failed
    faulty("status", code=8)
