"""Faults of a running cluster, one after the other in one sandbox: what a person reads, what `why` says, and that the
remedy which it names works."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.fault_story import fault, nothing_left, over, said, strike, told
from tests.cli.trnctl_runner import Trnctl, eventually, sandbox
from trnctl.sandbox.neuron.hardware_faults import break_device_once, sram_error, strike_again

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

STEPS = ("--set", "steps_this_run=12")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Trnctl]:
    with sandbox() as trnctl:
        trnctl("cluster", "create", "-y", timeout=240)
        yield trnctl


def alerts(trnctl: Trnctl) -> dict[str, Any]:
    """What status alerts of, by code."""
    return {alert["code"]: alert for alert in trnctl.json("status")["alerts"]}


def run_of(trnctl: Trnctl, name: str) -> Any:
    return next(run for run in trnctl.json("status")["runs"] if run["run"] == name)


def trains(trnctl: Trnctl, name: str) -> None:
    """Wait until a run has done a step."""
    log = trnctl.shared(f"/fsx/trnctl/runs/{name}/logs/train/node-0.log")
    eventually(lambda: log.exists() and "step_loss" in log.read_text(), f"{name} trains", timeout=150)


@pytest.mark.fault("hardware-error")
def test_a_broken_device_is_marked_its_node_drained_and_the_run_goes_on(cluster: Trnctl) -> None:
    notified = cluster.folder / "notified.json"
    with fault(cluster, "hardware-error"):
        cluster(
            "submit", "bert-large", "-N", "4", "--name", "broken", *STEPS, "--notify", f"cat >{notified}", timeout=90
        )
        trains(cluster, "broken")
        top = cluster.json("top", "broken", "--once", timeout=90)
        [run] = top["runs"]
        assert (run["run"], len(run["nodes"]), run["nodes"][0]["instance_type"]) == ("broken", 4, "trn1.32xlarge")
        seen: dict[str, Any] = {}

        def drained() -> bool:
            seen.update(alerts(cluster))
            return "1202" in seen.get("nodes-unavailable", {}).get("message", "")

        eventually(drained, "the node is drained with its reason", timeout=90)
        ended = cluster("logs", "broken", "-f", "-n", "5", timeout=240)
    assert "completed" in ended.err
    finding = told(cluster, "hardware-error", "broken")
    assert "NEURON_HW_ERR" in finding["evidence"] or "1202" in finding["evidence"]
    assert "broken has completed" in cluster("why", "broken", timeout=90).talk
    over(cluster)  # its node has been replaced
    log = cluster.shared("/fsx/trnctl/runs/broken/train.log").read_text()
    assert "hardware of compute1-dy-i1-4 has failed: 1202: an uncorrectable SRAM error" in log
    assert "lost compute1-dy-i1-4: the job waits for nodes again" in log
    assert cluster.json("results", "broken")["steps_done"] == 12
    message = json.loads(notified.read_text())
    assert (message["run"], message["state"], message["steps_done"]) == ("broken", "completed", 12)
    assert str(notified) not in cluster.shared("/fsx/trnctl/runs/broken/run.json").read_text()


def test_a_kernel_that_tells_of_broken_hardware_drains_its_node_whoever_had_it(cluster: Trnctl) -> None:
    """No script of trnctl's is there to ask: the epilog does."""
    node = "compute1-dy-i1-9"
    assert node in cluster.slurm("srun", "-N", "1", "-w", node, "hostname")
    strike_again(cluster.cluster_folder())
    assert break_device_once(cluster.cluster_folder(), node, sram_error(3, node, "i-0"))
    cluster.slurm("srun", "-N", "1", "-w", node, "true")

    def drained() -> bool:
        message = alerts(cluster).get("nodes-unavailable", {}).get("message", "")
        return "trnctl: NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR" in message

    eventually(drained, "the node is drained with its reason", timeout=90)
    eventually(lambda: "nodes-unavailable" not in alerts(cluster), "it is replaced", timeout=120)


