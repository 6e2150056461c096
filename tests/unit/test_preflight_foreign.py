"""Files that are something else, and values that nobody has filled in yet."""

from __future__ import annotations

import pytest

from tests.unit.test_preflight_rules import BASE
from trnctl.preflight.judge import judge

STACK = """\
AWSTemplateFormatVersion: "2010-09-09"
Resources:
  Cluster:
    Type: Custom::PclusterCluster
    Properties:
      ServiceToken: !GetAtt [Provider, Outputs.ServiceToken]
      ClusterConfiguration:
        Image: {Os: alinux2023}
"""


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("# mine\n[global]\ncluster_template = default\n", 2, "ParallelCluster 2"),
        ("[aws]\naws_region_name = us-east-1\n[cluster big]\nscheduler = slurm\n", 1, "ParallelCluster 2"),
        (STACK, 7, "CloudFormation"),
        ("Build:\n  ParentImage: ami-0aa11bb22cc33dd44\n  InstanceType: c5.xlarge\n", 1, "image"),
        ("apiVersion: v1\nkind: Pod\n", 1, "apiVersion, kind"),
        ("Config:\n  HeadNode: {InstanceType: c5.xlarge}\n", 1, "under Config"),
    ],
)
def test_a_file_of_another_kind_is_said_once(text: str, line: int, words: str) -> None:
    (finding,) = judge(text, "other.yaml").findings
    assert (finding.code, finding.line) == ("not-a-cluster-file", line)
    assert words in finding.message


@pytest.mark.parametrize("text", ["HeadNode: {}\n", "Region: us-west-2\n", "Sheduling: {}\nImage: {Os: ubuntu2404}\n"])
def test_half_a_cluster_file_is_judged_key_by_key(text: str) -> None:
    codes = {finding.code for finding in judge(text, "half.yaml").findings}
    assert "missing-key" in codes
    assert "not-a-cluster-file" not in codes


@pytest.mark.parametrize(
    "value",
    [
        "subnet-xxx", "subnet-XXXXXXXX", "subnet-0***********0", "subnet-<ID>", "${SUBNET}", "$SUBNET_ID", "%SUBNET%",
        "<subnet>", "PLACEHOLDER", "CHANGEME", "REDACTED", "subnet-0ab...",
    ],
)  # fmt: skip
def test_what_is_to_be_filled_in_is_called_that(value: str) -> None:
    found = judge(BASE.replace("subnet-0aa11bb22cc33dd42", f'"{value}"'), "template.yaml").findings
    assert {finding.code for finding in found if finding.level == "error"} == {"placeholder"}


def test_what_cloudformation_would_fill_in_is_said_once() -> None:
    found = judge(BASE.replace("subnet-0aa11bb22cc33dd42", "!Ref Subnet", 1), "template.yaml").findings
    errors = [finding for finding in found if finding.level == "error"]
    assert [finding.code for finding in errors if "SubnetIds" in finding.path] == ["yaml-tag"]
    assert "CloudFormation" in errors[0].remedy
