"""The doctor: what it finds on a machine, what it cannot look at, and with which exit code it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import ScriptedShell, World
from trnctl.actions import doctor
from trnctl.actions.doctor import Check, examine, verdict
from trnctl.codes import CODES
from trnctl.errors import CloudError, CloudUnreachable, ToolError, ToolMissing, WaitedTooLong
from trnctl.findings import Finding
from trnctl.specs.cluster import ClusterSpec, HeadNode
from trnctl.specs.loading import load_cluster_file
from trnctl.specs.pcluster_faults import FAULTS, known_faults

EXAMPLE = Path(__file__).parents[2] / "examples" / "trn1-16-nodes.yaml"
MISSING = ToolMissing("It is not installed.", remedy="Install it.", program="x")


@pytest.fixture
def spec() -> ClusterSpec:
    """The walk-through's cluster, of ParallelCluster 3.16.1."""
    return load_cluster_file(EXAMPLE.read_text(), str(EXAMPLE)).cluster


@pytest.fixture
def world() -> World:
    """An account, and a machine that tests give its tools."""
    return World()


def equipped(shell: ScriptedShell, *, pcluster: str = "3.16.1", node: str = "v22.11.0") -> None:
    """A machine that has everything."""
    shell.on("pcluster", "version", stdout=f'{{\n  "version": "{pcluster}"\n}}\n')
    shell.on("node", "--version", stdout=f"{node}\n")
    shell.on("ssh", "-V", stderr="OpenSSH_9.2p1 Debian-2, OpenSSL 3.0.15\n")


def codes(checks: list[Check]) -> dict[str, str]:
    """The codes that were found, with their levels."""
    return {finding.code: finding.level for check in checks for finding in check.findings}


def by_name(checks: list[Check]) -> dict[str, Check]:
    """The checks by their names."""
    return {check.name: check for check in checks}


def test_a_machine_that_has_everything(world: World, spec: ClusterSpec) -> None:
    equipped(world.local)
    checks = examine(world.services(), "us-west-2", spec)
    assert verdict(checks) == 0
    assert codes(checks) == {"trn1-stack-frozen": "info"}
    found = {name: check.found for name, check in by_name(checks).items()}
    assert found["pcluster"] == "3.16.1"
    assert found["node.js"] == "22.11.0"
    assert found["ssh"] == "OpenSSH_9.2p1 Debian-2"
    assert found["credentials"] == "account 123456789012, user/ada"
    assert found["region"] == "us-west-2"
    assert found["software"] == "ubuntu2404, Neuron 2.31.1"
    world.local.complain()


def test_without_a_cluster_file_the_rest_is_looked_at(world: World) -> None:
    equipped(world.local)
    checks = by_name(examine(world.services(), "us-west-2", None))
    assert not checks["software"].done
    assert "no cluster file" in checks["software"].found
    assert checks["pcluster"].found == "3.16.1"


def test_offline_it_says_what_it_could_not_check(world: World, spec: ClusterSpec) -> None:
    equipped(world.local)
    world.account.denied = CloudUnreachable("AWS could not be reached.", remedy="Check the network.")
    checks = examine(world.services(), None, spec)
    assert verdict(checks) == 0
    assert not by_name(checks)["credentials"].done
    assert codes(checks)["aws-unreachable"] == "warning"
    assert codes(checks)["no-region"] == "warning"


def test_credentials_that_aws_refuses_end_with_5(world: World, spec: ClusterSpec) -> None:
    equipped(world.local)
    world.account.denied = CloudError("The AWS credentials have expired.", remedy="Renew them.")
    checks = examine(world.services(), "us-west-2", spec)
    assert codes(checks)["aws-credentials"] == "error"
    assert verdict(checks) == 5


@pytest.mark.parametrize(
    ("look", "code"), [(doctor.node, "node-missing"), (doctor.ssh, "ssh-missing")], ids=["node", "ssh"]
)
def test_a_missing_tool_ends_with_4(world: World, look: Callable[..., Check], code: str) -> None:
    world.local.on(error=MISSING)
    check = look(world.services())
    [finding] = check.findings
    assert (finding.code, finding.level, check.exit_code) == (code, "error", 4)
    assert finding.remedy != MISSING.remedy


def test_a_missing_pcluster_names_the_version_to_install(world: World, spec: ClusterSpec) -> None:
    world.local.on("pcluster", error=MISSING)
    [finding] = doctor.pcluster(world.services(), spec).findings
    assert finding.code == "pcluster-missing"
    assert "aws-parallelcluster==3.16.1" in finding.remedy


def test_a_pcluster_of_another_version_is_an_error_when_the_file_names_one(world: World, spec: ClusterSpec) -> None:
    world.local.on("pcluster", stdout='{"version": "3.16.3"}', times=2)
    [finding] = doctor.pcluster(world.services(), spec).findings
    assert (finding.code, finding.level, finding.path) == (
        "pcluster-other-version",
        "error",
        "cluster.pcluster.version",
    )
    assert doctor.pcluster(world.services(), None).findings == ()


