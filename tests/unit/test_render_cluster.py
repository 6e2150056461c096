"""What a cluster spec becomes in ParallelCluster's words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.oracles import load_in_pcluster
from trnctl.errors import UsageError
from trnctl.render.cluster import cluster_document
from trnctl.specs.cluster import (
    Action,
    Capacity,
    ClusterSpec,
    ComputeResource,
    CustomActions,
    HeadNode,
    Iam,
    Network,
    NodeActions,
    Queue,
    S3Link,
    Storage,
)

RESOURCE = ComputeResource("i1", "trn1.32xlarge")
QUEUE = Queue("compute1", (RESOURCE,))
SPEC = ClusterSpec(
    name="ultra1",
    region="us-west-2",
    network=Network("subnet-0aa11bb22cc33dd41", "subnet-0aa11bb22cc33dd42"),
    queues=(QUEUE,),
    head_node=HeadNode(key_name="demo-ed25519", ssh_from=("203.0.113.0/24",)),
)


def document(spec: ClusterSpec, own: CustomActions | None = None) -> Any:
    """The parsed document, after ParallelCluster's schema has taken it."""
    text = cluster_document(spec, own_actions=own or CustomActions())
    load_in_pcluster(spec.name, text)
    return yaml.safe_load(text)


def queue_of(queue: Queue) -> Any:
    return document(replace(SPEC, queues=(queue,)))["Scheduling"]["SlurmQueues"][0]


def resource_of(resource: ComputeResource) -> Any:
    return queue_of(replace(QUEUE, compute_resources=(resource,)))["ComputeResources"][0]


@pytest.mark.parametrize(
    ("instance_type", "wish", "enabled"),
    [
        ("trn1.32xlarge", None, True),
        ("trn1n.32xlarge", None, True),
        ("trn2.48xlarge", None, True),
        ("trn1.2xlarge", None, False),
        ("trn9.unknown", None, False),
        ("trn9.unknown", True, True),
        ("trn1.32xlarge", False, False),
    ],
)
def test_efa_follows_the_type_unless_told(instance_type: str, wish: bool | None, enabled: bool) -> None:
    assert resource_of(replace(RESOURCE, instance_type=instance_type, efa=wish))["Efa"] == {"Enabled": enabled}


@pytest.mark.parametrize(
    ("capacity", "word", "target"),
    [
        (Capacity(), "ONDEMAND", None),
        (Capacity("spot"), "SPOT", None),
        (Capacity("reservation", "cr-0aa11bb22cc33dd45"), "ONDEMAND", "cr-0aa11bb22cc33dd45"),
        (Capacity("capacity-block", "cr-0aa11bb22cc33dd45"), "CAPACITY_BLOCK", "cr-0aa11bb22cc33dd45"),
    ],
)
def test_capacity(capacity: Capacity, word: str, target: str | None) -> None:
    queue = queue_of(replace(QUEUE, capacity=capacity))
    assert queue["CapacityType"] == word
    assert queue.get("CapacityReservationTarget", {}).get("CapacityReservationId") == target


@pytest.mark.parametrize(
    ("wish", "group"),
    [(True, {"Enabled": True}), (False, {"Enabled": False}), ("mine", {"Enabled": True, "Name": "mine"})],
)
def test_the_placement_group_is_explicit(wish: bool | str, group: object) -> None:
    assert queue_of(replace(QUEUE, placement_group=wish))["Networking"]["PlacementGroup"] == group


def test_counts_and_spot_price() -> None:
    resource = resource_of(replace(RESOURCE, min_count=2, max_count=9, spot_price=0.00001))
    assert (resource["MinCount"], resource["MaxCount"], resource["SpotPrice"]) == (2, 9, 0.00001)


def test_each_queue_has_its_own_subnet() -> None:
    queues = (QUEUE, replace(QUEUE, name="other", subnet="subnet-0aa11bb22cc33dd44"))
    made = document(replace(SPEC, queues=queues))["Scheduling"]["SlurmQueues"]
    assert [queue["Networking"]["SubnetIds"] for queue in made] == [
        ["subnet-0aa11bb22cc33dd42"],
        ["subnet-0aa11bb22cc33dd44"],
    ]


def test_disks_and_exclusive_jobs() -> None:
    queue = queue_of(replace(QUEUE, root_gib=1024, ephemeral_mount="/nvme", job_exclusive=False))
    local = queue["ComputeSettings"]["LocalStorage"]
    assert (local["RootVolume"]["Size"], local["EphemeralVolume"]["MountDir"]) == (1024, "/nvme")
    assert queue["JobExclusiveAllocation"] is False
    assert "EphemeralVolume" not in queue_of(replace(QUEUE, ephemeral_mount=None))["ComputeSettings"]["LocalStorage"]


