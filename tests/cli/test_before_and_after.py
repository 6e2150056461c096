"""Before and after the money, in one sandbox: an empty account, refusals that cost nothing, a cluster that shrinks,
what it cost, a teardown that waits and proves, and a second cluster that finds the data of the first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.trnctl_runner import Trnctl, eventually, sandbox

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]
BUCKET = "my-trnctl-bucket"
RECORDS = f"s3://{BUCKET}/trnctl/ultra1/"


@pytest.fixture(scope="module")
def account() -> Iterator[Trnctl]:
    """An account, and commands in a folder of their own; no YAML is written by hand in it."""
    with sandbox() as trnctl:
        where = trnctl.folder / "work"
        where.mkdir()
        yield Trnctl(trnctl.folder, where=where)


def file(account: Trnctl) -> Path:
    assert account.where is not None
    return account.where / "trnctl.yaml"


def ec2(account: Trnctl) -> Any:
    """EC2 of the account, for what no command of ours does."""
    import boto3

    return boto3.client(
        "ec2", region_name="us-west-2", endpoint_url=account.world()["endpoint"], aws_access_key_id="sandbox",
        aws_secret_access_key="sandbox",
    )  # fmt: skip


def test_from_an_empty_account_to_a_file(account: Trnctl) -> None:
    network = account.json("network", "create", "-y")["network"]
    account("init", "-y", "--ssh-from", "203.0.113.0/24", "--bucket", BUCKET, "--max-nodes", "16")
    written = yaml.safe_load(file(account).read_text())["cluster"]["network"]
    assert written == {"head_subnet": network["head_subnet"], "compute_subnet": network["compute_subnet"]}


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [("max_count: 16", "max_count: 200", "quota-short"), ("{compute}", "{head}", "subnet-gives-public-ips")],
    ids=["quota", "public subnet"],
)
def test_what_cannot_be_is_refused_before_anything_is_created(account: Trnctl, old: str, new: str, code: str) -> None:
    before = file(account).read_text()
    network = yaml.safe_load(before)["cluster"]["network"]
    subnets = {"head": network["head_subnet"], "compute": network["compute_subnet"]}
    other = file(account).with_name("refused.yaml")
    other.write_text(before.replace(old.format(**subnets), new.format(**subnets)))
    assert other.read_text() != before
    refused = account("-c", str(other), "cluster", "create", "-y", code=3)
    assert f"[{code}]" in refused.talk
    assert account.json("cluster", "list")["clusters"] == []


def test_a_cluster_with_its_price_and_a_run_with_its_cap(account: Trnctl) -> None:
    created = account("cluster", "create", "-y", "--online", "--price", "trn1.32xlarge=20", timeout=180)
    assert "idle $0.68/h full $320.68/h" in created.talk
    assert "AWS's price list, asked on" in created.talk
    assert "your price of trn1.32xlarge" in created.talk
    assert "more than --max-cost 1.00" in account("submit", "bert-large", "-N", "2", "--max-cost", "1", code=3).talk
    words = ["-N", "2", "--max-cost", "60", "--set", "steps_this_run=2", "--name", "capped", "-f"]
    ended = account("submit", "bert-large", *words, timeout=180)
    assert "cap $60.00: after" in ended.talk
    told = account.json("results", "capped")
    assert told["max_cost_usd"] == 60.0
    assert told["cost_usd"] == pytest.approx(told["node_seconds"] * 21.5 / 3600, abs=0.01)
    assert [row["instance_type"] for row in told["ledger"]] == ["trn1.32xlarge"]


def test_what_it_has_cost_has_a_source_and_a_beginning(account: Trnctl) -> None:
    eventually(lambda: account.json("cost")["so_far_usd"] > 0.2, "the head node has counted its nodes", 60)
    by = {word: account.json("cost", *(["--by", word] if word else [])) for word in ("", "run", "day")}
    runs = {row["name"]: row for row in by["run"]["rows"]}
    assert runs["capped"]["usd"] == pytest.approx(account.json("results", "capped")["cost_usd"], abs=0.01)
    assert "outside runs" in runs
    for report in by.values():
        assert report["known_from"] is not None
        assert "node-seconds that it has counted" in report["basis"]
        assert any("storage: not priced" in one for one in report["not_priced"])
    status = account.json("status")["cost"]
    assert status["so_far_usd"] >= by[""]["so_far_usd"]
    assert "node-seconds that it has counted" in status["basis"]
    assert account.json("cost", "--online")["basis"].startswith("AWS's price list")
    assert "--by year" in account("cost", "--by", "year", code=2).talk


def test_sixteen_nodes_become_eight_while_the_fleet_runs(account: Trnctl) -> None:
    ended = account("cluster", "update", "--set-count", "compute1/i1=0:8", "-y", timeout=180)
    assert "so the fleet is stopped, the cluster updated, and the fleet started again" in ended.talk
    assert account.json("status")["cluster"]["fleet"] == "running"
    assert sum(account.json("status")["nodes"].values()) == 8
    assert "max_count: 8" in file(account).read_text()


def test_a_ttl_stops_the_fleet_from_the_head_node_and_a_person_starts_it_again(account: Trnctl) -> None:
    text = file(account).read_text()
    file(account).write_text(text.replace("  network:", "  ttl: 0.2m\n  network:", 1))
    account("cluster", "update", "-y", timeout=180)
    eventually(lambda: account.json("status")["cluster"]["fleet"] == "stopped", "the ttl has stopped the fleet", 120)
    alerts = {one["code"]: one for one in account.json("status")["alerts"]}
    assert "its ttl" in alerts["ttl-stopped"]["message"]
    assert account.json("status")["cluster"]["ttl"].startswith("0.0033")
    file(account).write_text(text)
    account("cluster", "update", "-y", timeout=180)
    assert account.json("cluster", "fleet", "start", timeout=180) == {"fleet": "running"}


def test_a_teardown_waits_tries_again_and_proves_what_is_left_and_what_is_kept(account: Trnctl) -> None:
    account("sandbox", "fault", "placement-group-in-use")
    network = yaml.safe_load(file(account).read_text())["cluster"]["network"]
    tags = [{"ResourceType": "network-interface", "Tags": [{"Key": "parallelcluster:cluster-name", "Value": "ultra1"}]}]
    orphan = ec2(account).create_network_interface(SubnetId=network["compute_subnet"], TagSpecifications=tags)
    orphan_id = orphan["NetworkInterface"]["NetworkInterfaceId"]
    ended = account("teardown", "--keep-storage", "-y", "-o", "json", code=7, timeout=240)
    proof = ended.json
    assert proof["left"] == [f"network interface {orphan_id} (available)"] or orphan_id in str(proof["left"])
    assert len(proof["left"]) == 1
    kept = "; ".join(proof["kept"])
    assert "fsx-lustre fs-" in kept
    assert "stands in it" in kept
    assert RECORDS in kept
    assert any("node script" in one for one in proof["deleted"])
    account("status", code=8)
    ec2(account).delete_network_interface(NetworkInterfaceId=orphan_id)


def test_what_a_cluster_that_is_gone_has_cost_is_still_known(account: Trnctl) -> None:
    report = account.json("cost", "--by", "run")
    assert "capped" in [row["name"] for row in report["rows"]]
    assert report["per_hour_usd"] == 0
    assert report["so_far_usd"] > 0.2
    assert "nothing of it is on" in account("cost").out


def test_created_again_it_finds_the_data_of_the_first(account: Trnctl) -> None:
    created = account("cluster", "create", "-y", timeout=180)
    assert "with the earlier cluster's data" in created.talk
    assert "capped" in [run["run"] for run in account.json("runs")["runs"]]
    assert account.json("cluster", "update") == {"updated": None}, "what was adopted is no difference"


def test_an_export_goes_before_the_end_of_everything(account: Trnctl) -> None:
    refused = account("teardown", "--export", "s3://no-such-bucket/x", "--delete-storage", "-y", code=4)
    assert "Nothing has been deleted" in refused.talk
    assert account.json("status")["cluster"]["phase"] == "running"
    place = f"s3://{BUCKET}/export"
    proof = account.json("teardown", "--export", place, "--delete-storage", "-y", timeout=240)
    assert proof["left"] == []
    assert any(place in one for one in proof["kept"])
    assert any(one.startswith("fsx-lustre fs-") for one in proof["deleted"])
    import boto3

    s3 = boto3.client(
        "s3", region_name="us-west-2", endpoint_url=account.world()["endpoint"], aws_access_key_id="sandbox",
        aws_secret_access_key="sandbox",
    )  # fmt: skip
    keys = [one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    assert "export/capped/results.json" in keys
    assert any(key.startswith("export/capped/checkpoints/") for key in keys)
    assert not [key for key in keys if key.endswith(".sh") and key.startswith("trnctl/")]
    assert not [key for key in keys if key.endswith(".sbatch")]
    account("network", "delete", "-y", timeout=120)
