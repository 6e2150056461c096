"""From an empty account to a running cluster with no YAML written by hand: doctor, network, init, create, and back."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.trnctl_runner import NOTICE, SIXTEEN, Ended, Trnctl, sandbox

# ------------------------------------------------------------------------------ without a sandbox, without an account


def test_init_asks_only_where_somebody_can_answer(nowhere: Trnctl, tmp_path: Path) -> None:
    ended = Trnctl(nowhere.folder, where=tmp_path)("init", code=2, target="aws")
    assert "--yes" in ended.talk
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["-y"], []], ids=["yes", "asking"])
def test_init_overwrites_nothing(nowhere: Trnctl, tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "trnctl.yaml"
    path.write_text("mine\n")
    ended = Trnctl(nowhere.folder, where=tmp_path)("init", *words, code=2, target="aws")
    assert "--output-file" in ended.talk
    assert path.read_text() == "mine\n"


def test_doctor_without_credentials_ends_with_5_and_looks_at_the_rest(nowhere: Trnctl) -> None:
    found = nowhere.of(SIXTEEN)("doctor", "-o", "json", code=5, target="aws").json
    codes = {one["code"]: one["level"] for one in found["findings"]}
    assert codes["aws-credentials"] == "error"
    states = {one["name"]: one["state"] for one in found["checks"]}
    assert states["pcluster"] == states["ssh"] == states["node.js"] == "ok"
    assert states["software"] == "info"


def test_doctor_tells_what_is_wrong_with_the_file_and_looks_at_the_rest(nowhere: Trnctl, cluster_file: Path) -> None:
    cluster_file.write_text(SIXTEEN.read_text().replace("us-west-2", "us-wets-2"))
    ended = nowhere.of(cluster_file)("doctor", code=2, target="aws")
    assert "✗ cluster file" in ended.out
    assert f"{cluster_file}:10" in ended.out
    assert "✓ ssh" in ended.out


def test_the_policy_is_json_whether_or_not_json_is_asked_for(nowhere: Trnctl) -> None:
    trnctl = nowhere.of(SIXTEEN)
    said = trnctl("doctor", "--policy", target="aws")
    assert said.json == trnctl("doctor", "--policy", "-o", "json", target="aws").json
    assert said.json["Version"] == "2012-10-17"
    assert "not tried against AWS" in said.talk
    assert "table/parallelcluster-ultra1" in said.out
    anyone = nowhere("doctor", "--policy", "--region", "us-east-2", target="aws")
    assert "table/parallelcluster-*" in anyone.out
    assert "ec2:CreateVpc" in anyone.out


# -------------------------------------------------------------------------------------------------- in the sandbox


@pytest.fixture(scope="module")
def account() -> Iterator[Trnctl]:
    """A sandbox, and commands that run in a folder of their own without a cluster file."""
    with sandbox() as trnctl:
        where = trnctl.folder / "work"
        where.mkdir()
        yield Trnctl(trnctl.folder, where=where)


@pytest.mark.slow
@pytest.mark.sandbox
def test_from_an_empty_account_to_a_cluster_and_back(account: Trnctl) -> None:
    assert account.json("doctor")["findings"] == []
    created = account("network", "create", "-y", "-o", "json")
    network = created.json["network"]
    for words in (NOTICE, "10.0.128.0/20", "not in trnctl's table", "18/18"):
        assert words in created.talk
    assert network["zone"] == "us-west-2d"
    said = account("init", "-y", "--ssh-from", "203.0.113.0/24", "--max-nodes", "4", "-o", "json").json
    # A network that trnctl has made is preferred to those that stand in the account.
    assert (said["head_subnet"], said["compute_subnet"]) == (network["head_subnet"], network["compute_subnet"])
    assert said["key_name"] == "demo-ed25519"
    account("cluster", "create", "-y", timeout=120)
    assert account.json("status")["nodes"] == {"powered-down": 4}
    refused = account("network", "delete", "-y", code=3)
    assert "in use by cluster ultra1" in refused.talk
    account("teardown", "--keep-storage", "-y", timeout=120)
    kept = account("network", "delete", "-y", code=3)
    assert "FSx file system fs-" in kept.talk
    assert "trnctl teardown --cluster ultra1 --delete-storage" in kept.talk
    account("teardown", "--delete-storage", "-y", timeout=120)
    assert account.json("network", "delete", "-y") == {"deleted": "trnctl-network", "left": []}
    assert account.json("network", "show") == {"networks": [], "region": "us-west-2"}
    account("network", "delete", "-y", code=8)


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("words", "code", "promised"),
    [
        (["--zone", "us-west-2a"], 3, "us-west-2a does not offer trn1.32xlarge"),
        (["--instance-type", "trn2.48xlarge"], 3, "--region ap-south-2"),
        (["--cidr", "10.0.0.0/26"], 3, "--cidr 10.0.0.0/25"),
        (["--cidr", "10.0.0.0/8"], 2, "/16 to /28"),
        ([], 2, "add -y"),
    ],
    ids=["zone", "type", "small", "large", "asking"],
)
def test_a_network_that_cannot_be_is_refused_before_anything_is_made(
    account: Trnctl, words: list[str], code: int, promised: str
) -> None:
    assert promised in account("network", "create", *words, code=code).talk
    assert account.json("network", "show")["networks"] == []


@pytest.mark.slow
@pytest.mark.sandbox
def test_init_names_all_that_is_missing(account: Trnctl) -> None:
    ended = account("init", "-y", "--output-file", "nothing.yaml", code=2)
    assert "--ssh-from ADDRESS/32, or --ssm" in ended.talk
    assert account.where is not None
    assert not (account.where / "nothing.yaml").exists()


@pytest.mark.slow
@pytest.mark.sandbox
def test_init_refuses_an_answer_that_would_make_a_bad_file(account: Trnctl) -> None:
    ended = account("init", "-y", "--ssh-from", "everywhere", "--output-file", "bad.yaml", code=2)
    assert "is not an IPv4 CIDR" in ended.talk
    assert account.where is not None
    assert not (account.where / "bad.yaml").exists()


def asked(account: Trnctl, answers: str, *words: str) -> Ended:
    """Run one command with a terminal as its stdin, on which somebody types `answers`."""
    environment = {**account.environment(), "HOME": str(account.folder)}  # no ssh keys of whoever runs the tests
    leader, follower = pty.openpty()
    try:
        os.write(leader, answers.encode())
        done = subprocess.run(
            [sys.executable, "-P", "-m", "trnctl", *words],
            env=environment, cwd=account.where, stdin=follower, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
    finally:
        os.close(leader)
        os.close(follower)
    ended = Ended(words, done.returncode, done.stdout, done.stderr, 0)
    print(ended)
    return ended


@pytest.mark.slow
@pytest.mark.sandbox
def test_init_asks_a_few_questions_and_asks_again_what_cannot_be(account: Trnctl) -> None:
    typed = ["1bad", "asked1", "", "2", "", "", "nowhere", "203.0.113.7/32", "my-trnctl-bucket"]
    ended = asked(account, "".join(f"{line}\n" for line in typed), "init", "--output-file", "asked.yaml")
    assert ended.code == 0
    assert "`1bad` is not a cluster name" in ended.talk
    assert "`nowhere` is not an IPv4 CIDR" in ended.talk
    assert account.where is not None
    written = yaml.safe_load((account.where / "asked.yaml").read_text())["cluster"]
    assert written["name"] == "asked1"
    assert written["queues"][0]["capacity"] == {"reservation": "cr-0aa11bb22cc33dd51"}
    assert written["queues"][0]["compute_resources"][0]["max_count"] == 16
    assert written["head_node"]["ssh_from"] == ["203.0.113.7/32"]
    assert written["bucket"] == "my-trnctl-bucket"


@pytest.mark.slow
@pytest.mark.sandbox
def test_nothing_is_written_when_the_answers_end(account: Trnctl) -> None:
    ended = asked(account, "half\n\x04", "init", "--output-file", "half.yaml")
    assert ended.code == 130
    assert account.where is not None
    assert not (account.where / "half.yaml").exists()


@pytest.mark.slow
@pytest.mark.sandbox
def test_a_network_for_the_fleet_of_a_file(account: Trnctl) -> None:
    made = account("-c", str(SIXTEEN), "network", "create", "-y", "--name", "of-file", "-o", "json").json
    assert made["network"]["name"] == "of-file"
    assert json.loads(account("network", "delete", "of-file", "-y", "-o", "json").out)["left"] == []
