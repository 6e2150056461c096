"""ParallelCluster's sections that describe nodes: the head node, login nodes, and what all nodes have in common."""

from __future__ import annotations

from collections.abc import Mapping

from trnctl.preflight.schema import NEED, Key, Section, flag, integer, section, sections, text, texts

# Since 3.6 an action may be a sequence of scripts.
_ACTIONS = (section("CustomAction", until=(3, 6)), Key("actions", section="CustomAction", since=(3, 6)))
_GROUPS = texts(form="security-group")
_VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "st1", "sc1", "gp3")

NODES: Mapping[str, Section] = {
    "HeadNode": {
        "InstanceType": text(NEED),
        "Networking": section("HeadNodeNetworking", NEED),
        "Ssh": section("HeadNodeSsh"),
        "LocalStorage": section("HeadNodeLocalStorage"),
        "SharedStorageType": text(choices=("Ebs", "Efs"), since=(3, 8)),
        "SharedStorageEfsSettings": section("SharedStorageEfsSettings", since=(3, 14)),
        "Dcv": section("Dcv"),
        "CustomActions": section("HeadNodeCustomActions"),
        "Iam": section("NodeIam"),
        "Imds": section("HeadNodeImds"),
        "Image": section("NodeImage"),
        "DisableSimultaneousMultithreading": flag(),
    },
    "HeadNodeNetworking": {
        "SubnetId": text(NEED, form="subnet"),
        "ElasticIp": Key("any"),
        "SecurityGroups": _GROUPS,
        "AdditionalSecurityGroups": _GROUPS,
        "Proxy": section("Proxy"),
    },
    "HeadNodeSsh": {"KeyName": text(), "AllowedIps": text(form="cidr")},
    "HeadNodeLocalStorage": {
        "RootVolume": section("HeadNodeRootVolume"),
        "EphemeralVolume": section("EphemeralVolume"),
    },
    "HeadNodeRootVolume": {
        "Size": integer(),
        "Encrypted": flag(),
        "KmsKeyId": text(until=(3, 1)),
        "VolumeType": text(choices=_VOLUME_TYPES),
        "Iops": integer(),
        "Throughput": integer(),
        "DeleteOnTermination": flag(),
    },
    "EphemeralVolume": {"MountDir": text(form="mount")},
    "SharedStorageEfsSettings": {"Encrypted": flag()},
    "Dcv": {"Enabled": flag(), "Port": integer(), "AllowedIps": text(form="cidr")},
    "Proxy": {"HttpProxyAddress": text()},
    "NodeImage": {"CustomAmi": text(form="ami")},
    "HeadNodeImds": {"Secured": flag()},
    "NodeIam": {
        "InstanceRole": text(form="role"),
        "InstanceProfile": text(form="instance-profile"),
        "AdditionalIamPolicies": sections("IamPolicy"),
        "S3Access": sections("S3Access"),
    },
    "IamPolicy": {"Policy": text(NEED, form="policy")},
    "S3Access": {"BucketName": text(NEED, form="bucket"), "KeyName": text(), "EnableWriteAccess": flag()},
    "HeadNodeCustomActions": {
        "OnNodeStart": _ACTIONS,
        "OnNodeConfigured": _ACTIONS,
        "OnNodeUpdated": (
            section("CustomAction", since=(3, 4), until=(3, 6)),
            Key("actions", section="CustomAction", since=(3, 6)),
        ),
    },
    "QueueCustomActions": {"OnNodeStart": _ACTIONS, "OnNodeConfigured": _ACTIONS},
    "CustomAction": {"Script": text(NEED), "Args": texts()},
    # ------------------------------------------------------------------------------------------- login nodes
    "LoginNodes": {
        "Pools": (
            sections("LoginNodesPool", NEED, fewest=1, most=1, until=(3, 11)),
            sections("LoginNodesPool", NEED, since=(3, 11)),
        )
    },
    "LoginNodesPool": {
        "Name": text(NEED),
        "InstanceType": text(NEED),
        "Count": integer(NEED, minimum=0),
        "Networking": section("LoginNodesNetworking", NEED),
        "Image": section("NodeImage"),
        "Ssh": section("LoginNodesSsh"),
        "Dcv": section("Dcv", since=(3, 11)),
        "CustomActions": section("HeadNodeCustomActions", since=(3, 11)),
        "Iam": section("LoginNodesIam"),
        "GracetimePeriod": integer(minimum=3, maximum=120),
    },
    "LoginNodesNetworking": {
        "SubnetIds": texts(NEED, form="subnet", fewest=1, most=1),
        "SecurityGroups": _GROUPS,
        "AdditionalSecurityGroups": _GROUPS,
        "Proxy": section("Proxy"),
    },
    "LoginNodesSsh": {"KeyName": text(until=(3, 15)), "AllowedIps": text(form="cidr", since=(3, 11))},
    "LoginNodesIam": {
        "InstanceRole": text(form="role"),
        "InstanceProfile": text(form="instance-profile"),
        "AdditionalIamPolicies": sections("IamPolicy"),
    },
}
