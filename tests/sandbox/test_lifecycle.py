"""The sandbox as a whole: up, down, two at once, what a dead world leaves, and a plain user."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.machines_fakes import eventually
from trnctl.errors import ToolError, UsageError
from trnctl.sandbox import faults, lifecycle
from trnctl.sandbox.aws.environment import pcluster_environment
from trnctl.sandbox.home import Sandbox, home_folder, mount_prefix, read
from trnctl.sandbox.processes import Process, Register, process, with_environment, written

needs_slurm = pytest.mark.skipif(
    bool(lifecycle.missing_tools()), reason=f"missing on this machine: {', '.join(lifecycle.missing_tools())}"
)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that does not exist yet; brought down at the end, whatever the test did."""
    folder = Path(tempfile.mkdtemp(prefix="trnctl-test-"))
    yield folder / "home"
    lifecycle.down(folder / "home")
    shutil.rmtree(folder)


def living(home: Path) -> list[Process]:
    return [each for each in written(home / "processes.jsonl") if each.alive]


# ------------------------------------------------------------------------------------------ pure


def test_the_home_follows_the_environment() -> None:
    assert home_folder({"TRNCTL_SANDBOX_HOME": "/s", "HOME": "/u"}) == Path("/s")
    assert home_folder({"XDG_STATE_HOME": "/x", "HOME": "/u"}) == Path("/x/trnctl/sandbox")
    assert home_folder({"HOME": "/u"}) == Path("/u/.local/state/trnctl/sandbox")
    assert mount_prefix(Path("/s"), "one") == "/s/clusters/one/root"


def test_nothing_is_up_in_a_home_without_a_world(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    assert lifecycle.status(tmp_path / "none") is None
    assert lifecycle.down(tmp_path / "none") == []


def test_a_pid_that_was_used_again_is_not_the_world(tmp_path: Path) -> None:
    me = process(os.getpid())
    assert me is not None
    content = {
        "pid": me.pid, "started": me.started - 1, "endpoint": "http://127.0.0.1:1", "region": "us-west-2",
        "account": "1", "runtime": "/r", "options": {},
    }  # fmt: skip
    (tmp_path / "sandbox.json").write_text(json.dumps(content))
    found = read(tmp_path)
    assert found is not None
    assert not found.alive
    assert lifecycle.status(tmp_path) is None  # it would ask a port that nobody serves
    (tmp_path / "sandbox.json").write_text(json.dumps({**content, "started": me.started}))
    again = read(tmp_path)
    assert again is not None
    assert again.alive


def test_what_is_missing_is_named_with_the_lines_that_install_it() -> None:
    lifecycle.require_tools([])
    with pytest.raises(ToolError) as slurm:
        lifecycle.require_tools(["slurmctld"])
    assert "slurmctld" in slurm.value.message
    assert slurm.value.remedy == (
        "Install with: sudo apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge"
        " openssh-server openssh-client"
    )
    with pytest.raises(ToolError) as moto:
        lifecycle.require_tools(["moto"])
    assert moto.value.remedy == "Install with: pip install 'trnctl[sandbox]'"
    with pytest.raises(ToolError) as both:
        lifecycle.require_tools(["sshd", "pcluster"])
    assert "apt-get" in both.value.remedy
    assert "pip install" in both.value.remedy


@pytest.mark.parametrize("name", ["with blank", "quote'd", "100%", "dollar$"])
def test_a_path_that_slurm_cannot_take_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="blanks"):
        lifecycle.up(tmp_path / name)
    assert not (tmp_path / name).exists()


@needs_slurm
def test_a_folder_of_the_users_own_is_neither_taken_nor_emptied(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "precious").write_text("mine")
    with pytest.raises(UsageError, match="holds something else"):
        lifecycle.up(tmp_path)
    with pytest.raises(UsageError, match="not a sandbox's home"):
        lifecycle.down(tmp_path)
    assert (tmp_path / "keys" / "precious").read_text() == "mine"


