"""The Account: in memory, and botocore's against moto's server on loopback."""

from __future__ import annotations

import time
from collections.abc import Sequence
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.contracts.account import AccountBench, AccountContract
from tests.fakes import InMemoryAccount, InMemoryCloud
from tests.fakes.holdings import COMPUTE, HEAD
from trnctl.adapters.aws_account import BotoAccount
from trnctl.adapters.aws_clients import Clients
from trnctl.adapters.aws_network import ways_out
from trnctl.errors import CloudUnreachable
from trnctl.ports import Account, KeyPair, MachineImage, Resource

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}
REGION = "us-west-2"
# moto makes route tables, gateways and endpoints as well, but deletes none of them through a stack; the sandbox mends
# that, and tests/cli/test_network.py makes and deletes the whole network there.
SMALL = """
Resources:
  Vpc: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}
  HeadSubnet: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref Vpc, CidrBlock: 10.0.0.0/24}}
  ComputeSubnet: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref Vpc, CidrBlock: 10.0.128.0/20}}
Outputs:
  Vpc: {Value: !Ref Vpc}
  HeadSubnet: {Value: !Ref HeadSubnet}
  ComputeSubnet: {Value: !Ref ComputeSubnet}
"""


class MemoryBench:
    """The account in memory."""

    template = SMALL

    def __init__(self) -> None:
        self._cloud = InMemoryCloud()
        self._memory = InMemoryAccount(self._cloud)
        self.account: Account = self._memory

    def has_network(self) -> tuple[str, str]:
        """As the contract says."""
        self._memory.has_network()
        return HEAD, COMPUTE

    def has_image(self, name: str, tag: str) -> str:
        """Of its own."""
        found = self._memory.all_images.setdefault("self", [])
        found.append(MachineImage(f"ami-{len(found)}", name, tags={tag: "x"}))
        return found[-1].id

    def has_key(self, name: str, kind: str) -> None:
        """As the contract says."""
        self._memory.keys.append(KeyPair(name, kind))

    def has_instance(self, subnet: str, cluster: str) -> str:
        """As the contract says."""
        self._memory.living.setdefault(subnet, []).append(Resource("instance", "i-1", f"cluster {cluster}"))
        return "i-1"

    def settle(self) -> None:
        """As the contract says."""
        self._cloud.clock.wind(600)


class MotoBench:
    """moto's server, emptied."""

    template = SMALL

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.account: Account = BotoAccount(Clients(region=REGION, environ={**KEYS, "AWS_ENDPOINT_URL": endpoint}))
        session = boto3.Session("testing", "testing", region_name=REGION)
        self.ec2: Any = session.client("ec2", endpoint_url=endpoint)

    def has_network(self) -> tuple[str, str]:
        """With plain calls of EC2."""
        ec2 = self.ec2
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
        public, private = (self._subnet(vpc, f"10.0.{number}.0/24") for number in (0, 1))
        ec2.modify_subnet_attribute(SubnetId=public, MapPublicIpOnLaunch={"Value": True})
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        self._route(vpc, public, GatewayId=gateway)
        address = ec2.allocate_address(Domain="vpc")["AllocationId"]
        nat = ec2.create_nat_gateway(SubnetId=public, AllocationId=address)["NatGateway"]["NatGatewayId"]
        self._route(vpc, private, NatGatewayId=nat)
        return public, private

    def _subnet(self, vpc: str, cidr: str) -> str:
        made = self.ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone="us-west-2d")
        return str(made["Subnet"]["SubnetId"])

    def _route(self, vpc: str, subnet: str, **to: str) -> None:
        table = self.ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
        self.ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", **to)
        self.ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)

    def has_image(self, name: str, tag: str) -> str:
        """Of its own."""
        image = str(self.ec2.register_image(Name=name)["ImageId"])
        self.ec2.create_tags(Resources=[image], Tags=[{"Key": tag, "Value": "x"}])
        return image

    def has_key(self, name: str, kind: str) -> None:
        """In EC2."""
        self.ec2.create_key_pair(KeyName=name, KeyType=kind)

    def has_instance(self, subnet: str, cluster: str) -> str:
        """In EC2, with ParallelCluster's tag."""
        tags = [{"Key": "parallelcluster:cluster-name", "Value": cluster}]
        made = self.ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType="c5.4xlarge",
            MinCount=1,
            MaxCount=1,
            SubnetId=subnet,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )
        return str(made["Instances"][0]["InstanceId"])

    def settle(self) -> None:
        """moto's stacks arrive within the call, unless a busy machine let the call be given up and made again."""
        limit = time.monotonic() + 20
        while time.monotonic() < limit and any(
            one.phase in {"creating", "deleting"} for one in self.account.networks()
        ):
            time.sleep(0.2)


@pytest.fixture
def moto_bench(endpoint: str) -> MotoBench:
    """An empty account."""
    connection = HTTPConnection(endpoint.removeprefix("http://"), timeout=20)
    connection.request("POST", "/moto-api/reset")
    assert connection.getresponse().status == 200
    connection.close()
    return MotoBench(endpoint)


class TestInMemory(AccountContract):
    """The fake keeps its promises."""

    @pytest.fixture
    def bench(self) -> AccountBench:
        return MemoryBench()


class TestBoto(AccountContract):
    """The adapter against moto."""

    @pytest.fixture
    def bench(self, moto_bench: MotoBench) -> AccountBench:
        return moto_bench


def table(subnets: Sequence[str], *, main: bool = False, **route: str) -> dict[str, Any]:
    """A route table as EC2 gives it."""
    associations: list[dict[str, Any]] = [{"SubnetId": one} for one in subnets]
    routes = [{"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local"}]
    if route:
        routes.append({"DestinationCidrBlock": "0.0.0.0/0", **route})
    return {"VpcId": "vpc-1", "Associations": associations + [{"Main": True}] * main, "Routes": routes}


def test_where_a_subnets_default_route_leads() -> None:
    subnets = [{"SubnetId": name, "VpcId": "vpc-1"} for name in "abcdefg"] + [{"SubnetId": "x", "VpcId": "vpc-2"}]
    tables = [
        table(["a"], GatewayId="igw-1"),
        table(["b"], NatGatewayId="nat-1"),
        table(["c"], TransitGatewayId="tgw-1"),
        table(["d"]),
        table(["e"], NatGatewayId="nat-2", State="blackhole"),  # the gateway is gone, its route is not
        table(["f"], GatewayId="vgw-1"),
        table([], main=True, GatewayId="igw-1"),
    ]
    assert ways_out(subnets, tables) == {
        "a": "internet",
        "b": "nat",
        "c": "other",
        "d": "none",
        "e": "none",
        "f": "other",
        "g": "internet",  # the VPC's main table
        "x": "none",
    }


def test_out_of_reach_is_told_from_refused() -> None:
    account = BotoAccount(Clients(region=REGION, endpoint_url="http://127.0.0.1:9", environ=KEYS))
    with pytest.raises(CloudUnreachable):
        account.identity()
