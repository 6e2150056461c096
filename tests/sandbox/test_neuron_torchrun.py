"""torchrun: its command line, what Neuron refuses, how the nodes come together, signals and exit codes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.sandbox.neuron_cluster import SECONDS, NeuronCluster
from trnctl.sandbox.neuron.rendezvous import endpoint

WORKER = """
import json, os, signal, sys, time
print(json.dumps({name: os.environ.get(name) for name in sys.argv[1].split(",")}), flush=True)
if "wait" in sys.argv:
    time.sleep(60)
sys.exit(int(sys.argv[2]))
"""
TOLD = "RANK,WORLD_SIZE,LOCAL_RANK,LOCAL_WORLD_SIZE,GROUP_RANK,MASTER_ADDR,MASTER_PORT"


@pytest.fixture
def cluster(tmp_path: Path) -> NeuronCluster:
    cluster = NeuronCluster(tmp_path)
    (cluster.folder / "train.py").write_text(WORKER, encoding="utf-8")
    return cluster


def told(output: str) -> dict[str, str]:
    content: dict[str, str] = json.loads(output.splitlines()[0])
    return content


@pytest.mark.parametrize("spelling", ["--nproc_per_node=32", "--nproc-per-node=32", "--nproc_per_node 32"])
def test_both_spellings_are_understood(cluster: NeuronCluster, spelling: str) -> None:
    done = cluster.run("torchrun", *spelling.split(), "train.py", TOLD, "0")
    assert done.returncode == 0, done.stderr
    assert told(done.stdout)["LOCAL_WORLD_SIZE"] == "32"
    assert "one process stands for the 32 workers of q-dy-i1-1" in done.stderr


def test_what_comes_after_the_script_belongs_to_the_script(cluster: NeuronCluster) -> None:
    (cluster.folder / "show.py").write_text("import sys; print(sys.argv[1:])", encoding="utf-8")
    done = cluster.run("torchrun", "--nproc_per_node=1", "show.py", "--nnodes", "7", "-r", "a b", "--", "$x")
    assert done.stdout == "['--nnodes', '7', '-r', 'a b', '--', '$x']\n"


def test_the_environment_gives_defaults(cluster: NeuronCluster) -> None:
    done = cluster.run("torchrun", "train.py", TOLD, "0", PET_NPROC_PER_NODE="8")
    assert told(done.stdout)["WORLD_SIZE"] == "8"


@pytest.mark.parametrize("workers", [1, 2, 8, 32])
def test_legal_worker_counts_of_trn1_start(cluster: NeuronCluster, workers: int) -> None:
    assert cluster.run("torchrun", f"--nproc_per_node={workers}", "train.py", TOLD, "0").returncode == 0


@pytest.mark.parametrize(
    ("node", "workers", "said"),
    [
        ("q-dy-i1-1", 4, "Supported number of Neuron Cores is 1, 2, 8 or a multiple of 32."),
        ("q-dy-i1-1", 16, "NRT:nrt_load_collectives"),
        ("q-dy-i1-1", 64, "NeuronCore(s) not available - Requested:64 Available:32"),
        ("small-dy-i1-1", 8, "NeuronCore(s) not available - Requested:8 Available:2"),
        ("head", 1, "no Neuron device on this node"),
    ],
)
def test_neuron_refuses_other_worker_counts(cluster: NeuronCluster, node: str, workers: int, said: str) -> None:
    done = cluster.run("torchrun", f"--nproc_per_node={workers}", "train.py", TOLD, "0", node=node)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


def test_a_script_that_is_not_there_starts_nothing(cluster: NeuronCluster) -> None:
    done = cluster.run("torchrun", "--nproc_per_node=32", "--nnodes=2", "absent.py")
    assert done.returncode == 2
    assert f"can't open file '{cluster.folder / 'absent.py'}'" in done.stderr


@pytest.mark.parametrize(
    "words",
    [["--rdzv_backend=c10d"], ["--max_restarts=3"], ["--node_rank=one"], ["--no-python"], ["--nproc_per_node=auto"]],
    ids=str,
)
def test_what_is_not_emulated_is_refused(cluster: NeuronCluster, words: list[str]) -> None:
    assert cluster.run("torchrun", *words, "train.py", TOLD, "0").returncode == 2


@pytest.mark.parametrize("code", [1, 3])
def test_the_exit_code_is_that_of_the_script(cluster: NeuronCluster, code: int) -> None:
    done = cluster.run("torchrun", "--nproc_per_node=32", "train.py", TOLD, str(code))
    assert done.returncode == code
    assert f"failed (exitcode: {code})" in done.stderr


def start(
    cluster: NeuronCluster, rank: int, nodes: int, *more: str, port: int = 2022, **variables: str
) -> subprocess.Popen[str]:
    """One node of a job of `nodes` nodes."""
    launch = ["--nproc_per_node=32", f"--nnodes={nodes}", f"--node_rank={rank}", "--master_addr=127.0.0.1"]
    listed = {"SLURM_JOB_NODELIST": f"q-dy-i1-[1-{nodes}]"} | variables
    command = ["torchrun", *launch, f"--master_port={port}", *more, "train.py", TOLD, "0"]
    return cluster.start(*command, node=f"q-dy-i1-{rank + 1}", **listed)


def test_no_node_starts_before_all_have_come(cluster: NeuronCluster) -> None:
    others = [start(cluster, rank, 3) for rank in (1, 2)]
    for other in others:
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.5)
    whole = [start(cluster, 0, 3), *others]
    outputs = [node.communicate(timeout=SECONDS)[0] for node in whole]
    assert [node.returncode for node in whole] == [0, 0, 0]
    assert [told(output)["RANK"] for output in outputs] == ["0", "32", "64"]
    assert {told(output)["WORLD_SIZE"] for output in outputs} == {"96"}
    assert {told(output)["MASTER_PORT"] for output in outputs} == {"2022"}


def test_a_node_that_does_not_come_is_waited_for_only_so_long(cluster: NeuronCluster) -> None:
    nodes = [start(cluster, rank, 3, "--rdzv_conf=timeout=1") for rank in (0, 1)]
    errors = [node.communicate(timeout=SECONDS)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [1, 1]
    assert "Timed out after 1 seconds waiting for clients. 2/3 clients joined." in errors[0]


def test_without_rank_0_nobody_answers(cluster: NeuronCluster) -> None:
    with start(cluster, 1, 2, "--rdzv_conf=timeout=1") as node:
        _, error = node.communicate(timeout=SECONDS)
    assert node.returncode == 1
    assert "The client socket has timed out after 1s while trying to connect to (127.0.0.1, 2022)" in error


def test_a_port_that_is_taken_is_an_error_at_once(cluster: NeuronCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with start(cluster, 0, 2, port=port, SLURM_JOB_NODELIST="") as node:
            _, error = node.communicate(timeout=SECONDS)
    assert node.returncode == 1
    assert f"The server socket has failed to bind to [::]:{port} (errno: 98 - Address already in use)." in error


def test_two_jobs_on_one_node_clash_and_on_two_do_not(cluster: NeuronCluster) -> None:
    first = start(cluster, 0, 2, "--rdzv_conf=timeout=5")
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(0.5)
    with start(cluster, 0, 2) as same:
        assert "Address already in use" in same.communicate(timeout=SECONDS)[1]
    elsewhere = [start(cluster, rank, 2, SLURM_JOB_NODELIST="q-dy-i1-[5-6]") for rank in (0, 1)]
    for node in elsewhere:
        node.communicate(timeout=SECONDS)
    assert [node.returncode for node in elsewhere] == [0, 0]
    first.kill()
    first.communicate(timeout=SECONDS)


def test_every_address_becomes_a_loopback_address_of_its_own(tmp_path: Path) -> None:
    addresses = {endpoint(f"10.0.0.{last}", 2022, 4, tmp_path).address for last in range(1, 21)}
    assert len(addresses) == 20
    assert all(address.startswith("127.") for address in addresses)
    named = {endpoint(f"q-dy-i1-{number}", 2022, 4, tmp_path).address for number in range(1, 21)}
    assert len(named) == 20
    other_cluster = endpoint("10.0.0.1", 2022, 4, tmp_path / "other")
    assert other_cluster.address != endpoint("10.0.0.1", 2022, 4, tmp_path).address


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "localhost", socket.gethostname()])
def test_jobs_whose_nodes_have_the_machines_own_address_are_told_apart(cluster: NeuronCluster, host: str) -> None:
    """Emulated nodes are registered at Slurm with one address for all, which need not be 127.0.0.1."""
    first = start(cluster, 0, 2, f"--master_addr={host}", "--rdzv_conf=timeout=20")
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(0.5)
    nodelist = "q-dy-i1-[5-6]"
    other = [start(cluster, rank, 2, f"--master_addr={host}", SLURM_JOB_NODELIST=nodelist) for rank in (0, 1)]
    errors = [node.communicate(timeout=SECONDS)[1] for node in other]
    assert [node.returncode for node in other] == [0, 0], errors
    first.kill()
    first.communicate(timeout=SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_reach_the_script(cluster: NeuronCluster, number: signal.Signals) -> None:
    with cluster.start("torchrun", "--nproc_per_node=32", "train.py", TOLD, "0", "wait") as torchrun:
        assert torchrun.stdout
        torchrun.stdout.readline()
        torchrun.send_signal(number)
        _, error = torchrun.communicate(timeout=SECONDS)
    assert torchrun.returncode == 128 + number
    assert f"failed (exitcode: {128 + number})" in error


def test_a_signal_that_the_job_ignores_stays_ignored(cluster: NeuronCluster) -> None:
    job = "trap '' USR1; exec torchrun --nproc_per_node=32 train.py RANK 0 wait"
    with cluster.start("sh", "-c", job) as torchrun:
        assert torchrun.stdout
        torchrun.stdout.readline()
        torchrun.send_signal(signal.SIGUSR1)
        with pytest.raises(subprocess.TimeoutExpired):
            torchrun.wait(0.5)
        torchrun.terminate()
        torchrun.communicate(timeout=SECONDS)
    assert torchrun.returncode == 128 + signal.SIGTERM
