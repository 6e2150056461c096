"""The way to an FSx file system that an earlier cluster has left: its group let in that cluster's nodes only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trnctl.adapters.aws_records import CLUSTER_TAG, tags_of

Call = Callable[..., dict[str, Any]]
# Lustre's ports (FSx's documentation, "File system access control with Amazon VPC"): one to reach it, six beside it.
PORTS = ((988, 988), (1018, 1023))


def open_lustre(call: Call, file_system: str, cluster: str) -> None:
    """Let the whole VPC reach it, in the security groups of its interfaces that carry the cluster's tag; what is open
    already stays as it is."""
    found = call("fsx", "describe_file_systems", FileSystemIds=[file_system])["FileSystems"][0]
    interfaces = call("ec2", "describe_network_interfaces", NetworkInterfaceIds=found.get("NetworkInterfaceIds", []))[
        "NetworkInterfaces"
    ]
    vpc = call("ec2", "describe_vpcs", VpcIds=[found["VpcId"]])["Vpcs"][0]
    names = sorted({group["GroupId"] for one in interfaces for group in one.get("Groups", [])})
    groups = call("ec2", "describe_security_groups", GroupIds=names)["SecurityGroups"] if names else []
    for group in groups:
        if tags_of(group).get(CLUSTER_TAG) == cluster:
            _open(call, group, vpc["CidrBlock"])


def _open(call: Call, group: Mapping[str, Any], cidr: str) -> None:
    for direction, key in (("ingress", "IpPermissions"), ("egress", "IpPermissionsEgress")):
        missing = [ports for ports in PORTS if not any(_covers(rule, ports, cidr) for rule in group.get(key, []))]
        if missing:
            call(
                "ec2",
                f"authorize_security_group_{direction}",
                GroupId=group["GroupId"],
                IpPermissions=[
                    {"IpProtocol": "tcp", "FromPort": low, "ToPort": high, "IpRanges": [{"CidrIp": cidr}]}
                    for low, high in missing
                ],
            )


def _covers(rule: Mapping[str, Any], ports: tuple[int, int], cidr: str) -> bool:
    """Whether a rule admits these ports from the VPC."""
    ranges = {one.get("CidrIp") for one in rule.get("IpRanges", [])}
    if not ranges & {cidr, "0.0.0.0/0"}:
        return False
    if rule.get("IpProtocol") == "-1":
        return True
    low, high = rule.get("FromPort"), rule.get("ToPort")
    return rule.get("IpProtocol") == "tcp" and low is not None and low <= ports[0] and ports[1] <= (high or -1)
