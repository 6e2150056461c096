"""A network: its arithmetic, its template, and the verbs that make and unmake it, on doors in memory."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import World
from tests.fakes.holdings import COMPUTE, HEAD
from tests.oracles import cfn_lint
from trnctl.actions.network import (
    NetworkWish,
    check_empty,
    chosen_network,
    create_network,
    delete_network,
    fleet_of,
    plan_network,
    show_networks,
)
from trnctl.errors import CloudError, LeftoverError, NotFoundError, RefusedError, ToolError, UsageError
from trnctl.plan.network import RESERVED, addresses_per_node, choose_zone, lay_out
from trnctl.ports import NETWORK_TAG, Reservation, Resource
from trnctl.render.network import network_template
from trnctl.specs.loading import load_cluster_file

EXAMPLES = Path(__file__).parents[2] / "examples"
WISH = NetworkWish({"trn1.32xlarge": 16})


@pytest.fixture
def world() -> World:
    """An empty account."""
    return World()


# ------------------------------------------------------------------------------------------------ arithmetic


@pytest.mark.parametrize(
    ("instance_type", "version", "addresses"),
    [
        ("trn1.32xlarge", "3.14.2", 8),  # an `efa` interface with an address on each of 8 cards
        ("trn1n.32xlarge", "3.12.0", 16),
        ("trn1.32xlarge", "3.15.0", 1),  # card 0's; the others are efa-only
        ("trn1.32xlarge", "3.16.1", 1),
        ("trn1.2xlarge", "3.12.0", 1),
        ("c5.4xlarge", "3.12.0", 1),
        ("nobody.knows", "3.12.0", 1),
    ],
)
def test_how_many_addresses_a_node_takes_depends_on_the_release(
    instance_type: str, version: str, addresses: int
) -> None:
    assert addresses_per_node(instance_type, version) == addresses


def test_a_roomy_network_by_default() -> None:
    layout = lay_out("10.0.0.0/16", nodes=16, per_node=1)
    assert (layout.vpc, layout.head, layout.compute) == ("10.0.0.0/16", "10.0.0.0/24", "10.0.128.0/20")
    assert layout.addresses == 48


@given(st.integers(16, 25), st.integers(1, 4000), st.sampled_from([1, 8, 16]))
def test_both_subnets_fit_and_never_meet(prefix: int, nodes: int, per_node: int) -> None:
    try:
        layout = lay_out(f"10.0.0.0/{prefix}", nodes=nodes, per_node=per_node)
    except RefusedError:
        assert 2 ** (31 - prefix) - RESERVED < nodes * per_node + 32
        return
    vpc, head, compute = (IPv4Network(text) for text in (layout.vpc, layout.head, layout.compute))
    assert head.subnet_of(vpc)
    assert compute.subnet_of(vpc)
    assert not head.overlaps(compute)
    assert compute.num_addresses - RESERVED >= nodes * per_node + 32
    assert head.prefixlen <= 28


def test_a_network_that_is_too_small_names_one_that_is_not() -> None:
    with pytest.raises(RefusedError, match=r"half of 10.0.1.0/24 has 123") as caught:
        lay_out("10.0.1.0/24", nodes=16, per_node=8)
    wider = caught.value.remedy.split("--cidr ")[1].split()[0]
    assert lay_out(wider, nodes=16, per_node=8).compute


def test_a_fleet_that_no_network_holds_is_refused() -> None:
    with pytest.raises(RefusedError, match="half of the largest VPC") as caught:
        lay_out("10.0.0.0/16", nodes=5000, per_node=16)
    assert "3.15" in caught.value.remedy


@pytest.mark.parametrize("cidr", ["10.0.0.0", "10.0.0.1/16", "10.0.0.0/8", "10.0.0.0/29", "ten", "fd00::/64"])
def test_what_is_no_vpc_is_a_usage_error(cidr: str) -> None:
    with pytest.raises(UsageError) as caught:
        lay_out(cidr, nodes=1, per_node=1)
    assert "--cidr" in caught.value.remedy


def held(zone: str, free: int, instance_type: str = "trn1.32xlarge") -> Reservation:
    """A reservation."""
    return Reservation(f"cr-{zone}", instance_type, zone, 16, free)


def test_the_zone_is_that_of_the_largest_reservation_or_the_first() -> None:
    zones = ["us-west-2b", "us-west-2d"]
    assert choose_zone(zones, [], "trn1.32xlarge") == "us-west-2b"
    assert choose_zone(zones, [held("us-west-2b", 1), held("us-west-2d", 9)], "trn1.32xlarge") == "us-west-2d"
    assert choose_zone(zones, [held("us-west-2d", 0), held("us-west-2a", 9)], "trn1.32xlarge") == "us-west-2b"
    assert choose_zone(zones, [held("us-west-2d", 9, "trn2.48xlarge")], "trn1.32xlarge") == "us-west-2b"
    assert choose_zone([], [], "trn1.32xlarge") is None


# -------------------------------------------------------------------------------------------------- template


class _Cfn(yaml.SafeLoader):
    """CloudFormation's short functions as mappings: `!Ref X` is {"Ref": "X"}."""