def test_faults_need_a_sandbox_and_a_name(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="not up"):
        faults.set_fault(tmp_path, "throttling")
    with pytest.raises(UsageError) as unknown:
        faults.set_fault(tmp_path, "trottling")
    assert unknown.value.remedy == "Did you mean throttling?"
    promised = {
        "compile-failure", "compile-failure-exit-0", "training-crash", "insufficient-capacity",
        "head-bootstrap-timeout", "throttling", "expired-token", "delete-failed", "node-death", "clear",
        "first-node-death",
        "partial-capacity", "slow-stack", "head-recipe-failed", "head-script-failed", "head-script-missing",
        "head-image-mismatch", "head-mount-failed", "slurmctld-down", "ssh-drop", "zombie-node", "protected-mode",
        "full-disk", "compile-killed", "hung-collective", "hardware-error", "image-build-failed",
    }  # fmt: skip
    assert promised <= set(faults.list_faults())


# ------------------------------------------------------------------------------------------ for real


@needs_slurm
@pytest.mark.sandbox
def test_up_answers_again_is_the_same_and_down_leaves_nothing(home: Path) -> None:
    start = time.monotonic()
    sandbox = lifecycle.up(home, steps=7)
    took = time.monotonic() - start
    assert sandbox.alive
    assert took < 8, f"4 seconds are promised on an idle machine, it took {took:.1f}"
    assert sandbox.options["steps"] == 7
    assert lifecycle.ask(sandbox, "GET", "/_sandbox/health")["status"] == "ok"
    assert lifecycle.up(home, steps=9) == sandbox
    assert lifecycle.status(home) == sandbox
    assert sandbox.runtime.is_dir()
    assert lifecycle.down(home) == ["world"]
    assert not Process(sandbox.pid, sandbox.started).alive
    assert not home.exists()
    assert not sandbox.runtime.exists()
    assert lifecycle.down(home) == []


@needs_slurm
@pytest.mark.sandbox
def test_a_world_that_was_killed_is_cleaned_up_by_the_next(home: Path) -> None:
    first = lifecycle.up(home)
    orphan = Register(home / "processes.jsonl").start(
        ["/bin/sleep", "300"], what="slurmd x", cluster="c", environment={}, log=home / "log" / "x"
    )
    Process(first.pid, first.started).signal(signal.SIGKILL)
    eventually(lambda: not first.alive, 5, "the world is dead")
    assert lifecycle.status(home) is None
    assert orphan.alive
    second = lifecycle.up(home)
    assert second.pid != first.pid
    assert living(home) == [Process(second.pid, second.started, "world")]
    assert not first.runtime.exists()


@needs_slurm
@pytest.mark.sandbox
def test_down_cleans_up_after_a_world_that_was_killed(home: Path) -> None:
    sandbox = lifecycle.up(home)
    Process(sandbox.pid, sandbox.started).signal(signal.SIGKILL)
    eventually(lambda: not sandbox.alive, 5, "the world is dead")
    lifecycle.down(home)
    assert not home.exists()
    assert not sandbox.runtime.exists()


@needs_slurm
@pytest.mark.sandbox
def test_a_world_that_is_told_to_end_ends_cleanly(home: Path) -> None:
    sandbox = lifecycle.up(home)
    Process(sandbox.pid, sandbox.started).signal(signal.SIGTERM)
    eventually(lambda: not sandbox.alive, 10, "the world ends")
    assert read(home) is None
    assert "Traceback" not in (home / "log" / "world.log").read_text()


@needs_slurm
@pytest.mark.sandbox
def test_a_world_that_dies_while_it_starts_says_why(home: Path) -> None:
    with pytest.raises(ToolError, match=r"ended while it started: .*nowhere"):
        lifecycle.up(home, region="nowhere-1")
    assert living(home) == []


