"""Gathering evidence through the doors, on doors in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import World
from trnctl.actions.create import create, plan_create
from trnctl.actions.runs import OpenCluster
from trnctl.actions.why import explain_failure, near_codes, why_code
from trnctl.actions.why_now import explain_run, why_cluster, why_run
from trnctl.codes import CODES
from trnctl.errors import CloudError, NotFoundError, RunFailed, ToolError
from trnctl.ports import SavedText
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.loading import load_cluster_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "trn1-16-nodes.yaml"
REFUSED = (
    "2026-10-01 09:12:01,123 - [slurm_plugin.instance_manager:add_instances_for_nodes] - ERROR - An error occurred "
    "(VcpuLimitExceeded) when calling the RunInstances operation: You have requested more vCPU capacity than your "
    "current vCPU limit of 128 allows"
)


@pytest.fixture
def spec() -> ClusterSpec:
    """The walk-through's cluster."""
    return load_cluster_file(EXAMPLE.read_text(), str(EXAMPLE)).cluster


@pytest.fixture
def world() -> World:
    """An account with the cluster ultra1."""
    world = World()
    world.cloud.has_cluster("ultra1")
    return world


def opened(world: World) -> OpenCluster:
    """The cluster and its doors."""
    return OpenCluster("ultra1", "us-west-2", world.services(), "/fsx/trnctl/runs")


def codes(world: World, spec: ClusterSpec | None = None) -> list[str]:
    """What `why cluster` finds."""
    return [one.code for one in why_cluster(opened(world), spec).diagnosis.findings]


def test_a_cluster_that_is_well_has_no_findings(world: World, spec: ClusterSpec) -> None:
    answer = why_cluster(opened(world), spec)
    assert answer.diagnosis.findings == ()
    assert answer.notes == ()
    assert world.evidence.asked == 1, "one connection to the head node"


def test_what_the_head_node_has_written_down_is_judged(world: World, spec: ClusterSpec) -> None:
    now = world.clock.now()
    text = REFUSED.replace("2026-10-01 09:12:01", f"{now:%Y-%m-%d %H:%M:%S}")
    world.evidence.texts.append(SavedText("clustermgtd", "/var/log/parallelcluster/clustermgtd", text))
    (finding,) = why_cluster(opened(world), spec).diagnosis.findings
    assert finding.code == "vcpu-limit"
    assert finding.file == "/var/log/parallelcluster/clustermgtd"
    assert "it is 128" in finding.message


def test_what_it_wrote_days_ago_is_not(world: World) -> None:
    world.evidence.texts.append(SavedText("clustermgtd", "clustermgtd", REFUSED.replace("2026-", "2001-")))
    assert codes(world) == []


def test_a_cluster_that_does_not_exist_is_not_found(spec: ClusterSpec) -> None:
    with pytest.raises(NotFoundError, match="there is no cluster ultra1"):
        why_cluster(opened(World()), spec)


def test_a_run_is_judged_by_its_own_logs(world: World, spec: ClusterSpec) -> None:
    world.evidence.runs["bert-large-a3f"] = [
        SavedText("config", "run.json", '{"nodes": 4}'),
        SavedText("job-log", "logs/train/node-0.log", "OFI plugin initNet() failed is EFA enabled?", "node0"),
    ]
    answer = why_run(opened(world), spec, "a3f")
    assert answer.name == "bert-large-a3f"
    (finding,) = answer.diagnosis.findings
    assert (finding.code, finding.node, finding.confidence) == ("efa-missing", "node0", "high")


def test_a_run_on_one_node_needs_no_efa(world: World, spec: ClusterSpec) -> None:
    world.evidence.runs["one"] = [
        SavedText("config", "run.json", '{"nodes": 1}'),
        SavedText("job-log", "train.log", "OFI plugin initNet() failed is EFA enabled?"),
    ]
    answer = why_run(opened(world), spec, "one")
    assert answer.diagnosis.findings == ()
    assert [one.code for one in answer.diagnosis.harmless] == ["efa-single-node"]


def test_an_unknown_run_is_not_found(world: World, spec: ClusterSpec) -> None:
    with pytest.raises(NotFoundError, match="no run nope"):
        why_run(opened(world), spec, "nope")


def test_a_followed_run_that_failed_gets_its_cause(world: World) -> None:
    world.evidence.runs["a3f"] = [SavedText("job-log", "compile.log", "Total failed compilations: 2")]
    failed = RunFailed("a3f: compile failed", remedy="trnctl logs a3f --stage compile shows why")
    error = explain_run(failed, "a3f", opened(world))
    assert error.message == "a3f: compile failed: not every graph compiled: 2 failed"
    assert error.remedy.endswith("trnctl logs a3f --stage compile shows why")
    assert [one.code for one in error.findings] == ["compile-partial"]


def test_a_failure_that_nothing_explains_stays_as_it_is(world: World) -> None:
    failed = RunFailed("gone: train failed", remedy="look")
    assert explain_run(failed, "gone", opened(world)) is failed


@pytest.mark.parametrize(
    ("public", "message"),
    [(False, "its subnet routes to an internet gateway, and it has no public address"), (True, "did not report back")],
)
def test_a_creation_that_times_out_is_explained_by_the_head_nodes_route(
    spec: ClusterSpec, public: bool, message: str
) -> None:
    world = World()
    world.account.has_network(head=spec.network.head_subnet)
    world.cloud.buckets = {"my-trnctl-bucket": {}}
    if not public:
        world.account.all_subnets = [replace(one, public_ips=False) for one in world.account.all_subnets]
    world.provisioner.create_fails = "WaitCondition timed out. Received 0 conditions when expecting 1"
    with pytest.raises(ToolError, match=message) as caught:
        list(create(plan_create(spec), world.services()))
    assert "run this command again" in caught.value.remedy
    assert "Received 0 conditions" in caught.value.findings[0].evidence