_Cfn.add_multi_constructor("!", lambda loader, tag, node: {tag: loader.construct_scalar(node)})


def resources(text: str) -> dict[str, Any]:
    """The resources of a template."""
    found: dict[str, Any] = yaml.load(text, _Cfn)["Resources"]  # noqa: S506  # a SafeLoader with tags
    return found


@pytest.fixture
def template() -> str:
    """The default network."""
    return network_template("trnctl-network", "us-west-2d", lay_out("10.0.0.0/16", nodes=16, per_node=1))


def test_cfn_lint_is_content(template: str, tmp_path: Path) -> None:
    path = tmp_path / "network.yaml"
    path.write_text(template)
    assert cfn_lint(path) == ""
    path.write_text(template.replace("CidrBlock", "CidrBlok", 1))
    assert "CidrBlok" in cfn_lint(path)


def test_compute_nodes_reach_out_through_nat_and_get_no_public_address(template: str) -> None:
    made = resources(template)
    assert made["ComputeSubnet"]["Properties"]["MapPublicIpOnLaunch"] is False
    assert made["HeadSubnet"]["Properties"]["MapPublicIpOnLaunch"] is True
    assert made["ComputeRoute"]["Properties"]["NatGatewayId"] == {"Ref": "NatGateway"}
    assert made["HeadRoute"]["Properties"]["GatewayId"] == {"Ref": "InternetGateway"}
    assert made["NatGateway"]["Properties"]["SubnetId"] == {"Ref": "HeadSubnet"}
    for name in ("HeadSubnet", "ComputeSubnet"):
        assert made[name]["Properties"]["AvailabilityZone"] == {"Ref": "Zone"}


def test_dns_is_on_and_s3_and_dynamodb_cost_nothing(template: str) -> None:
    made = resources(template)
    assert made["Vpc"]["Properties"]["EnableDnsSupport"] is True
    assert made["Vpc"]["Properties"]["EnableDnsHostnames"] is True
    services = {
        one["Properties"]["ServiceName"]["Sub"].rpartition(".")[2]: one["Properties"]["VpcEndpointType"]
        for one in made.values()
        if one["Type"] == "AWS::EC2::VPCEndpoint"
    }
    assert services == {"s3": "Gateway", "dynamodb": "Gateway"}


def test_efa_needs_its_group_open_to_itself_both_ways(template: str) -> None:
    made = resources(template)
    group = {"Ref": "EfaSecurityGroup"}
    ingress, egress = made["EfaFromItself"]["Properties"], made["EfaToItself"]["Properties"]
    assert (ingress["GroupId"], ingress["SourceSecurityGroupId"], ingress["IpProtocol"]) == (group, group, "-1")
    assert (egress["GroupId"], egress["DestinationSecurityGroupId"], egress["IpProtocol"]) == (group, group, "-1")


# ----------------------------------------------------------------------------------------------------- verbs


def made(world: World, wish: NetworkWish = WISH) -> None:
    """Create a network to its end."""
    list(create_network(plan_network(wish, "us-west-2", world.account), world.services()))


def test_a_network_is_created_watched_and_shown(world: World) -> None:
    plan = plan_network(WISH, "us-west-2", world.account)
    assert (plan.zone, plan.others, plan.asks) == ("us-west-2b", ("us-west-2d",), True)
    steps = list(create_network(plan, world.services()))
    assert (steps[0].phase, steps[-1].phase) == ("creating", "running")
    [found] = show_networks(world.account)
    assert found.stack.tags[NETWORK_TAG] == "trnctl-network"
    head, compute = found.subnet("HeadSubnet"), found.subnet("ComputeSubnet")
    assert head is not None
    assert compute is not None
    assert (head.id, compute.id) == (HEAD, COMPUTE)


def test_what_is_not_known_of_its_price_is_said(world: World) -> None:
    words = " ".join(plan_network(WISH, "us-west-2", world.account).costs)
    assert "NAT gateway" in words
    assert "not in trnctl's table" in words


def test_creating_again_makes_nothing_new(world: World) -> None:
    made(world)
    before = world.clock.now()
    plan = plan_network(WISH, "us-west-2", world.account)
    assert not plan.asks
    assert [step.phase for step in create_network(plan, world.services())] == ["running"]
    assert world.clock.now() == before


def test_a_failure_names_its_cause_and_the_next_try_begins_anew(world: World) -> None:
    world.account.create_fails = "The maximum number of addresses has been reached."
    with pytest.raises(ToolError, match="trnctl-network could not be created"):
        made(world)
    plan = plan_network(WISH, "us-west-2", world.account)
    assert (plan.standing, plan.asks) == ("create-failed", True)
    steps = list(create_network(plan, world.services()))
    assert None in [step.phase for step in steps]
    assert steps[-1].phase == "running"


def test_a_region_without_the_type_names_regions_with_it(world: World) -> None:
    world.account.offers["us-east-2"] = {"trn2.48xlarge": ["us-east-2a"]}
    with pytest.raises(RefusedError, match=r"no zone of us-west-2 offers trn2.48xlarge") as caught:
        plan_network(NetworkWish({"trn2.48xlarge": 1}), "us-west-2", world.account)
    assert "--region us-east-2" in caught.value.remedy


