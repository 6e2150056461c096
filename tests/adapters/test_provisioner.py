"""The Provisioner: in memory, and pcluster's over what the real pcluster printed."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.adapters.replayed_pcluster import ReplayedPcluster, recorded
from tests.contracts.provisioner import ProvisionerBench, ProvisionerContract
from tests.fakes import InMemoryCloud, InMemoryProvisioner, ScriptedShell
from trnctl.adapters.local_shell import LocalShell
from trnctl.adapters.pcluster import PclusterProvisioner
from trnctl.adapters.pcluster_answers import code_of, image_of
from trnctl.errors import (
    CloudError,
    CloudUnreachable,
    NameTaken,
    NotFoundError,
    RefusedError,
    ThrottledError,
    ToolError,
    ToolMissing,
    TrnctlError,
    UsageError,
    WaitedTooLong,
)
from trnctl.findings import Finding
from trnctl.ports import Change, Provisioner

MAX_COUNT = "Scheduling.SlurmQueues[compute1].ComputeResources[queue1-i1].MaxCount"


class MemoryBench:
    """The provisioner in memory."""

    good, bad, larger = "good", "bad", "larger"

    def __init__(self) -> None:
        self._memory = _Judging(InMemoryCloud())
        self.provisioner: Provisioner = self._memory

    def settle(self, name: str) -> None:
        """Let time pass."""
        self._memory.cloud.clock.wind(3600)


class _Judging(InMemoryProvisioner):
    """Looks at the document where a test of an action would set the verdict."""

    def create(self, name: str, document: str, *, keep_failed: bool = False) -> None:
        self._judge(name, document)
        super().create(name, document, keep_failed=keep_failed)

    def build_image(self, name: str, document: str) -> list[Finding]:
        self._judge(name, document)
        return super().build_image(name, document)

    def check(self, name: str, document: str) -> list[Finding]:
        self._judge(name, document)
        return super().check(name, document)

    def update(self, name: str, document: str) -> list[Change]:
        self._judge(name, document)
        return super().update(name, document)

    def check_update(self, name: str, document: str) -> tuple[list[Change], list[Finding]]:
        self._judge(name, document)
        return super().check_update(name, document)

    def _judge(self, name: str, document: str) -> None:
        self.findings = [Finding("bad", "error", "It is bad.", "Make it good.")] if document == "bad" else []
        self.changes = [Change(MAX_COUNT, "16", "20")] if document != self.documents.get(name, document) else []


class ReplayBench:
    """pcluster's adapter over recordings."""

    good, bad, larger = "Region: us-west-2 # good\n", "Region: us-west-2 # bad\n", "Region: us-west-2 # larger\n"

    def __init__(self) -> None:
        self._shell = ReplayedPcluster()
        self.provisioner: Provisioner = PclusterProvisioner(self._shell, region="us-west-2")

    def settle(self, name: str) -> None:
        """A stack that was going is gone."""
        for going in self._shell.going:
            self._shell.clusters.pop(going, None)
            self._shell.images.pop(going, None)
        self._shell.images = dict.fromkeys(self._shell.images, "image-describe")


class TestInMemory(ProvisionerContract):
    """The fake keeps its promises."""

    @pytest.fixture
    def bench(self) -> ProvisionerBench:
        return MemoryBench()


class TestPcluster(ProvisionerContract):
    """The adapter reads what the real pcluster prints."""

    @pytest.fixture
    def bench(self) -> ProvisionerBench:
        return ReplayBench()


def provisioner(shell: ScriptedShell, *, version: str = "") -> PclusterProvisioner:
    """The adapter over a scripted shell."""
    return PclusterProvisioner(shell, region="us-west-2", version=version)


def answering(shell: ScriptedShell, command: str, name: str) -> PclusterProvisioner:
    """The adapter, with one recorded answer."""
    found = recorded(name)
    shell.on("pcluster", command, stdout=found.stdout, stderr=found.stderr, returncode=found.returncode)
    return provisioner(shell)


def test_the_schema_is_read_place_by_place() -> None:
    with ScriptedShell() as shell:
        found = answering(shell, "create-cluster", "create-bad-schema").check("demo", "x")
    places = {finding.path: finding.message for finding in found}
    assert places["Scheduling.SlurmQueues[0].Networking.PlacementGroups"] == "Unknown field."
    assert places["Image.Os"].startswith("Must be one of: alinux2023")
    assert {finding.code for finding in found} == {"pcluster-config-schema"}


