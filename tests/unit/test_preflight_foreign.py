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
        ("Image: {Name: x}\nBuild:\n  ParentImage: ami-0aa11bb22cc33dd44\n", 2, "build-image"),
        ("# A cluster\n\nWrite this:\n\n```yaml\nRegion: us-west-2\nImage: {Os: ubuntu2404}\n```\n", 6, "Markdown"),
        (
            "cat > c.yaml <<EOF\nRegion: ${REGION}\nImage:\n  Os: ubuntu2404\nEOF\npcluster create-cluster\n",
            2,
            "script",
        ),
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
        "<subnet>", "PLACEHOLDER", "CHANGEME", "REDACTED", "subnet-0ab...", "{SUBNET_ID}", "__SUBNET_ID__", "SUBNETID",
        "%%SUBNET%%", "XXXXXXXX",
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


def test_braces_without_quotes_are_what_a_formatter_would_fill_in() -> None:
    text = BASE.replace("[subnet-0aa11bb22cc33dd42]\n      P", "[{SUBNET}]\n      P").replace(
        "Size: 512", "Size: {gib}"
    )
    found = [finding for finding in judge(text, "template.yaml").findings if finding.level == "error"]
    assert [(finding.code, finding.message.split()[0]) for finding in found] == [
        ("placeholder", "`{SUBNET}`"), ("placeholder", "`{gib}`"),
    ]  # fmt: skip


def test_a_value_to_be_filled_in_has_one_finding_as_bad_as_its_worst() -> None:
    """The rule on reservations would refuse it; the schema alone would let it pass."""
    text = BASE.replace("MinCount: 0,", "MinCount: 0, CapacityReservationTarget: {CapacityReservationId: '${CR}'},")
    found = [finding for finding in judge(text, "template.yaml").findings if finding.path.endswith("ReservationId")]
    assert [(finding.code, finding.level) for finding in found] == [("placeholder", "error")]


def test_capitals_are_a_name_where_names_are_free() -> None:
    found = judge(BASE.replace("demo-ed25519", "KEY"), "launch.yaml").findings
    assert "placeholder" not in {finding.code for finding in found}


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("Image:\n  Os: {{ os }}\n", 2, 7),
        ("Image:\n  {% if x %}\n  Os: ubuntu2404\n", 2, 3),
        ("Image:\n  Os: ubuntu2404\n  ${CUSTOM_AMI}\nHeadNode: {}\n", 3, 3),
        ("HeadNode:\n  ${NO_HT}Networking: {\n", 2, 3),
        ("Tags:\n  - %{ for tag in tags }\n", 2, 5),
    ],
)
def test_a_template_is_called_one_at_its_first_mark(text: str, line: int, column: int) -> None:
    [finding] = judge(text, "template.yaml").findings
    assert (finding.code, finding.line, finding.column) == ("template-not-rendered", line, column)


def test_a_broken_file_that_mentions_a_variable_stays_a_broken_file() -> None:
    [finding] = judge("Region: ${REGION}\nImage: [\n", "broken.yaml").findings
    assert finding.code == "yaml-syntax"