@pytest.mark.fault("node-boot-failure")
def test_what_a_node_that_never_came_up_sent_to_cloudwatch_is_found(cluster: Trnctl) -> None:
    with fault(cluster, "node-boot-failure"):
        nodes = ["--", "--nodelist=compute1-dy-i1-[13-14]"]
        cluster("submit", "bert-large", "-N", "2", "--name", "unborn", *STEPS, *nodes, timeout=90)
        finding = told(cluster, "node-boot-failure", "unborn", first=False, within=150)
        assert re.fullmatch(r"CloudWatch ip-[\d-]+\.i-\w+\.cloud-init-output", finding["file"])
        assert "Temporary failure resolving" in finding["evidence"]
        talk = cluster("why", "unborn", timeout=90).talk
        assert "what has reached CloudWatch was read: cloud-init-output" in talk
        assert "EC2 instances" in talk
    cluster("cancel", "unborn")


@pytest.mark.fault("ssh-drop")
def test_connections_that_break_lose_no_line(cluster: Trnctl) -> None:
    cluster("submit", "bert-large", "-N", "2", "--name", "pulled", *STEPS, timeout=90)
    with cluster.start("logs", "pulled", "--stage", "train", "-f") as follower:
        follower.until(lambda it: "step_loss" in it.out, "the log is followed", timeout=150)
        strike(cluster, "ssh-drop")
        ended = follower.end(timeout=200)
    assert ended.code == 0
    written = [
        line
        for line in cluster.shared("/fsx/trnctl/runs/pulled/logs/train/node-0.log").read_text().splitlines()
        if "step_loss" in line
    ]
    assert [line for line in ended.out.splitlines() if "step_loss" in line] == written
    nothing_left(cluster, "ssh-drop", "pulled")


@pytest.mark.fault("zombie-node")
def test_an_instance_that_slurm_has_lost_is_told_with_what_it_costs(cluster: Trnctl) -> None:
    with fault(cluster, "zombie-node"):
        eventually(lambda: "instances-orphaned" in alerts(cluster), "the orphan is seen", timeout=150)
        seen = alerts(cluster)["instances-orphaned"]
        assert "1 compute instance more than Slurm has nodes on: $21.50/h" in seen["message"]
        assert "scontrol show nodes" in seen["remedy"]
        assert "$21.50/h" in told(cluster, "zombie-node")["message"]
    # ParallelCluster ends it after some minutes; clearing the fault stands for that.
    over(cluster)
    assert "instances-orphaned" not in alerts(cluster)


@pytest.mark.fault("hung-collective")
def test_a_hung_collective_shows_as_idle_cores_and_as_silence(cluster: Trnctl) -> None:
    with fault(cluster, "hung-collective"):
        cluster("submit", "bert-large", "-N", "4", "--name", "hung", *STEPS, timeout=90)
        trains(cluster, "hung")

        def idle() -> bool:
            [run] = cluster.json("top", "hung", "--once", timeout=90)["runs"]
            return [finding["code"] for finding in run["findings"]] == ["cores-idle"]

        eventually(idle, "one node's cores are idle", timeout=120)
        assert "none of its 32 cores works" in cluster("top", "hung", "--once", timeout=90).out
        log = cluster.shared("/fsx/trnctl/runs/hung/logs/train/node-0.log")
        os.utime(log, (time.time() - 900, time.time() - 900))
        assert "trnctl top hung" in alerts(cluster)["run-stalled"]["remedy"]
        finding = told(cluster, "hung-collective", "hung", node="compute1-dy-i1-")
        assert "trnctl cancel hung, then trnctl resume hung" in finding["remedy"]
        cluster("cancel", "hung")
    cluster("resume", "hung", "-f", timeout=240)
    assert run_of(cluster, "hung")["state"] == "completed"
    findings = cluster.json("why", "hung", timeout=120)["findings"]
    assert "hung-collective" not in [one["code"] for one in findings]


@pytest.mark.fault("slurmctld-down")
def test_a_controller_that_is_down_is_told_in_words_and_comes_back(cluster: Trnctl) -> None:
    with fault(cluster, "slurmctld-down"):
        seen = alerts(cluster)["head-node-unreachable"]
        assert "Slurm's controller does not answer" in seen["message"]
        assert "systemctl restart slurmctld" in seen["remedy"]
        ended = cluster("submit", "bert-large", "-N", "2", "--name", "refused", code=4, timeout=60)
        assert "controller does not answer" in ended.talk
        assert ended.seconds < 45, "squeue and sbatch would hang for a minute"
        assert "runs      not known" in cluster("status").out
        finding = told(cluster, "slurmctld-down")
        assert "trnctl ssh -- sudo systemctl restart slurmctld" in finding["remedy"]
        assert "inactive" in cluster("ssh", "--", "sudo systemctl status slurmctld", code=3).out
        cluster("ssh", "--", "sudo systemctl restart slurmctld", timeout=90)
        assert "active (running)" in cluster("ssh", "--", "sudo systemctl status slurmctld").out
        over(cluster)
    eventually(lambda: "head-node-unreachable" not in alerts(cluster), "Slurm answers again", timeout=60)


