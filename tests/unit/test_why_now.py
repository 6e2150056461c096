"""`why` of what lives: what a look adds to the evidence, what is over, and what a refusal means; on doors in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes import World
from tests.unit.test_top import nodes
from tests.unit.test_why import opened
from trnctl.actions.status import RunStatus
from trnctl.actions.why import explain_failure
from trnctl.actions.why_look import of_run, silence
from trnctl.actions.why_now import why_cluster, why_run
from trnctl.errors import CloudError
from trnctl.findings import Finding
from trnctl.ports import Gathered, JobLoad, NodeGroup, SavedText

PROTECTED = (
    "{at:%Y-%m-%d %H:%M:%S},805 - [slurm_plugin.clustermgtd:_enter_protected_mode] - WARNING - Setting cluster into "
    "protected mode due to failures detected in node provisioning. Bootstrap failures: {{'q': {{'i1': 10}}}}"
)
LOCKED = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 2201 (unattended-upgr)\n"
TIMED_OUT = "WaitCondition timed out. Received 0 conditions when expecting 1"
CONSOLE = "{at:%Y-%m-%d %H:%M:%S},000 - [slurm_plugin.console_logger] - INFO - Console output for Instance ID i-0aa:\n"


@pytest.fixture
def world() -> World:
    """An account with the cluster ultra1."""
    world = World()
    world.cloud.has_cluster("ultra1")
    return world


def levels(world: World) -> dict[str, str]:
    """The level of each finding on the cluster, by code."""
    return {one.code: one.level for one in why_cluster(opened(world), None).diagnosis.findings}


def test_protected_mode_is_over_when_the_fleet_runs(world: World) -> None:
    text = PROTECTED.format(at=world.clock.now())
    world.evidence.texts.append(SavedText("clustermgtd", "clustermgtd", text))
    (finding,) = why_cluster(opened(world), None).diagnosis.findings
    assert (finding.code, finding.level) == ("protected-mode", "info")
    assert finding.message.endswith("This is over: the fleet runs.")


def test_protected_mode_with_its_cause_still_names_the_command_that_ends_it() -> None:
    world = World()
    world.cloud.has_cluster("ultra1", fleet="protected")
    text = CONSOLE.format(at=world.clock.now()) + LOCKED
    world.evidence.texts.append(SavedText("compute-console", "compute_console_output.log", text))
    first, second = why_cluster(opened(world), None).diagnosis.findings
    assert (first.code, second.code) == ("apt-lock", "protected-mode")
    assert second.remedy == "mend what is named first, then trnctl cluster fleet start"


def test_a_console_that_was_noted_before_the_fleet_was_started_is_another_story(world: World) -> None:
    text = CONSOLE.format(at=world.clock.now()).replace("2026-", "2001-") + LOCKED
    world.evidence.texts.append(SavedText("compute-console", "compute_console_output.log", text))
    assert levels(world) == {}


def test_what_only_a_look_shows_is_told_too(world: World) -> None:
    world.queue.nodes = (NodeGroup("compute1", "idle", 2, "compute1-dy-i1-[1-2]"),)
    assert levels(world) == {"nodes-without-instance": "warning"}
    (finding,) = why_cluster(opened(world), None).diagnosis.findings
    assert finding.cause
    assert "EC2 runs 0 compute instances; Slurm has 2 nodes at work" in finding.evidence


def test_a_refusal_of_awss_is_told_with_what_it_means(world: World) -> None:
    said = "The security token included in the request is expired"
    world.cloud.denied = CloudError(f"AWS refused. It said: {said}", remedy="Renew them.")
    with pytest.raises(CloudError, match="It said") as caught:
        why_cluster(opened(world), None)
    assert [one.code for one in caught.value.findings] == ["credentials-expired"]
    with pytest.raises(CloudError) as caught:
        why_run(opened(world), None, "a3f")
    assert [one.code for one in caught.value.findings] == ["credentials-expired"]


def test_a_stack_on_its_way_says_what_it_waits_for() -> None:
    world = World()
    world.cloud.has_cluster("ultra1", "creating")
    world.cloud.happens("ultra1", "ultra1", "AWS::CloudFormation::Stack", "CREATE_IN_PROGRESS")
    world.cloud.happens("ultra1", "FSX1", "AWS::FSx::FileSystem", "CREATE_IN_PROGRESS")
    world.clock.sleep(300)
    (finding,) = why_cluster(opened(world), None).diagnosis.findings
    assert (finding.code, finding.level) == ("stack-under-way", "info")
    assert finding.message == "ultra1 is being created for 5 min, 0 resources are done; it waits for FSX1 for 5 min"
    assert "CREATE_IN_PROGRESS FSX1" in finding.evidence


def test_the_console_of_a_head_node_that_a_rollback_has_ended_is_read() -> None:
    world = World()
    world.cloud.happens("ultra1", "ultra1", "AWS::CloudFormation::Stack", "CREATE_IN_PROGRESS")
    world.cloud.happens("ultra1", "HeadNode", "AWS::EC2::Instance", "CREATE_COMPLETE", physical_id="i-0aa11bb2")
    world.cloud.happens(
        "ultra1", "HeadNodeWaitCondition1", "AWS::CloudFormation::WaitCondition", "CREATE_FAILED", TIMED_OUT
    )
    world.cloud.consoles["i-0aa11bb2"] = "This AMI was not baked by ParallelCluster. Please use pcluster build-image\n"
    error = explain_failure("ultra1", "created", world.services())
    assert error is not None
    assert error.findings[0].code == "invalid-ami"


def test_a_nested_stack_that_failed_is_asked_for_its_reason() -> None:
    world = World()
    world.cloud.happens("ultra1", "ultra1", "AWS::CloudFormation::Stack", "DELETE_IN_PROGRESS")
    world.cloud.happens(
        "ultra1", "Queues", "AWS::CloudFormation::Stack", "DELETE_FAILED", "Embedded stack failed", physical_id="arn:q"
    )
    reason = "The placement group 'compute1-i1' is in use and may not be deleted."
    world.cloud.happens("arn:q", "PlacementGroup1", "AWS::EC2::PlacementGroup", "DELETE_FAILED", reason)
    error = explain_failure("ultra1", "deleted", world.services())
    assert error is not None
    assert error.findings[0].code == "retry-delete-later"


RUN = RunStatus(
    run="hung", workload="bert-large", stage="train", state="running", reason="", nodes=4, elapsed_s=900, step=5,
    steps=12, throughput=9681.0, unit="seq/s", eta_s=12, jobs={"train": "7"}, quiet_s=400, step_s=1.7,
)  # fmt: skip


def test_a_silent_run_with_one_idle_node_hangs_in_a_collective(world: World) -> None:
    loads = tuple(nodes(4, cores=(0.0,) * 32))
    world.monitor.jobs = [JobLoad("hung", "train", "7", 900, ("n1", "n2", "n3", "n4"), loads)]
    (finding,) = silence(opened(world), RUN)
    assert (finding.code, finding.node) == ("hung-collective", "n4")
    assert (
        finding.message == "hung has said nothing for 7 min: the cores of n4 do nothing, and the others wait for them."
    )
    assert "trnctl cancel hung, then trnctl resume hung" in finding.remedy


def test_a_run_that_speaks_is_not_looked_at_on_its_nodes(world: World) -> None:
    assert silence(opened(world), replace(RUN, quiet_s=20)) == []
    assert silence(opened(world), replace(RUN, state="completed")) == []


def test_a_silent_run_that_cannot_be_looked_at_is_told_as_silent(world: World) -> None:
    world.monitor.idle = {"hung"}
    assert [one.code for one in silence(opened(world), RUN)] == ["run-stalled"]


def test_a_node_that_a_runs_log_only_numbers_gets_its_name_and_is_told_of_once() -> None:
    log = "trnctl: stage train starts on compute1-dy-i1-2, node 1 of 2, master x\nboom\n"
    log += "trnctl: stage train starts on compute1-dy-i1-3, node 1 of 2, master x\nboom\n"
    broken = Finding(
        "neuron-hw-error", "error", "A device of node1 has failed.", "drain node1, then trnctl resume RUN",
        file="logs/train/node-1.log", line=2, node="node1",
    )  # fmt: skip
    again = replace(
        broken, message="A device of compute1-dy-i1-2 has failed.", node="compute1-dy-i1-2", file="x", line=1
    )
    gathered = Gathered("hw", (SavedText("job-log", "logs/train/node-1.log", log, "node1"),))
    (finding,) = of_run([broken, again], gathered)
    assert finding.node == "compute1-dy-i1-2"
    assert finding.message == "A device of compute1-dy-i1-2 has failed."
    assert finding.remedy == "drain compute1-dy-i1-2, then trnctl resume hw"
    (later,) = of_run([replace(broken, line=4)], gathered)
    assert later.node == "compute1-dy-i1-3"
