"""The Cloud: in memory, and botocore's against moto's server on loopback."""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from datetime import UTC, datetime
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.contracts.cloud import CloudBench, CloudContract
from tests.fakes import InMemoryCloud, head_node
from trnctl.adapters import aws_records as records
from trnctl.adapters.aws import BotoCloud
from trnctl.adapters.aws_errors import cloud_error, known_refusal
from trnctl.errors import CloudError
from trnctl.ports import Cloud, FileSystem, Instance, Resource, SavedText

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}
REGION = "us-west-2"
# CreateStack of a stack that needs nothing; moto completes it within the call.
TEMPLATE = {"Resources": {"Group": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "x"}}}}


class MemoryBench:
    """The account in memory."""

    def __init__(self) -> None:
        self._memory = InMemoryCloud()
        self.cloud: Cloud = self._memory

    def has_cluster(self, name: str) -> None:
        """As the contract says."""
        self._memory.has_cluster(name)
        for number, state in enumerate(("running", "terminated")):
            found = Instance(f"i-{name}-{number}", "trn1.32xlarge", state, "compute", "", "10.0.1.1", "compute1", "i1")
            self._memory.has_instance(name, found)

    def has_file_system(self, name: str) -> str:
        """As the contract says."""
        self._memory.has_file_system(name, FileSystem("fs-1", "fsx-lustre", 1200, "available", "SCRATCH_2"))
        return "fs-1"

    def has_security_group(self, name: str) -> str:
        """As the contract says."""
        self._memory.has_leftover(name, Resource("security group", "sg-1", "fsx"))
        return "sg-1"

    def removes_stack(self, name: str) -> None:
        """As the contract says."""
        self._memory.vanish(name)

    def has_sent(self, name: str, source: str, line: str) -> None:
        """As the contract says."""
        self._memory.logs[name] = [SavedText(source, "a stream", f"{line}\n")]
        self._memory.sent_at[name] = datetime.now(UTC)

    def has_bucket(self, name: str) -> None:
        """As the contract says."""
        self._memory.buckets[name] = {}

    def objects(self, bucket: str) -> dict[str, str]:
        """As the contract says."""
        return self._memory.buckets[bucket]


