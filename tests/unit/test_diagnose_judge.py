"""Causes come before symptoms, victims are left out, what is harmless is said to be, and doubt stays doubt."""

from __future__ import annotations

import json

import pytest

from tests.diagnosing import codes, diagnosed, diagnosed_all, probes, signatures
from trnctl.diagnose.conditions import holds
from trnctl.diagnose.documents import lines_of, parse
from trnctl.diagnose.evidence import Origin
from trnctl.diagnose.judge import fill, judge
from trnctl.diagnose.kinds import kind_of
from trnctl.diagnose.scan import Scanner
from trnctl.diagnose.text import clean, node_of, stamp_of

TIMED_OUT = (
    "CREATE_FAILED AWS::CloudFormation::WaitCondition HeadNodeWaitCondition1: WaitCondition timed out. Received 0"
)
HUNG = (
    "missing collectives status on Neuron Device 3 NC 1, model 0 - suspected hang in collectives operation 4 out of 90"
)
DEAD = "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=3 action=TERMINATE_INSTANCE"


@pytest.mark.parametrize(
    ("beside", "code"),
    [
        ("This AMI was not baked by ParallelCluster. Please use pcluster build-image", "invalid-ami"),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 2201", "apt-lock"),
        ("Failed to execute OnNodeConfigured script 1, return code: 1.", "on-node-configured-failed"),
        ("Failed to run chef recipe aws-parallelcluster-slurm::config_head_node line 9", "chef-recipe-failed"),
    ],
)
def test_a_timeout_of_the_head_node_is_decided_by_the_other_evidence(beside: str, code: str) -> None:
    assert codes(diagnosed(f"{TIMED_OUT}\n{beside}")) == [code]


@pytest.mark.parametrize(
    ("route", "code"),
    [("igw", "headnode-no-egress"), ("none", "headnode-no-route"), ("nat", "headnode-bootstrap-timeout")],
)
def test_a_timeout_of_the_head_node_is_decided_by_its_route(route: str, code: str) -> None:
    assert codes(diagnosed(TIMED_OUT, {"head_route": route})) == [code]


def test_what_nothing_decides_stays_undecided_and_says_where_to_look() -> None:
    (finding,) = diagnosed(TIMED_OUT).findings
    assert (finding.code, finding.confidence) == ("headnode-bootstrap-timeout", "low")
    assert "Undecided" in finding.cause
    assert "Look at: the route table of the head node's subnet" in finding.remedy


def test_the_node_with_the_hardware_error_is_blamed_and_not_those_that_waited() -> None:
    logs = {"train/node-0.log": f"node2: {HUNG}", "dmesg of node5": f"node5: kernel: {DEAD}"}
    (finding,) = diagnosed_all(logs).findings
    assert (finding.code, finding.node, finding.confidence) == ("neuron-hw-error", "node5", "high")
    assert "node5" in finding.message
    assert "node2" not in finding.message + finding.remedy


def test_nodes_are_known_by_the_files_that_they_wrote() -> None:
    scanner = Scanner(probes())
    for number in range(4):
        text = DEAD if number == 3 else HUNG
        scanner.read([text.encode()], Origin("job-log", f"train/node-{number}.log", f"node{number}"))
    (finding,) = judge(scanner.scan, signatures()).findings
    assert finding.node == "node3"


def test_two_broken_nodes_are_two_findings() -> None:
    found = diagnosed(f"trn1-dy-t32-5: {DEAD}\ntrn1-dy-t32-7: {DEAD}").findings
    assert [(one.code, one.node) for one in found] == [
        ("neuron-hw-error", "trn1-dy-t32-5"),
        ("neuron-hw-error", "trn1-dy-t32-7"),
    ]


def test_cancelled_resources_are_never_the_cause() -> None:
    events = [
        {"timestamp": f"2026-10-01T09:12:0{n}.000Z", "logicalResourceId": name, "resourceType": kind,
         "resourceStatus": "CREATE_FAILED", "resourceStatusReason": reason}
        for n, (name, kind, reason) in enumerate([
            ("Zone", "AWS::Route53::HostedZone", "A conflicting domain is already associated"),
            ("FSX", "AWS::FSx::FileSystem", "Resource creation cancelled"),
            ("Role", "AWS::IAM::Role", "Resource creation cancelled"),
        ])
    ]  # fmt: skip
    for order in (events, events[::-1]):
        (finding,) = diagnosed(json.dumps({"events": order})).findings
        assert finding.code == "stack-resource-failed"
        assert finding.message == "Zone (AWS::Route53::HostedZone) failed: A conflicting domain is already associated"


def test_a_harmless_line_is_named_and_is_no_finding() -> None:
    found = diagnosed("#SBATCH --nodes=1\nOFI plugin initNet() failed is EFA enabled?")
    assert found.findings == ()
    assert [one.code for one in found.harmless] == ["efa-single-node"]


def test_a_script_is_no_log() -> None:
    assert codes(diagnosed("#!/bin/bash\ngrep -q 'No space left on device' log && exit 1\n")) == []
    assert codes(diagnosed("grep: No space left on device\n")) == ["disk-full"]