def test_validators_become_codes_and_remedies() -> None:
    with ScriptedShell() as shell, pytest.raises(RefusedError, match="2 errors") as caught:
        answering(shell, "create-cluster", "create-bad-values").create("demo", "x")
    by_code = {finding.code: finding for finding in caught.value.findings}
    assert by_code["pcluster-fsx-storage-capacity"].remedy == "Set capacity_gib to 1200, 2400, or a multiple of 2400."
    assert (by_code["pcluster-efa"].level, by_code["pcluster-deletion-policy"].level) == ("error", "info")


@pytest.mark.parametrize(
    ("validator", "code"),
    [
        ("FsxS3Validator", "pcluster-fsx-s3"),
        ("InstancesEFAValidator", "pcluster-instances-efa"),
        ("EfaOsArchitectureValidator", "pcluster-efa-os-architecture"),
        ("AmiOsCompatibleValidator", "pcluster-ami-os-compatible"),
    ],
)
def test_codes_of_validators(validator: str, code: str) -> None:
    assert code_of(validator) == code


def test_a_dry_run_that_passes_exits_1() -> None:
    assert recorded("create-dryrun").returncode == 1
    with ScriptedShell() as shell:
        found = answering(shell, "create-cluster", "create-dryrun").check("demo", "x")
    assert [(finding.code, finding.level) for finding in found] == [("pcluster-deletion-policy", "info")]


def test_an_update_that_needs_the_fleet_stopped() -> None:
    with ScriptedShell() as shell, pytest.raises(RefusedError, match="must be stopped") as caught:
        answering(shell, "update-cluster", "update-refused").update("demo", "x")
    assert "trnctl cluster fleet stop" in caught.value.remedy
    [finding] = caught.value.findings
    assert (finding.path, finding.evidence) == (MAX_COUNT, "16 → 4")
    with ScriptedShell() as shell:
        changes, findings = answering(shell, "update-cluster", "update-refused-dryrun").check_update("demo", "x")
    assert changes == [Change(MAX_COUNT, "16", "4")]
    assert [finding.level for finding in findings] == ["error"]


@pytest.mark.parametrize(
    ("name", "kind", "message", "remedy"),
    [
        ("list-expired", CloudError, "have expired", "aws sso login"),
        ("list-no-credentials", CloudError, "no AWS credentials", "aws configure"),
        ("list-no-profile", CloudError, "profile does not exist", "--profile"),
        ("list-no-region", CloudError, "no AWS region", "--region"),
        ("list-unreachable", CloudUnreachable, "could not be reached", "trnctl sandbox up"),
        ("list-throttled", ThrottledError, "throttles", "Wait a minute"),
        ("list-denied", CloudError, r"\(cloudformation:DescribeStacks\)", "permission cloudformation:DescribeStacks"),
        ("list-query", ToolError, "fatal exception", "pcluster-cli.log"),
        ("usage", ToolError, "does not understand", "trnctl doctor"),
        ("create-no-node", ToolError, "node", "Install node.js 20"),
        ("create-old-node", ToolError, "requires Node.js", "Install node.js 20"),
        ("create-bad-name", UsageError, "1bad", "trnctl.yaml"),
        ("create-region", UsageError, "region is set in both", "Use the region of the file"),
        ("describe-missing", NotFoundError, "does not exist", "trnctl cluster list"),
        ("create-again", NameTaken, "already exists", "follows a creation to its end"),
        ("update-twice", RefusedError, "UPDATE_IN_PROGRESS", "waits for that one"),
        ("image-describe-missing", NotFoundError, "No image or stack", "trnctl image list"),
        ("image-build-again", RefusedError, "already exists", "trnctl image build again"),
        ("image-build-bad", RefusedError, "security groups is required", "--subnet and --security-group"),
    ],
)
def test_failures_of_the_real_pcluster(name: str, kind: type[TrnctlError], message: str, remedy: str) -> None:
    with ScriptedShell() as shell, pytest.raises(kind, match=f"(?i){message}") as caught:
        answering(shell, "list-clusters", name).clusters()
    assert remedy in caught.value.remedy
    assert type(caught.value) is kind


def test_noise_before_the_answer_does_no_harm() -> None:
    answer = recorded("list")
    with ScriptedShell() as shell:
        shell.on("list-clusters", stdout="a warning\n{not json}\n" + answer.stdout, stderr="!! Node 20 !!\n")
        with pytest.raises(ToolError, match="no answer"):
            provisioner(shell).clusters()
        shell.on("list-clusters", stdout="a warning\n" + answer.stdout, stderr="!! Node 20 !!\n")
        assert [row.name for row in provisioner(shell).clusters()] == ["demo"]


