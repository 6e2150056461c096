"""The machines for real: sshd, Slurm and emulated nodes on this computer, with a fake account behind them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.machines_fakes import HEAD_IP, Trial, config, eventually, queue, resource, trial
from trnctl.sandbox.lifecycle import missing_tools
from trnctl.sandbox.machines.addresses import Ports, own_address
from trnctl.sandbox.machines.cluster import Pace
from trnctl.sandbox.ports import BootFailed
from trnctl.sandbox.processes import process, with_environment, written

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(bool(missing_tools()), reason=f"missing on this machine: {', '.join(missing_tools())}"),
]

QUEUES = [
    queue("compute1", resource("i1", 16), JobExclusiveAllocation=True),
    queue("other", resource("n1", 3, 1, "trn1n.32xlarge")),
]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """One cluster, `one`, for the tests that leave it as it was."""
    with trial(tmp_path_factory.mktemp("machines") / "home", Pace(boot_seconds=0.2, capacity_seconds=2.0)) as made:
        made.boot("one", QUEUES)
        yield made


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Trial]:
    """Machines of a test's own."""
    with trial(tmp_path / "home", Pace(boot_seconds=0.1, capacity_seconds=2.0)) as made:
        yield made


def powered(made: Trial, cluster: str = "one") -> set[str]:
    return set(json.loads((made.home / "clusters" / cluster / "emulation.json").read_text())["instance_ids"])


# ------------------------------------------------------------------------------------------ head node


def test_ssh_lands_in_the_emulated_home_with_the_clusters_tools_first(machine: Trial) -> None:
    folder = machine.home / "clusters" / "one"
    said = machine.ssh('pwd; echo "$HOME"; hostname; hostname -i; echo "$PATH"; echo "$SLURM_CONF"').stdout.split("\n")
    home = str(folder / "root" / "home" / "ubuntu")
    assert said[:4] == [home, home, "ip-10-9-9-9", "10.9.9.9"]
    assert said[4].startswith(f"{folder}/bin:")
    assert said[5] == str(folder / "etc" / "slurm.conf")


def test_a_login_shell_keeps_the_clusters_tools(machine: Trial) -> None:
    said = machine.ssh("bash -lc 'command -v hostname; command -v torchrun'").stdout.split()
    assert said == [str(machine.home / "clusters" / "one" / "bin" / name) for name in ("hostname", "torchrun")]


def test_a_script_on_standard_input_runs_where_ssh_lands(machine: Trial) -> None:
    assert machine.ssh("printf pwd | bash -s").stdout == machine.ssh("pwd").stdout


def test_the_private_address_reaches_the_same_head(machine: Trial) -> None:
    assert machine.ssh("hostname", "10.9.9.9").stdout == machine.ssh("hostname", HEAD_IP).stdout


def test_exit_codes_come_through(machine: Trial) -> None:
    assert machine.ssh("exit 7", check=False).returncode == 7


def test_slurm_has_the_files_queues_and_nodes(machine: Trial) -> None:
    found = machine.ssh("sinfo -h -o '%P|%D' | sort | uniq -c | tr -s ' '").stdout
    assert "compute1*|16" in found
    nodes = machine.ssh("scontrol -o show node other-st-n1-1").stdout
    assert "CPUTot=128" in nodes
    assert "AvailableFeatures=static,trn1n.32xlarge,n1,efa" in nodes


def test_a_mount_is_the_file_systems_content(machine: Trial) -> None:
    machine.ssh("echo kept > ~/../../fsx/note")
    assert (machine.home / "file_systems" / "fs-one" / "note").read_text() == "kept\n"


def test_nothing_on_this_machine_can_be_changed_by_way_of_sudo_or_sysctl(machine: Trial) -> None:
    for command in ("sudo -n true", "sysctl -q -w kernel.panic=7", "sysctl kernel.panic=7"):
        refused = machine.ssh(command, check=False)
        assert refused.returncode == 1
        assert "the sandbox changes nothing on this machine" in refused.stderr
    assert machine.ssh("sysctl -n kernel.ostype").stdout == "Linux\n"
    refused = machine.ssh("sudo systemctl stop sshd", check=False)
    assert (refused.returncode, "the sandbox has no such service" in refused.stderr) == (1, True)


def test_slurms_controller_is_restarted_as_a_person_would(machine: Trial) -> None:
    before = machine.ssh("cat $(dirname $SLURM_CONF)/../log/slurmctld.log | grep -c 'version .* started'").stdout
    machine.ssh("sudo systemctl restart slurmctld")
    assert "active (running)" in machine.ssh("systemctl status slurmctld.service").stdout
    after = machine.ssh("cat $(dirname $SLURM_CONF)/../log/slurmctld.log | grep -c 'version .* started'").stdout
    assert int(after) == int(before) + 1