def test_session_manager_alone_opens_no_port() -> None:
    head = document(replace(SPEC, head_node=HeadNode(ssm=True)))["HeadNode"]
    assert head["Ssh"] == {"AllowedIps": "0.0.0.0/32"}
    assert head["Iam"]["AdditionalIamPolicies"] == [{"Policy": "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"}]


def test_the_partition_is_that_of_the_region() -> None:
    head = document(replace(SPEC, region="us-gov-west-1", head_node=HeadNode(ssm=True)))["HeadNode"]
    assert head["Iam"]["AdditionalIamPolicies"][0]["Policy"].startswith("arn:aws-us-gov:iam")


def test_nothing_is_granted_that_is_not_needed() -> None:
    made = document(SPEC)
    assert "Iam" not in made["HeadNode"]
    assert "Iam" not in made["Scheduling"]["SlurmQueues"][0]
    assert "Tags" not in made
    assert "SharedStorage" not in made


def test_actions_run_ours_first_and_reach_exactly_their_buckets() -> None:
    own = CustomActions(compute=NodeActions(configured=(Action("s3://own-1/ours.sh"),)))
    user = CustomActions(
        head=NodeActions(start=(Action("https://x.example/a.sh", ("one",)),), updated=(Action("s3://b-1/u.sh"),)),
        compute=NodeActions(configured=(Action("s3://b-2/c.sh", ("a b", "$(x)\n")), Action("s3://b-2/d.sh"))),
    )
    made = document(replace(SPEC, bucket="own-1", custom_actions=user), own)
    head, queue = made["HeadNode"], made["Scheduling"]["SlurmQueues"][0]
    assert head["CustomActions"] == {
        "OnNodeStart": {"Script": "https://x.example/a.sh", "Args": ["one"]},
        "OnNodeUpdated": {"Script": "s3://b-1/u.sh"},
    }
    assert queue["CustomActions"]["OnNodeConfigured"]["Sequence"] == [
        {"Script": "s3://own-1/ours.sh"},
        {"Script": "s3://b-2/c.sh", "Args": ["a b", "$(x)\n"]},
        {"Script": "s3://b-2/d.sh"},
    ]
    assert head["Iam"]["S3Access"] == [
        {"BucketName": "own-1", "EnableWriteAccess": True},
        {"BucketName": "b-1", "EnableWriteAccess": False},
    ]
    assert queue["Iam"]["S3Access"] == [
        {"BucketName": "own-1", "EnableWriteAccess": True},
        {"BucketName": "b-2", "EnableWriteAccess": False},
    ]


def test_iam() -> None:
    policy = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
    boundary = "arn:aws:iam::111122223333:policy/b"
    made = document(replace(SPEC, iam=Iam(boundary, "/team/", (policy,))))
    assert made["Iam"] == {"PermissionsBoundary": boundary, "ResourcePrefix": "/team/"}
    assert made["HeadNode"]["Iam"] == {"AdditionalIamPolicies": [{"Policy": policy}]}
    assert made["Scheduling"]["SlurmQueues"][0]["Iam"] == {"AdditionalIamPolicies": [{"Policy": policy}]}


@pytest.mark.parametrize(
    ("storage", "settings"),
    [
        (
            Storage("fsx", "/fsx", "fsx", gib=1200),
            {"StorageCapacity": 1200, "DeploymentType": "SCRATCH_2", "DeletionPolicy": "Retain"},
        ),
        (
            Storage("fsx", "/fsx", "fsx", gib=2400, deployment="PERSISTENT_2", throughput=250, on_delete="delete"),
            {
                "StorageCapacity": 2400,
                "DeploymentType": "PERSISTENT_2",
                "PerUnitStorageThroughput": 250,
                "DeletionPolicy": "Delete",
            },
        ),
        (
            Storage("fsx", "/fsx", "fsx", gib=1200, deployment="SCRATCH_1", s3=(S3Link("/", "s3://b-1"),)),
            {
                "StorageCapacity": 1200,
                "DeploymentType": "SCRATCH_1",
                "DeletionPolicy": "Retain",
                "ImportPath": "s3://b-1",
            },
        ),
        (
            Storage("fsx", "/fsx", "fsx", file_system_id="fs-0aa11bb22cc33dd48"),
            {"FileSystemId": "fs-0aa11bb22cc33dd48"},
        ),
        (
            Storage("efs", "/efs", "efs"),
            {"Encrypted": True, "EncryptionInTransit": True, "DeletionPolicy": "Retain"},
        ),
        (
            Storage("efs", "/efs", "efs", file_system_id="fs-0aa11bb2"),
            {"FileSystemId": "fs-0aa11bb2", "EncryptionInTransit": True},
        ),
        (
            Storage("ebs", "/ebs", "ebs", gib=30),
            {"Size": 30, "VolumeType": "gp3", "Encrypted": True, "DeletionPolicy": "Retain"},
        ),
        (
            Storage("ebs", "/ebs", "ebs", file_system_id="vol-0aa11bb22cc33dd47"),
            {"VolumeId": "vol-0aa11bb22cc33dd47"},
        ),
    ],
)
def test_storage(storage: Storage, settings: object) -> None:
    (made,) = document(replace(SPEC, storage=(storage,)))["SharedStorage"]
    assert (made["Name"], made["MountDir"]) == (storage.name, storage.mount)
    assert [made[key] for key in made if key.endswith("Settings")] == [settings]


