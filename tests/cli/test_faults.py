"""What fails on demand is told in words, with the right exit code, and is mended by running again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cli.trnctl_runner import Ended, Trnctl, eventually, sandbox

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

GRAPH = re.compile(r"MODULE_\d+\+[0-9a-f]+")
SHORT = ("--set", "steps_this_run=2")


@dataclass(frozen=True)
class FailedCreate:
    """A create whose head node never reported back, and the one after it."""

    trnctl: Trnctl
    first: Ended
    between: Ended
    second: Ended


@pytest.fixture(scope="module")
def failed_create() -> Iterator[FailedCreate]:
    with sandbox() as trnctl:
        trnctl("sandbox", "fault", "head-bootstrap-timeout")
        first = trnctl("cluster", "create", "-y", code=None, timeout=120)
        trnctl("sandbox", "fault", "clear")
        between = trnctl("status", code=None)
        second = trnctl("cluster", "create", "-y", code=None, timeout=120)
        trnctl.place_needs()
        yield FailedCreate(trnctl, first, between, second)


@pytest.fixture
def faulty(failed_create: FailedCreate) -> Trnctl:
    """The cluster that came up in the end."""
    return failed_create.trnctl


@contextmanager
def fault(trnctl: Trnctl, name: str, *options: str) -> Iterator[None]:
    """Something fails while the block runs."""
    trnctl("sandbox", "fault", name, *options)
    try:
        yield
    finally:
        trnctl("sandbox", "fault", "clear")


def run_of(trnctl: Trnctl, name: str) -> Any:
    """What status says of one run."""
    return next(run for run in trnctl.json("status")["runs"] if run["run"] == name)


def test_a_head_node_that_never_reports_back_is_named_as_the_cause(failed_create: FailedCreate) -> None:
    first = failed_create.first
    assert first.code == 4
    assert "HeadNodeWaitCondition" in first.talk
    assert "Received 0 conditions when expecting 1" in first.talk
    assert "run this command again" in first.err.splitlines()[-1]
    assert first.out == ""


def test_a_cluster_that_failed_is_seen_as_such_and_created_when_the_command_is_run_again(
    failed_create: FailedCreate,
) -> None:
    assert "create-failed" in failed_create.between.out
    assert "a stack named ultra1 that failed to be created is deleted first" in failed_create.second.talk
    assert failed_create.second.code == 0
    assert failed_create.trnctl.json("status")["cluster"]["phase"] == "running"


def test_an_unknown_fault_names_the_nearest(faulty: Trnctl) -> None:
    assert "Did you mean throttling?" in faulty("sandbox", "fault", "trottling", code=2).talk


def test_a_throttled_request_is_tried_again_and_lasting_throttling_is_told(faulty: Trnctl) -> None:
    with fault(faulty, "throttling"):
        faulty("status")
    with fault(faulty, "throttling", "--times", "50"):
        ended = faulty("status", code=5)
    assert "AWS throttles" in ended.talk
    assert "Wait a minute" in ended.err.splitlines()[-1]


def test_expired_credentials_are_told_with_the_way_to_new_ones(faulty: Trnctl) -> None:
    with fault(faulty, "expired-token"):
        ended = faulty("status", code=5)
    assert "credentials have expired" in ended.talk
    assert "aws sso login" in ended.err.splitlines()[-1]


@pytest.mark.parametrize("name", ["compile-failure", "compile-failure-exit-0"])
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


def test_a_training_that_crashes_is_exit_code_6_and_keeps_its_log(faulty: Trnctl) -> None:
    with fault(faulty, "training-crash"):
        ended = faulty("submit", "bert-large", "-N", "2", "--name", "crash", "-f", *SHORT, code=6, timeout=120)
    assert "error: crash: train failed" in ended.talk
    assert "node 1 failed first" in ended.out
    run = run_of(faulty, "crash")
    assert (run["stage"], run["state"]) == ("train", "failed")
    assert "exit code" in run["reason"]
    assert "Failed to allocate" in faulty("logs", "crash", "--stage", "train", "--node", "1").out


def test_a_run_waits_for_capacity_and_goes_on_when_it_is_back(faulty: Trnctl) -> None:
    alerts: list[str] = []

    def told() -> bool:
        alerts[:] = [alert["message"] for alert in faulty.json("status")["alerts"]]
        return any("EC2 has no capacity for them now" in alert for alert in alerts)

    with fault(faulty, "insufficient-capacity"):
        faulty("submit", "bert-large", "-N", "4", "--name", "patient", *SHORT)
        eventually(told, "status says what the run waits for", timeout=40)
        assert run_of(faulty, "patient")["state"] in {"configuring", "pending", "requeued"}
        assert run_of(faulty, "patient")["reason"]
    faulty("logs", "patient", "-f", timeout=150)
    assert run_of(faulty, "patient")["state"] == "completed"


def test_a_node_that_dies_is_replaced_and_the_run_goes_on_from_its_checkpoint(faulty: Trnctl) -> None:
    # The same four nodes both times: the one that died must come back and be used again.
    nodes = ["--", "--nodelist=compute1-dy-i1-[1-4]"]
    faulty("submit", "bert-large", "-N", "4", "--name", "phoenix", "--set", "steps_this_run=12", *nodes)
    checkpoint = faulty.shared("/fsx/trnctl/runs/phoenix/checkpoints/ckpt_10.pt")
    eventually(checkpoint.exists, "the first checkpoint is written", timeout=90)
    faulty("sandbox", "fault", "node-death")
    ended = faulty("logs", "phoenix", "-f", timeout=130)  # half a minute until Slurm misses the node
    assert "trnctl: going on from " in ended.out
    assert "/phoenix/checkpoints/ckpt_10.pt at step 10" in ended.out
    found = faulty.json("results", "phoenix")
    assert (found["steps_done"], found["restarts"]) == (12, 1)
    assert run_of(faulty, "phoenix")["state"] == "completed"


def test_what_keeps_a_stack_from_being_deleted_is_waited_for_and_the_deletion_tried_again(faulty: Trnctl) -> None:
    faulty("sandbox", "fault", "delete-failed")
    faulty("sandbox", "fault", "placement-group-in-use")
    proof = faulty.json("teardown", "--delete-storage", "-y", timeout=180)
    assert proof["left"] == []  # also not the file system of the create that failed
    faulty("status", code=8)