class MotoBench:
    """moto's server, emptied."""

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.environ = {**KEYS, "AWS_ENDPOINT_URL": endpoint}
        self.cloud: Cloud = BotoCloud(region=REGION, environ=self.environ)
        session = boto3.Session("testing", "testing", region_name=REGION)
        self.client: Any = lambda service, **more: session.client(service, endpoint_url=endpoint, **more)

    def has_cluster(self, name: str) -> None:
        """A stack with ParallelCluster's tags, its fleet's item, its instances."""
        tags = [{"Key": "parallelcluster:version", "Value": "3.16.1"}, *self._tags(name)]
        template = json.dumps(TEMPLATE).replace('"x"', f'"/test/{name}/{uuid.uuid4().hex}"')
        self.client("cloudformation").create_stack(StackName=name, TemplateBody=template, Tags=tags)
        dynamo = self.client("dynamodb")
        dynamo.create_table(
            TableName=f"parallelcluster-{name}",
            KeySchema=[{"AttributeName": "Id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "Id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        data = {"status": {"S": "RUNNING"}, "lastStatusUpdatedTime": {"S": "2026-11-29 15:40:00.000000+00:00"}}
        dynamo.put_item(TableName=f"parallelcluster-{name}", Item={"Id": {"S": "COMPUTE_FLEET"}, "Data": {"M": data}})
        self._launch(name, "c5.4xlarge", "HeadNode")
        self._launch(name, "trn1.32xlarge", "Compute")
        gone = self._launch(name, "trn1.32xlarge", "Compute")
        self.client("ec2").terminate_instances(InstanceIds=[gone])

    def has_file_system(self, name: str) -> str:
        """FSx for Lustre."""
        made = self.client("fsx").create_file_system(
            FileSystemType="LUSTRE",
            StorageCapacity=1200,
            SubnetIds=["subnet-0aa11bb22cc33dd42"],
            LustreConfiguration={"DeploymentType": "SCRATCH_2"},
            Tags=self._tags(name),
        )
        return str(made["FileSystem"]["FileSystemId"])

    def has_security_group(self, name: str) -> str:
        """In the default VPC."""
        ec2 = self.client("ec2")
        group = str(ec2.create_security_group(GroupName=f"{name}-fsx", Description="d")["GroupId"])
        ec2.create_tags(Resources=[group], Tags=self._tags(name))
        return group

    def removes_stack(self, name: str) -> None:
        """The stack and its instances."""
        self.client("cloudformation").delete_stack(StackName=name)
        ids = [instance.id for instance in self.cloud.observe(name).instances]
        self.client("ec2").terminate_instances(InstanceIds=ids)

    def has_sent(self, name: str, source: str, line: str) -> None:
        """In a group as ParallelCluster names it, beside an older one."""
        logs = self.client("logs")
        for created in ("202601010900", "202610010900"):
            group = {"logGroupName": f"/aws/parallelcluster/{name}-{created}"}
            logs.create_log_group(**group)
            stream = {**group, "logStreamName": f"ip-10-0-0-12.i-0aa11bb22cc33dd44.{source}-output"}
            logs.create_log_stream(**stream)
            said = line if created == "202610010900" else "of the older cluster"
            logs.put_log_events(**stream, logEvents=[{"timestamp": int(time.time() * 1000), "message": said}])
            time.sleep(0.002)  # the groups' times of creation are told apart by the millisecond

    def has_bucket(self, name: str, region: str = REGION) -> None:
        """In S3."""
        place = {"LocationConstraint": region}
        self.client("s3", region_name=region).create_bucket(Bucket=name, CreateBucketConfiguration=place)

    def objects(self, bucket: str) -> dict[str, str]:
        """Of S3."""
        s3 = self.client("s3")
        keys = [item["Key"] for item in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
        return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode() for key in keys}

    def _launch(self, name: str, instance_type: str, role: str) -> str:
        tags = [{"Key": "parallelcluster:node-type", "Value": role}, *self._tags(name)]
        if role == "Compute":
            tags += [
                {"Key": "parallelcluster:queue-name", "Value": "compute1"},
                {"Key": "parallelcluster:compute-resource-name", "Value": "i1"},
            ]
        made = self.client("ec2").run_instances(
            ImageId="ami-12c6146b",
            InstanceType=instance_type,
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[
                {"ResourceType": "instance", "Tags": tags},
                {"ResourceType": "volume", "Tags": tags},
            ],
        )
        return str(made["Instances"][0]["InstanceId"])

    def _tags(self, name: str) -> list[dict[str, str]]:
        return [{"Key": "parallelcluster:cluster-name", "Value": name}]


@pytest.fixture
def moto_bench(endpoint: str) -> MotoBench:
    """An empty account."""
    connection = HTTPConnection(endpoint.removeprefix("http://"), timeout=20)
    connection.request("POST", "/moto-api/reset")
    assert connection.getresponse().status == 200
    connection.close()
    return MotoBench(endpoint)


class TestInMemory(CloudContract):
    """The fake keeps its promises."""

    @pytest.fixture
    def bench(self) -> CloudBench:
        return MemoryBench()


class TestBoto(CloudContract):
    """The adapter against moto."""

    @pytest.fixture
    def bench(self, moto_bench: MotoBench) -> CloudBench:
        return moto_bench


def test_a_kind_that_cannot_be_looked_for_is_told(moto_bench: MotoBench) -> None:
    """moto 5.2.5 has no placement groups."""
    found = {resource.kind: resource for resource in moto_bench.cloud.leftovers("demo") if not resource.id}
    assert found["placement groups"].detail.startswith("could not look for placement groups: ")


def test_every_kind_of_leftover(moto_bench: MotoBench) -> None:
    tags = [{"Key": "parallelcluster:cluster-name", "Value": "demo"}]
    ec2, other = moto_bench.client("ec2"), [{"Key": "parallelcluster:cluster-name", "Value": "demo-2"}]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="g", Description="d", VpcId=vpc)["GroupId"]
    interface = ec2.create_network_interface(SubnetId=subnet)["NetworkInterface"]["NetworkInterfaceId"]
    volume = ec2.create_volume(AvailabilityZone="us-west-2a", Size=100)["VolumeId"]
    ec2.create_tags(Resources=[group, interface, volume], Tags=tags)
    efs = moto_bench.client("efs").create_file_system(CreationToken="t", Tags=tags)["FileSystemId"]
    logs = moto_bench.client("logs")
    for name in ("demo-202610010900", "demo-2-202610010900", "demo-other"):
        logs.create_log_group(logGroupName=f"/aws/parallelcluster/{name}")
    zones = moto_bench.client("route53")
    for name in ("demo.pcluster.", "demo-2.pcluster."):
        zones.create_hosted_zone(Name=name, CallerReference=name)
    iam = moto_bench.client("iam")
    for name, its_tags in (("demo-RoleHeadNode-1", tags), ("demo-2-RoleHeadNode-1", other)):
        iam.create_role(RoleName=name, Path="/parallelcluster/", AssumeRolePolicyDocument="{}", Tags=its_tags)
    left = {(resource.kind, resource.id) for resource in moto_bench.cloud.leftovers("demo") if resource.id}
    assert left >= {
        ("security group", group),
        ("network interface", interface),
        ("volume", volume),
        ("EFS file system", efs),
        ("log group", "/aws/parallelcluster/demo-202610010900"),
        ("role", "demo-RoleHeadNode-1"),
    }
    assert [kind for kind, _ in left if kind == "hosted zone"] == ["hosted zone"]
    assert not {name for _, name in left if "demo-2-" in name or "other" in name}


def test_root_volumes_are_no_file_systems(moto_bench: MotoBench) -> None:
    moto_bench.has_cluster("demo")
    ec2 = moto_bench.client("ec2")
    volume = ec2.create_volume(AvailabilityZone="us-west-2a", Size=100)["VolumeId"]
    ec2.create_tags(Resources=[volume], Tags=[{"Key": "parallelcluster:cluster-name", "Value": "demo"}])
    assert [(found.id, found.kind, found.gib) for found in moto_bench.cloud.file_systems("demo")] == [
        (volume, "ebs", 100)
    ]
    moto_bench.cloud.delete_file_system(FileSystem(volume, "ebs", 100, "available"))
    assert moto_bench.cloud.file_systems("demo") == []


def test_an_elastic_file_system_loses_its_mount_targets_first(moto_bench: MotoBench) -> None:
    tags = [{"Key": "parallelcluster:cluster-name", "Value": "demo"}]
    ec2, efs = moto_bench.client("ec2"), moto_bench.client("efs")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    made = efs.create_file_system(CreationToken="t", Tags=tags)["FileSystemId"]
    efs.create_mount_target(FileSystemId=made, SubnetId=subnet)
    cloud = BotoCloud(region=REGION, environ=moto_bench.environ, clock=InMemoryCloud().clock)
    [found] = cloud.file_systems("demo")
    assert (found.id, found.kind) == (made, "efs")
    cloud.delete_file_system(found)
    assert cloud.file_systems("demo") == []


def test_a_bucket_of_another_region_gets_nothing(moto_bench: MotoBench) -> None:
    moto_bench.has_bucket("far-away", "eu-west-1")
    with pytest.raises(CloudError, match="far-away is in eu-west-1, and the cluster in us-west-2") as caught:
        moto_bench.cloud.put_objects("far-away", {"a": "b"})
    assert "--region us-west-2" in caught.value.remedy
    assert moto_bench.objects("far-away") == {}


def test_an_endpoint_where_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(CloudError, match="could not be reached") as caught:
        BotoCloud(region=REGION, endpoint_url=endpoint, environ=KEYS).observe("demo")
    assert "trnctl sandbox up" in caught.value.remedy


def test_no_credentials_at_all(tmp_path: Any) -> None:
    """In a process of its own: botocore looks for them in its process's environment and home."""
    import subprocess
    import sys

    code = (
        "from trnctl.adapters.aws import BotoCloud\nfrom trnctl.errors import CloudError\n"
        "try: BotoCloud(region='us-west-2', endpoint_url='http://127.0.0.1:9').observe('demo')\n"
        "except CloudError as error: print(error.message, '|', error.remedy)"
    )
    environ = {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert "There are no AWS credentials on this machine" in done.stdout, done.stderr
    assert "aws configure" in done.stdout


def test_a_profile_that_does_not_exist(tmp_path: Any) -> None:
    with pytest.raises(CloudError, match="profile does not exist"):
        BotoCloud(region=REGION, profile="no-such-profile-of-trnctl", environ=KEYS).observe("demo")


class Refusing:
    """An endpoint that refuses everything with one error code, in EC2's and everybody else's form."""

    def __init__(self, code: str, message: str, status: int = 403) -> None:
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        self.asked = 0
        outer = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked += 1
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if "X-Amz-Target" in self.headers:
                    body = json.dumps({"__type": code, "message": message})
                else:
                    error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
                    body = f"<Response><Errors>{error}</Errors>{error}<RequestID>1</RequestID></Response>"
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *words: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.parametrize(
    ("code", "message", "says", "remedy"),
    [
        ("RequestExpired", "Request has expired.", "credentials have expired", "aws sso login"),
        ("UnauthorizedOperation", "You are not authorized to perform this.", r"\(ec2:DescribeInstances\)", "ec2"),
        ("AuthFailure", "AWS was not able to validate the provided access credentials", "does not accept", "sts"),
        ("OptInRequired", "You are not subscribed to this service.", "may not use that service", "region"),
        ("Weird", "Something new.", "Weird: Something new", "doctor"),
    ],
)  # fmt: skip
def test_refusals_of_aws(code: str, message: str, says: str, remedy: str) -> None:
    refusing = Refusing(code, message)
    try:
        with pytest.raises(CloudError, match=says) as caught:
            BotoCloud(region=REGION, endpoint_url=refusing.endpoint, environ=KEYS)._instances("demo")
    finally:
        refusing.close()
    assert remedy in caught.value.remedy


def test_leftovers_are_never_hidden_by_a_refusal() -> None:
    refusing = Refusing("AccessDenied", "no")
    try:
        cloud = BotoCloud(region=REGION, endpoint_url=refusing.endpoint, environ=KEYS)
        found = cloud.leftovers("demo")
    finally:
        refusing.close()
    assert [resource.kind for resource in found] == list(cloud.looked_for())
    assert all(resource.id == "" and "could not look for" in resource.detail for resource in found)


def test_the_action_that_iam_names_wins() -> None:
    said = "User: arn:aws:sts::1:assumed-role/x is not authorized to perform: iam:PassRole on resource: r"
    error = cloud_error(said, code="AccessDenied", action="cloudformation:CreateStack")
    assert "(iam:PassRole)" in error.message
    assert "permission iam:PassRole" in error.remedy


def test_what_the_table_does_not_know_is_left_to_the_caller() -> None:
    assert known_refusal("Bad Request: cluster name is too long") is None


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ("CREATE_IN_PROGRESS", "creating"),
        ("ROLLBACK_COMPLETE", "create-failed"),
        ("UPDATE_COMPLETE", "running"),
        ("UPDATE_ROLLBACK_COMPLETE", "update-failed"),
        ("DELETE_FAILED", "delete-failed"),
    ],
)
def test_phases(status: str, phase: str) -> None:
    stack = records.stack_of(
        {"StackName": "d", "StackStatus": status, "CreationTime": datetime(2026, 1, 1, tzinfo=UTC)}
    )
    assert stack is not None
    assert stack.phase == phase


def test_a_deleted_stack_is_none() -> None:
    gone = {"StackName": "d", "StackStatus": "DELETE_COMPLETE", "CreationTime": datetime(2026, 1, 1, tzinfo=UTC)}
    assert records.stack_of(gone) is None


@pytest.mark.parametrize("item", [None, {}, {"Data": {}}, {"Data": {"M": {}}}])
def test_a_fleet_without_an_item(item: dict[str, Any] | None) -> None:
    assert records.fleet_of(item) is None


def test_a_spot_instance() -> None:
    item = {
        "InstanceId": "i-1",
        "InstanceType": "trn1.32xlarge",
        "State": {"Name": "pending"},
        "InstanceLifecycle": "spot",
        "LaunchTime": datetime(2026, 1, 1, tzinfo=UTC),
    }
    found = records.instance_of(item)
    assert (found.capacity, found.role, found.public_ip) == ("spot", "other", "")


def test_the_head_node_of_tests_is_a_head_node() -> None:
    assert (head_node().role, head_node(state="stopped").state) == ("head", "stopped")
