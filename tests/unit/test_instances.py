"""The table of instance types, compared with EC2's own data as moto ships it."""

from __future__ import annotations

import gzip
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from trnctl.specs.instances import INSTANCES, InstanceFacts, architecture, instance, vcpus


@pytest.fixture(scope="module")
def ec2() -> dict[str, Any]:
    moto = find_spec("moto")  # not imported: it would read its environment before an emulator has set it
    assert moto is not None
    assert moto.origin is not None
    packed = Path(moto.origin).with_name("ec2") / "resources" / "instance_types.json.gz"
    data: dict[str, Any] = json.loads(gzip.decompress(packed.read_bytes()))
    return data


@pytest.mark.parametrize("facts", INSTANCES.values(), ids=lambda facts: facts.type)
def test_sizes_are_those_of_ec2(facts: InstanceFacts, ec2: dict[str, Any]) -> None:
    theirs = ec2[facts.type]
    network = theirs["NetworkInfo"]
    assert facts.vcpus == theirs["VCpuInfo"]["DefaultVCpus"]
    assert facts.host_gib * 1024 == theirs["MemoryInfo"]["SizeInMiB"]
    assert facts.efa_interfaces == network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    assert facts.network_cards == network["MaximumNetworkCards"]
    assert facts.local_gb == theirs.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    chips = theirs.get("NeuronInfo", {}).get("NeuronDevices", [])
    if chips:
        assert facts.devices == chips[0]["Count"]
        assert facts.kind == "trainium"


@pytest.mark.parametrize(
    ("name", "ranks", "device_gib", "price"),
    [("trn1.2xlarge", 2, 32, 1.34375), ("trn1.32xlarge", 32, 512, 21.50), ("trn1n.32xlarge", 32, 512, 24.78),
     ("trn2.3xlarge", 4, 96, None), ("trn2.48xlarge", 64, 1536, None), ("c5.4xlarge", 0, 0, 0.68)],
)  # fmt: skip
def test_what_a_plan_counts_on(name: str, ranks: int, device_gib: int, price: float | None) -> None:
    facts = INSTANCES[name]
    assert (facts.ranks, facts.device_gib, facts.price_usd) == (ranks, device_gib, price)


def test_a_price_that_is_not_from_the_dated_list_or_is_missing_says_so() -> None:
    for facts in INSTANCES.values():
        dated = facts.kind != "cpu" and facts.price_usd is not None
        assert bool(facts.price_note) is not dated, facts.type


def test_an_unknown_type_is_none() -> None:
    assert instance("trn9.huge") is None


def test_what_a_name_tells_is_true_of_every_type_of_ec2(ec2: dict[str, Any]) -> None:
    told = 0
    for name, theirs in ec2.items():
        if architecture(name):
            assert architecture(name) in theirs["ProcessorInfo"]["SupportedArchitectures"], name
        if (count := vcpus(name)) is not None:
            assert count == theirs["VCpuInfo"]["DefaultVCpus"], name
            told += 1
    assert told > 800


@pytest.mark.parametrize("name", ["", "c5", "C5.xlarge", "${TYPE}", "trn1-32xlarge"])
def test_what_is_no_name_of_a_type_tells_nothing(name: str) -> None:
    assert (architecture(name), vcpus(name)) == ("", None)
