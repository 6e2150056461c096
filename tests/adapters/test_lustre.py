"""The rules that let a VPC reach a file system which an earlier cluster has left."""

from __future__ import annotations

from typing import Any

import pytest

from trnctl.adapters.aws_lustre import open_lustre
from trnctl.adapters.aws_records import CLUSTER_TAG

VPC = "10.0.0.0/16"
ALL = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
OLD = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-of-the-old-nodes"}]}


def asked(ingress: list[dict[str, Any]], egress: list[dict[str, Any]], owner: str = "ultra1") -> list[tuple[str, Any]]:
    """What AWS is asked to change."""
    changes: list[tuple[str, Any]] = []
    group = {
        "GroupId": "sg-1", "IpPermissions": ingress, "IpPermissionsEgress": egress,
        "Tags": [{"Key": CLUSTER_TAG, "Value": owner}],
    }  # fmt: skip
    answers: dict[str, dict[str, Any]] = {
        "describe_file_systems": {"FileSystems": [{"NetworkInterfaceIds": ["eni-1"], "VpcId": "vpc-1"}]},
        "describe_network_interfaces": {"NetworkInterfaces": [{"Groups": [{"GroupId": "sg-1"}]}]},
        "describe_vpcs": {"Vpcs": [{"CidrBlock": VPC}]},
        "describe_security_groups": {"SecurityGroups": [group]},
    }

    def call(service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        if operation.startswith("authorize"):
            ports = [(one["FromPort"], one["ToPort"]) for one in parameters["IpPermissions"]]
            assert all(one["IpRanges"] == [{"CidrIp": VPC}] for one in parameters["IpPermissions"])
            changes.append((operation.rpartition("_")[2], ports))
        return answers.get(operation, {})

    open_lustre(call, "fs-1", "ultra1")
    return changes


@pytest.mark.parametrize(
    ("ingress", "egress", "changes"),
    [
        ([OLD], [ALL], [("ingress", [(988, 988), (1018, 1023)])]),
        ([], [], [("ingress", [(988, 988), (1018, 1023)]), ("egress", [(988, 988), (1018, 1023)])]),
        (
            [{"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "IpRanges": [{"CidrIp": VPC}]}],
            [ALL],
            [("ingress", [(1018, 1023)])],
        ),
        ([ALL], [ALL], []),
    ],
    ids=["the old cluster only", "nobody", "half", "open"],
)
def test_what_is_missing_is_opened_and_nothing_else(
    ingress: list[dict[str, Any]], egress: list[dict[str, Any]], changes: list[tuple[str, Any]]
) -> None:
    assert asked(ingress, egress) == changes


def test_a_group_that_is_not_the_clusters_is_left_alone() -> None:
    assert asked([], [], owner="another") == []