# ------------------------------------------------------------------------------------------ nodes


def test_a_job_powers_its_nodes_up_and_starts_as_soon_as_they_are(machine: Trial) -> None:
    start = time.monotonic()
    job = machine.job("-N3", "srun hostname")
    eventually(lambda: machine.state(job) == "COMPLETED", 30, "the job ends")
    took = time.monotonic() - start
    output = sorted(machine.ssh(f"cat {job}.out").stdout.split())
    assert len(output) == 3
    assert all(name.startswith("compute1-dy-i1-") for name in output)
    assert set(output) <= {wish.name for wish in machine.account.launched}
    assert took < 12, f"slurmctld's pass of 30 seconds must not decide when a job starts, but it took {took:.0f} s"


def test_static_nodes_are_on_without_a_job(machine: Trial) -> None:
    eventually(lambda: "other-st-n1-1" in powered(machine), 15, "the static node powers up")
    assert "other-st-n1-1" in {wish.name for wish in machine.account.launched}


def test_hops_go_from_head_to_node_and_from_node_to_node(machine: Trial) -> None:
    job = machine.job("-N2", "srun sleep 300")
    eventually(lambda: machine.state(job) == "RUNNING", 30, "the job runs")
    first, second = machine.ssh(f"scontrol show hostnames $(squeue -h -j {job} -o %N)").stdout.split()
    assert machine.ssh(f"ssh {first} hostname").stdout == f"{first}\n"
    assert machine.ssh(f'ssh {first} "ssh {second} hostname"').stdout == f"{second}\n"
    assert machine.ssh(f"ssh {first} hostname -i").stdout.startswith("10.0.")
    assert machine.ssh(f"ssh {first} 'exit 5'", check=False).returncode == 5
    machine.ssh(f"scancel {job}")


def test_a_node_that_is_off_does_not_answer(machine: Trial) -> None:
    refused = machine.ssh("ssh compute1-dy-i1-16 true", check=False)
    assert refused.returncode == 255
    assert "connect to host compute1-dy-i1-16 port 22: No route to host" in refused.stderr


def test_a_node_that_ec2_refuses_is_down_for_that_reason_and_comes_back(machine: Trial) -> None:
    eventually(lambda: "other-st-n1-1" in powered(machine), 15, "the static node powers up")  # not to be refused
    machine.account.refusals = 1
    job = machine.job("-N1", "hostname", "-p", "other", "-C", "dynamic")
    reason = "(Code:InsufficientInstanceCapacity)Failure when resuming nodes"
    eventually(lambda: reason in machine.ssh("sinfo -h -R -o %E").stdout, 15, "the node is down")
    eventually(lambda: machine.state(job) == "COMPLETED", 60, "the job runs all the same")
    eventually(lambda: reason not in machine.ssh("sinfo -h -R -o %E").stdout, 20, "the node is recovered")
    assert machine.account.refusals == 0


def test_idle_nodes_are_powered_down(tmp_path: Path) -> None:
    with trial(tmp_path / "home", Pace(boot_seconds=0.1, idle_seconds=1)) as quick:
        quick.boot("one", [queue("q", resource("r", 2))])
        job = quick.job("-N1", "true")
        eventually(lambda: quick.state(job) == "COMPLETED", 30, "the job ends")
        eventually(lambda: quick.account.terminated == ["q-dy-r-1"], 30, "the node powers down")
        assert powered(quick) == set()
        again = quick.job("-N1", "true")
        eventually(lambda: quick.state(again) == "COMPLETED", 30, "a node that was off powers up again")


def test_the_longest_names_run_job_steps(fresh: Trial) -> None:
    long = "q" * 25
    fresh.boot("one", [queue(long, resource("r" * 25, 1))])
    job = fresh.job("-N1", "srun hostname")
    eventually(lambda: fresh.state(job) == "COMPLETED", 30, "the job ends")
    assert fresh.ssh(f"cat {job}.out").stdout == f"{long}-dy-{'r' * 25}-1\n"


def test_an_ultracluster_of_1875_nodes_boots_and_runs_a_job(fresh: Trial) -> None:
    start = time.monotonic()
    fresh.boot("one", [queue("compute1", resource("i1", 1875))])
    assert time.monotonic() - start < 5
    job = fresh.job("-N2", "srun hostname")
    eventually(lambda: fresh.state(job) == "COMPLETED", 30, "the job ends")
    states = dict(line.split()[::-1] for line in fresh.ssh("sinfo -h -o '%D %T'").stdout.splitlines())
    assert states == {"idle~": "1873", "idle": "2"}