def test_a_traceback_gives_its_last_line() -> None:
    last = "AttributeError: module 'flask.json' has no attribute 'JSONEncoder'"
    crash = f"Traceback (most recent call last):\n  File …\n{last}\n"
    with ScriptedShell() as shell:
        shell.on("list-clusters", returncode=1, stderr=crash)
        with pytest.raises(ToolError, match=r"crashed: AttributeError: module 'flask\.json'") as caught:
            provisioner(shell).clusters()
    assert "virtual environment" in caught.value.remedy


def test_pages_are_put_together() -> None:
    page = json.loads(recorded("list").stdout)
    with ScriptedShell() as shell:
        shell.on("list-clusters", "--next-token", "abc", stdout=json.dumps(page))
        shell.on("list-clusters", stdout=json.dumps({**page, "nextToken": "abc"}))
        assert len(provisioner(shell).clusters()) == 2


def test_events_come_oldest_first_and_in_utc() -> None:
    with ScriptedShell() as shell:
        events = answering(shell, "get-cluster-stack-events", "events-creating").events("demo")
    assert events[0].at == datetime(2026, 11, 29, 15, 37, 47, 109000, UTC)
    assert events[-1].status == "CREATE_COMPLETE"


def test_another_version_than_the_file_asks_for() -> None:
    with ScriptedShell() as shell:
        shell.on("pcluster", "version", stdout=recorded("version").stdout)
        with pytest.raises(ToolError, match=r"3\.16\.1, but trnctl\.yaml asks for 3\.15\.0") as caught:
            provisioner(shell, version="3.15.0").create("demo", "x")
    assert "aws-parallelcluster==3.15.0" in caught.value.remedy


def test_the_version_is_asked_once() -> None:
    with ScriptedShell() as shell:
        shell.on("pcluster", "version", stdout=recorded("version").stdout)
        found = answering(shell, "create-cluster", "create-dryrun")
        same = PclusterProvisioner(shell, region="us-west-2", version="3.16.1")
        assert (same.version(), same.version()) == ("3.16.1", "3.16.1")
        assert found.check("demo", "x")


def test_no_pcluster_at_all() -> None:
    with pytest.raises(ToolMissing, match="pcluster") as caught:
        PclusterProvisioner(LocalShell({}, path="/nonexistent"), region="us-west-2", version="3.16.1").version()
    assert "pip install aws-parallelcluster==3.16.1" in caught.value.remedy


def test_a_pcluster_that_hangs() -> None:
    with ScriptedShell() as shell:
        shell.on("describe-cluster", error=WaitedTooLong("pcluster did not finish.", remedy="Again."))
        with pytest.raises(WaitedTooLong):
            provisioner(shell).describe("demo")


def test_the_document_is_handed_over_whole_and_then_removed() -> None:
    shell = ReplayedPcluster()
    PclusterProvisioner(shell, region="us-west-2").create("demo", "Tags: ü 'x'\n")
    assert shell.clusters == {"demo": "Tags: ü 'x'\n"}
    path = dict(zip(shell.calls[-1][2::2], shell.calls[-1][3::2], strict=True))["--cluster-configuration"]
    with pytest.raises(FileNotFoundError):
        open(path)  # noqa: PTH123, SIM115  it must not be there


def test_what_a_failure_leaves_is_kept_when_that_is_asked_for() -> None:
    shell = ReplayedPcluster()
    PclusterProvisioner(shell, region="us-west-2").create("demo", "x", keep_failed=True)
    words = dict(zip(shell.calls[-1][2::2], shell.calls[-1][3::2], strict=True))
    assert words["--rollback-on-failure"] == "false"


def test_fleet_words() -> None:
    with ScriptedShell() as shell:
        answering(shell, "update-compute-fleet", "fleet-stop").set_fleet("demo", running=False)
        answering(shell, "update-compute-fleet", "fleet-stop").set_fleet("demo", running=True)
    assert [call.argv[-3] for call in shell.calls] == ["STOP_REQUESTED", "START_REQUESTED"]


def test_an_image_that_could_not_be_built() -> None:
    with ScriptedShell() as shell:
        found = answering(shell, "describe-image", "image-describe-failed").describe_image("demo")
    assert (found.state, found.ami) == ("failed", "")
    assert found.reason.startswith("The following resource(s) failed to create: [ParallelClusterImage]")
    assert found.log == "/aws/imagebuilder/ParallelClusterImage-broken"
    assert found.began == datetime(2026, 11, 30, 0, 32, 26, 733000, UTC)


@pytest.mark.parametrize("info", [None, {"amiId": "ami-1", "state": "PENDING"}])
def test_a_build_is_over_when_its_ami_can_be_used(info: dict[str, str] | None) -> None:
    row = {"imageId": "demo", "imageBuildStatus": "BUILD_COMPLETE", **({"ec2AmiInfo": info} if info else {})}
    assert image_of(row).state == "building"
