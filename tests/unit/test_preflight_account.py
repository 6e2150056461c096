"""What a configuration names, compared with what an account holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.test_preflight_rules import BASE, FSX, QUEUE
from trnctl.codes import CODES
from trnctl.findings import Finding
from trnctl.ports import FileSystem, KeyPair, Subnet
from trnctl.ports.survey import Image, ReservedCapacity, SecurityGroup, Survey
from trnctl.preflight.account import ON_DEMAND_TRN, SPOT_TRN, compare, needed_vcpus, wanted
from trnctl.preflight.config import Config
from trnctl.preflight.judge import judge
from trnctl.preflight.report import Report

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
HEAD, COMPUTE, VPC = "subnet-0aa11bb22cc33dd41", "subnet-0aa11bb22cc33dd42", "vpc-0aa11bb22cc33dd40"
RESERVED = "cr-0aa11bb22cc33dd51"
TYPES = ("c5.4xlarge", "trn1.32xlarge", "c5.large", "m5.large")
PUBLIC = Subnet(HEAD, VPC, "us-west-2d", "10.0.0.0/24", 250, public_ips=True, way_out="internet")
PRIVATE = Subnet(COMPUTE, VPC, "us-west-2d", "10.0.16.0/20", 4091, way_out="nat")
GOOD = Survey(
    subnets={HEAD: PUBLIC, COMPUTE: PRIVATE},
    zones=dict.fromkeys(TYPES, ("us-west-2b", "us-west-2d")),
    dns={VPC: True},
    keys={"demo-ed25519": KeyPair("demo-ed25519", "ed25519")},
    quotas={ON_DEMAND_TRN: 512.0, SPOT_TRN: 512.0},
)
BLOCK = ReservedCapacity(RESERVED, "trn1.32xlarge", "us-west-2d", 4, "Linux/UNIX", "active", block=True)
IN_BLOCK = BASE.replace(
    QUEUE,
    f"    CapacityType: CAPACITY_BLOCK\n    CapacityReservationTarget: {{CapacityReservationId: {RESERVED}}}\n",
).replace("MinCount: 0,", "MinCount: 4,")


def config_of(text: str, version: str = "3.16.1") -> Config:
    config = judge(text, "launch.yaml", version=version, cluster="demo").config
    assert config is not None
    return config


def found(text: str, seen: Survey, version: str = "3.16.1", *, stands: bool = False) -> list[Finding]:
    report = Report("launch.yaml")
    assert compare(config_of(text, version), seen, report, NOW, stands=stands) > 10
    return report.findings


def codes(text: str, seen: Survey, version: str = "3.16.1", *, stands: bool = False) -> set[str]:
    return {finding.code for finding in found(text, seen, version, stands=stands)}


def with_subnet(subnet: Subnet) -> Survey:
    return replace(GOOD, subnets={**GOOD.subnets, subnet.id: subnet})


def test_a_good_account_has_no_finding() -> None:
    assert found(BASE, GOOD) == []


def test_what_is_asked() -> None:
    asked = wanted(config_of(BASE))
    assert asked.subnets == (HEAD, COMPUTE)
    assert asked.instance_types == TYPES
    assert (asked.key, asked.cluster, asked.quotas) == ("demo-ed25519", "demo", (ON_DEMAND_TRN,))
    assert (asked.security_groups, asked.reservations, asked.images) == ((), (), ())
    assert "fsx:CreateFileSystem" in asked.actions


# ------------------------------------------------------------------------------------------------- capacity


def test_all_nodes_of_all_queues_count_against_the_quota() -> None:
    short = replace(GOOD, quotas={ON_DEMAND_TRN: 256.0})
    [finding] = found(BASE, short)
    assert finding.code == "quota-short"
    assert "512 vCPUs" in finding.message
    assert "256 in us-west-2" in finding.message
    assert ON_DEMAND_TRN in finding.remedy


def test_the_spot_quota_is_another() -> None:
    spot = BASE.replace(QUEUE, "    CapacityType: SPOT\n")
    assert wanted(config_of(spot)).quotas == (SPOT_TRN,)
    assert codes(spot, replace(GOOD, quotas={ON_DEMAND_TRN: 0.0, SPOT_TRN: 512.0})) == set()
    assert codes(spot, replace(GOOD, quotas={SPOT_TRN: 511.0})) == {"quota-short"}


def test_reserved_nodes_need_no_quota_and_others_than_trn_none_of_trn() -> None:
    assert needed_vcpus(config_of(IN_BLOCK)) == {}
    assert wanted(config_of(IN_BLOCK)).quotas == ()
    assert needed_vcpus(config_of(BASE)) == {"ONDEMAND": 512}


def test_every_queue_is_compared_with_its_zone_not_only_the_first() -> None:
    elsewhere = replace(GOOD, zones={**GOOD.zones, "m5.large": ("us-west-2a",)})
    [finding] = found(BASE, elsewhere)
    assert (finding.code, finding.path) == (
        "zone-without-type",
        "Scheduling.SlurmQueues[1].ComputeResources[0].Instances",
    )
    assert finding.remedy == "Choose a subnet in us-west-2a."
    assert codes(BASE, replace(GOOD, zones={**GOOD.zones, "trn1.32xlarge": ()})) == {"zone-type-nowhere"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, ""),
        ({"instance_type": "trn1n.32xlarge"}, "reservation-mismatch"),
        ({"zone": "us-west-2b"}, "reservation-mismatch"),
        ({"platform": "Red Hat Enterprise Linux"}, "reservation-mismatch"),
        ({"block": False}, "reservation-mismatch"),
        ({"total": 3}, "reservation-small"),
        ({"state": "expired"}, "reservation-ended"),
        ({"state": "scheduled"}, ""),
        ({"ends": NOW - timedelta(minutes=1)}, "reservation-ended"),
        ({"ends": NOW + timedelta(hours=3)}, "reservation-ends-soon"),
        ({"ends": NOW + timedelta(days=3)}, ""),
    ],
)
def test_a_reservation_matches_or_the_difference_is_told(change: dict[str, object], code: str) -> None:
    seen = replace(GOOD, reservations={RESERVED: replace(BLOCK, **change)})  # type: ignore[arg-type]  # by name
    assert codes(IN_BLOCK, seen) == {code} - {""}


def test_a_reservation_that_is_not_there() -> None:
    assert codes(IN_BLOCK, GOOD) == {"reservation-not-found"}


# -------------------------------------------------------------------------------------------------- network


@pytest.mark.parametrize(
    ("subnet", "expected"),
    [
        (replace(PRIVATE, way_out="internet"), {"no-route-out"}),
        (replace(PRIVATE, way_out="other"), set()),
        (replace(PRIVATE, public_ips=True), {"subnet-gives-public-ips"}),
        (replace(PRIVATE, public_ips=True, way_out="internet"), {"subnet-gives-public-ips"}),
        (replace(PRIVATE, way_out="none"), {"no-route-out"}),
        (replace(PRIVATE, vpc="vpc-2"), {"subnets-of-several-vpcs"}),
        (replace(PUBLIC, public_ips=False), {"head-without-address"}),
        (replace(PUBLIC, public_ips=False, way_out="nat"), set()),
        (replace(PRIVATE, zone="us-west-2b"), set()),
        (replace(PRIVATE, zone="us-west-2a"), {"zone-without-type"}),
    ],
)
def test_subnets(subnet: Subnet, expected: set[str]) -> None:
    assert codes(BASE, with_subnet(subnet)) == expected


def test_an_elastic_address_is_an_address() -> None:
    text = BASE.replace("{SubnetId: subnet-0aa11bb22cc33dd41}", "{SubnetId: subnet-0aa11bb22cc33dd41, ElasticIp: true}")
    assert codes(text, with_subnet(replace(PUBLIC, public_ips=False))) == set()


def test_an_isolated_subnet_needs_its_endpoints() -> None:
    isolated = with_subnet(replace(PRIVATE, way_out="none"))
    every = frozenset({"s3", "dynamodb", "ec2", "cloudformation", "logs"})
    assert codes(BASE, replace(isolated, endpoints={VPC: every})) == set()
    partly = found(BASE, replace(isolated, endpoints={VPC: every - {"dynamodb"}}))
    assert {finding.code for finding in partly} == {"endpoints-missing"}
    assert "dynamodb" in partly[0].message


def test_subnets_that_are_not_there_and_dns_that_is_off() -> None:
    assert codes(BASE, replace(GOOD, subnets={HEAD: PUBLIC})) == {"subnet-not-found"}
    assert codes(BASE, replace(GOOD, dns={VPC: False})) == {"vpc-dns-off"}


@pytest.mark.parametrize(
    ("version", "free", "expected"),
    [
        ("3.16.1", 8, set()),  # an address a node, and four nodes of the other queue
        ("3.16.1", 7, {"subnet-addresses-short"}),
        ("3.12.0", 36, set()),  # until 3.14 an address on each of eight cards
        ("3.12.0", 35, {"subnet-addresses-short"}),
    ],
)
def test_free_addresses_follow_the_interfaces_of_the_version(version: str, free: int, expected: set[str]) -> None:
    text = BASE.replace("ubuntu2404", "ubuntu2204")
    assert codes(text, with_subnet(replace(PRIVATE, free=free)), version) == expected


def test_a_cluster_that_stands_holds_its_addresses_and_its_file_system() -> None:
    own = replace(with_subnet(replace(PRIVATE, free=0)), kept=(FileSystem("fs-1", "fsx-lustre", 1200, "available"),))
    assert codes(BASE, own, stands=True) == set()
    assert codes(BASE, own) == {"subnet-addresses-short", "file-system-adoptable"}


OPEN = SecurityGroup("sg-0aa11bb22cc33dd45", from_itself=True, to_itself=True)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((OPEN,), set()),
        ((replace(OPEN, to_itself=False),), {"efa-group-no-self"}),
        ((replace(OPEN, from_itself=False),), {"efa-group-no-self"}),
        ((), {"security-group-not-found"}),
    ],
)
def test_one_group_allows_all_traffic_to_and_from_itself(groups: tuple[SecurityGroup, ...], expected: set[str]) -> None:
    text = BASE.replace("      PlacementGroup", f"      SecurityGroups: [{OPEN.id}]\n      PlacementGroup")
    assert codes(text, replace(GOOD, security_groups={one.id: one for one in groups})) == expected


def test_additional_groups_do_not_replace_parallelclusters_own() -> None:
    text = BASE.replace("      PlacementGroup", f"      AdditionalSecurityGroups: [{OPEN.id}]\n      PlacementGroup")
    assert codes(text, replace(GOOD, security_groups={OPEN.id: replace(OPEN, to_itself=False)})) == set()


# -------------------------------------------------------------------------------------------- keys and images


def test_keys() -> None:
    rsa = replace(GOOD, keys={"demo-ed25519": KeyPair("demo-ed25519", "rsa")})
    assert codes(BASE, rsa) == {"key-type"}
    assert codes(BASE.replace("ubuntu2404", "alinux2023"), rsa) == set()
    assert codes(BASE, replace(GOOD, keys={})) == {"key-not-found"}


IMAGE = Image("ami-0aa11bb22cc33dd44", "3.16.1", "ubuntu2404", built=True, root_gib=45)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (IMAGE, set()),
        (replace(IMAGE, version="3.12.0"), {"image-version"}),
        (replace(IMAGE, version="", os=""), {"image-untagged"}),
        (replace(IMAGE, built=False), {"image-not-ready"}),
        (replace(IMAGE, os="alinux2023"), {"image-os"}),
        (replace(IMAGE, root_gib=600), {"root-volume-too-small"}),
        (None, {"image-not-found"}),
    ],
)
def test_images(image: Image | None, expected: set[str]) -> None:
    text = BASE.replace("{Os: ubuntu2404}", f"{{Os: ubuntu2404, CustomAmi: {IMAGE.id}}}")
    assert codes(text, replace(GOOD, images={image.id: image} if image else {})) == expected


# ------------------------------------------------------------------------------------- files, rights, refusals


def test_a_file_system_of_an_earlier_cluster_can_be_adopted() -> None:
    kept = replace(GOOD, kept=(FileSystem("fs-0aa11bb22cc33dd61", "fsx-lustre", 1200, "available"),))
    [finding] = found(BASE, kept)
    assert (finding.code, finding.level) == ("file-system-adoptable", "info")
    assert "fs-0aa11bb22cc33dd61" in finding.remedy
    adopted = BASE.replace(f"{{{FSX}, DeletionPolicy: Retain}}", "{FileSystemId: fs-0aa11bb22cc33dd61}")
    assert codes(adopted, kept) == set()


def test_what_is_denied_and_what_was_not_answered() -> None:
    assert codes(BASE, replace(GOOD, denied=("iam:CreateRole",))) == {"permission-denied"}
    silent = Survey(refused=dict.fromkeys(("subnets", "security groups", "key pair", "reservations", "images"), "no"))
    assert codes(BASE, silent) == {"not-checked"}


def test_every_code_of_the_account_can_be_found() -> None:
    """Each row of the table has a test above."""
    from trnctl.codes.account import ACCOUNT

    with open(__file__, encoding="utf-8") as file:  # noqa: PTH123  # itself
        tested = file.read()
    assert [row[0] for row in ACCOUNT if row[0] not in tested] == []
    assert set(CODES) >= {row[0] for row in ACCOUNT}


def test_a_finding_stands_where_the_file_names_the_thing() -> None:
    [finding] = found(BASE, replace(GOOD, keys={}))
    assert (finding.path, finding.line) == ("HeadNode.Ssh.KeyName", 6)