def test_a_node_that_cannot_boot_is_replaced(fresh: Trial) -> None:
    fresh.boot("one", [queue("q", resource("r", 1))])
    conf = (fresh.home / "clusters" / "one" / "etc" / "slurm.conf").read_text()
    (port,) = re.findall(r"NodeName=q-dy-r-\[1-1\] .*Port=\[(\d+)-", conf)
    with socket.create_server((own_address().ip, int(port))):
        job = fresh.job("-N1", "srun hostname")
        eventually(lambda: "q-dy-r-1" in fresh.account.terminated, 30, "the node is given up", otherwise=fresh.picture)
    eventually(lambda: fresh.state(job) == "COMPLETED", 40, "the next one runs the job", otherwise=fresh.picture)
    assert [wish.name for wish in fresh.account.launched].count("q-dy-r-1") >= 2


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "dead"), [({}, "q-dy-r-2"), ({"first": True}, "q-dy-r-1")])
def test_a_dead_node_is_noticed_replaced_and_its_job_runs_again(
    fresh: Trial, asked: dict[str, bool], dead: str
) -> None:
    fresh.boot("one", [queue("q", resource("r", 2))])
    job = fresh.job("-N2", "srun sleep 300")
    eventually(lambda: fresh.state(job) == "RUNNING", 90, "the job runs", otherwise=fresh.picture)
    answer = fresh.machines.routes()["/_sandbox/node-death"](asked)
    assert answer == {"nodes": [dead]}
    eventually(lambda: dead in fresh.account.terminated, 180, "the dead node's instance is terminated")
    eventually(lambda: fresh.state(job) == "RUNNING", 180, "the job runs again", otherwise=fresh.picture)
    assert "Restarts=1" in fresh.ssh(f"scontrol show job {job}").stdout


def test_a_node_that_slurm_sets_down_while_it_lives_is_replaced(fresh: Trial) -> None:
    fresh.boot("one", [queue("q", resource("r", 1))])
    job = fresh.job("-N1", "true")
    eventually(lambda: fresh.state(job) == "COMPLETED", 60, "the node is up", otherwise=fresh.picture)
    fresh.ssh("scontrol update nodename=q-dy-r-1 state=down reason='Node unexpectedly rebooted'")
    eventually(lambda: "q-dy-r-1" in fresh.account.terminated, 60, "it is given up", otherwise=fresh.picture)
    job = fresh.job("-N1", "true")
    eventually(lambda: fresh.state(job) == "COMPLETED", 90, "the next one runs a job", otherwise=fresh.picture)


# ------------------------------------------------------------------------------------------ changes


def test_a_stopped_fleet_has_no_nodes_and_starts_again(fresh: Trial) -> None:
    fresh.boot("one", [queue("q", resource("r", 2, 1))])
    job = fresh.job("-N1", "srun sleep 4321", "-C", "dynamic")
    eventually(lambda: fresh.state(job) == "RUNNING", 30, "the job runs")
    fresh.machines.stop_fleet("one")
    assert powered(fresh) == set()
    assert {"q-dy-r-1", "q-st-r-1"} <= set(fresh.account.terminated)
    assert fresh.ssh("sinfo -h -o %a").stdout.split() == ["inactive"]
    assert not [each for each in with_environment(lambda e: e.get("SLURM_JOB_ID") == job) if each.alive]
    eventually(lambda: fresh.state(job) == "PENDING", 15, "the job waits again")
    fresh.machines.start_fleet("one")
    eventually(lambda: "q-st-r-1" in powered(fresh), 25, "the static node is on again")
    eventually(lambda: fresh.state(job) == "RUNNING", 40, "the job runs again")


def test_an_update_keeps_running_nodes_and_brings_new_queues(fresh: Trial) -> None:
    fresh.boot("one", [queue("q", resource("r", 2)), queue("gone", resource("r", 1))])
    stays, goes = fresh.job("-N1", "srun sleep 300", "-p", "q"), fresh.job("-N1", "srun sleep 300", "-p", "gone")
    eventually(lambda: fresh.state(stays) == fresh.state(goes) == "RUNNING", 30, "both jobs run")
    fresh.machines.reconfigure("one", config([queue("q", resource("r", 5)), queue("new", resource("n", 2))]))
    assert powered(fresh) == {"q-dy-r-1"}
    assert fresh.state(stays) == "RUNNING"
    job = fresh.job("-N4", "srun hostname", "-p", "q")
    other = fresh.job("-N2", "srun hostname", "-p", "new")
    eventually(lambda: fresh.state(job) == fresh.state(other) == "COMPLETED", 40, "the new nodes run jobs")
    assert fresh.ssh("ssh new-dy-n-1 hostname").stdout == "new-dy-n-1\n"


