"""The unmodified pcluster 3.16.1 against the emulated account, no validator suppressed."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sandbox.aws_account import World, running, until
from trnctl.sandbox.aws import seeds as fixed
from trnctl.sandbox.ports import NodeInstance, NodeWish

pytestmark = pytest.mark.skipif(
    shutil.which("pcluster") is None, reason="pcluster is not installed: pip install '.[sandbox]'"
)

FSX = {
    "Name": "fsx",
    "MountDir": "/fsx",
    "StorageType": "FsxLustre",
    "FsxLustreSettings": {"StorageCapacity": 1200, "DeploymentType": "SCRATCH_2", "DeletionPolicy": "Retain"},
}
EFS = {"Name": "efs", "MountDir": "/efs", "StorageType": "Efs"}
EBS = {"Name": "ebs", "MountDir": "/data", "StorageType": "Ebs", "EbsSettings": {"Size": 100}}


def queue(name: str = "compute1", **changes: Any) -> dict[str, Any]:
    """One queue of Trn1 nodes; `type`, `count` and `reservation` change its compute resource, the rest the queue."""
    resource: dict[str, Any] = {
        "Name": "i1",
        "InstanceType": changes.pop("type", "trn1.32xlarge"),
        "MinCount": changes.pop("minimum", 0),
        "MaxCount": changes.pop("count", 16),
        "Efa": {"Enabled": True},
    }
    if reservation := changes.pop("reservation", None):
        resource["CapacityReservationTarget"] = {"CapacityReservationId": reservation}
    subnet = changes.pop("subnet", fixed.PRIVATE_SUBNET)
    networking = {"SubnetIds": [subnet], "PlacementGroup": {"Enabled": changes.pop("together", True)}}
    return {"Name": name, "ComputeResources": [resource], "Networking": networking, **changes}


def config(*queues: Mapping[str, Any], storage: tuple[Mapping[str, Any], ...] = (FSX,), **head: Any) -> dict[str, Any]:
    """A whole configuration; the keywords change the head node."""
    return copy.deepcopy(
        {
            "Region": "us-west-2",
            "Image": {"Os": "ubuntu2404"},
            "HeadNode": {
                "InstanceType": "c5.4xlarge",
                "Networking": {"SubnetId": fixed.PUBLIC_SUBNET},
                "Ssh": {"KeyName": "demo-ed25519", "AllowedIps": "203.0.113.0/24"},
                **head,
            },
            "Scheduling": {"Scheduler": "slurm", "SlurmQueues": list(queues or [queue()])},
            "SharedStorage": list(storage),
        }
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running(tmp_path_factory.mktemp("account")) as world:
        yield world


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(content: Mapping[str, Any]) -> str:
        path = tmp_path / "cluster.yaml"
        path.write_text(yaml.safe_dump(dict(content)))
        return str(path)

    return write


def create(world: World, name: str, file: str) -> None:
    code, answer, stderr = world.pcluster("create-cluster", "-n", name, "-c", file)
    assert code == 0, answer
    assert "end-of-life" not in stderr
    assert world.settled(name) == "CREATE_COMPLETE", world.events(name)


def test_a_dry_run_of_the_walk_through_passes_every_validator(world: World, write: Any) -> None:
    code, answer, _ = world.pcluster("create-cluster", "-n", "dry", "-c", write(config()), "--dryrun", "true")

    assert answer["message"] == "Request would have succeeded, but DryRun flag is set."
    assert code == 1  # pcluster's way of saying so
    assert [each for each in answer["validationMessages"] if each["level"] != "INFO"] == []
    assert (world.home / "log" / "pcluster.log").is_file()


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "two queues in two subnets": config(
        queue(), queue("compute2", type="trn1n.32xlarge", count=4, subnet=fixed.SECOND_PRIVATE_SUBNET), storage=(EFS,)
    ),
    "every kind of storage": config(storage=(FSX, EFS, EBS)),
    "existing file systems": config(
        storage=(
            {**FSX, "FsxLustreSettings": {"FileSystemId": fixed.LUSTRE}},
            {**EFS, "EfsSettings": {"FileSystemId": fixed.EFS}},
        )
    ),
    "a reservation": config(queue(reservation=fixed.RESERVATION)),
    "a capacity block": config(
        queue(reservation=fixed.CAPACITY_BLOCK, minimum=4, count=4, together=False, CapacityType="CAPACITY_BLOCK")
    ),
    "spot": config(queue(CapacityType="SPOT")),
    "actions and policies": config(
        queue(
            CustomActions={"OnNodeConfigured": {"Script": "s3://my-trnctl-bucket/node.sh"}},
            Iam={"S3Access": [{"BucketName": "my-trnctl-bucket"}]},
        ),
        CustomActions={"OnNodeConfigured": {"Sequence": [{"Script": "s3://my-trnctl-bucket/head.sh"}]}},
        Iam={
            "S3Access": [{"BucketName": "my-trnctl-bucket"}],
            "AdditionalIamPolicies": [{"Policy": "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"}],
        },
    ),
    "data repositories": config(
        storage=(
            {
                **FSX,
                "FsxLustreSettings": {
                    "StorageCapacity": 1200,
                    "DeploymentType": "PERSISTENT_2",
                    "PerUnitStorageThroughput": 250,
                    "DataRepositoryAssociations": [
                        {"Name": "data", "FileSystemPath": "/data", "DataRepositoryPath": "s3://my-data/prefix"}
                    ],
                },
            },
        )
    ),
    "an elastic address": config(Networking={"SubnetId": fixed.PUBLIC_SUBNET, "ElasticIp": True}),
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_are_created_and_deleted_whole(world: World, write: Any, variant: str) -> None:
    for key in ("head.sh", "node.sh"):
        world.client("s3").put_object(Bucket="my-trnctl-bucket", Key=key, Body=b"#!/bin/bash\n")
    volumes = len(world.client("ec2").describe_volumes()["Volumes"])
    name = f"v{list(VARIANTS).index(variant)}"

    create(world, name, write(VARIANTS[variant]))
    boot = world.machines.boots[-1]
    mounts = {storage["MountDir"] for storage in VARIANTS[variant]["SharedStorage"]}
    assert set(boot.file_systems) == mounts
    world.delete(name)

    assert world.status(name) == "", [event for event in world.events(name) if event[1] == "DELETE_FAILED"]
    assert world.instances(name) == []
    assert len(world.client("ec2").describe_volumes()["Volumes"]) == volumes
    for service, call, key in (("iam", "list_roles", "Roles"), ("route53", "list_hosted_zones", "HostedZones")):
        assert getattr(world.client(service), call)()[key] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (config(queue(subnet=fixed.OTHER_ZONE_SUBNET)), "ComputeResourceLaunchTemplateValidator"),
        (
            config(queue(reservation="cr-0ffffffffffffffff")),
            "The capacity reservation ID 'cr-0ffffffffffffffff' does not exist",
        ),
        (config(queue(type="trn1.2xlarge")), "EfaValidator"),
        (config(Ssh={"KeyName": "demo-rsa"}), "KeyPairValidator"),
        (config(Ssh={"KeyName": "nobodys"}), "KeyPairValidator"),
    ],
)
def test_what_aws_would_not_allow_is_refused(world: World, write: Any, wrong: Mapping[str, Any], told: str) -> None:
    code, answer, _ = world.pcluster("create-cluster", "-n", "wrong", "-c", write(wrong), "--dryrun", "true")

    assert code == 1
    assert "Request would have succeeded" not in answer["message"]
    assert told in json.dumps(answer)


@pytest.mark.slow
def test_a_whole_life_through_pcluster(world: World, write: Any) -> None:
    create(world, "life", write(config()))
    _, answer, _ = world.pcluster("describe-cluster", "-n", "life")
    assert (answer["clusterStatus"], answer["computeFleetStatus"]) == ("CREATE_COMPLETE", "RUNNING")
    assert answer["headNode"]["instanceId"] == world.machines.boots[-1].instance_id
    assert [each["clusterName"] for each in world.pcluster("list-clusters")[1]["clusters"]] == ["life"]
    assert len(world.pcluster("get-cluster-stack-events", "-n", "life")[1]["events"]) > 100

    wish = NodeWish("compute1-dy-i1-1", "compute1", "i1", "trn1.32xlarge", fixed.PRIVATE_SUBNET)
    (node,) = world.emulator.account.launch("life", [wish])
    assert isinstance(node, NodeInstance)
    _, answer, _ = world.pcluster("describe-cluster-instances", "-n", "life", "--node-type", "ComputeNode")
    assert [(each["instanceId"], each["queueName"]) for each in answer["instances"]] == [(node.instance_id, "compute1")]
    groups = world.client("ec2").describe_placement_groups()["PlacementGroups"]
    assert {"Key": "parallelcluster:cluster-name", "Value": "life"} in groups[0]["Tags"]

    smaller = write(config(queue(count=8)))
    _, answer, _ = world.pcluster("update-cluster", "-n", "life", "-c", smaller)
    assert "All compute nodes must be stopped" in answer["updateValidationErrors"][0]["message"]
    world.pcluster("update-compute-fleet", "-n", "life", "--status", "STOP_REQUESTED")
    until(lambda: world.pcluster("describe-compute-fleet", "-n", "life")[1]["status"] == "STOPPED")
    assert ("stop fleet", "life") in world.machines.told
    code, answer, _ = world.pcluster("update-cluster", "-n", "life", "-c", smaller)
    assert (code, answer["changeSet"][0]["requestedValue"]) == (0, "8")
    assert world.settled("life") == "UPDATE_COMPLETE"
    assert ("reconfigure", "life") in world.machines.told

    code, answer, _ = world.pcluster("delete-cluster", "-n", "life")
    assert (code, answer["cluster"]["clusterStatus"]) == (0, "DELETE_IN_PROGRESS")
    until(lambda: world.status("life") == "")
    assert "does not exist" in world.pcluster("describe-cluster", "-n", "life")[1]["message"]
    kept = [
        each
        for each in world.client("fsx").describe_file_systems()["FileSystems"]
        if each["FileSystemId"] != fixed.LUSTRE
    ]
    assert {"Key": "parallelcluster:cluster-name", "Value": "life"} in kept[-1]["Tags"]


@pytest.mark.slow
def test_pcluster_names_the_failure_of_a_head_node(world: World, write: Any) -> None:
    world.machines.fails = "Failed to run OnNodeConfigured script"

    world.pcluster("create-cluster", "-n", "ill", "-c", write(config()))

    assert world.settled("ill") == "ROLLBACK_COMPLETE"
    _, answer, _ = world.pcluster("describe-cluster", "-n", "ill")
    assert answer["clusterStatus"] == "CREATE_FAILED"
    assert answer["failures"][0]["failureCode"] == "OnNodeConfiguredFailure"
    world.delete("ill")