def test_s3_links_are_associations() -> None:
    links = (S3Link("/a", "s3://b-1/p"), S3Link("/b", "s3://b-2"))
    (made,) = document(replace(SPEC, storage=(Storage("fsx", "/fsx", "fsx", gib=1200, s3=links),)))["SharedStorage"]
    associations = made["FsxLustreSettings"]["DataRepositoryAssociations"]
    assert [(one["Name"], one["FileSystemPath"], one["DataRepositoryPath"]) for one in associations] == [
        ("fsx-s3-1", "/a", "s3://b-1/p"),
        ("fsx-s3-2", "/b", "s3://b-2"),
    ]


def test_slurm_settings() -> None:
    queue = replace(QUEUE, custom_settings={"PriorityTier": 3})
    made = document(replace(SPEC, queues=(queue,), custom_settings={"MaxJobCount": 9, "X": "y"}, scaledown_idletime=-1))
    assert made["Scheduling"]["SlurmSettings"] == {
        "ScaledownIdletime": -1,
        "CustomSlurmSettings": [{"MaxJobCount": 9}, {"X": "y"}],
    }
    assert made["Scheduling"]["SlurmQueues"][0]["CustomSlurmSettings"] == {"PriorityTier": 3}


# ------------------------------------------------------------------------------------------------- extra


def test_extra_is_merged_last_by_key_and_by_name() -> None:
    extra = {
        "Monitoring": {"DetailedMonitoring": True, "Logs": {"CloudWatch": {"RetentionInDays": 7}}},
        "Scheduling": {
            "SlurmQueues": [
                {"Name": "compute1", "ComputeResources": [{"Name": "i1", "MaxCount": 3, "Efa": {"Enabled": False}}]},
                {
                    "Name": "new",
                    "ComputeResources": [{"Name": "c1", "InstanceType": "c5.4xlarge"}],
                    "Networking": {"SubnetIds": ["subnet-0aa11bb22cc33dd44"]},
                },
            ]
        },
        "Tags": [{"Key": "team", "Value": "other"}, {"Key": "more", "Value": "x"}],
    }
    made = document(replace(SPEC, tags={"team": "research", "keep": "it"}, extra=extra))
    assert made["Monitoring"]["DetailedMonitoring"] is True
    assert made["Monitoring"]["Logs"]["CloudWatch"] == {
        "Enabled": True,
        "RetentionInDays": 7,
        "DeletionPolicy": "Retain",
    }
    old, new = made["Scheduling"]["SlurmQueues"]
    assert old["ComputeResources"] == [
        {"Name": "i1", "InstanceType": "trn1.32xlarge", "MinCount": 0, "MaxCount": 3, "Efa": {"Enabled": False}}
    ]
    assert old["Networking"]["SubnetIds"] == ["subnet-0aa11bb22cc33dd42"]
    assert new["Name"] == "new"
    assert made["Tags"] == [
        {"Key": "team", "Value": "other"},
        {"Key": "keep", "Value": "it"},
        {"Key": "more", "Value": "x"},
    ]


def test_extra_replaces_plain_lists_and_removes_what_is_null() -> None:
    extra = {
        "Monitoring": None,
        "HeadNode": {"LocalStorage": {"RootVolume": {"VolumeType": None}}},
        "Scheduling": {
            "SlurmQueues": [{"Name": "compute1", "Networking": {"SubnetIds": ["subnet-0aa11bb22cc33dd44"]}}]
        },
    }
    made = document(replace(SPEC, extra=extra))
    assert "Monitoring" not in made
    assert made["HeadNode"]["LocalStorage"]["RootVolume"] == {"Size": 200, "Encrypted": True}
    assert made["Scheduling"]["SlurmQueues"][0]["Networking"]["SubnetIds"] == ["subnet-0aa11bb22cc33dd44"]


def test_the_head_names_trnctl_with_and_without_extra() -> None:
    for spec in (SPEC, replace(SPEC, extra={"Monitoring": {"DetailedMonitoring": True}})):
        first = cluster_document(spec).splitlines()[0]
        assert first.startswith('# The cluster "ultra1": ParallelCluster "3.16.1" configuration, written by trnctl')


def test_what_yaml_cannot_carry_is_refused() -> None:
    with pytest.raises(UsageError, match="NUL"):
        cluster_document(replace(SPEC, tags={"a": "b\0"}))
