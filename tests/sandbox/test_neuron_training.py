"""The stand-in for the public BERT script: console lines, pace, checkpoints, faults, and what it does not do."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.sandbox.neuron_cluster import SECONDS, NeuronCluster
from trnctl.render.templates import read
from trnctl.sandbox.neuron.checkpoints import CheckpointError, load
from trnctl.sandbox.neuron.pace import Pace, learning_rate, loss, published_rate
from trnctl.specs.workload_loading import load_workload

LOG = re.compile(
    r"^LOG \w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4} - \((\d+), (\d+)\) step_loss : (\d+\.\d{4}) "
    r"learning_rate : (\d\.\d\de[-+]\d\d) throughput : (\d+\.\d\d) $",
    re.MULTILINE,
)


@pytest.fixture
def cluster(tmp_path: Path) -> NeuronCluster:
    return NeuronCluster(tmp_path)


def checkpoints(cluster: NeuronCluster) -> list[str]:
    return sorted(path.name for path in cluster.output.iterdir())


def test_it_prints_the_lines_of_the_public_script(cluster: NeuronCluster) -> None:
    done = cluster.run(*cluster.bert())
    assert done.returncode == 0, done.stderr
    steps = LOG.findall(done.stdout)
    assert [(int(epoch), int(step)) for epoch, step, *_ in steps] == [(0, step) for step in range(1, 7)]
    assert [rate for *_, rate, _ in steps][:3] == ["2.00e-07", "4.00e-07", "6.00e-07"]
    assert float(steps[-1][2]) < float(steps[0][2])
    assert "--------TRAINING CONFIG----------\nNamespace(" in done.stdout
    assert len(re.findall(r"^Epoch 0 file index 1 begin \w{3} \w{3} ", done.stdout, re.MULTILINE)) == 1
    assert re.findall(r"^Rank (\d+) working on shard /\S+_training_\d+\.hdf5$", done.stdout, re.MULTILINE) == [
        str(rank) for rank in [*range(32), *range(32)]
    ]
    end = r"^Epoch 0 step 4 file index 1 end .* loss [\d.]+ perf [\d.]+ seq/sec \(at train microstep 128 time [\d.]+ "
    assert re.search(rf"{end}from beginning time [\d.]+\)$", done.stdout, re.MULTILINE)
    assert done.stdout.count("Checkpointing...\nCheckpointing done...\n") == 2


def test_the_recipe_reads_its_step_lines(cluster: NeuronCluster) -> None:
    recipe = load_workload(read("workloads/bert-large.yaml"), "bert-large.yaml")
    steps = list(re.finditer(recipe.log.step, cluster.run(*cluster.bert()).stdout))
    assert [int(step["step"]) for step in steps] == [1, 2, 3, 4, 5, 6]
    assert float(steps[0]["loss"]) == pytest.approx(11.2, abs=0.2)


def test_it_says_at_start_and_end_that_it_stops_early(cluster: NeuronCluster) -> None:
    lines = cluster.run(*cluster.bert()).stdout.splitlines()
    told = [line for line in lines if line.startswith("emulated by the trnctl sandbox: nothing is trained")]
    assert ["will stop after 6 steps, at 6 of 28125" in told[0], "stopped after 6 steps" in told[1]] == [True, True]
    assert lines[-1] == told[1]
    assert len(told) == 2


def test_it_stops_where_it_is_told_to_before_the_emulation_ends(cluster: NeuronCluster) -> None:
    done = cluster.run(*cluster.bert("--steps_this_run", "3"))
    assert [step for _, step, *_ in LOG.findall(done.stdout)] == ["1", "2", "3"]
    assert checkpoints(cluster) == ["ckpt_3.pt"]


def test_its_loss_depends_on_step_and_seed_alone(cluster: NeuronCluster) -> None:
    first, again = (LOG.findall(cluster.run(*cluster.bert()).stdout) for _ in range(2))
    assert [found[2] for found in first] == [found[2] for found in again]
    assert loss(5, 1) != loss(5, 2)
    assert loss(28125, 12349) == pytest.approx(1.45, abs=0.15)


@pytest.mark.parametrize(
    ("nodes", "share", "rate"), [(1, 512, 3826.61), (16, 32, 24518.47), (16, 512, 57407.92)], ids=str
)
def test_the_published_rates_are_met(nodes: int, share: int, rate: float) -> None:
    assert published_rate(nodes, share, 128) == pytest.approx(rate)


def test_a_part_of_the_workers_is_as_much_slower() -> None:
    assert published_rate(1, 512, 128, workers=8) == pytest.approx(3826.61 / 4)


def test_between_the_published_rates_more_nodes_are_faster_and_less_efficient() -> None:
    rates = [published_rate(nodes, 512 // nodes, 128) for nodes in (1, 2, 4, 8, 16, 32)]
    assert rates == sorted(rates)
    efficiency = [rate / nodes for rate, nodes in zip(rates, (1, 2, 4, 8, 16, 32), strict=True)]
    assert efficiency == sorted(efficiency, reverse=True)


def test_a_step_takes_its_true_time_unless_the_emulation_says_otherwise() -> None:
    pace = Pace(global_batch=1000, rate=10_000.0, step_seconds=None)
    began = time.monotonic()
    for _ in range(3):
        pace.sleep()
        measured = pace.throughput()
    assert time.monotonic() - began >= 0.3
    assert measured == pytest.approx(10_000, rel=0.1)
    compressed = Pace(global_batch=16_384, rate=24_518.47, step_seconds=0.001)
    compressed.sleep()
    assert compressed.throughput() == pytest.approx(24_518.47, rel=0.011)


def test_the_learning_rate_follows_the_public_schedule() -> None:
    assert learning_rate(14, 4e-4, 2000, 28125) == pytest.approx(2.8e-6)  # as in a published log
    assert learning_rate(2000, 4e-4, 2000, 28125) == pytest.approx(4e-4)
    assert learning_rate(28125, 4e-4, 2000, 28125) == 0


@pytest.mark.parametrize(
    ("keep", "left"),
    [("1", ["ckpt_6.pt"]), ("2", ["ckpt_4.pt", "ckpt_6.pt"]), ("-1", ["ckpt_2.pt", "ckpt_4.pt", "ckpt_6.pt"])],
)
def test_it_keeps_the_newest_checkpoints(cluster: NeuronCluster, keep: str, left: list[str]) -> None:
    cluster.emulate(steps_per_shard=2)
    done = cluster.run(*cluster.bert("--num_ckpts_to_keep", keep))
    assert checkpoints(cluster) == left
    assert done.stdout.count(f"Keeping only {keep} checkpoints. Deleting ") == 3 - len(left)
    assert all(zipfile.is_zipfile(cluster.output / name) for name in left)


def test_it_resumes_at_the_newest_checkpoint(cluster: NeuronCluster) -> None:
    cluster.run(*cluster.bert("--num_ckpts_to_keep", "-1"))
    resumed = cluster.run(*cluster.bert("--resume_ckpt"))
    assert f"Worker 31 resuming from checkpoint {cluster.output}/ckpt_6.pt at step 6\n" in resumed.stdout
    assert [step for _, step, *_ in LOG.findall(resumed.stdout)] == [str(step) for step in range(7, 13)]
    assert "Epoch 0 file index 3 begin" in resumed.stdout


def test_it_resumes_where_it_is_told_to(cluster: NeuronCluster) -> None:
    cluster.run(*cluster.bert("--num_ckpts_to_keep", "-1"))
    by_step = cluster.run(*cluster.bert("--resume_ckpt", "--resume_step", "4", "--steps_this_run", "5"))
    assert [step for _, step, *_ in LOG.findall(by_step.stdout)] == ["5"]
    moved = cluster.shared / "ckpt_4.pt"
    (cluster.output / "ckpt_4.pt").rename(moved)
    by_path = cluster.run(*cluster.bert("--resume_ckpt", "--resume_ckpt_path", str(moved)))
    assert LOG.findall(by_path.stdout)[0][1] == "5"


def test_it_has_nothing_to_resume_from_at_first(cluster: NeuronCluster) -> None:
    done = cluster.run(*cluster.bert("--resume_ckpt"))
    assert done.returncode == 1
    assert "Make sure there are ckpt_*.pt files in " in done.stderr


def test_a_part_of_a_checkpoint_cannot_be_resumed_from(cluster: NeuronCluster) -> None:
    cluster.run(*cluster.bert())
    whole = cluster.output / "ckpt_6.pt"
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    done = cluster.run(*cluster.bert("--resume_ckpt"))
    assert done.returncode == 1
    assert "failed finding central directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_kill_in_the_middle_of_a_checkpoint_leaves_a_part_of_it(tmp_path: Path) -> None:
    """As with torch.save, which writes in place."""
    code = (
        "import sys, pathlib; from trnctl.sandbox.neuron.checkpoints import CheckpointFolder; "
        "CheckpointFolder(pathlib.Path(sys.argv[1]), keep=-1).save(7, {'files': ['x' * 500_000], 'epoch': 0})"
    )
    path = tmp_path / "ckpt_7.pt"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) as writer:
        while writer.poll() is None and not (path.exists() and path.stat().st_size):
            time.sleep(0.0005)
        writer.kill()
        assert writer.wait(SECONDS) == -signal.SIGKILL, "it was quicker than the kill"
    assert not zipfile.is_zipfile(path)
    with pytest.raises(CheckpointError, match="central directory"):
        load(path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_it_has_no_signal_handler(cluster: NeuronCluster, number: signal.Signals) -> None:
    cluster.emulate(steps=1000, step_seconds=0.1, steps_per_shard=1000)
    with cluster.start(*cluster.bert()) as torchrun:
        assert torchrun.stdout
        assert any(line.startswith("LOG") for line in torchrun.stdout)
        torchrun.send_signal(number)
        rest, _ = torchrun.communicate(timeout=SECONDS)
    assert torchrun.returncode == 128 + number
    assert "Checkpointing" not in rest
    assert checkpoints(cluster) == []


def test_graphs_that_are_not_in_the_cache_are_compiled_first(cluster: NeuronCluster) -> None:
    first = cluster.run(*cluster.bert()).stdout
    assert first.count("Call compiler with cmd: neuronx-cc compile") == 5
    assert first.index("Compiler status PASS") < first.index("LOG ")
    second = cluster.run(*cluster.bert()).stdout
    assert "Call compiler" not in second
    assert second.count("||NEURON_CC_WRAPPER||: Using a cached neff at ") == 5


def test_a_training_after_the_compile_stage_compiles_nothing(cluster: NeuronCluster) -> None:
    cluster.run("neuron_parallel_compile", *cluster.bert("--steps_this_run", "5", "--output_dir", "elsewhere"))
    assert "Call compiler" not in cluster.run(*cluster.bert()).stdout


def test_a_graph_that_does_not_compile_ends_the_training(cluster: NeuronCluster) -> None:
    cluster.emulate(faults=["compile-failure"])
    done = cluster.run(*cluster.bert())
    assert done.returncode == 1
    assert "Compilation failed for " in done.stdout
    assert not LOG.search(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data_dir", "/no/such/folder"], "ERROR: Data directory /no/such/folder doesn't exist!"),
        (["--data_dir", "."], "ERROR: There are no tokenized dataset shard files in ."),
        (["--seq_len", "512"], "User-specified sequence length (512) does not match"),
        (["--resume_ckpt", "--resume_ckpt_path", "ckpt_9.pt"], "is not a path: ckpt_9.pt"),
    ],
)
def test_it_fails_as_the_public_script_fails(cluster: NeuronCluster, arguments: list[str], said: str) -> None:
    done = cluster.run(*cluster.bert(*arguments))
    assert done.returncode == 1
    assert said in done.stderr


def test_it_needs_a_shard_for_every_worker(cluster: NeuronCluster) -> None:
    cluster.place_source()
    few = cluster.shared / "few"
    few.mkdir()
    for number in range(31):
        (few / f"x_training_{number}.hdf5").touch()
    done = cluster.run(*cluster.bert("--data_dir", str(few)))
    assert done.returncode == 1
    assert "at least 32 (world_size) tokenized dataset shards" in done.stderr
    assert "currently I see only 31" in done.stderr


def test_an_argument_that_the_public_script_does_not_know_is_refused(cluster: NeuronCluster) -> None:
    assert cluster.run(*cluster.bert("--batchsize", "8")).returncode == 2


def start(cluster: NeuronCluster, nodes: int, **variables: str) -> list[subprocess.Popen[str]]:
    """A training on several nodes."""
    listed = {"SLURM_JOB_NODELIST": f"q-dy-i1-[1-{nodes}]"} | variables
    commands = [cluster.bert(node=node, nodes=nodes) for node in range(nodes)]
    return [cluster.start(*each, node=f"q-dy-i1-{node + 1}", **listed) for node, each in enumerate(commands)]


def test_nodes_train_together_and_rank_0_tells(cluster: NeuronCluster) -> None:
    tools = start(cluster, 4)
    outputs = [tool.communicate(timeout=SECONDS)[0] for tool in tools]
    assert [tool.returncode for tool in tools] == [0, 0, 0, 0]
    assert [len(LOG.findall(output)) for output in outputs] == [6, 0, 0, 0]
    assert "Rank 127 working on shard" in outputs[3]
    assert float(LOG.findall(outputs[0])[-1][4]) == pytest.approx(published_rate(4, 128, 128), rel=0.02)
    assert "".join(outputs).count("Call compiler with cmd") == 5


def test_a_node_that_crashes_keeps_the_others_waiting(cluster: NeuronCluster) -> None:
    cluster.emulate(faults=["training-crash"])
    tools = start(cluster, 2, NEURON_RT_EXEC_TIMEOUT="1")
    (output, error), (_, last_error) = (tool.communicate(timeout=SECONDS) for tool in tools)
    assert [tool.returncode for tool in tools] == [1, 1]
    assert re.search(r"ERROR +TDRV:\S+ +Failed to allocate 1024.000MB", last_error)
    assert [step for _, step, *_ in LOG.findall(output)] == ["1", "2"]
    assert "suspected hang in collectives operation" in error


def test_a_device_breaks_once_and_the_kernel_and_the_monitor_tell(cluster: NeuronCluster) -> None:
    cluster.emulate(faults=["hardware-error"])
    tools = start(cluster, 2, NEURON_RT_EXEC_TIMEOUT="1")
    (_, error), (_, last_error) = (tool.communicate(timeout=SECONDS) for tool in tools)
    assert "status=1202" in last_error
    assert "status=1202" not in error
    assert "NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR" in cluster.run("dmesg", node="q-dy-i1-2").stdout
    assert cluster.run("dmesg", node="q-dy-i1-1").stdout == ""
    again = start(cluster, 2)
    for tool in again:
        tool.communicate(timeout=SECONDS)
    assert [tool.returncode for tool in again] == [0, 0], "it must strike once only"


def test_a_hung_collective_is_silent(cluster: NeuronCluster) -> None:
    cluster.emulate(faults=["hung-collective"])
    with cluster.start(*cluster.bert()) as torchrun:
        assert torchrun.stdout
        assert any(") step_loss" in line and ", 2)" in line for line in torchrun.stdout)
        with pytest.raises(subprocess.TimeoutExpired):
            torchrun.wait(1.0)
        torchrun.terminate()
        rest, error = torchrun.communicate(timeout=SECONDS)
    assert not LOG.search(rest)
    assert "ERROR" not in error


def test_cores_that_a_training_holds_are_not_given_to_another(cluster: NeuronCluster) -> None:
    cluster.emulate(steps=1000, step_seconds=0.1)
    with cluster.start(*cluster.bert()) as torchrun:
        assert torchrun.stdout
        assert any("LOG" in line for line in torchrun.stdout)
        other = [word.replace("2022", "2023") for word in cluster.bert()]
        done = cluster.run(*other)
        torchrun.terminate()
        torchrun.communicate(timeout=SECONDS)
    assert done.returncode == 1
    assert "NeuronCore(s) not available - Requested:32 Available:0" in done.stderr
