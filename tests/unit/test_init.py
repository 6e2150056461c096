"""`init` chooses what fits, names what is missing, and writes a file that loads."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import World
from tests.fakes.holdings import COMPUTE, HEAD
from trnctl.actions.init import (
    Answers,
    Choices,
    complete,
    compute_choices,
    head_choices,
    key_choices,
    look_up,
    private_half,
    reservation_choices,
)
from trnctl.actions.network import NetworkWish, create_network, plan_network
from trnctl.cli.files import write_new
from trnctl.errors import CloudError, RefusedError, UsageError
from trnctl.ports import KeyPair, Reservation, Subnet, Vpc
from trnctl.render.cluster_file import Draft, cluster_file
from trnctl.specs.loading import load_cluster_file

SSH = Answers(ssh_from="203.0.113.0/24")
DRAFT = Draft("ultra1", "us-west-2", "trn1.32xlarge", 16, HEAD, COMPUTE, "demo", ssh_from=("203.0.113.0/24",))


@pytest.fixture
def world() -> World:
    """An account with one network and an ed25519 key beside an rsa one."""
    world = World()
    world.account.has_network()
    world.account.keys = [KeyPair("old", "rsa"), KeyPair("demo", "ed25519")]
    return world


def choices(world: World, *local: str) -> Choices:
    """What there is to choose from."""
    return look_up(world.account, "us-west-2", "trn1.32xlarge", local)


def test_defaults_take_what_fits(world: World) -> None:
    draft = complete(SSH, choices(world))
    assert draft == replace(DRAFT, key_name="demo")


def test_what_was_said_wins(world: World) -> None:
    world.account.has_network(vpc="vpc-2", head="subnet-0bb11bb22cc33dd41", compute="subnet-0bb11bb22cc33dd42")
    said = replace(
        SSH, name="mine", compute_subnet="subnet-0bb11bb22cc33dd42", key_name="old", max_nodes=3, bucket="b-1"
    )
    draft = complete(said, choices(world))
    assert (draft.name, draft.key_name, draft.max_count, draft.bucket) == ("mine", "old", 3, "b-1")
    # The head node's subnet follows the compute nodes' into their VPC.
    assert (draft.compute_subnet, draft.head_subnet) == ("subnet-0bb11bb22cc33dd42", "subnet-0bb11bb22cc33dd41")


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({}, True),
        ({"way_out": "internet"}, False),
        ({"way_out": "none"}, False),
        ({"public_ips": True}, False),
        ({"zone": "us-west-2a"}, False),
        ({"vpc": "vpc-without-dns"}, False),
    ],
    ids=str,
)
def test_a_subnet_for_compute_nodes_is_private_has_nat_and_a_zone_that_offers_them(
    world: World, change: dict[str, str], fits: bool
) -> None:
    world.account.all_vpcs.append(Vpc("vpc-without-dns", "10.1.0.0/16", dns=False))
    private = world.account.all_subnets[1]
    world.account.all_subnets = [replace(private, id="subnet-x", **change)]  # type: ignore[arg-type]  # one field of several types
    assert bool(compute_choices(choices(world))) is fits


def test_a_network_that_trnctl_made_comes_first_then_the_roomiest() -> None:
    world = World()
    list(create_network(plan_network(NetworkWish({"trn1.32xlarge": 1}), "us-west-2", world.account), world.services()))
    world.account.all_vpcs.append(Vpc("vpc-9", "10.9.0.0/16"))
    for number, free in enumerate((5000, 9000)):
        world.account.all_subnets.append(Subnet(f"subnet-{number}", "vpc-9", "us-west-2b", "", free, way_out="nat"))
    assert [one.id for one in compute_choices(choices(world))] == [COMPUTE, "subnet-1", "subnet-0"]


def test_the_head_nodes_subnet_is_public_in_the_same_vpc_and_best_in_the_same_zone(world: World) -> None:
    found = choices(world)
    [compute] = compute_choices(found)
    near = next(one for one in found.subnets if one.id == HEAD)
    far = replace(near, id="subnet-far", zone="us-west-2a", free=9999)
    strange, blind = replace(near, id="subnet-strange", vpc="vpc-x"), replace(near, id="subnet-blind", public_ips=False)
    found = replace(found, subnets=(far, strange, blind, near, compute))
    assert [one.id for one in head_choices(found, compute)] == [HEAD, "subnet-far"]


def test_a_reservation_is_taken_only_when_it_is_named_and_decides_zone_and_size(world: World) -> None:
    ends = datetime(2026, 12, 13, tzinfo=UTC)
    world.account.held = [
        Reservation("cr-1", "trn1.32xlarge", "us-west-2b", 4, 4, block=True, ends=ends),
        Reservation("cr-2", "trn1.32xlarge", "us-west-2d", 8, 8),
        Reservation("cr-full", "trn1.32xlarge", "us-west-2d", 8, 0),
        Reservation("cr-other", "p5.48xlarge", "us-west-2d", 8, 8),
    ]
    found = choices(world)
    assert [one.id for one in reservation_choices(found)] == ["cr-2", "cr-1"]
    assert complete(SSH, found).reservation == ""
    draft = complete(replace(SSH, reservation="cr-2"), found)
    assert (draft.reservation, draft.block, draft.max_count, draft.min_count) == ("cr-2", False, 8, 0)
    # There is no subnet in the zone of the block.
    with pytest.raises(UsageError, match="--compute-subnet"):
        complete(replace(SSH, reservation="cr-1"), found)
    world.account.has_network(vpc="vpc-b", head="subnet-b1", compute="subnet-b2", zone="us-west-2b")
    draft = complete(replace(SSH, reservation="cr-1"), choices(world))
    assert (draft.block, draft.max_count, draft.min_count, draft.compute_subnet) == (True, 4, 4, "subnet-b2")


def test_a_reservation_that_is_not_there_names_those_that_fit(world: World) -> None:
    world.account.held = [Reservation("cr-2", "trn1.32xlarge", "us-west-2d", 8, 8)]
    with pytest.raises(UsageError, match="no active reservation cr-9") as caught:
        complete(replace(SSH, reservation="cr-9"), choices(world))
    assert "cr-2" in caught.value.remedy


def test_everything_that_is_missing_is_named_at_once_with_its_flag() -> None:
    with pytest.raises(UsageError) as caught:
        complete(Answers(), choices(World(), "~/.ssh/id_ed25519"))
    for words in ("--compute-subnet", "trnctl network create", "--ssh-from", "--ssm", "--key-name", "import-key-pair"):
        assert words in caught.value.message


def test_keys_of_this_machine_are_only_suggested(world: World) -> None:
    found = choices(world, "~/.ssh/demo", "~/.ssh/id_ed25519")
    assert [key.name for key in key_choices(found)] == ["demo"]
    assert private_half(found, "demo") == "~/.ssh/demo"
    assert private_half(found, "old") == ""
    assert complete(SSH, found).ssh_key == "~/.ssh/demo"
    world.account.keys = []
    with pytest.raises(UsageError, match="--key-name"):
        complete(SSH, choices(world, "~/.ssh/demo"))


def test_with_session_manager_nobody_needs_a_key_or_an_open_port(world: World) -> None:
    world.account.keys = []
    draft = complete(Answers(ssm=True), choices(world))
    assert (draft.ssm, draft.ssh_from, draft.key_name) == (True, (), "")
    spec = load_cluster_file(cluster_file(draft), "trnctl.yaml").cluster
    assert spec.head_node.ssm


def test_a_subnet_that_is_not_there_is_refused(world: World) -> None:
    with pytest.raises(UsageError, match="no subnet subnet-nope in us-west-2"):
        complete(replace(SSH, compute_subnet="subnet-nope"), choices(world))


def test_a_region_without_the_type_names_regions_with_it(world: World) -> None:
    world.account.offers["ap-south-2"] = {"trn2.48xlarge": ["ap-south-2a"]}
    with pytest.raises(RefusedError, match=r"no zone of us-west-2 offers trn2.48xlarge") as caught:
        look_up(world.account, "us-west-2", "trn2.48xlarge")
    assert "ap-south-2" in caught.value.remedy


def test_what_aws_refuses_is_not_swallowed(world: World) -> None:
    world.account.denied = CloudError("No.", remedy="Ask.")
    with pytest.raises(CloudError):
        choices(world)


# -------------------------------------------------------------------------------------------------- the file


@pytest.mark.parametrize(
    "draft",
    [
        DRAFT,
        replace(DRAFT, bucket="my-bucket", ssh_key="~/.ssh/demo", ssm=True),
        replace(DRAFT, reservation="cr-0aa11bb22cc33dd51"),
        replace(DRAFT, reservation="cr-0aa11bb22cc33dd52", block=True, max_count=4),
        replace(DRAFT, ssh_from=(), key_name="", ssm=True),
    ],
    ids=["smallest", "bucket", "reservation", "block", "ssm"],
)
def test_the_file_loads_and_says_what_was_chosen(draft: Draft) -> None:
    text = cluster_file(draft)
    spec = load_cluster_file(text, "trnctl.yaml").cluster
    resource = spec.queues[0].compute_resources[0]
    assert (spec.name, spec.region, spec.bucket or "") == (draft.name, draft.region, draft.bucket)
    assert (spec.network.head_subnet, spec.network.compute_subnet) == (HEAD, COMPUTE)
    assert (resource.instance_type, resource.min_count, resource.max_count) == (
        draft.instance_type,
        draft.min_count,
        draft.max_count,
    )
    assert spec.queues[0].capacity.id == (draft.reservation or None)
    assert (spec.head_node.key_name or "", spec.head_node.ssh_from) == (draft.key_name, draft.ssh_from)
    assert max(len(line) for line in text.splitlines()) <= 120
    assert "#     trnctl cluster create" in text


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=60))
def test_whatever_a_key_is_called_the_file_says_exactly_that(name: str) -> None:
    spec = load_cluster_file(cluster_file(replace(DRAFT, key_name=name)), "trnctl.yaml").cluster
    assert spec.head_node.key_name == name


def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "trnctl.yaml"
    write_new(str(path), "first\n")
    with pytest.raises(UsageError) as caught:
        write_new(str(path), "second\n")
    assert path.read_text() == "first\n"
    assert "--output-file" in caught.value.remedy
    with pytest.raises(UsageError, match="cannot be written"):
        write_new(str(tmp_path / "nowhere" / "trnctl.yaml"), "text\n")