def test_every_code_of_the_product_is_explained() -> None:
    for code in CODES:
        explanation = why_code(code)
        assert explanation is not None
        assert explanation.meaning
        assert explanation.remedy
    assert why_code("no-such-code") is None
    assert near_codes("insufficient-capacty") == ["insufficient-capacity"]


def test_a_signatures_code_says_how_it_is_recognised() -> None:
    explanation = why_code("kill-task-failed")
    assert explanation is not None
    assert explanation.signature is not None
    assert "UnkillableStepTimeout" in explanation.remedy
    assert "?" not in explanation.meaning


LOCKED = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 2201 (unattended-upgr)\n"


def test_what_a_head_node_has_sent_is_read_when_it_cannot_be_asked(world: World, spec: ClusterSpec) -> None:
    world.evidence.broken = ToolError("ssh broke", remedy="Try again.")
    world.cloud.logs["ultra1"] = [SavedText("cloud-init", "CloudWatch ip-10-0-0-12.i-0aa.cloud-init-output", LOCKED)]
    answer = why_cluster(opened(world), spec)
    assert [one.code for one in answer.diagnosis.findings] == ["apt-lock"]
    assert answer.notes[0] == "the head node could not be asked: ssh broke"
    assert answer.notes[1] == "what has reached CloudWatch was read: cloud-init-output"


BOOTLESS = "Found the following bootstrap failure nodes: (x1) ['compute1-dy-i1-1']\n"


def test_what_a_node_that_is_gone_has_sent_decides_why_a_run_waits(world: World, spec: ClusterSpec) -> None:
    """The head node knows only that no node came up."""
    now = world.clock.now()
    world.evidence.runs["a3f"] = [
        SavedText("clustermgtd", "clustermgtd", f"{now:%Y-%m-%d %H:%M:%S},1 - [x:y] - WARNING - {BOOTLESS}")
    ]
    assert [one.code for one in why_run(opened(world), spec, "a3f").diagnosis.findings] == ["bootstrap-slow-or-blocked"]
    world.cloud.logs["ultra1"] = [SavedText("cloud-init", "CloudWatch ip-10-0-0-12.i-0aa.cloud-init-output", LOCKED)]
    answer = why_run(opened(world), spec, "a3f")
    assert [one.code for one in answer.diagnosis.findings] == ["apt-lock"]
    assert answer.diagnosis.findings[0].file.startswith("CloudWatch ip-10-0-0-12")


def test_a_run_is_told_of_its_clusters_failed_update(world: World, spec: ClusterSpec) -> None:
    world.evidence.runs["a3f"] = [SavedText("config", "run.json", '{"nodes": 2}')]
    world.cloud.has_cluster("ultra1", "update-failed")
    world.cloud.happens("ultra1", "ultra1", "AWS::CloudFormation::Stack", "UPDATE_IN_PROGRESS")
    world.cloud.happens(
        "ultra1", "PlacementGroup", "AWS::EC2::PlacementGroup", "UPDATE_FAILED",
        "You have requested more vCPU capacity than your current vCPU limit of 128 allows",
    )  # fmt: skip
    assert [one.code for one in why_run(opened(world), spec, "a3f").diagnosis.findings] == ["vcpu-limit"]


def test_a_head_node_that_answers_is_believed_and_cloudwatch_not_asked(world: World, spec: ClusterSpec) -> None:
    world.cloud.logs["ultra1"] = [SavedText("cloud-init", "CloudWatch x", LOCKED)]
    assert codes(world, spec) == []


def test_the_console_is_read_too(world: World) -> None:
    world.evidence.broken = ToolError("ssh broke", remedy="Try again.")
    head = world.cloud.observe("ultra1").head
    assert head is not None
    world.cloud.consoles[head.id] = LOCKED
    assert codes(world) == ["apt-lock"]


def test_what_cloudwatch_refuses_hides_nothing(world: World) -> None:
    world.cloud.happens("ultra1", "ultra1", "AWS::CloudFormation::Stack", "CREATE_IN_PROGRESS")
    world.cloud.happens(
        "ultra1", "HeadNodeEIP", "AWS::EC2::EIP", "CREATE_FAILED", "The maximum number of addresses has been reached."
    )
    world.cloud.silent = CloudError("logs:DescribeLogGroups is denied", remedy="Allow it.")
    error = explain_failure("ultra1", "created", world.services())
    assert error is not None
    assert error.findings[0].code == "eip-limit"


def test_a_failed_creation_is_explained_by_what_its_node_had_sent(world: World) -> None:
    timed_out = "WaitCondition timed out. Received 0 conditions when expecting 1"
    world.cloud.happens("ultra1", "ultra1", "AWS::CloudFormation::Stack", "CREATE_IN_PROGRESS")
    world.cloud.happens(
        "ultra1", "HeadNodeWaitCondition1", "AWS::CloudFormation::WaitCondition", "CREATE_FAILED", timed_out
    )
    world.cloud.logs["ultra1"] = [SavedText("cloud-init", "CloudWatch x.cloud-init-output", LOCKED)]
    error = explain_failure("ultra1", "created", world.services())
    assert error is not None
    assert error.findings[0].code == "apt-lock"
    assert "could not be created: apt could not be used" in error.message
