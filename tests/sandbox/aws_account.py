"""An emulated account for tests: the emulator in a thread, recording machines, a cluster small enough to be quick."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import yaml

from trnctl.sandbox.aws.environment import pcluster_environment
from trnctl.sandbox.aws.seeds import PRIVATE_SUBNET, PUBLIC_SUBNET, Seeds
from trnctl.sandbox.aws.server import Emulator
from trnctl.sandbox.ports import BootFailed, HeadNodeBoot

BUCKET = "my-trnctl-bucket"
SETTLED = ("_COMPLETE", "_FAILED")


class RecordingMachines:
    """Machines that only remember what they were told; `fails` makes the next boot or reconfiguration fail."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.boots: list[HeadNodeBoot] = []
        self.configs: list[Mapping[str, object]] = []
        self.fails = ""
        self.breaks = False
        self.on_boot: Callable[[HeadNodeBoot], None] = lambda boot: None

    def boot(self, boot: HeadNodeBoot) -> None:
        self.told.append(("boot", boot.cluster))
        self.boots.append(boot)
        if self.breaks:
            raise OSError("no space left on the device")
        self._fail()
        self.on_boot(boot)

    def reconfigure(self, cluster: str, config: Mapping[str, object]) -> None:
        self.told.append(("reconfigure", cluster))
        self.configs.append(config)
        self._fail()

    def stop_fleet(self, cluster: str) -> None:
        self.told.append(("stop fleet", cluster))

    def start_fleet(self, cluster: str) -> None:
        self.told.append(("start fleet", cluster))

    def shut_down(self, cluster: str) -> None:
        self.told.append(("shut down", cluster))

    def delete_file_system(self, file_system_id: str) -> None:
        self.told.append(("delete file system", file_system_id))

    def _fail(self) -> None:
        if reason := self.fails:
            self.fails = ""
            raise BootFailed(reason)


