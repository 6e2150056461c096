"""What every Account must do."""

from __future__ import annotations

from typing import Protocol

import pytest

from trnctl.errors import CloudError
from trnctl.ports import NETWORK_TAG, Account
from trnctl.ports.survey import Wanted

TYPE = "trn1.32xlarge"


class AccountBench(Protocol):
    """An Account of us-west-2, and the ways of a test to put things behind it."""

    account: Account

    def has_network(self) -> tuple[str, str]:
        """A VPC with DNS, a public subnet and a private one behind a NAT gateway in us-west-2d: the subnets' ids."""

    def has_key(self, name: str, kind: str) -> None:
        """A key pair."""

    def has_instance(self, subnet: str, cluster: str) -> str:
        """An instance of a cluster in a subnet; its id."""

    def has_image(self, name: str, tag: str) -> str:
        """An available image of the account's own, with the tag; its id."""

    def settle(self) -> None:
        """Let stacks that are on their way arrive."""

    template: str  # of a small network with the outputs Vpc, HeadSubnet and ComputeSubnet


class AccountContract:
    """Give a fixture `bench` with an account that holds no network of trnctl's."""

    def test_whose_credentials(self, bench: AccountBench) -> None:
        who = bench.account.identity()
        assert who.account == "123456789012"
        assert who.arn.startswith("arn:aws:")

    def test_where_a_type_is_offered(self, bench: AccountBench) -> None:
        assert bench.account.zones_offering(TYPE) == ["us-west-2b", "us-west-2d"]
        assert bench.account.zones_offering("no.such") == []
        assert "us-west-2" in bench.account.regions_offering(TYPE, ["us-west-2", "eu-north-1"])
        assert bench.account.regions_offering("no.such", ["us-west-2"]) == []

    def test_images_by_owner_name_id_and_tag(self, bench: AccountBench) -> None:
        first, second = bench.has_image("One (Ubuntu) 1", "team"), bench.has_image("Two (Ubuntu) 2", "other")
        ask = bench.account.machine_images
        assert [one.name for one in ask(owner="self", name="One (*")] == ["One (Ubuntu) 1"]
        assert {one.id for one in ask(owner="self", name="*Ubuntu*")} == {first, second}
        assert [one.id for one in ask(owner="self", tag="team")] == [first]
        assert [(one.id, "other" in one.tags) for one in ask(ids=[second, "ami-0aa11bb22cc33dd00"])] == [(second, True)]
        assert ask(owner="self", name="Three*") == []

    def test_ways_out_of_subnets(self, bench: AccountBench) -> None:
        public, private = bench.has_network()
        found = {one.id: one for one in bench.account.subnets()}
        assert (found[public].way_out, found[public].public_ips) == ("internet", True)
        assert (found[private].way_out, found[private].public_ips) == ("nat", False)
        assert found[public].vpc == found[private].vpc
        assert found[private].zone == "us-west-2d"
        assert found[private].free > 200
        assert {one.id: one.dns for one in bench.account.vpcs()}[found[public].vpc]

    def test_a_survey_finds_what_is_named_and_there(self, bench: AccountBench) -> None:
        public, private = bench.has_network()
        bench.has_key("new", "ed25519")
        gone = "subnet-0aa11bb22cc33dd99"
        seen = bench.account.survey(Wanted("demo", (public, private, gone), (TYPE, "no.such"), key="new"))
        assert set(seen.subnets) == {public, private}
        assert seen.subnets[private].way_out == "nat"
        assert (seen.zones[TYPE], seen.zones["no.such"]) == (("us-west-2b", "us-west-2d"), ())
        assert seen.dns == {seen.subnets[public].vpc: True}
        assert seen.keys["new"].kind == "ed25519"
        assert seen.refused == {}
        assert seen.kept == ()

    def test_a_survey_does_not_find_what_is_not_there(self, bench: AccountBench) -> None:
        seen = bench.account.survey(Wanted("demo", ("subnet-0aa11bb22cc33dd99",), key="nobody"))
        assert (seen.subnets, seen.keys, seen.dns, seen.refused) == ({}, {}, {}, {})

    def test_key_pairs_have_their_kinds(self, bench: AccountBench) -> None:
        bench.has_key("new", "ed25519")
        bench.has_key("old", "rsa")
        kinds = {one.name: one.kind for one in bench.account.key_pairs()}
        assert (kinds["new"], kinds["old"]) == ("ed25519", "rsa")

    def test_a_network_comes_and_goes(self, bench: AccountBench) -> None:
        assert bench.account.networks() == []
        bench.account.create_network("net", bench.template, {"team": "research"})
        bench.settle()
        [network] = bench.account.networks()
        assert (network.name, network.phase) == ("net", "running")
        assert network.tags[NETWORK_TAG] == "net"
        assert network.tags["team"] == "research"
        assert network.outputs["ComputeSubnet"] in {one.id for one in bench.account.subnets()}
        assert "VPC" in {one.kind for one in bench.account.network_remains("net")}
        bench.account.delete_network("net")
        bench.settle()
        assert bench.account.networks() == []
        assert bench.account.network_remains("net") == []
        bench.account.delete_network("net")  # again: silent

    def test_a_name_that_is_taken(self, bench: AccountBench) -> None:
        bench.account.create_network("net", bench.template, {})
        with pytest.raises(CloudError):
            bench.account.create_network("net", bench.template, {})

    def test_who_lives_in_a_subnet(self, bench: AccountBench) -> None:
        public, private = bench.has_network()
        assert bench.account.inhabitants([public, private]) == []  # the NAT gateway's own interface is none
        wanted = bench.has_instance(private, "demo")
        found = bench.account.inhabitants([public, private])
        assert ("instance", wanted, "cluster demo") in {(one.kind, one.id, one.detail) for one in found}
        assert bench.account.inhabitants([public]) == []
        assert bench.account.inhabitants([]) == []