def test_a_watch_outlives_a_silent_head_node_and_tells_the_age_of_what_it_shows(cluster: Trnctl) -> None:
    with cluster.start("-o", "json", "status", "-w", "--interval", "0.5") as watch:

        def last() -> dict[str, Any]:
            lines = watch.out.splitlines()
            return dict(json.loads(lines[-1])) if lines and watch.out.endswith("\n") else {}

        def codes() -> list[str]:
            return [alert["code"] for alert in last().get("alerts", [])]

        watch.until(lambda _: bool(last().get("nodes")), "it sees the nodes", timeout=90)
        with fault(cluster, "slurmctld-down"):
            watch.until(lambda _: "head-node-unreachable" in codes(), "it tells that nobody answers", timeout=120)
            watch.until(lambda _: last().get("slurm_at", "~") < last().get("at", ""), "what it shows ages", timeout=120)
            assert last()["nodes"], "what was seen last stays"
        watch.until(lambda _: bool(last()) and "head-node-unreachable" not in codes(), "it sees again", timeout=120)
        assert last()["slurm_at"] == last()["at"]


@pytest.mark.fault("full-disk")
def test_a_full_disk_is_named(cluster: Trnctl) -> None:
    with fault(cluster, "full-disk"):
        ended = cluster("submit", "bert-large", "-N", "2", "--name", "full", *STEPS, "-f", code=6, timeout=240)
        finding = told(cluster, "full-disk", "full")
    assert "No space left on device" in ended.out + ended.err
    assert run_of(cluster, "full")["state"] == "failed"
    said(ended, finding)
    assert "full failed in its stage train: trnctl why full says why" in cluster("why", timeout=90).talk
    assert "trnctl resume full goes on" in finding["remedy"]
    cluster("ssh", "--", "df -h")
    cluster("resume", "full", "-f", timeout=240)
    assert run_of(cluster, "full")["state"] == "completed"


@pytest.mark.fault("protected-mode")
def test_protected_mode_names_the_command_that_ends_it(cluster: Trnctl) -> None:
    strike(cluster, "protected-mode")
    seen = alerts(cluster)["protected-mode"]
    assert "compute1 inactive" in seen["message"]
    assert "trnctl cluster fleet start" in seen["remedy"]
    assert "protected" in cluster("status").out
    assert "Could not get lock" in told(cluster, "protected-mode")["evidence"]
    findings = {one["code"]: one for one in cluster.json("why", timeout=90)["findings"]}
    assert "then trnctl cluster fleet start" in findings["protected-mode"]["remedy"]
    refused = cluster("submit", "bert-large", "-N", "2", "--name", "protected", code=4, timeout=60)
    assert "trnctl cluster fleet start" in refused.err.splitlines()[-1]
    cluster("cluster", "fleet", "start", timeout=90)
    over(cluster)
    assert "protected-mode" not in alerts(cluster)
    assert cluster.json("status")["cluster"]["fleet"] == "running"


@pytest.mark.fault("partial-capacity")
def test_two_nodes_where_four_are_wanted_is_a_wait_with_alternatives(cluster: Trnctl) -> None:
    nodes = ["--", "--nodelist=compute1-dy-i1-[9-12]"]
    with fault(cluster, "partial-capacity"):
        cluster("submit", "bert-large", "-N", "4", "--name", "partial", *STEPS, *nodes, timeout=90)
        eventually(lambda: "capacity-wait" in alerts(cluster), "status says what it waits for", timeout=90)
        seen = alerts(cluster)["capacity-wait"]
        assert "2 nodes of compute1: EC2 has no capacity for them now" in seen["message"]
        assert "fewer nodes" in seen["remedy"]
        for words in ((), ("partial",)):
            assert "ask for fewer nodes" in told(cluster, "partial-capacity", *words)["remedy"]
        cluster("cancel", "partial")
        assert run_of(cluster, "partial")["state"] == "cancelled"
        cluster("submit", "bert-large", "-N", "2", "--name", "fewer", *STEPS, "-f", timeout=240)
    over(cluster, within=120)
