"""The account as it stands from the start: seeds, API gaps, control routes and API faults."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.aws_account import World, running
from trnctl.sandbox.aws import seeds as fixed
from trnctl.sandbox.aws.seeds import ReservationSeed, Seeds

OWN = Seeds(
    public_subnets=("subnet-0123456789abcdef0", fixed.PUBLIC_SUBNET),
    private_subnets=("subnet-0123456789abcdef1",),
    keys=("mine", "demo-rsa"),
    lustre=("fs-0123456789abcdef0",),
    efs=("fs-0123456789abcdef1",),
    reservations=(ReservationSeed("cr-0123456789abcdef0", "trn2.48xlarge", 2),),
    buckets=("my-own-bucket",),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running(tmp_path_factory.mktemp("account"), seeds=OWN) as world:
        yield world


def subnets(world: World) -> dict[str, dict[str, object]]:
    found = world.client("ec2").describe_subnets()["Subnets"]
    return {subnet["SubnetId"]: subnet for subnet in found}


@pytest.mark.parametrize(
    ("subnet", "zone", "public"),
    [
        (fixed.PUBLIC_SUBNET, "us-west-2d", True),
        (fixed.PRIVATE_SUBNET, "us-west-2d", False),
        (fixed.OTHER_ZONE_SUBNET, "us-west-2a", False),
        (fixed.SECOND_PRIVATE_SUBNET, "us-west-2d", False),
        (fixed.SECOND_ZONE_SUBNET, "us-west-2b", False),
        ("subnet-0123456789abcdef0", "us-west-2d", True),
        ("subnet-0123456789abcdef1", "us-west-2d", False),
    ],
)
def test_subnets_stand_where_the_documentation_says(world: World, subnet: str, zone: str, public: bool) -> None:
    found = subnets(world)[subnet]
    assert (found["AvailabilityZone"], found["MapPublicIpOnLaunch"]) == (zone, public)
    tables = world.client("ec2").describe_route_tables(Filters=[{"Name": "association.subnet-id", "Values": [subnet]}])
    ways = [route for route in tables["RouteTables"][0]["Routes"] if route["DestinationCidrBlock"] == "0.0.0.0/0"]
    assert ("GatewayId" in ways[0], "NatGatewayId" in ways[0]) == (public, not public)


def test_keys_of_both_kinds_stand_ready(world: World) -> None:
    pairs = world.client("ec2").describe_key_pairs()["KeyPairs"]
    assert {pair["KeyName"]: pair["KeyType"] for pair in pairs} == {
        "demo-ed25519": "ed25519", "demo-rsa": "rsa", "mine": "ed25519",
    }  # fmt: skip


def test_file_systems_have_their_ids_and_open_ports(world: World) -> None:
    found = world.client("fsx").describe_file_systems()["FileSystems"]
    assert {each["FileSystemId"] for each in found} == {fixed.LUSTRE, "fs-0123456789abcdef0"}
    interface = found[0]["NetworkInterfaceIds"][0]
    ec2 = world.client("ec2")
    (group,) = ec2.describe_network_interfaces(NetworkInterfaceIds=[interface])["NetworkInterfaces"][0]["Groups"]
    (rule,) = ec2.describe_security_groups(GroupIds=[group["GroupId"]])["SecurityGroups"][0]["IpPermissions"]
    assert rule["FromPort"] == 988
    efs = world.client("efs")
    assert {each["FileSystemId"] for each in efs.describe_file_systems()["FileSystems"]} == {
        fixed.EFS, "fs-0123456789abcdef1",
    }  # fmt: skip
    zones = {
        each["AvailabilityZoneName"] for each in efs.describe_mount_targets(FileSystemId=fixed.EFS)["MountTargets"]
    }
    assert zones == {"us-west-2a", "us-west-2b", "us-west-2d"}


def test_buckets_stand_ready(world: World) -> None:
    buckets = {each["Name"] for each in world.client("s3").list_buckets()["Buckets"]}
    assert buckets >= {"my-trnctl-bucket", "my-data", "my-own-bucket"}


def test_reservations_are_described_and_a_missing_one_is_refused(world: World) -> None:
    ec2 = world.client("ec2")
    found = ec2.describe_capacity_reservations()["CapacityReservations"]
    assert {each["CapacityReservationId"]: each["TotalInstanceCount"] for each in found} == {
        fixed.RESERVATION: 16, fixed.CAPACITY_BLOCK: 4, "cr-0123456789abcdef0": 2,
    }  # fmt: skip
    with pytest.raises(ClientError, match=r"InvalidCapacityReservationId\.NotFound"):
        ec2.describe_capacity_reservations(CapacityReservationIds=["cr-0ffffffffffffffff"])


def test_placement_groups_can_be_made_found_and_deleted(world: World) -> None:
    ec2 = world.client("ec2")
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "team", "Value": "research"}]}]
    ec2.create_placement_group(GroupName="together", Strategy="cluster", TagSpecifications=tags)
    found = ec2.describe_placement_groups(Filters=[{"Name": "tag:team", "Values": ["research"]}])["PlacementGroups"]
    assert [(each["GroupName"], each["State"]) for each in found] == [("together", "available")]
    ec2.delete_placement_group(GroupName="together")
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Unknown"):
        ec2.describe_placement_groups(GroupNames=["together"])


def test_only_official_images_are_amazons(world: World) -> None:
    images = world.client("ec2").describe_images(
        Owners=["amazon"], Filters=[{"Name": "name", "Values": ["aws-parallelcluster-3.16.1-*-x86_64*"]}]
    )["Images"]
    assert len(images) == 5


def test_a_type_that_the_zone_does_not_offer_is_refused_even_in_a_dry_run(world: World) -> None:
    with pytest.raises(ClientError, match="Unsupported"):
        world.client("ec2").run_instances(
            ImageId="ami-0c1a5000000000001", InstanceType="trn1.32xlarge", MinCount=1, MaxCount=1,
            SubnetId=fixed.OTHER_ZONE_SUBNET, DryRun=True,
        )  # fmt: skip


# ------------------------------------------------------------------------------------------ control


def test_health_tells_the_region(world: World) -> None:
    assert world.control("GET", "/_sandbox/health") == (200, {"status": "ok", "region": "us-west-2"})


def test_calls_are_counted_until_cleared(world: World) -> None:
    world.control("DELETE", "/_sandbox/calls")
    world.client("ec2").describe_vpcs()
    world.client("dynamodb").list_tables()
    assert world.control("GET", "/_sandbox/calls")[1] == {
        "total": 2, "calls": {"ec2:DescribeVpcs": 1, "dynamodb:ListTables": 1},
    }  # fmt: skip


def test_a_further_route_gets_the_body_or_the_query(world: World) -> None:
    world.emulator.routes["/_sandbox/echo"] = lambda given: {"given": dict(given)}
    assert world.control("POST", "/_sandbox/echo", {"a": 1}) == (200, {"given": {"a": 1}})
    assert world.control("GET", "/_sandbox/echo?b=2") == (200, {"given": {"b": "2"}})


def test_routes_answer_errors_as_json(world: World) -> None:
    def breaks(_: object) -> dict[str, object]:
        raise RuntimeError("this broke")

    world.emulator.routes["/_sandbox/breaks"] = breaks
    assert world.control("POST", "/_sandbox/breaks", {}) == (500, {"error": "RuntimeError: this broke"})
    assert world.control("GET", "/_sandbox/nothing")[0] == 404
    assert world.control("POST", "/_sandbox/faults", {"kind": "weather"})[0] == 400


@pytest.mark.parametrize(
    ("service", "call", "action"),
    [
        ("ec2", "describe_vpcs", "DescribeVpcs"),
        ("cloudformation", "describe_stacks", "DescribeStacks"),
        ("dynamodb", "list_tables", "ListTables"),
        ("fsx", "describe_file_systems", "DescribeFileSystems"),
        ("s3", "list_buckets", "GET /"),
        ("sts", "get_caller_identity", "GetCallerIdentity"),
    ],
)
def test_api_faults_speak_the_protocol_of_the_service(world: World, service: str, call: str, action: str) -> None:
    world.fault(kind="api", service=service, action=action, code="AccessDenied", message="no <way>", status=403)
    client = world.client(service)
    with pytest.raises(ClientError) as caught:
        getattr(client, call)()
    error = caught.value.response["Error"]
    assert (error["Code"], error["Message"]) == ("AccessDenied", "no <way>")
    getattr(client, call)()


def test_the_account_listens_on_loopback_only(world: World) -> None:
    assert world.emulator.endpoint == f"http://127.0.0.1:{world.emulator.port}"
    assert world.emulator._parts.server.server_address[0] == "127.0.0.1"
    assert "AWS_PROFILE" not in os.environ


def test_another_region_has_its_network_where_trn_is_offered(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("elsewhere"), region="us-east-2") as elsewhere:
        zone = str(subnets(elsewhere)[fixed.PRIVATE_SUBNET]["AvailabilityZone"])
        offers = elsewhere.client("ec2").describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "location", "Values": [zone]}]
        )["InstanceTypeOfferings"]
        assert any(offer["InstanceType"].startswith("trn") for offer in offers)
