"""The pure parts of the account: a template's order and tags, fault rules, and pcluster's environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trnctl.sandbox.aws.environment import pcluster_environment
from trnctl.sandbox.aws.faults import Faults, LaunchFault
from trnctl.sandbox.aws.templates import creation_order, needs, references, retained, with_tags


@pytest.mark.parametrize(
    ("node", "found"),
    [
        ({"Ref": "A"}, ["A"]),
        ({"Fn::GetAtt": ["A", "Arn"]}, ["A"]),
        ({"Fn::GetAtt": "A.Arn"}, ["A"]),
        ({"Fn::Sub": "x-${A}-${B.Arn}-${!Kept}-${AWS::Region}"}, ["A", "B", "AWS::Region"]),
        ({"Fn::Sub": ["${A}", {"C": {"Ref": "D"}}]}, ["A", "D"]),
        ({"deep": [{"er": {"Ref": "A"}}, "Ref"]}, ["A"]),
    ],
)
def test_references_are_found_however_they_are_written(node: object, found: list[str]) -> None:
    assert list(references(node)) == found


def test_a_resource_comes_after_all_that_it_needs() -> None:
    resources: dict[str, Any] = {
        "Last": {"Type": "T", "DependsOn": ["Middle"], "Metadata": {"a": {"Ref": "Side"}}},
        "Middle": {"Type": "T", "DependsOn": "First", "Properties": {"p": {"Ref": "Parameter"}}},
        "Side": {"Type": "T"},
        "First": {"Type": "T"},
    }
    assert needs(resources)["Last"] == {"Middle", "Side"}
    order = creation_order(resources)
    assert order.index("First") < order.index("Middle") < order.index("Last") > order.index("Side")


def test_a_circle_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Circular dependency between resources: \[A, B\]"):
        creation_order({"A": {"Type": "T", "DependsOn": "B"}, "B": {"Type": "T", "DependsOn": "A"}})


def test_a_stacks_tags_are_added_where_the_type_takes_tags_and_its_own_win() -> None:
    own = {"Type": "AWS::FSx::FileSystem", "Properties": {"Tags": [{"Key": "Name", "Value": "mine"}]}}

    tagged = with_tags(own, {"Name": "stack", "team": "research"})

    assert tagged["Properties"]["Tags"] == [{"Key": "Name", "Value": "mine"}, {"Key": "team", "Value": "research"}]
    assert own["Properties"] == {"Tags": [{"Key": "Name", "Value": "mine"}]}
    assert with_tags({"Type": "AWS::IAM::Policy"}, {"team": "research"}) == {
        "Type": "AWS::IAM::Policy",
        "Properties": {},
    }


@pytest.mark.parametrize(("policy", "stays"), [("Retain", True), ("Delete", False), (None, False)])
def test_only_a_retained_resource_outlives_its_stack(policy: str | None, stays: bool) -> None:
    assert retained({"Type": "T", "DeletionPolicy": policy}) is stays


# ------------------------------------------------------------------------------------------ faults


def test_a_rule_is_used_as_often_as_it_says() -> None:
    faults = Faults()
    faults.add({"kind": "api", "service": "ec2", "action": "Describe*", "code": "Throttling", "times": 2})

    assert faults.api("ec2", "RunInstances") is None
    assert [faults.api("ec2", "DescribeVpcs") is not None for _ in range(3)] == [True, True, False]
    assert faults.listing() == []


def test_a_rule_without_an_end_stays_until_it_is_cleared() -> None:
    faults = Faults()
    faults.add({"kind": "boot", "cluster": "a*", "reason": "no", "times": None})

    found = [faults.boot("a1"), faults.boot("a2"), faults.boot("b1")]
    assert [rule and rule.reason for rule in found] == ["no", "no", None]
    faults.clear()
    assert faults.boot("a1") is None


def test_a_resource_rule_matches_by_stack_type_name_and_operation() -> None:
    faults = Faults()
    faults.add({"kind": "resource", "type": "AWS::FSx::*", "op": "DELETE", "reason": "in use"})

    assert faults.resource("c", "AWS::FSx::FileSystem", "FSX", "CREATE") is None
    assert faults.resource("c", "AWS::EFS::FileSystem", "EFS", "DELETE") is None
    assert faults.resource("c", "AWS::FSx::FileSystem", "FSX", "DELETE") == "in use"


@pytest.mark.parametrize(("living", "granted"), [(0, 3), (2, 1), (5, 0)])
def test_capacity_is_what_is_left_beside_the_living(living: int, granted: int) -> None:
    faults = Faults()
    faults.add({"kind": "launch", "capacity": 3})

    count, rule = faults.launch("trn1.32xlarge", 4, lambda rule: living)

    assert count == granted
    assert isinstance(rule, LaunchFault)
    assert faults.listing() != []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "one of api, resource, boot, slow, launch"),
        ({"kind": "weather"}, "one of api, resource, boot, slow, launch"),
        ({"kind": "boot", "clusters": "x"}, "has no clusters; it has cluster, console, logs, reason, times"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(wrong: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Faults().add(wrong)


# ------------------------------------------------------------------------------------------ environment


def test_the_environment_leads_to_the_sandbox_and_away_from_the_user() -> None:
    base = {
        "PATH": "/usr/bin",
        "HOME": "/home/someone",
        "AWS_PROFILE": "production",
        "AWS_CA_BUNDLE": "/etc/ca.pem",
        "AWS_SESSION_TOKEN": "real",
        "HTTPS_PROXY": "http://proxy:3128",
    }

    environment = pcluster_environment("http://127.0.0.1:5000", "us-east-2", Path("/sandbox"), base=base)

    assert environment["PATH"] == "/usr/bin"
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:5000"
    assert environment["AWS_REGION"] == environment["AWS_DEFAULT_REGION"] == "us-east-2"
    assert Path(environment["HOME"]).is_relative_to("/sandbox")
    assert Path(environment["PCLUSTER_LOG_FILE"]).is_relative_to("/sandbox")
    gone = {"AWS_PROFILE", "AWS_CA_BUNDLE", "AWS_SESSION_TOKEN", "HTTPS_PROXY"}
    assert gone & environment.keys() == set()
    assert base["HOME"] == "/home/someone"


def test_what_others_import_needs_no_moto() -> None:
    code = (
        "import sys, trnctl.sandbox.aws.environment, trnctl.sandbox.aws.seeds, trnctl.sandbox.aws.server;"
        "print(sorted({'moto', 'boto3', 'werkzeug'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
