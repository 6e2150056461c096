"""`cluster validate` on files of both kinds, and preflight before a cluster is made: streams, codes, JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.trnctl_runner import SIXTEEN, Trnctl, sandbox
from tests.unit.test_preflight_rules import BASE

CORPUS = Path(__file__).parents[1] / "corpus"
# In the style of the public Trn1 sample: an operating system that is gone, S3Access under the action.
SAMPLE = """\
Region: us-west-2 # i.e., us-west-2
Image:
  Os: ubuntu2004
HeadNode:
  InstanceType: c5.4xlarge
  Networking:
    SubnetId: subnet-0aa11bb22cc33dd41
  Ssh:
    KeyName: demo-ed25519
    AllowedIps: 203.0.113.0/24
  CustomActions:
    OnNodeConfigured:
      Script: s3://neuron-s3/pcluster/post-install-scripts/neuron-installation/v2.6.0/u20/pt/install_neuron.sh
      Iam:
        S3Access:
          - BucketName: neuron-s3
            EnableWriteAccess: false
Scheduling:
  Scheduler: slurm
  SlurmQueues:
    - Name: compute1
      ComputeResources:
        - {Name: i1, InstanceType: trn1.32xlarge, MinCount: 0, MaxCount: 16, Efa: {Enabled: true}}
      Networking:
        SubnetIds: [subnet-0aa11bb22cc33dd42]
        PlacementGroup: {Enabled: true}
"""


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    """The sample, with its two faults."""
    path = tmp_path / "launch.yaml"
    path.write_text(SAMPLE)
    return path


def errors(answer: dict[str, object]) -> list[tuple[str, int]]:
    found = answer["findings"]
    assert isinstance(found, list)
    return [(one["code"], one["line"]) for one in found if one["level"] == "error"]


def test_the_public_sample_names_both_faults_with_lines_and_the_mend(nowhere: Trnctl, launch: Path) -> None:
    ended = nowhere("cluster", "validate", str(launch), code=2, target="aws")
    assert f"{launch}:3:3" in ended.out.replace("\n", "")
    answer = nowhere.json("cluster", "validate", str(launch), code=2)
    assert errors(answer) == [("os-not-supported", 3), ("misplaced-key", 14)]
    remedies = {one["code"]: one["remedy"] for one in answer["findings"]}
    assert "Os: ubuntu2404" in remedies["os-not-supported"]
    assert remedies["misplaced-key"] == "Move it to HeadNode.Iam."
    assert answer["checks"] > 30


def test_the_rules_of_the_version_that_is_named(nowhere: Trnctl, launch: Path) -> None:
    answer = nowhere.json("cluster", "validate", str(launch), "--pcluster-version", "3.12.0", code=2)
    assert errors(answer) == [("misplaced-key", 14)]
    nowhere("cluster", "validate", str(CORPUS / "batch-3-15.yaml"), "--pcluster-version=3.15.0")
    nowhere("cluster", "validate", str(CORPUS / "batch-3-15.yaml"), code=2)


def test_warnings_alone_exit_0_and_errors_can_be_suppressed(nowhere: Trnctl, launch: Path) -> None:
    launch.write_text(BASE.replace(", AllowedIps: 203.0.113.0/24", ""))
    assert "0 errors, 1 warning." in nowhere("cluster", "validate", str(launch)).out
    launch.write_text(BASE.replace(", Efa: {Enabled: true}", ""))
    nowhere("cluster", "validate", str(launch), code=2)
    answer = nowhere.json("cluster", "validate", str(launch), "--suppress", "efa-off-multi-node")
    assert (errors(answer), answer["suppressed"]) == ([], ["efa-off-multi-node"])


def test_the_clusters_name_counts_where_it_is_told(nowhere: Trnctl, launch: Path) -> None:
    launch.write_text(BASE)
    nowhere("cluster", "validate", str(launch))
    answer = nowhere.json(
        "cluster", "validate", str(launch), "--cluster", "a-name-that-is-far-too-long-for-neuron-to-resolve", code=2
    )
    assert [code for code, _ in errors(answer)] == ["fqdn-too-long"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--suppress", "efa-of"], "did you mean efa-off?"),
        (["--pcluster-version", "latest"], "3.14.0"),
        (["missing.yaml"], "cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused(nowhere: Trnctl, launch: Path, words: list[str], said: str) -> None:
    file = [] if words[0] == "missing.yaml" else [str(launch)]
    assert said in nowhere("cluster", "validate", *file, *words, code=2).err


def test_a_cluster_file_that_is_named_is_judged_as_one(nowhere: Trnctl) -> None:
    answer = nowhere.json("cluster", "validate", str(SIXTEEN))
    assert errors(answer) == []
    assert {one["file"] for one in answer["findings"]} == {str(SIXTEEN)}
    assert "fsx-scratch-no-replication" in {one["code"] for one in answer["findings"]}


# ------------------------------------------------------------------------------------------- against the account


@pytest.fixture(scope="module")
def empty() -> Iterator[Trnctl]:
    """A sandbox in which nothing has been made."""
    with sandbox() as trnctl:
        yield trnctl


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("max_count: 16", "max_count: 200", "quota-short"),
        (
            "compute_subnet: subnet-0aa11bb22cc33dd42",
            "compute_subnet: subnet-0aa11bb22cc33dd41",
            "subnet-gives-public-ips",
        ),
        ("compute_subnet: subnet-0aa11bb22cc33dd42", "compute_subnet: subnet-0aa11bb22cc33dd43", "zone-without-type"),
    ],
)
def test_create_refuses_before_anything_is_made(empty: Trnctl, tmp_path: Path, old: str, new: str, code: str) -> None:
    text = SIXTEEN.read_text()
    assert old in text
    changed = tmp_path / "trnctl.yaml"
    changed.write_text(text.replace(old, new))
    trnctl = empty.of(changed)
    ended = trnctl("cluster", "create", "-y", code=3, timeout=60)
    assert f"[{code}]" in ended.err
    assert "nothing was made" in ended.err
    assert trnctl.json("cluster", "list")["clusters"] == []


@pytest.mark.sandbox
def test_validate_online_asks_the_account_and_parallelcluster(empty: Trnctl, tmp_path: Path) -> None:
    answer = empty.json("cluster", "validate", "--online", timeout=60)
    assert errors(answer) == []
    assert "not-checked" not in {one["code"] for one in answer["findings"]}
    launch = tmp_path / "launch.yaml"
    launch.write_text(BASE.replace("demo-ed25519", "nobody").replace("cc33dd42", "cc33dd43"))
    answer = empty.json("cluster", "validate", str(launch), "--online", code=2, timeout=60)
    assert {code for code, _ in errors(answer)} >= {"key-not-found", "zone-without-type"}