class World:
    """A running emulator and the ways to it."""

    def __init__(self, emulator: Emulator, machines: RecordingMachines, home: Path) -> None:
        self.emulator, self.machines, self.home = emulator, machines, home
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        """A boto3 client of the emulator; making one takes longer than using it, so they are kept."""
        if service in self._clients:
            return self._clients[service]
        session = boto3.session.Session(
            aws_access_key_id="sandbox", aws_secret_access_key="sandbox", region_name=self.emulator.region
        )
        made = session.client(service, endpoint_url=self.emulator.endpoint)  # type: ignore[call-overload] # any service
        return self._clients.setdefault(service, made)

    def control(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """One control request: status and JSON answer."""
        from http.client import HTTPConnection

        connection = HTTPConnection("127.0.0.1", self.emulator.port, timeout=10)
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        return answer.status, content

    def fault(self, **rule: Any) -> None:
        """Add a fault rule."""
        status, answer = self.control("POST", "/_sandbox/faults", rule)
        assert status == 200, answer

    def create(self, name: str, template: Mapping[str, Any], *, wait: bool = True, **options: Any) -> str:
        """CreateStack with ParallelCluster's tags; the stack's status when it has settled."""
        tags = {"parallelcluster:cluster-name": name, "parallelcluster:version": "3.16.1"}
        self.client("cloudformation").create_stack(
            StackName=name,
            TemplateBody=json.dumps(template),
            Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
            **options,
        )
        return self.settled(name) if wait else ""

    def update(self, name: str, template: Mapping[str, Any]) -> str:
        """UpdateStack; the status when it has settled."""
        self.client("cloudformation").update_stack(StackName=name, TemplateBody=json.dumps(template))
        return self.settled(name)

    def delete(self, name: str) -> None:
        """DeleteStack, and wait until the stack is gone."""
        self.client("cloudformation").delete_stack(StackName=name)
        until(lambda: self.status(name) in ("", "DELETE_FAILED"))

    def status(self, name: str) -> str:
        """A stack's status, '' when there is none of that name."""
        stacks = self.client("cloudformation").describe_stacks()["Stacks"]
        return next((str(stack["StackStatus"]) for stack in stacks if stack["StackName"] == name), "")

    def settled(self, name: str) -> str:
        """Wait for the end of an operation; the status."""
        until(lambda: self.status(name).endswith(SETTLED) and "CLEANUP" not in self.status(name))
        return self.status(name)

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """(logical id, status, reason) of the newest stack of a name, oldest first; also of one that is deleted."""
        client = self.client("cloudformation")
        found = [stack for stack in client.list_stacks()["StackSummaries"] if stack["StackName"] == name]
        events = client.describe_stack_events(StackName=found[-1]["StackId"])["StackEvents"]
        return [
            (event["LogicalResourceId"], event["ResourceStatus"], event.get("ResourceStatusReason", ""))
            for event in reversed(events)
        ]

    def instances(self, cluster: str, *states: str) -> list[dict[str, Any]]:
        """The instances that carry the cluster's tag, running ones unless other states are named."""
        filters = [
            {"Name": "tag:parallelcluster:cluster-name", "Values": [cluster]},
            {"Name": "instance-state-name", "Values": list(states or ("running",))},
        ]
        found = self.client("ec2").describe_instances(Filters=filters)["Reservations"]
        return [instance for reservation in found for instance in reservation["Instances"]]

    def pcluster(self, *arguments: str, timeout: float = 90) -> tuple[int, dict[str, Any], str]:
        """Run the unmodified pcluster: exit code, its JSON, its stderr."""
        done = subprocess.run(
            ["pcluster", *arguments],
            env=pcluster_environment(self.emulator.endpoint, self.emulator.region, self.home),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.stdout.startswith("{"), done.stdout + done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr


@contextmanager
def running(home: Path, *, seeds: Seeds | None = None, region: str = "us-west-2") -> Iterator[World]:
    """An emulator that answers until the block ends; its stacks are quick."""
    machines = RecordingMachines()
    emulator = Emulator(
        machines=machines, home=home, region=region, resource_seconds=0.01, fleet_seconds=0.1, seeds=seeds
    )
    server = threading.Thread(target=emulator.serve_forever, daemon=True)
    server.start()
    try:
        yield World(emulator, machines, home)
    finally:
        emulator.stop()
        server.join(timeout=10)


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something is true; fails the test when it never is."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


def small_cluster(world: World, name: str, *, nodes: int = 4, fsx: str = "Delete") -> dict[str, Any]:
    """A template with the parts of ParallelCluster's by which the emulator knows a cluster, and its uploaded config.

    The names and shapes (the launch template's files, the tags, the tables) are those of ParallelCluster 3.16.1.
    """
    config = {
        "Region": world.emulator.region,
        "Scheduling": {
            "SlurmQueues": [{"Name": "q", "ComputeResources": [{"Name": "i1", "MaxCount": nodes}], "Tags": None}]
        },
        "SharedStorage": [{"MountDir": "/fsx", "Name": "fsx", "StorageType": "FsxLustre"}],
    }
    s3 = world.client("s3")
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    key = f"{name}/configs/cluster-config-with-implied-values.yaml"
    version = s3.put_object(Bucket=BUCKET, Key=key, Body=yaml.safe_dump(config).encode())["VersionId"]
    facts = {
        "cluster_s3_bucket": BUCKET,
        "cluster_config_s3_key": key,
        "cluster_config_version": version,
        "fsx_shared_dirs": "/fsx",
        "fsx_fs_ids": "@FSX@",
        "efs_shared_dirs": "",
        "efs_fs_ids": "",
    }
    before, after = json.dumps({"cluster": facts}).split("@FSX@")
    files = {
        "/opt/parallelcluster/tmp/dna.json": {"content": {"Fn::Join": ["", [before, {"Ref": "FSX"}, after]]}},
        "/opt/parallelcluster/shared/launch-templates-config.json": {
            "content": {
                "Queues": {
                    "q": {"ComputeResources": {"i1": {"LaunchTemplate": {
                        "Id": {"Ref": "NodeTemplate"},
                        "Version": {"Fn::GetAtt": ["NodeTemplate", "LatestVersionNumber"]},
                    }}}}
                }
            }
        },
    }  # fmt: skip
    handle = f"HeadNodeWaitConditionHandle{version[:6]}"
    return {
        "Resources": {
            "Table": _table(f"parallelcluster-{name}"),
            "LogGroup": {
                "Type": "AWS::Logs::LogGroup",
                "DeletionPolicy": "Retain",
                "Properties": {"LogGroupName": f"/aws/parallelcluster/{name}-{version[:6]}"},
            },
            "FSX": {
                "Type": "AWS::FSx::FileSystem",
                "DeletionPolicy": fsx,
                "Properties": {
                    "FileSystemType": "LUSTRE",
                    "StorageCapacity": 1200,
                    "SubnetIds": [PRIVATE_SUBNET],
                    "LustreConfiguration": {"DeploymentType": "SCRATCH_2"},
                },
            },
            "TerminateNodes": {
                "Type": "AWS::CloudFormation::CustomResource",
                "Properties": {"Action": "TERMINATE_EC2_INSTANCES", "StackName": name},
            },
            "HeadNodeENI": {"Type": "AWS::EC2::NetworkInterface", "Properties": {"SubnetId": PUBLIC_SUBNET}},
            "NodeTemplate": _launch_template(_node_data(name)),
            "HeadNodeLaunchTemplate": {
                **_launch_template(
                    {
                        "ImageId": "ami-0c1a5000000000001",
                        "InstanceType": "c5.4xlarge",
                        "NetworkInterfaces": [{"DeviceIndex": 0, "NetworkInterfaceId": {"Ref": "HeadNodeENI"}}],
                        "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"DeleteOnTermination": True}}],
                    }
                ),
                "Metadata": {"AWS::CloudFormation::Init": {"deployConfigFiles": {"files": files}}},
            },
            "HeadNode": {
                "Type": "AWS::EC2::Instance",
                "DependsOn": ["Table", "TerminateNodes"],
                "Properties": {
                    "LaunchTemplate": {
                        "LaunchTemplateId": {"Ref": "HeadNodeLaunchTemplate"},
                        "Version": {"Fn::GetAtt": ["HeadNodeLaunchTemplate", "LatestVersionNumber"]},
                    },
                    "Tags": _tags(
                        {
                            "parallelcluster:cluster-name": name,
                            "parallelcluster:node-type": "HeadNode",
                            "Name": "HeadNode",
                        }
                    ),
                },
            },
            handle: {"Type": "AWS::CloudFormation::WaitConditionHandle"},
            handle.replace("Handle", ""): {
                "Type": "AWS::CloudFormation::WaitCondition",
                "Properties": {"Count": 1, "Handle": {"Ref": handle}, "Timeout": "2100"},
            },
        },
        "Outputs": {"HeadNodeInstanceID": {"Value": {"Ref": "HeadNode"}}},
    }


def _table(name: str) -> dict[str, Any]:
    return {
        "Type": "AWS::DynamoDB::Table",
        "Properties": {
            "TableName": name,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "Id", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "Id", "KeyType": "HASH"}],
        },
    }


def _launch_template(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": dict(data)}}


def _node_data(cluster: str) -> dict[str, Any]:
    tags = {
        "Name": "Compute",
        "parallelcluster:cluster-name": cluster,
        "parallelcluster:node-type": "Compute",
        "parallelcluster:queue-name": "q",
        "parallelcluster:compute-resource-name": "i1",
    }
    return {
        "ImageId": "ami-0c1a5000000000001",
        "InstanceType": "trn1.32xlarge",
        "InstanceMarketOptions": {"MarketType": "spot"},
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {"CapacityReservationId": "cr-0aa11bb22cc33dd52"}
        },
        "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 512, "DeleteOnTermination": True}}],
        "TagSpecifications": [{"ResourceType": kind, "Tags": _tags(tags)} for kind in ("instance", "volume")],
    }


def _tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def names(events: Sequence[tuple[str, str, str]], status: str) -> list[str]:
    """The logical ids of the events of one status, in order."""
    return [name for name, found, _ in events if found == status]
