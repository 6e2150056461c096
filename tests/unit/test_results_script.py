"""results.py and gate.py as the nodes run them: in a run's folder, with nothing but Python."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
import zipfile
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.recipes import layout, recipe, request
from trnctl.render import templates
from trnctl.render.job import documents

LINE = "LOG Thu Sep 29 22:30:10 2022 - (0, {step}) step_loss : {loss} learning_rate : 1.56e-05 throughput : {rate} \n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in documents(recipe(), layout(4), request(notice="AWS is emulated.")):
        (tmp_path / file.name).write_text(file.text)
    return tmp_path


def run(folder: Path, script: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-E", "-s", str(folder / script), *words],
        capture_output=True, text=True, timeout=30, check=False, env={**environment, "PATH": "/usr/bin:/bin"},
    )  # fmt: skip


def results(folder: Path, *words: str, **environment: str) -> dict[str, Any]:
    done = run(folder, "results.py", *words, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads((folder / "results.json").read_text()))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "name",
    [
        "job/results.py",
        "job/gate.py",
        "job/blame.py",
        "job/mirror.py",
        "node/cache.py",
        "node/s3.py",
        "node/objects.py",
    ],
)
def test_old_pythons_can_read_the_scripts(name: str) -> None:
    tree = ast.parse(templates.read(name), feature_version=(3, 6))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= {*sys.stdlib_module_names, "cache", "objects", "s3"}
    assert "__future__" not in imported, "annotations from the future are younger than 3.6"
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert "UTC" not in names, "datetime.UTC is younger than 3.6"


def test_a_run_that_did_not_begin_has_the_plan_and_nulls(folder: Path) -> None:
    told = results(folder)
    assert (told["model"], told["dataset"]) == ("bert-large-uncased", recipe().dataset)
    assert (told["world_size"], told["nodes"], told["micro_batch"]) == (128, 4, 16)
    assert (told["accumulation"], told["global_batch"], told["total_steps"]) == (8, 16_384, 28_125)
    assert (told["sdk"], told["emulated"]) == ("2.31.1", "AWS is emulated.")
    assert [told[name] for name in ("steps_done", "final_loss", "peak_throughput", "time_to_train_s")] == [None] * 4
    assert (told["complete"], told["checkpoints"], told["node_seconds"]) == (False, [], 0)


def test_the_steps_come_from_the_first_workers_log(folder: Path) -> None:
    lines = [LINE.format(step=step, loss=f"{9 - step:.4f}", rate=f"{100.0 * step:.2f}") for step in (1, 2, 3)]
    write(folder / "logs/train/node-0.log", "noise\n" + "".join(lines) + LINE.format(step=4, loss="1", rate="9")[:-2])
    write(folder / "logs/train/node-1.log", LINE.format(step=99, loss="0.1", rate="9999"))
    told = results(folder)
    assert (told["steps_done"], told["final_loss"]) == (3, 6.0)
    assert (told["peak_throughput"], told["average_throughput"]) == (300.0, 200.0)


def test_the_curve_is_thinned_and_ends_with_the_last_step(folder: Path) -> None:
    lines = [LINE.format(step=step, loss=f"{1000 - step}", rate=f"{step}.5") for step in range(1, 1001)]
    write(folder / "logs/train/node-0.log", "".join(lines))
    curve = results(folder)["curve"]
    assert len(curve) == 100
    assert (curve[0], curve[-1]) == ([1, 999.0, 1.5], [1000, 0.0, 1000.5])
    gaps = {after[0] - before[0] for before, after in pairwise(curve)}
    assert gaps <= {10, 11}


def test_steps_that_were_done_again_are_told_as_they_were_done_the_last_time(folder: Path) -> None:
    steps = [(1, "5"), (2, "4"), (3, "3"), (2, "4.5"), (2, "4.25"), (3, "3.5")]
    write(folder / "logs/train/node-0.log", "".join(LINE.format(step=s, loss=loss, rate="1") for s, loss in steps))
    assert results(folder)["curve"] == [[1, 5.0, 1.0], [2, 4.25, 1.0], [3, 3.5, 1.0]]


def test_the_first_worker_may_be_on_another_node_and_a_loss_may_be_no_number(folder: Path) -> None:
    write(folder / "logs/train/node-0.log", "nothing of interest\n")
    write(folder / "logs/train/node-10.log", LINE.format(step=7, loss="nan", rate="5.0"))
    text = json.dumps(results(folder))
    assert '"steps_done": 7' in text
    assert '"final_loss": null' in text


def test_the_end_of_a_stage_is_written_down(folder: Path) -> None:
    results_before = folder / "results.json"
    assert run(folder, "results.py", "begin", "train").returncode == 0
    assert not results_before.exists()
    told = results(
        folder, "end", "train", "0", "", SLURM_JOB_NODELIST="n-[1-4]", SLURM_RESTART_COUNT="2", SLURM_JOB_ID="12"
    )
    ended = json.loads((folder / "ended/train.json").read_text())
    assert ended.pop("at").endswith("Z")
    assert ended == {
        "stage": "train", "exit_code": 0, "warned": False, "restarts": 2, "node_list": "n-[1-4]", "job": "12",
    }  # fmt: skip
    assert told["complete"] is True
    assert told["node_list"] == "n-[1-4]"
    assert told["stages"]["compile"] is None
    assert not list(folder.rglob(".*")), "nothing half-written is left"


@pytest.mark.parametrize(("code", "job", "told"), [("143", "7", "CANCELLED"), ("143", "8", None), ("0", "7", None)])
def test_a_job_that_was_cancelled_is_told_from_one_that_was_ended(
    folder: Path, code: str, job: str, told: str | None
) -> None:
    """By whom, its exit trap cannot know: `trnctl cancel` has left a word."""
    write(folder / "ended/.cancelled-7", "")
    found = results(folder, "end", "train", code, SLURM_JOB_ID=job)
    assert found["stages"]["train"].get("slurm_state") == told


def test_time_is_that_of_all_attempts_on_all_nodes(folder: Path) -> None:
    now = time.time()
    attempts = [
        {"started": now - 1000, "ended": now - 900, "exit_code": 143},
        {"started": now - 500, "ended": now - 450, "exit_code": 0},
    ]
    write(folder / "logs/train/attempts.json", json.dumps(attempts))
    write(
        folder / "logs/compile/attempts.json",
        json.dumps([{"started": now - 1400, "ended": now - 1390, "exit_code": 0}]),
    )
    told = results(folder)
    assert (told["time_to_train_s"], told["compile_s"]) == (150.0, 10.0)
    assert told["node_seconds"] == pytest.approx(4 * 160, abs=1)  # each day is rounded; midnight may lie between
    assert told["restarts"] == 1


def test_an_attempt_that_was_cut_off_ended_with_its_last_words(folder: Path) -> None:
    now = time.time()
    write(folder / "logs/train/attempts.json", json.dumps([{"started": now - 100, "ended": None, "exit_code": None}]))
    os.utime(write(folder / "logs/train/node-0.log", "x"), (now - 40, now - 40))
    os.utime(write(folder / "logs/train/node-1.log", "x"), (now - 70, now - 70))
    run(folder, "results.py", "begin", "train")
    attempts = json.loads((folder / "logs/train/attempts.json").read_text())
    assert attempts[0]["ended"] == pytest.approx(now - 40, abs=0.01)
    assert attempts[1]["ended"] is None


def test_a_stage_that_runs_counts_until_now(folder: Path) -> None:
    started = [{"started": time.time() - 60, "ended": None, "exit_code": None}]
    write(folder / "logs/train/attempts.json", json.dumps(started))
    assert 60 <= results(folder)["time_to_train_s"] < 90


def test_the_ledger_parts_node_seconds_by_day_and_by_the_nodes_of_each_attempt(folder: Path) -> None:
    midnight = datetime(2026, 11, 29, tzinfo=UTC).timestamp()
    attempts = [
        {"started": midnight - 100, "ended": midnight + 50, "nodes": 4},
        {"started": midnight + 90000, "ended": midnight + 90010, "nodes": 2},
    ]
    write(folder / "logs/train/attempts.json", json.dumps(attempts))
    write(folder / "logs/compile/attempts.json", json.dumps([{"started": midnight, "ended": midnight + 5}]))
    told = results(folder)
    kind = told["instance_type"]
    assert told["ledger"] == [
        {"day": "2026-11-28", "nodes": 4, "node_seconds": 400, "instance_type": kind},
        {"day": "2026-11-29", "nodes": 4, "node_seconds": 4 * 55, "instance_type": kind},
        {"day": "2026-11-30", "nodes": 2, "node_seconds": 20, "instance_type": kind},
    ]
    assert told["node_seconds"] == 640
    assert told["nodes_running"] == 0


def test_what_runs_now_is_counted_until_the_record_was_written(folder: Path) -> None:
    run(folder, "results.py", "begin", "train", SLURM_JOB_NUM_NODES="3")
    told = results(folder)
    assert told["nodes_running"] == 3
    assert results(folder, "end", "train", "0")["nodes_running"] == 0


@pytest.mark.parametrize("told", [True, False])
def test_a_job_that_wrote_no_end_has_cost_until_then(folder: Path, told: bool) -> None:
    began = time.time() - 1000
    write(folder / "logs/train/attempts.json", json.dumps([{"started": began, "ended": None, "nodes": 4}]))
    os.utime(write(folder / "logs/train/node-0.log", "x"), (began + 70, began + 70))
    found = results(folder, "close", "train", *([str(began + 90)] if told else []))
    assert found["node_seconds"] == pytest.approx(4 * (90 if told else 70), abs=1)
    again = results(folder, "close", "train", str(began + 500))
    assert again["node_seconds"] == found["node_seconds"], "an end that is known stays"


@pytest.mark.parametrize("half", ["", "[{", '{"started"'])
def test_a_record_that_is_half_there_is_begun_anew(folder: Path, half: str) -> None:
    write(folder / "logs/train/attempts.json", half)
    assert results(folder)["time_to_train_s"] is None
    assert run(folder, "results.py", "begin", "train").returncode == 0
    assert results(folder, "end", "train", "0")["time_to_train_s"] is not None


def checkpoint(folder: Path, name: str, whole: bool = True) -> None:
    path = write(folder / "checkpoints" / name, "")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", "x" * 5000)
    if not whole:
        path.write_bytes(path.read_bytes()[:2000])


def test_checkpoints_are_told_oldest_first_and_half_ones_as_such(folder: Path) -> None:
    assert run(folder, "results.py", "checkpoint").stdout == ""
    checkpoint(folder, "ckpt_1000.pt")
    checkpoint(folder, "ckpt_999.pt")
    checkpoint(folder, "ckpt_2000.pt", whole=False)
    write(folder / "checkpoints/notes.txt", "9999")
    told = results(folder)["checkpoints"]
    assert [(one["name"], one["complete"]) for one in told] == [
        ("ckpt_999.pt", True), ("ckpt_1000.pt", True), ("ckpt_2000.pt", False),
    ]  # fmt: skip
    assert told[2]["bytes"] == 2000
    assert run(folder, "results.py", "checkpoint").stdout == f"{folder}/checkpoints/ckpt_1000.pt\n"


def test_a_folder_is_whole_once_it_is_marked_as_done(folder: Path) -> None:
    manifest = json.loads((folder / "run.json").read_text())
    manifest["checkpoint"] = {"pattern": "step_*", "complete_when": "done-file"}
    write(folder / "run.json", json.dumps({**manifest, "log_first": 0}))
    for step in (100, 200, 1000):
        write(folder / f"checkpoints/step_{step}/model/part.pt", "x")
    for step in (100, 200):
        write(folder / f"checkpoints/step_{step}/done", "1")
    write(folder / "logs/train/node-0.log", LINE.format(step=199, loss="7.0", rate="10.0"))
    told = results(folder)
    assert [(one["name"], one["complete"], one["bytes"]) for one in told["checkpoints"]] == [
        ("step_100", True, None), ("step_200", True, None), ("step_1000", False, None),
    ]  # fmt: skip
    assert run(folder, "results.py", "checkpoint").stdout == f"{folder}/checkpoints/step_200\n"
    assert told["steps_done"] == 200, "a script that counts from 0 has done one step more"


# ------------------------------------------------------------------------------------------------ gate.py

START = "trnctl: stage compile starts on n-1, node 0 of 4, master 10.0.0.1\n"
SUMMARY = "||NEURON_PARALLEL_COMPILE||: Total graphs: 3\n"
SUMMARY += "||NEURON_PARALLEL_COMPILE||: Total successful compilations: {}\n"
SUMMARY += "||NEURON_PARALLEL_COMPILE||: Total failed compilations: {}\n"


def graph(cache: Path, name: str, *files: str, version: str = "neuronxcc-2.26.1+ab", age: float = 0) -> Path:
    module = cache / version / name
    for file in files:
        path = write(module / file, "x")
        os.utime(path, (time.time() - age, time.time() - age))
    return module


def gate(folder: Path, cache: Path | str, log: str, *, node: int = 0) -> tuple[int, list[str], list[dict[str, str]]]:
    write(folder / f"logs/compile/node-{node}.log", log)
    done = run(folder, "gate.py", str(time.time() - 60), str(cache), "0")
    assert done.stderr == ""
    failed = json.loads((folder / "logs/compile/failed-graphs.json").read_text())
    return done.returncode, done.stdout.splitlines(), failed


def test_all_graphs_compiled(folder: Path) -> None:
    cache = folder / "cache"
    graph(cache, "MODULE_1+a", "model.hlo_module.pb", "model.neff", "model.done")
    graph(cache, "MODULE_2+a", "model.log", "model.neff", "model.done")
    assert gate(folder, cache, START + SUMMARY.format(3, 0)) == (0, [], [])


def test_a_graph_with_a_log_and_no_result_fails_whatever_the_summary_says(folder: Path) -> None:
    cache = folder / "cache"
    one = graph(cache, "MODULE_12+ab", "model.hlo_module.pb", "model.log")
    two = graph(cache, "MODULE_9+ab", "model.log")
    code, said, failed = gate(folder, cache, START + SUMMARY.format(3, 0))
    assert code == 1
    assert said == [
        f"trnctl: graph failed: MODULE_12+ab (log {one}/model.log)",
        f"trnctl: graph failed: MODULE_9+ab (log {two}/model.log)",
    ]
    assert failed == [
        {"graph": "MODULE_12+ab", "log": f"{one}/model.log", "state": "failed"},
        {"graph": "MODULE_9+ab", "log": f"{two}/model.log", "state": "failed"},
    ]


def test_a_summary_that_counts_failures_is_enough(folder: Path) -> None:
    code, said, failed = gate(folder, folder / "cache", START + SUMMARY.format(1, 2), node=3)
    assert (code, failed) == (1, [])
    assert said == [f"trnctl: failed compilations: 2 (log {folder}/logs/compile/node-3.log)"]


def test_other_runs_and_other_compilers_are_not_ours(folder: Path) -> None:
    cache = folder / "cache"
    graph(cache, "MODULE_1+a", "model.log", age=3600)
    graph(cache, "MODULE_2+a", "model.log", version="neuronxcc-2.20.0+cd")
    graph(cache, "MODULE_5+a", "model.neff", "model.done")
    log = START + "compiling with neuronxcc-2.26.1+ab/MODULE_5+a\n" + SUMMARY.format(3, 0)
    assert gate(folder, cache, log) == (0, [], [])


def test_an_old_failure_that_this_run_met_in_the_cache_is_ours(folder: Path) -> None:
    cache = folder / "cache"
    graph(cache, "MODULE_1+a", "model.log", age=3600)
    code, said, _ = gate(folder, cache, START + "Got a cached failed neff at MODULE_1+a\n")
    assert (code, len(said)) == (1, 1)


def test_what_an_earlier_attempt_said_does_not_count(folder: Path) -> None:
    log = START + SUMMARY.format(1, 2) + START + SUMMARY.format(3, 0)
    assert gate(folder, folder / "cache", log) == (0, [], [])


def test_a_cache_in_s3_is_told_and_the_summary_judged(folder: Path) -> None:
    for name in ("s3.py", "objects.py"):
        (folder / name).write_text(templates.read(f"node/{name}"))
    code, said, _ = gate(folder, "s3://bucket/cache", START + SUMMARY.format(3, 0))
    assert (code, len(said)) == (0, 1)
    assert gate(folder, "s3://bucket/cache", START + SUMMARY.format(2, 1))[0] == 1