@needs_slurm
@pytest.mark.sandbox
def test_two_sandboxes_at_once_do_not_know_of_each_other(home: Path) -> None:
    other_home = home.with_name("other")
    one = lifecycle.up(home)
    other = lifecycle.up(other_home, region="us-east-1")
    try:
        assert one.endpoint != other.endpoint
        assert lifecycle.ask(other, "GET", "/_sandbox/health")["region"] == "us-east-1"
        lifecycle.down(home)
        assert not one.alive
        assert lifecycle.status(other_home) == other
    finally:
        assert lifecycle.down(other_home) == ["world"]


@needs_slurm
@pytest.mark.sandbox
def test_faults_of_the_account_are_set_and_cleared(home: Path) -> None:
    sandbox = lifecycle.up(home)
    for name in ("insufficient-capacity", "head-bootstrap-timeout", "throttling", "expired-token", "delete-failed"):
        faults.set_fault(home, name, times=2)
    faults.set_fault(home, "compile-failure")
    listed = lifecycle.ask(sandbox, "GET", "/_sandbox/faults")["faults"]
    assert [each["kind"] for each in listed] == ["launch", "boot", "api", "api", "resource"]
    assert {each["times"] for each in listed} == {2}
    faults.clear_faults(home)
    assert lifecycle.ask(sandbox, "GET", "/_sandbox/faults")["faults"] == []
    for name in ("node-death", "first-node-death"):
        with pytest.raises(ToolError, match="No compute node is up"):
            faults.set_fault(home, name)


# ------------------------------------------------------------------------------------------ with pcluster


def pcluster(sandbox: Sandbox, *argv: str) -> dict[str, object]:
    environment = pcluster_environment(sandbox.endpoint, sandbox.region, sandbox.home)
    environment["PATH"] = f"{environment['PATH']}:{Path(sys.executable).parent}"
    done = subprocess.run(["pcluster", *argv], env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


CLUSTER_YAML = """\
Region: us-west-2
Image: {Os: ubuntu2404}
HeadNode:
  InstanceType: c5.4xlarge
  Networking: {SubnetId: subnet-0aa11bb22cc33dd41}
  Ssh: {KeyName: demo-ed25519}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
    - Name: compute1
      ComputeResources:
        - {Name: i1, InstanceType: trn1.32xlarge, MinCount: 0, MaxCount: 4, Efa: {Enabled: true}}
      Networking: {SubnetIds: [subnet-0aa11bb22cc33dd42], PlacementGroup: {Enabled: true}}
SharedStorage:
  - {MountDir: /fsx, Name: fsx, StorageType: FsxLustre, FsxLustreSettings: {StorageCapacity: 1200}}
"""


@needs_slurm
@pytest.mark.sandbox
@pytest.mark.slow
def test_pcluster_makes_a_head_node_and_down_ends_all_of_it(home: Path, tmp_path: Path) -> None:
    sandbox = lifecycle.up(home, resource_seconds=0.01)
    (tmp_path / "cluster.yaml").write_text(CLUSTER_YAML)
    pcluster(sandbox, "create-cluster", "-n", "one", "-c", str(tmp_path / "cluster.yaml"))

    def described() -> dict[str, object]:
        return pcluster(sandbox, "describe-cluster", "-n", "one")

    eventually(lambda: described()["clusterStatus"] == "CREATE_COMPLETE", 60, "the cluster is created")
    head = described()["headNode"]
    assert isinstance(head, dict)

    def on_head(command: str) -> str:
        argv = ["ssh", "-F", str(sandbox.ssh_config), str(head["publicIpAddress"]), command]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout

    job = on_head("sbatch --parsable -N2 -o '%j.out' --wrap 'srun hostname; srun sleep 300'").strip()
    eventually(lambda: on_head(f"squeue -h -j {job} -o %T").strip() == "RUNNING", 30, "the job runs")
    instances = pcluster(sandbox, "describe-cluster-instances", "-n", "one", "--node-type", "ComputeNode")["instances"]
    assert isinstance(instances, list)
    assert [each["instanceType"] for each in instances] == ["trn1.32xlarge"] * 2

    # The worst end: the world is killed while all of this runs.
    Process(sandbox.pid, sandbox.started).signal(signal.SIGKILL)
    eventually(lambda: not sandbox.alive, 5, "the world is dead")
    left = living(home)
    assert {each.what.split()[0] for each in left} == {"munged", "slurmctld", "sshd", "slurmd"}
    ended = lifecycle.down(home)
    assert "slurmctld of one" in ended
    assert not [each for each in left if each.alive]
    assert with_environment(lambda each: str(home) in each.get("TRNCTL_SANDBOX_CLUSTER", "")) == []
    assert not home.exists()
    assert not sandbox.runtime.exists()


# ------------------------------------------------------------------------------------------ a plain user


@pytest.fixture
def plain_user() -> Iterator[pwd.struct_passwd]:
    """A user without rights, made for the test and removed again."""
    if os.geteuid() != 0:
        pytest.skip("all of these tests run as a plain user already, and only root can make another one")
    name = f"trnctl-test-{os.getpid()}"
    subprocess.run(["useradd", "--system", "--shell", "/bin/bash", name], check=True, timeout=30)
    try:
        yield pwd.getpwnam(name)
    finally:
        subprocess.run(["userdel", name], check=True, timeout=30)


def readable_python(user: pwd.struct_passwd) -> list[str] | None:
    """A Python that this user may run, with this checkout and our packages; root's own may lie in root's home."""
    packages = os.pathsep.join([str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))])
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        argv = [*as_user(user), "env", f"PYTHONPATH={packages}", python]
        probe = [*argv, "-c", "import trnctl.sandbox.machines.local"]
        try:
            if subprocess.run(probe, capture_output=True, timeout=60, check=False, cwd="/").returncode == 0:
                return argv
        except OSError:
            continue
    return None