def test_a_fact_that_is_given_wins_over_the_text() -> None:
    assert codes(diagnosed("NNODES=1\nOFI plugin initNet() failed is EFA enabled?", {"nodes": "4"})) == ["efa-missing"]


def test_what_is_not_known_costs_confidence() -> None:
    line = "OFI plugin initNet() failed is EFA enabled?"
    assert diagnosed(line).findings[0].confidence == "medium"
    assert diagnosed(line, {"nodes": "4"}).findings[0].confidence == "high"


@pytest.mark.parametrize(("since", "found"), [("2026-10-01T00:00:00", ["vcpu-limit"]), ("2026-10-02T00:00:00", [])])
def test_what_daemons_wrote_long_ago_is_over(since: str, found: list[str]) -> None:
    scanner = Scanner(probes())
    line = "2026-10-01 09:12:01,123 - [slurm_plugin.instance_manager:x] - ERROR - An error occurred (VcpuLimitExceeded)"
    scanner.read([line.encode()], Origin(file="clustermgtd"))
    assert codes(judge(scanner.scan, signatures(), since=since)) == found


def test_a_words_place_is_left_out_when_it_is_unknown() -> None:
    text = "EC2 has no capacity[ for {type}][ in {az}]."
    assert fill(text, {"az": "us-west-2d"}) == "EC2 has no capacity in us-west-2d."


@pytest.mark.parametrize(
    ("condition", "value", "is_so"),
    [
        (">1", "4", True), (">1", "1", False), ("<3.11", "3.10.1", True), ("<3.11", "3.11.0", False),
        ("3.3.0..3.9.0", "3.9", True), ("3.3.0..3.9.0", "3.9.1", False), ("=1", "1", True), ("yes", "YES", True),
        (">1", "many", False), ("igw", "nat", False),
    ],
)  # fmt: skip
def test_conditions(condition: str, value: str, is_so: bool) -> None:
    assert holds(condition, value) is is_so


@pytest.mark.parametrize(
    ("head", "name", "source"),
    [
        ("#!/bin/bash\n#SBATCH --nodes=2\n", "run", "sbatch-script"),
        ('{"events": [{"logicalResourceId": "x"}]}', "x", "stack-event"),
        ("2026-10-01 09:12:01,1 - [slurm_plugin.clustermgtd:x] - INFO - y", "x", "clustermgtd"),
        ("2026-10-01 09:12:01,1 - [slurm_plugin.resume:main] - INFO - y", "x", "slurm-resume"),
        ("[2026-10-01T09:12:01.001] error: Nodes a not responding", "x", "slurmctld"),
        ("             JOBID PARTITION     NAME     USER ST", "x", "squeue"),
        ("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST", "x", "sinfo"),
        ("JobId=42 JobName=x", "x", "scontrol"),
        ("[298850.919248] efa 0000:a0:1a.0 rdmap160s26: x", "x", "kernel"),
        ("Cloud-init v. 24.1 running 'modules:final'", "x", "cloud-init"),
        ("nothing in particular", "logs/cfn-init.log", "cfn-init"),
        ("nothing in particular", "notes", "unknown"),
    ],
)
def test_a_file_is_known_by_what_it_holds(head: str, name: str, source: str) -> None:
    assert kind_of(head, name) == source


@pytest.mark.parametrize(
    ("line", "node"),
    [
        ("Oct  1 09:12:01 trn1-dy-t32-5 kernel: x", "trn1-dy-t32-5"),
        ("node4: RPC failed", "node4"),
        ("[node-4] RPC failed", "node4"),
        ("x NEURON_HW_ERR=A hostname=ip-172-31-61-252 nd-id=0", "ip-172-31-61-252"),
        ("nodes are busy: wait", ""),
    ],
)
def test_a_line_names_its_node(line: str, node: str) -> None:
    assert node_of(line) == node


def test_a_line_is_cleaned() -> None:
    assert clean('\x1b[31m"message":\t"a \\"b\\"\\n c"  \r\n') == '"message": "a "b" c"'
    assert stamp_of("x 2026-10-01 09:12:01,123 y") == "2026-10-01T09:12:01"


def test_json_behind_words_of_a_tool_is_read_and_other_text_is_not() -> None:
    assert parse('pcluster said:\n{"a": {"b": [1, "two"]}}\n') == {"a": {"b": [1, "two"]}}
    assert parse("[2026-10-01] error: no JSON") is None
    assert lines_of({"a": {"b": [1, "two\nthree"]}}) == ["b: 1", "b: two", "b: three"]


def test_the_newest_reason_of_a_node_is_told_where_each_takes_the_place_of_the_one_before() -> None:
    line = "[2026-10-01T09:{minute}:01.001] update_node: node trn1-dy-t32-2 reason set to: trnctl health: {words}\n"
    first = line.format(minute="12", words="node-devices: neuron-ls sees 15")
    text = first + line.format(minute="40", words="node-link: its all-reduces are slow")
    (finding,) = diagnosed(text, name="slurmctld.log").findings
    assert (finding.code, "its all-reduces are slow (node-link)" in finding.message) == ("node-failed-health", True)