def test_an_update_of_a_stopped_fleet_leaves_it_stopped(fresh: Trial) -> None:
    fresh.boot("one", [queue("q", resource("r", 2))])
    fresh.machines.stop_fleet("one")
    fresh.machines.reconfigure("one", config([queue("q", resource("r", 3))]))
    assert fresh.ssh("sinfo -h -o '%a %D'").stdout.split() == ["inactive", "3"]


def test_what_slurm_cannot_read_fails_the_boot_in_its_own_words_and_leaves_nothing(fresh: Trial) -> None:
    with pytest.raises(BootFailed, match=r"slurmctld did not start: .*sched/nonsense"):
        fresh.boot("one", QUEUES, CustomSlurmSettings=[{"SchedulerType": "sched/nonsense"}])
    assert not [each for each in written(fresh.home / "processes.jsonl") if each.alive]
    assert not (fresh.home / "clusters" / "one").exists()
    assert "Host" not in (fresh.home / "ssh_config").read_text()


def test_shutting_down_ends_every_process_and_keeps_the_file_system(fresh: Trial) -> None:
    fresh.boot("one", QUEUES)
    fresh.boot("two", [queue("q", resource("r", 1))], "198.51.100.8")
    job = fresh.job("-N1", "setsid sleep 300 & sleep 300")
    eventually(lambda: fresh.state(job) == "RUNNING", 30, "the job runs")
    fresh.ssh("nohup sleep 300 > /dev/null 2>&1 & echo x > ~/../../fsx/note")
    assert len(mine(fresh, "one")) > 4
    fresh.machines.shut_down("one")
    fresh.machines.shut_down("one")
    assert mine(fresh, "one") == []
    assert not (fresh.home / "clusters" / "one").exists()
    assert fresh.ssh("sinfo -h -o %D", "198.51.100.8").stdout == "1\n", "the other cluster lives on"
    assert HEAD_IP not in (fresh.home / "ssh_config").read_text()
    assert (fresh.home / "file_systems" / "fs-one" / "note").exists()
    fresh.machines.delete_file_system("fs-one")
    assert not (fresh.home / "file_systems" / "fs-one").exists()


def mine(made: Trial, cluster: str) -> list[int]:
    """Living processes that are written down for a cluster, or carry its folder in their environment."""
    folder = str(made.home / "clusters" / cluster)
    recorded = [each for each in written(made.home / "processes.jsonl") if each.cluster == cluster]
    marked = with_environment(lambda environment: environment.get("TRNCTL_SANDBOX_CLUSTER") == folder)
    return [each.pid for each in [*recorded, *marked] if each.alive]


def test_faults_of_the_tools_reach_clusters_that_are_there_and_those_to_come(fresh: Trial) -> None:
    fresh.boot("one", [queue("q", resource("r", 1))])
    route = fresh.machines.routes()["/_sandbox/tool-faults"]
    route({"add": "compile-failure"})
    route({"add": "training-crash"})
    fresh.boot("two", [queue("q", resource("r", 1))], "198.51.100.8")
    for cluster in ("one", "two"):
        content = json.loads((fresh.home / "clusters" / cluster / "emulation.json").read_text())
        assert content["faults"] == ["compile-failure", "training-crash"]
        assert content["instance_types"] == {"q-dy-r": "trn1.32xlarge"}
    route({"clear": True})
    assert json.loads((fresh.home / "clusters" / "two" / "emulation.json").read_text())["faults"] == []


# ------------------------------------------------------------------------------------------ parts


def test_two_takers_of_ports_never_get_the_same(fresh: Trial) -> None:
    one, two = Ports(), Ports()
    try:
        first, second = one.take(2000), two.take(2000)
        assert len({*first, *second}) == 4000
        assert one.take(10) != two.take(10)
    finally:
        one.release()
        two.release()


def test_a_host_name_that_stands_for_nothing_leaves_loopback() -> None:
    assert own_address("no-such-host.invalid").ip == "127.0.0.1"
    assert not own_address("no-such-host.invalid").bound


def test_a_process_is_known_by_its_start_too() -> None:
    me = process(os.getpid())
    assert me is not None
    assert me.alive
    assert not type(me)(me.pid, me.started + 1).alive
    type(me)(me.pid, me.started + 1).signal(signal.SIGKILL)  # meant for another process: we live on
