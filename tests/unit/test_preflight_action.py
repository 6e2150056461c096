"""Preflight as create, update and validate run it: on doors in memory, with findings at the cluster file's lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import World
from tests.unit.test_preflight_rules import BASE
from trnctl.actions.preflight import of_cluster, of_text, refuse
from trnctl.actions.validate import validate
from trnctl.errors import RefusedError, UsageError
from trnctl.findings import Finding
from trnctl.ports import KeyPair, Services
from trnctl.preflight.account import ON_DEMAND_TRN
from trnctl.preflight.mapped import mapped
from trnctl.specs.cluster import ClusterFile
from trnctl.specs.loading import load_cluster_file

FILE = "trnctl.yaml"
TEXT = """\
cluster:
  name: demo
  region: us-west-2
  network: {head_subnet: subnet-0aa11bb22cc33dd41, compute_subnet: subnet-0aa11bb22cc33dd42}
  head_node:
    key_name: demo-ed25519
    ssh_from: [203.0.113.0/24]
  queues:
    - name: compute1
      compute_resources:
        - {name: i1, instance_type: trn1.32xlarge, max_count: 4}
  storage:
    - fsx: {mount: /fsx, capacity_gib: 1200}
"""


def loaded(text: str = TEXT) -> ClusterFile:
    return load_cluster_file(text, FILE)


@pytest.fixture
def world() -> World:
    """An account with what the file names."""
    world = World()
    world.account.has_network()
    world.account.keys.append(KeyPair("demo-ed25519", "ed25519"))
    others = ("c5.4xlarge", "c5.large", "m5.large")
    world.account.offers["us-west-2"] |= {name: ["us-west-2d"] for name in others}
    world.account.surveyed = replace(world.account.surveyed, quotas={ON_DEMAND_TRN: 512.0})
    return world


def codes(findings: tuple[Finding, ...], level: str = "error") -> list[str]:
    return [finding.code for finding in findings if finding.level == level]


def test_a_good_cluster_passes_and_its_checks_are_counted(world: World) -> None:
    alone = of_cluster(loaded().cluster, TEXT, FILE)
    asked = of_cluster(loaded().cluster, TEXT, FILE, services=world.services())
    assert (alone.errors, asked.errors) == ([], [])
    assert asked.checks > alone.checks > 30
    refuse(asked, "demo")


def test_a_quota_below_the_fleet_refuses_before_anything_is_made(world: World) -> None:
    world.account.surveyed = replace(world.account.surveyed, quotas={ON_DEMAND_TRN: 256.0})
    checked = of_cluster(loaded().cluster, TEXT, FILE, services=world.services())
    assert codes(checked.findings) == ["quota-short"]
    assert (checked.errors[0].path, checked.errors[0].line) == ("cluster.queues", 8)
    with pytest.raises(RefusedError, match="nothing was made") as refused:
        refuse(checked, "demo")
    assert refused.value.exit_code == 3
    assert codes(refused.value.findings) == ["quota-short"]
    assert world.provisioner.documents == {}


def test_a_suppressed_code_does_not_count_but_is_remembered(world: World) -> None:
    world.account.surveyed = replace(world.account.surveyed, quotas={ON_DEMAND_TRN: 256.0})
    checked = of_cluster(loaded().cluster, TEXT, FILE, services=world.services(), suppressed=["quota-short", "cidr"])
    assert checked.errors == []
    assert checked.suppressed == ("quota-short",)
    assert checked.as_json()["suppressed"] == ["quota-short"]


def test_what_parallelcluster_says_is_added_once(world: World) -> None:
    world.account.keys[0] = KeyPair("demo-ed25519", "rsa")
    world.provisioner.findings = [
        Finding("pcluster-key-pair", "error", "ubuntu2404 does not support RSA keys.", "Change it."),
        Finding("pcluster-role", "error", "The role does not exist.", "Change it in trnctl.yaml."),
    ]
    checked = of_cluster(loaded().cluster, TEXT, FILE, services=world.services())
    assert sorted(codes(checked.findings)) == ["key-type", "pcluster-role"]
    of_any = of_text(BASE, "launch.yaml", services=lambda region: world.services())
    [role] = [finding for finding in of_any.findings if finding.code == "pcluster-role"]
    assert (role.file, role.remedy) == ("launch.yaml", "Change in the file what it names.")


def test_a_cluster_that_stands_is_not_dry_run_as_a_new_one(world: World) -> None:
    world.provisioner.findings = [Finding("pcluster-role", "error", "The role does not exist.", "Change it.")]
    checked = of_cluster(loaded().cluster, TEXT, FILE, services=world.services(), stands=True)
    assert checked.errors == []


def test_the_file_of_a_cluster_that_stands_can_be_validated(world: World) -> None:
    """ParallelCluster's dry run of a creation refuses the name; of the file it has something to say all the same."""
    world.cloud.has_cluster("demo")
    world.provisioner.findings = [Finding("pcluster-role", "error", "The role does not exist.", "Change it.")]
    checked = validate(loaded, lambda _: {}, lambda _: world.services(), source=TEXT)
    assert codes(checked.findings) == ["pcluster-role"]