def as_user(user: pwd.struct_passwd) -> list[str]:
    identity = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return ["setpriv", *identity, "env", "-i", "PATH=/usr/bin:/bin", "HOME=/nonexistent", f"USER={user.pw_name}"]


@needs_slurm
@pytest.mark.sandbox
def test_a_plain_user_gets_a_cluster_too(plain_user: pwd.struct_passwd) -> None:
    python = readable_python(plain_user)
    if python is None:
        pytest.skip("no Python here that another user may run together with this checkout")
    folder = Path(tempfile.mkdtemp(prefix="trnctl-test-"))
    try:
        os.chown(folder, plain_user.pw_uid, plain_user.pw_gid)
        argv = [*python, "-m", "tests.sandbox.machines_fakes", str(folder / "home")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
        seen = json.loads(done.stdout)
    finally:
        shutil.rmtree(folder)
    assert seen["user"] == plain_user.pw_name
    assert seen["job"] == ["q-dy-r-1", "q-dy-r-2"]
    assert seen["hop"] == "q-dy-r-1"
    assert seen["home"].endswith("/clusters/plain/root/home/ubuntu")


def test_a_shared_connection_is_ended_with_the_sandbox(tmp_path: Path) -> None:
    """ssh's master rewrites its command line: only the path of its socket tells whose it is."""
    runtime = tmp_path / "short"
    (runtime / "ssh").mkdir(parents=True)
    home = tmp_path / "home"
    home.mkdir()
    (home / "runtime").symlink_to(runtime)
    title = f"ssh: {runtime}/ssh/a73146a9 [mux]"
    master = subprocess.Popen(["bash", "-c", 'exec -a "$0" sleep 60', title])
    try:
        eventually(lambda: [each.pid for each in lifecycle._connections(home)] == [master.pid], 10, "it is found")
        assert lifecycle._connections(tmp_path / "another") == []
    finally:
        master.kill()
        master.wait(timeout=10)
