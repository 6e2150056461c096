"""neuron_parallel_compile: cache layout, locks, lines and exit codes, alone and on several nodes at once."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest

from tests.sandbox.neuron_cluster import SECONDS, NeuronCluster
from trnctl.sandbox.neuron.graphs import read_flags, training_graphs

COMPILE = ("neuron_parallel_compile", "--num_parallel", "4")
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.000\d{3}:  \d+  INFO "
LOCK = "model.hlo_module.pb.lock"
FACTS = {"micro batch": 16, "sequence": 128, "workers": 512, "numbers": "bfloat16"}


@pytest.fixture
def cluster(tmp_path: Path) -> NeuronCluster:
    return NeuronCluster(tmp_path)


def counts(output: str) -> tuple[int, ...]:
    """Total, successful and failed graphs of the summary block."""
    tag = r"\|\|NEURON_PARALLEL_COMPILE\|\|: Total "
    found = [re.findall(rf"{STAMP}{tag}{what}: (\d+)", output) for what in SUMMARY]
    assert [len(each) for each in found] == [1, 1, 1], output
    return tuple(int(each[0]) for each in found)


SUMMARY = ("graphs", "successful compilations", "failed compilations")


def test_collect_and_compile_fills_the_cache(cluster: NeuronCluster) -> None:
    done = cluster.run(*COMPILE, *cluster.bert("--steps_this_run", "5"))
    assert done.returncode == 0, done.stdout
    assert counts(done.stdout) == (5, 5, 0)
    assert len(cluster.entries()) == 5
    for entry in cluster.entries():
        assert re.fullmatch(r"neuronxcc-2\.26\.6360\.0\+[0-9a-f]{8}", entry.parent.name)
        assert re.fullmatch(r"MODULE_\d+\+[0-9a-f]{8}", entry.name)
        files = {path.name for path in entry.iterdir()}
        assert files == {"model.hlo_module.pb", "compile_flags.json", "model.neff", "model.done"}
        assert json.loads((entry / "compile_flags.json").read_text()) == ["--model-type=transformer"]


def test_collect_and_compile_prints_the_lines_of_the_real_tool(cluster: NeuronCluster) -> None:
    output = cluster.run(*COMPILE, *cluster.bert()).stdout
    assert re.search(rf"^{STAMP}\|\|NEURON_CACHE\|\|: Compile cache path: {cluster.cache}$", output, re.MULTILINE)
    progress = r"Current remaining items are (\d+), locked are (\d+), failed are (\d+), done are (\d+), total is (\d+)"
    seen = re.findall(rf"^{STAMP}\|\|NEURON_CACHE\|\|: {progress}$", output, re.MULTILINE)
    assert seen[0] == ("5", "0", "0", "0", "5")
    assert seen[-1] == ("0", "0", "0", "5", "5")
    extracting = rf"\|\|NEURON_CC_WRAPPER\|\|: Extracting graphs \({cluster.cache}/neuronxcc-\S+/MODULE_\S+\.pb\) for"
    assert len(re.findall(extracting, output)) == 5
    assert output.count("Call compiler with cmd: neuronx-cc compile --framework=XLA ") == 5
    assert output.count("\nCompiler status PASS\n") == 5


def test_a_trial_run_shows_nothing_that_looks_like_a_result(cluster: NeuronCluster) -> None:
    output = cluster.run(*COMPILE, *cluster.bert()).stdout
    assert "Epoch 0 file index 1 begin" in output
    assert not re.search(r"^LOG |Checkpointing|seq/sec", output, re.MULTILINE)
    assert list(cluster.output.glob("*.pt")) == []


def test_nothing_to_do_prints_no_summary(cluster: NeuronCluster) -> None:
    assert cluster.run(*COMPILE, *cluster.bert()).returncode == 0
    again = cluster.run(*COMPILE, *cluster.bert("--lr", "0.001", "--max_steps", "99", "--seed", "7"))
    assert again.returncode == 0
    assert "No todo hlos found in cache" in again.stdout
    assert "Total graphs" not in again.stdout
    assert again.stdout.count("Using a cached neff at ") == 5


def test_the_results_are_dumped_when_asked_for(cluster: NeuronCluster) -> None:
    cluster.run(*COMPILE, *cluster.bert(), NEURON_PARALLEL_COMPILE_DUMP_RESULTS="1")
    (report,) = cluster.folder.glob("neuron_parallel_compile_results_*.json")
    content = json.loads(report.read_text(encoding="utf-8"))
    assert content["compilation_summary"] == {"true": 5}
    expected = {str(entry / "model.hlo_module.pb") for entry in cluster.entries()}
    assert set(content["compilation_report"]) == expected
    assert all(set(each) == {"status", "retry", "compile_time"} for each in content["compilation_report"].values())
    (total,) = cluster.folder.glob("total_neuron_parallel_compile_results_*.json")
    assert json.loads(total.read_text(encoding="utf-8"))["total_neuron_parallel_compile_time"] > 0


def test_a_failing_script_ends_it_with_1(cluster: NeuronCluster) -> None:
    done = cluster.run(*COMPILE, "sh", "-c", "echo tracing; exit 7")
    assert done.returncode == 1
    assert "tracing\n" in done.stdout
    assert "ERROR ||NEURON_PARALLEL_COMPILE||: There was an error in the training script." in done.stdout


def test_a_failing_script_can_be_ignored(cluster: NeuronCluster) -> None:
    done = cluster.run(*COMPILE, "false", NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE="1")
    assert done.returncode == 0
    assert "continuing to compile" in done.stdout


def test_a_missing_command_is_an_error_and_none_is_not(cluster: NeuronCluster) -> None:
    assert cluster.run(*COMPILE, "no-such-program").returncode == 1
    nothing = cluster.run(*COMPILE)
    assert nothing.returncode == 0
    assert "usage: neuron_parallel_compile" in nothing.stdout


def test_redirected_torchrun_is_refused(cluster: NeuronCluster) -> None:
    done = cluster.run(*COMPILE, "torchrun", "--redirects=3", "train.py")
    assert done.returncode == 1
    assert "incompatible with torchrun redirect" in done.stdout


def test_a_graph_that_fails_is_named_counted_and_remembered(cluster: NeuronCluster) -> None:
    cluster.emulate(faults=["compile-failure"])
    done = cluster.run(*COMPILE, *cluster.bert())
    assert done.returncode == 1
    assert counts(done.stdout) == (5, 4, 1)
    (failed,) = [entry for entry in cluster.entries() if (entry / "model.log").exists()]
    assert re.search(rf"ERROR .*Compilation failed for \S+/{re.escape(failed.name)}/\S+ after 0 retries", done.stdout)
    assert failed.name in (failed / "model.log").read_text(encoding="utf-8")
    assert not (failed / "model.neff").exists()
    assert not (failed / LOCK).exists()

    cluster.emulate()
    skipped = cluster.run(*COMPILE, *cluster.bert())
    assert skipped.returncode == 0
    assert f"Got a cached failed neff at {failed}/model.neff. Will skip compilation" in skipped.stdout

    retried = cluster.run(*COMPILE, *cluster.bert(), NEURON_CC_FLAGS="--retry_failed_compilation")
    assert counts(retried.stdout) == (1, 1, 0)
    assert {path.name for path in failed.iterdir()} >= {"model.neff", "model.done"}
    assert not (failed / "model.log").exists()


def test_before_neuron_2_23_failures_ended_with_0(cluster: NeuronCluster) -> None:
    cluster.emulate(faults=["compile-failure-exit-0"])
    done = cluster.run(*COMPILE, *cluster.bert())
    assert done.returncode == 0
    assert counts(done.stdout) == (5, 4, 1)


def test_retries_are_counted(cluster: NeuronCluster) -> None:
    cluster.emulate(faults=["compile-failure"])
    done = cluster.run(*COMPILE, *cluster.bert(), NEURON_PARALLEL_COMPILE_MAX_RETRIES="2")
    assert done.returncode == 1
    assert "after 2 retries" in done.stdout
    assert '"retry": 2' in done.stdout


def test_a_killed_compiler_leaves_a_lock_that_the_next_waits_for(cluster: NeuronCluster) -> None:
    cluster.emulate(faults=["compile-killed"])
    assert cluster.run("neuron_parallel_compile", "--num_parallel", "1", *cluster.bert()).returncode == -signal.SIGKILL
    (locked,) = [entry for entry in cluster.entries() if (entry / LOCK).exists()]

    cluster.emulate()
    with cluster.start(*COMPILE, *cluster.bert(), node="q-dy-i1-2") as waiting:
        assert waiting.stdout
        wanted = f"Another process must be compiling {locked}/model.neff, been waiting for: 0.0 minutes"
        assert any(wanted in line for line in waiting.stdout)
        time.sleep(0.5)
        assert waiting.poll() is None
        assert cluster.run("neuron_parallel_compile", "--command", "clear-locks").returncode == 0
        output, _ = waiting.communicate(timeout=SECONDS)
    assert waiting.returncode == 0
    assert counts(output)[2] == 0
    assert (locked / "model.done").exists()


def test_nodes_that_share_a_cache_compile_each_graph_once(cluster: NeuronCluster) -> None:
    cluster.emulate(compile_seconds=0.6)
    command = cluster.bert()
    tools = [cluster.start(*COMPILE, *command, node=f"q-dy-i1-{number}") for number in range(1, 5)]
    outputs = [tool.communicate(timeout=SECONDS)[0] for tool in tools]
    assert [tool.returncode for tool in tools] == [0, 0, 0, 0]
    compiled = re.findall(r"Compilation Successfully Completed for model\.(MODULE_\d+\+\w+)\.", "".join(outputs))
    assert sorted(compiled) == [entry.name for entry in cluster.entries()]
    assert all((entry / "model.done").exists() and not (entry / LOCK).exists() for entry in cluster.entries())
    summed = [counts(output) for output in outputs if "Total graphs" in output]
    assert sum(total for total, _, _ in summed) == 5


def test_a_failure_is_reported_by_the_node_that_met_it(cluster: NeuronCluster) -> None:
    """Even when failures are to be tried again: all nodes of a job would repeat the same one."""
    cluster.emulate(faults=["compile-failure"], compile_seconds=1.0)
    command = cluster.bert()
    flags = "--retry_failed_compilation"
    tools = [cluster.start(*COMPILE, *command, node=f"q-dy-i1-{n}", NEURON_CC_FLAGS=flags) for n in (1, 2, 3)]
    outputs = [tool.communicate(timeout=SECONDS)[0] for tool in tools]
    assert sorted(tool.returncode for tool in tools) == [0, 0, 1]
    assert "".join(outputs).count("Compilation failed for ") == 1
    assert not any((entry / LOCK).exists() for entry in cluster.entries())


def test_every_node_is_done_only_when_all_graphs_are(cluster: NeuronCluster) -> None:
    """The last node to come finds everything locked, and must not end before it is compiled."""
    cluster.emulate(compile_seconds=1.0)
    with cluster.start(*COMPILE, *cluster.bert()) as first:
        while not any((entry / LOCK).exists() for entry in cluster.entries()):
            time.sleep(0.02)
        second = cluster.run(*COMPILE, *cluster.bert(), node="q-dy-i1-2")
        assert second.returncode == 0
        assert all((entry / "model.done").exists() for entry in cluster.entries())
        first.communicate(timeout=SECONDS)


def test_collect_then_compile(cluster: NeuronCluster) -> None:
    collected = cluster.run(*COMPILE, "--command", "collect", *cluster.bert())
    assert collected.returncode == 0
    assert "Total graphs" not in collected.stdout
    assert not any((entry / "model.neff").exists() for entry in cluster.entries())
    compiled = cluster.run(*COMPILE, "--command", "compile", NEURON_CC_FLAGS="--model-type=transformer")
    assert counts(compiled.stdout) == (5, 5, 0)


def test_scan_lists_every_state(cluster: NeuronCluster) -> None:
    cluster.run(*COMPILE, "--command", "collect", *cluster.bert())
    done, locked, failed, *_ = cluster.entries()
    (locked / LOCK).touch()
    (failed / "model.log").write_text("broken", encoding="utf-8")
    for name in ("model.neff", "model.done"):
        (done / name).touch()
    output = cluster.run("neuron_parallel_compile", "--command", "scan-with-failed").stdout
    found = dict(re.findall(r"\t(\w+)\[\d+\]: (\[.*\])", output))
    assert {state: names.count("MODULE_") for state, names in found.items()} == {
        "todo": 2,
        "locked": 1,
        "done": 1,
        "failed": 1,
    }
    assert failed.name in found["failed"]


def test_clear_neffs_keeps_the_graphs_and_clean_nothing(cluster: NeuronCluster) -> None:
    cluster.run(*COMPILE, *cluster.bert())
    assert cluster.run("neuron_parallel_compile", "--command", "clear-neffs").returncode == 0
    for entry in cluster.entries():
        assert {path.name for path in entry.iterdir()} == {"model.hlo_module.pb", "compile_flags.json"}
    assert cluster.run("neuron_parallel_compile", "--command", "clean").returncode == 0
    assert not cluster.cache.exists()


def test_the_flag_names_the_cache_before_the_variable(cluster: NeuronCluster) -> None:
    other = cluster.shared / "other cache"
    flags = f"--cache_dir='{other}' --retry_failed_compilation --log_level INFO -O1"
    assert cluster.run(*COMPILE, *cluster.bert(), NEURON_CC_FLAGS=flags).returncode == 0
    assert cluster.entries() == []
    (entry, *_) = other.glob("neuronxcc-*/MODULE_*")
    assert json.loads((entry / "compile_flags.json").read_text()) == ["-O1", "--model-type=transformer"]


def test_the_default_cache_is_on_the_nodes_own_disk(cluster: NeuronCluster) -> None:
    assert cluster.run(*COMPILE, *cluster.bert(), NEURON_COMPILE_CACHE_URL="").returncode == 0
    own = cluster.folder / "local" / "q-dy-i1-1" / "var" / "tmp" / "neuron-compile-cache"
    assert len(list(own.glob("neuronxcc-*/MODULE_*/model.done"))) == 5


def test_a_cache_in_s3_that_cannot_be_reached_ends_the_tool(cluster: NeuronCluster) -> None:
    keys = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    where = {"NEURON_COMPILE_CACHE_URL": "s3://bucket/cache", "AWS_REGION": "us-west-2"}
    done = cluster.run(*COMPILE, *cluster.bert(), **keys, **where)
    assert done.returncode == 1
    assert "the compile cache s3://bucket/cache: S3 gave no answer" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "change", [{"micro batch": 8}, {"sequence": 512}, {"workers": 32}, {"numbers": "float32"}], ids=str
)
def test_what_changes_a_graph_changes_its_key(change: dict[str, object]) -> None:
    before = {graph.key for graph in training_graphs(32, FACTS)}
    after = {graph.key for graph in training_graphs(32, {**FACTS, **change})}
    assert not before & after


def test_accumulation_changes_the_graphs_only_at_1() -> None:
    assert training_graphs(32, FACTS) == training_graphs(2, FACTS)
    assert {graph.name for graph in training_graphs(1, FACTS)} != {graph.name for graph in training_graphs(2, FACTS)}


def test_compiler_flags_change_the_second_half_of_the_name() -> None:
    assert read_flags("").key == "d41d8cd9"  # as Neuron's own logs show it for no flag
    assert read_flags("--retry_failed_compilation --cache_dir=/x").key == "d41d8cd9"
    assert read_flags("-O1").key != read_flags("-O2").key