def test_a_file_with_errors_is_not_asked_about(world: World) -> None:
    world.account.denied = RefusedError("asked", remedy="do not")
    bad = TEXT.replace("max_count: 4", "max_count: 4, efa: false")
    with pytest.raises(UsageError):
        loaded(bad)
    checked = validate(lambda: loaded(bad), lambda file: {}, lambda spec: world.services(), source=bad)
    assert codes(checked.findings) == ["efa-off-multi-node"]
    broken = of_text(BASE.replace("Efa: {Enabled: true}", "Efa: true"), "x", services=lambda region: world.services())
    assert "wrong-type" in codes(broken.findings)


def test_the_region_of_a_file_decides_where_is_asked(world: World) -> None:
    regions: list[str] = []

    def services(region: str) -> Services:
        regions.append(region)
        return world.services()

    checked = of_text(BASE, "launch.yaml", cluster="demo", services=services)
    assert regions == ["us-west-2"]
    assert checked.errors == []


# ------------------------------------------------------------------------------- back at the lines of trnctl.yaml


@pytest.mark.parametrize(
    ("path", "expected", "line"),
    [
        (
            "Scheduling.SlurmQueues[0].ComputeResources[0].MaxCount",
            "cluster.queues[0].compute_resources[0].max_count",
            11,
        ),
        ("Scheduling.SlurmQueues[0].ComputeResources[0].Efa.Enabled", "cluster.queues[0].compute_resources[0].efa", 11),
        ("Scheduling.SlurmQueues[0].Networking.SubnetIds[0]", "cluster.network.compute_subnet", 4),
        ("Scheduling.SlurmQueues[0].JobExclusiveAllocation", "cluster.queues[0]", 9),
        ("Scheduling.SlurmQueues", "cluster.queues", 8),
        ("HeadNode.Ssh.KeyName", "cluster.head_node.key_name", 6),
        ("HeadNode.Networking.ElasticIp", "cluster.head_node.elastic_ip", 5),
        ("SharedStorage[0].FsxLustreSettings.StorageCapacity", "cluster.storage[0]", 13),
        ("Image.Os", "cluster.os", 1),
        ("Monitoring.Alarms", "Monitoring.Alarms", 1),
    ],
)
def test_a_rendered_path_is_brought_back(path: str, expected: str, line: int) -> None:
    [finding] = mapped([Finding("x", "error", "m", "r", path=path, line=99)], TEXT, FILE)
    assert (finding.path, finding.line, finding.file) == (expected, line, FILE)


def test_every_finding_of_the_examples_has_a_line_of_its_file() -> None:
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*.yaml")):
        text = path.read_text()
        file = load_cluster_file(text, path.name)
        checked = of_cluster(file.cluster, text, path.name, said=file.findings)
        assert checked.errors == [], path.name
        for finding in checked.findings:
            assert finding.file == path.name
            assert finding.line is not None
            assert 0 < finding.line <= text.count("\n")


def test_extra_is_judged_too_and_the_loader_is_not_repeated() -> None:
    text = TEXT + "  extra:\n    HeadNode: {Ssh: {AllowedIps: 0.0.0.0/0}}\n    Efa: {Enabled: true}\n"
    checked = of_cluster(loaded(text).cluster, text, FILE, said=loaded(text).findings)
    assert codes(checked.findings) == ["misplaced-key"]
    assert "ssh-from-anywhere" in codes(checked.findings, "warning")
    long = TEXT.replace("name: demo", f"name: {'d' * 50}")
    checked = of_cluster(loaded(long).cluster, long, FILE, said=loaded(long).findings)
    assert [code for code in codes(checked.findings, "warning") if "name" in code] == ["node-name-long"]
    assert not [code for code in codes(checked.findings) if "fqdn" in code]
