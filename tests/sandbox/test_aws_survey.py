"""The survey of an account through botocore, against the emulated account: every kind of question, and how many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.aws_account import World, running
from trnctl.adapters.aws_account import BotoAccount
from trnctl.adapters.aws_clients import Clients
from trnctl.adapters.aws_survey import MOST_CALLS
from trnctl.ports.survey import Wanted
from trnctl.preflight.account import ACTIONS, ON_DEMAND_TRN, wanted
from trnctl.preflight.judge import judge
from trnctl.sandbox.aws.seeds import CAPACITY_BLOCK, OTHER_ZONE_SUBNET, PRIVATE_SUBNET, PUBLIC_SUBNET, RESERVATION

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running(tmp_path_factory.mktemp("account")) as world:
        yield world


@pytest.fixture(scope="module")
def account(world: World) -> BotoAccount:
    """The emulated account as trnctl sees it."""
    environ = {
        "AWS_ACCESS_KEY_ID": "sandbox",
        "AWS_SECRET_ACCESS_KEY": "sandbox",
        "AWS_ENDPOINT_URL": world.emulator.endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    return BotoAccount(Clients(region=world.emulator.region, environ=environ))


def test_everything_that_can_be_asked(world: World, account: BotoAccount) -> None:
    ec2 = world.client("ec2")
    vpc = ec2.describe_subnets(SubnetIds=[PRIVATE_SUBNET])["Subnets"][0]["VpcId"]
    group = ec2.create_security_group(GroupName="efa", Description="d", VpcId=vpc)["GroupId"]
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
    seen = account.survey(
        Wanted(
            "demo",
            (PUBLIC_SUBNET, PRIVATE_SUBNET, OTHER_ZONE_SUBNET),
            ("trn1.32xlarge",),
            (group,),
            "demo-rsa",
            (RESERVATION, CAPACITY_BLOCK),
            quotas=(ON_DEMAND_TRN,),
            actions=ACTIONS,
        )
    )
    assert seen.refused == {}
    assert {one.way_out for one in seen.subnets.values()} == {"internet", "nat"}
    assert seen.subnets[OTHER_ZONE_SUBNET].zone not in seen.zones["trn1.32xlarge"]
    assert (seen.security_groups[group].from_itself, seen.security_groups[group].to_itself) == (True, False)
    assert seen.keys["demo-rsa"].kind == "rsa"
    assert (seen.reservations[RESERVATION].block, seen.reservations[RESERVATION].total) == (False, 16)
    assert seen.reservations[CAPACITY_BLOCK].block
    assert seen.reservations[CAPACITY_BLOCK].ends is not None
    assert seen.quotas[ON_DEMAND_TRN] == 16384
    assert seen.denied == ()
    assert list(seen.dns.values()) == [True]
    assert seen.calls == MOST_CALLS


def test_a_route_that_is_gone_makes_the_endpoints_count(world: World, account: BotoAccount) -> None:
    ec2 = world.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.0.0/24")["Subnet"]["SubnetId"]
    service = f"com.amazonaws.{world.emulator.region}.s3"
    ec2.create_vpc_endpoint(VpcId=vpc, ServiceName=service, VpcEndpointType="Gateway")
    seen = account.survey(Wanted("demo", (subnet,)))
    assert seen.subnets[subnet].way_out == "none"
    assert seen.endpoints == {vpc: frozenset({"s3"})}
    assert account.survey(Wanted("demo", (PRIVATE_SUBNET,))).endpoints == {}


def test_an_image_and_its_tags(world: World, account: BotoAccount) -> None:
    ec2 = world.client("ec2")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    seen = account.survey(Wanted("demo", (PRIVATE_SUBNET,), images=(image, "ami-0aa11bb22cc33dd99")))
    assert set(seen.images) == {image}
    assert seen.images[image].root_gib > 0


@pytest.mark.parametrize("path", sorted((ROOT / "snapshots" / "clusters").glob("*.yaml")), ids=lambda path: path.stem)
def test_no_example_asks_more_than_twelve_times(account: BotoAccount, path: Path) -> None:
    config = judge(path.read_text(), path.name, cluster="ultra1").config
    assert config is not None
    seen = account.survey(wanted(config))
    assert 6 < seen.calls <= MOST_CALLS
    assert seen.refused == {}


def test_what_is_refused_is_told_and_the_rest_is_answered(world: World, account: BotoAccount) -> None:
    seen = account.survey(Wanted("demo", (PRIVATE_SUBNET,), quotas=("L-00000000",)))
    assert set(seen.refused) == {"quotas"}
    assert set(seen.subnets) == {PRIVATE_SUBNET}