def test_a_zone_must_offer_the_type(world: World) -> None:
    with pytest.raises(RefusedError, match="us-west-2a does not offer") as caught:
        plan_network(NetworkWish({"trn1.32xlarge": 1}, zone="us-west-2a"), "us-west-2", world.account)
    assert "us-west-2b, us-west-2d" in caught.value.remedy
    chosen = plan_network(NetworkWish({"trn1.32xlarge": 1}, zone="us-west-2d"), "us-west-2", world.account)
    assert chosen.zone == "us-west-2d"


def test_types_that_share_no_zone_need_two_networks(world: World) -> None:
    world.account.offers["us-west-2"]["trn1n.32xlarge"] = ["us-west-2c"]
    with pytest.raises(RefusedError, match="offers all of these types"):
        plan_network(NetworkWish({"trn1.32xlarge": 1, "trn1n.32xlarge": 1}), "us-west-2", world.account)


def test_the_widest_node_of_the_file_decides_the_size(world: World) -> None:
    spec = load_cluster_file((EXAMPLES / "two-queues.yaml").read_text(), "two-queues.yaml").cluster
    fleet = fleet_of(spec)
    assert set(fleet) == {"trn1.32xlarge", "trn1n.32xlarge"}
    world.account.offers["us-west-2"]["trn1n.32xlarge"] = ["us-west-2d"]
    wish = NetworkWish(fleet, pcluster_version="3.14.2")
    layout = plan_network(wish, "us-west-2", world.account).layout
    assert layout.per_node == 16
    assert layout.nodes == sum(fleet.values())


def test_a_network_in_use_is_not_deleted(world: World) -> None:
    made(world)
    world.account.living[COMPUTE] = [Resource("instance", "i-1", "cluster ultra1"), Resource("FSx file system", "fs-1")]
    network = chosen_network(None, "us-west-2", world.account)
    with pytest.raises(RefusedError, match="in use by cluster ultra1: instance i-1") as caught:
        check_empty(network, world.account)
    assert "trnctl teardown --cluster ultra1 --delete-storage" in caught.value.remedy
    world.account.living.clear()
    check_empty(network, world.account)


def test_a_deleted_network_is_proven_gone(world: World) -> None:
    made(world)
    steps = list(delete_network(chosen_network("trnctl-network", "us-west-2", world.account), world.services()))
    assert steps[-1].phase is None
    assert show_networks(world.account) == []
    with pytest.raises(NotFoundError, match="no network in us-west-2"):
        chosen_network(None, "us-west-2", world.account)


def test_what_outlives_the_stack_is_told(world: World) -> None:
    made(world)
    world.account.forgets = [Resource("elastic IP", "eipalloc-1")]
    with pytest.raises(LeftoverError, match="elastic IP eipalloc-1"):
        list(delete_network(chosen_network(None, "us-west-2", world.account), world.services()))


def test_a_stack_that_will_not_go_is_told_and_refused_from_then_on(world: World) -> None:
    made(world)
    world.account.delete_fails = "The vpc has dependencies and cannot be deleted."
    with pytest.raises(ToolError, match="trnctl-network could not be deleted"):
        list(delete_network(chosen_network(None, "us-west-2", world.account), world.services()))
    with pytest.raises(RefusedError, match="still there: delete-failed"):
        plan_network(WISH, "us-west-2", world.account)


def test_of_several_networks_one_must_be_named(world: World) -> None:
    made(world)
    made(world, NetworkWish({"trn1.32xlarge": 1}, name="second"))
    with pytest.raises(RefusedError, match=r"there are 2 networks .*: trnctl-network, second"):
        chosen_network(None, "us-west-2", world.account)
    assert chosen_network("second", "us-west-2", world.account).stack.name == "second"
    with pytest.raises(NotFoundError, match="named third"):
        chosen_network("third", "us-west-2", world.account)


def test_a_network_that_failed_to_be_made_can_be_deleted(world: World) -> None:
    world.account.create_fails = "No."
    with pytest.raises(ToolError):
        made(world)
    network = chosen_network(None, "us-west-2", world.account)
    assert network.stack.phase == "create-failed"
    check_empty(network, world.account)
    assert [step.phase for step in delete_network(network, world.services())][-1] is None


def test_a_stack_of_that_name_that_is_no_network_is_left_alone(world: World) -> None:
    world.cloud.has_cluster("trnctl-network")
    with pytest.raises(CloudError, match="a stack trnctl-network already"):
        made(world)


def test_a_reservation_decides_the_zone(world: World) -> None:
    world.account.held = [held("us-west-2d", 4)]
    assert plan_network(WISH, "us-west-2", world.account).zone == "us-west-2d"


@pytest.mark.parametrize("name", ["", "a b", "1st", "x" * 129, "net\n", "ü"])
def test_what_cannot_name_a_stack_is_a_usage_error(world: World, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a stack"):
        plan_network(NetworkWish({"trn1.32xlarge": 1}, name=name), "us-west-2", world.account)