def test_a_pcluster_behind_other_lines_is_understood(world: World) -> None:
    world.local.on("pcluster", stdout='a warning\n{"version": "3.16.1"}\n')
    assert doctor.pcluster(world.services(), None).found == "3.16.1"


@pytest.mark.parametrize("answer", ["", "3.16.1", "{}", "[1]", "{"])
def test_a_pcluster_that_tells_no_version_is_broken(world: World, answer: str) -> None:
    world.local.on("pcluster", stdout=answer, stderr="No module named 'flask'\n")
    [finding] = doctor.pcluster(world.services(), None).findings
    assert finding.code == "pcluster-broken"
    assert "No module named 'flask'" in finding.message


def test_a_pcluster_that_hangs_is_told_as_such(world: World) -> None:
    world.local.on("pcluster", error=WaitedTooLong("It did not finish.", remedy="Look where it waits."))
    check = doctor.pcluster(world.services(), None)
    assert (check.found, check.findings[0].remedy) == ("no answer", "Look where it waits.")


@pytest.mark.parametrize(
    ("version", "level"),
    [("v8.17.0", "error"), ("v10.12.0", "error"), ("v10.13.0", "warning"), ("v18.20.1", "warning"), ("v20.0.0", None)],
)
def test_old_node(world: World, version: str, level: str | None) -> None:
    world.local.on("node", stdout=f"{version}\n")
    assert doctor.node(world.services()).level == level


def test_session_manager_is_looked_for_where_the_file_wants_it(world: World, spec: ClusterSpec) -> None:
    for only_ssm, level in ((True, "error"), (False, "warning")):
        head = HeadNode(ssm=True, ssh_from=() if only_ssm else ("203.0.113.0/24",))
        with ScriptedShell() as shell:
            equipped(shell)
            shell.on("aws", "--version", stdout="aws-cli/2.17.1 Python/3.12\n")
            shell.on("session-manager-plugin", "--version", error=MISSING)
            checks = examine(
                replace(world.services(), local=shell), "us-west-2", replace(spec, head_node=head)
            )  # fmt: skip
        assert codes(checks)["session-manager-plugin-missing"] == level
        assert "aws-cli-missing" not in codes(checks)


def test_a_region_that_pclusters_list_lacks(world: World) -> None:
    assert [one.code for one in doctor.place("ap-southeast-4").findings] == ["region-not-in-pcluster"]
    assert doctor.place("us-west-2").findings == ()


def test_a_pair_that_cannot_work_ends_with_2(spec: ClusterSpec) -> None:
    check = doctor.software(replace(spec, os="alinux2023"))
    assert "os-no-torch-xla" in [one.code for one in check.findings]
    assert verdict([check]) == 2


def test_trn2_alone_is_not_told_of_trn1s_end(spec: ClusterSpec) -> None:
    queue = spec.queues[0]
    resource = replace(queue.compute_resources[0], instance_type="trn2.48xlarge")
    trn2 = replace(spec, queues=(replace(queue, compute_resources=(resource,)),))
    assert "trn1-stack-frozen" not in [one.code for one in doctor.software(trn2).findings]


def test_the_exit_code_is_that_of_the_worst_check() -> None:
    error, warning = Finding("a", "error", "", ""), Finding("b", "warning", "", "")
    aws, tool = Check("aws", "", (error,), exit_code=5), Check("tool", "", (error,))
    file = Check("file", "", (warning,), exit_code=2)
    assert verdict([aws, tool, file]) == ToolError.exit_code
    assert verdict([aws, file]) == 5
    assert verdict([file]) == 0


# ---------------------------------------------------------------------------------- known faults of pcluster


@pytest.mark.parametrize(
    ("version", "number", "has"),
    [
        ("3.14.0", "#7095", True),
        ("3.14.1", "#7095", False),
        ("3.9.0", "#6211", True),
        ("3.9.1", "#6211", False),
        ("3.8.0", "#6870", True),
        ("3.13.2", "#6870", False),
        ("3.16.0", "#7601", True),
        ("3.16.1", "#7601", False),
    ],
)
def test_a_known_fault_meets_its_releases_and_no_others(version: str, number: str, has: bool) -> None:
    assert any(number in finding.evidence for finding in known_faults(version)) is has


def test_the_default_release_has_no_known_fault_on_ubuntu() -> None:
    assert known_faults("3.16.1", "ubuntu2404") == []
    assert [finding.code for finding in known_faults("3.16.1", "rocky9")] == ["pcluster-known-issue"]
    assert known_faults("unknown") == []


def test_every_fault_has_a_source_and_an_end_after_its_beginning() -> None:
    for fault in FAULTS:
        assert fault.source
        assert fault.last is None or fault.first <= fault.last


def test_every_code_of_doctor_is_documented() -> None:
    from trnctl.codes.machine import MACHINE

    assert {row[0] for row in MACHINE} <= CODES.keys()
    text = Path(doctor.__file__).read_text()
    assert all(f'"{code}"' in text for code, *_ in MACHINE)
