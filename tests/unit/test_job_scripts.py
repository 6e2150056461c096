"""The rendered batch scripts, run by a real bash with stand-ins for Slurm and the Neuron tools."""

from __future__ import annotations

import json
import signal
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.job_folder import JobFolder, end, make_job_folder
from tests.recipes import recipe
from trnctl.render.places import code_folder

STEPS = r"""
for step in (1, 2, 3):
    print(f"LOG Thu Sep 29 22:30:10 2022 - (0, {step}) step_loss : {9 - step:.4f} learning_rate : 1.56e-05 "
          f"throughput : {100 * step:.2f} ", flush=True)
"""


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return make_job_folder(tmp_path)


def test_training_starts_torchrun_on_the_script_itself(job: JobFolder) -> None:
    code, said = job.run("train", STAND_IN=STEPS)
    assert (code, "stage train of bert-large-1129-a3f" in said) == (0, True), said
    seen = job.seen()
    assert seen["argv"][:5] == [
        "--nproc_per_node=32", "--nnodes=2", "--node_rank=0", "--master_addr=10.0.1.12", "--master_port=2022",
    ]  # fmt: skip
    assert seen["argv"][5] == recipe().script
    assert f"--output_dir={job.folder}/checkpoints" in seen["argv"]
    assert seen["folder"] == code_folder(str(job.mount), recipe().source)
    assert seen["environment"]["NEURON_COMPILE_CACHE_URL"] == f"{job.mount}/trnctl/cache/trn1/2.31.1"
    assert seen["environment"]["SRUN_CPUS_PER_TASK"] == "128"
    ended = job.record("ended/train.json")
    assert (ended["stage"], ended["exit_code"], ended["node_list"]) == ("train", 0, "n-[1-2]")
    results = job.record("results.json")
    assert results["complete"] is True
    assert (results["steps_done"], results["final_loss"], results["peak_throughput"]) == (3, 6.0, 300.0)


def test_the_exit_code_of_the_node_that_failed_is_the_jobs(job: JobFolder) -> None:
    code, said = job.run("train", STAND_IN=STEPS + "sys.exit(3)")
    assert code == 3
    assert "node 0 failed first, with exit code 3: logs/train/node-0.log" in said
    assert job.record("ended/train.json")["exit_code"] == 3
    results = job.record("results.json")
    assert (results["complete"], results["steps_done"]) == (False, 3), "what a failed run reached is kept"


def test_a_virtual_environment_is_activated_where_it_is(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path, workload=replace(recipe(), virtualenv="{mount}/venv", requirements=()))
    activate = tmp_path / "venv/bin/activate"
    activate.parent.mkdir(parents=True)
    activate.write_text("export ACTIVATED=yes\n")
    assert job.run("train")[0] == 0
    assert job.seen()["environment"]["ACTIVATED"] == "yes"


@pytest.mark.parametrize(
    ("spoil", "code", "told"),
    [
        (lambda job: (Path(code_folder(str(job.mount), recipe().source)) / recipe().script).unlink(), 66, "git clone"),
        (lambda job: (job.tools / "torchrun").unlink(), 69, "There is no torchrun on n-1."),
    ],
)
def test_what_is_missing_is_told_before_the_nodes_start(
    job: JobFolder, spoil: Callable[[JobFolder], None], code: int, told: str
) -> None:
    spoil(job)
    ended, said = job.run("train")
    assert ended == code
    assert told in said
    assert not (job.folder / "logs/train/node-0.log").exists()
    assert job.record("ended/train.json")["exit_code"] == code


def test_the_compiler_must_be_there_too(job: JobFolder) -> None:
    (job.tools / "neuron_parallel_compile").unlink()
    code, said = job.run("compile")
    assert (code, "There is no neuron_parallel_compile" in said) == (69, True)


def test_a_name_is_resolved_and_no_address_is_no_localhost(job: JobFolder) -> None:
    code, _ = job.run("train", ADDRESS="localhost")
    assert (code, job.seen()["argv"][3]) == (0, "--master_addr=127.0.0.1")
    (job.mount / "seen.json").unlink()
    code, said = job.run("train", NO_ADDRESS="yes")
    assert code == 68
    assert "know no address of n-1" in said
    assert not (job.mount / "seen.json").exists()


def test_ports_are_reserved_beside_those_that_are_and_without_the_right_it_is_told(job: JobFolder) -> None:
    job.run("train")
    assert "-q -w net.ipv4.ip_local_reserved_ports=44000,48620" in (job.mount / "seen.json.sysctl").read_text()
    code, _ = job.run("train", NO_RIGHT="yes")
    assert code == 0
    assert job.log("train").count("port 48620 is not reserved on n-1: no right to do so") == 1


def checkpoint(job: JobFolder, name: str, whole: bool = True) -> None:
    path = job.folder / "checkpoints" / name
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", "x" * 1000)
    if not whole:
        path.write_bytes(path.read_bytes()[:500])


def test_a_run_that_starts_again_goes_on_from_its_newest_whole_checkpoint(job: JobFolder) -> None:
    job.run("train", STAND_IN="sys.exit(9)")
    assert "--resume_ckpt" not in job.seen()["argv"]
    checkpoint(job, "ckpt_900.pt")
    checkpoint(job, "ckpt_1000.pt")
    checkpoint(job, "ckpt_1100.pt", whole=False)
    code, said = job.run("train", SLURM_RESTART_COUNT="1")
    newest = f"{job.folder}/checkpoints/ckpt_1000.pt"
    assert (code, f"going on from {newest}" in said) == (0, True)
    assert job.seen()["argv"][-3:] == ["--resume_ckpt", "--resume_ckpt_path", newest]
    assert job.log("train").count("stage train starts") == 2, "the log is appended to"
    assert job.record("results.json")["restarts"] == 1


def test_a_run_without_a_checkpoint_starts_from_that_of_another_run(job: JobFolder) -> None:
    manifest = job.record("run.json")
    (job.folder / "run.json").write_text(json.dumps({**manifest, "from_checkpoint": "/fsx/other/ckpt_5.pt"}))
    job.run("train")
    assert job.seen()["argv"][-1] == "/fsx/other/ckpt_5.pt"
    checkpoint(job, "ckpt_10.pt")
    job.run("train")
    assert job.seen()["argv"][-1] == f"{job.folder}/checkpoints/ckpt_10.pt", "its own is newer"


@pytest.mark.parametrize(("lost", "requeued"), [("n-2\n", True), ("", False)])
def test_a_job_that_lost_a_node_waits_for_nodes_again(job: JobFolder, lost: str, requeued: bool) -> None:
    code, said = job.run("train", STAND_IN="sys.exit(9)", LOST=lost)
    asked = job.mount / "seen.json.requeued"
    assert code == 9
    assert (asked.exists() and asked.read_text()) == ("requeue 7\n" if requeued else False)
    assert ("lost n-2: the job waits for nodes again" in said) is requeued


SILENCE = "n-2 does not answer: waiting for Slurm to notice that it is lost"


def test_a_node_that_is_silent_before_slurm_has_noticed_is_lost_too(job: JobFolder) -> None:
    code, said = job.run("train", STAND_IN="sys.exit(9)", SILENT="n-2", LOST="n-2\n", UNNOTICED="2")
    assert (code, SILENCE in said, "lost n-2: the job waits" in said) == (9, True, True)
    assert (job.mount / "seen.json.requeued").read_text() == "requeue 7\n"


def test_a_job_that_starts_again_passes_the_numbers_of_its_earlier_steps(job: JobFolder) -> None:
    """slurmctld keeps a signal for step 7.0 on a lost node, and gives it to step 7.0 on the node that replaces it."""
    steps = job.mount / "seen.json.steps"
    job.run("train", STAND_IN="sys.exit(9)", SILENT="n-2", LOST="n-2\n", UNNOTICED="2")
    earlier = steps.read_text().splitlines()
    assert (earlier[0], set(earlier[1:])) == ("all nodes", {"--nodelist=n-2"})
    steps.unlink()
    assert job.run("train", SLURM_RESTART_COUNT="1")[0] == 0
    assert steps.read_text().splitlines() == ["--nodelist=n-1"] * len(earlier) + ["all nodes"]
    steps.unlink()
    assert job.run("train", SLURM_JOB_ID="8")[0] == 0
    assert steps.read_text().splitlines() == ["all nodes"], "the steps of another job have numbers of their own"


def test_a_lost_node_is_waited_for_also_when_slurm_does_not_tell_its_patience(job: JobFolder) -> None:
    code, said = job.run(
        "train", STAND_IN="sys.exit(9)", SILENT="n-2", LOST="n-2\n", UNNOTICED="2", SLURMD_TIMEOUT="none"
    )
    assert (code, "lost n-2: the job waits" in said) == (9, True), said


def test_slurm_is_given_only_so_long_to_notice(job: JobFolder) -> None:
    code, said = job.run("train", STAND_IN="sys.exit(9)", SILENT="n-2", SLURMD_TIMEOUT="0")
    assert (code, SILENCE in said, (job.mount / "seen.json.requeued").exists()) == (9, True, False)


def test_only_nodes_of_which_no_end_was_heard_are_asked(job: JobFolder) -> None:
    code, said = job.run("train", STAND_IN="sys.exit(9)", SILENT="n-1")
    assert (code, "does not answer" in said) == (9, False)


def test_a_run_that_gets_no_further_stops_with_the_reason(job: JobFolder) -> None:
    checkpoint(job, "ckpt_10.pt")
    assert [job.run("train", STAND_IN="sys.exit(9)")[0] for _ in range(3)] == [9, 9, 9]
    code, said = job.run("train", STAND_IN="sys.exit(9)")
    reason = "it has started 3 times from ckpt_10.pt and reached no checkpoint after it"
    assert (code, f"the stage does not start again: {reason}" in said) == (75, True)
    assert job.record("ended/train.json")["reason"] == reason
    assert job.run("train", SLURM_JOB_ID="8")[0] == 0, "a job that a person has submitted counts anew"


def test_the_restarts_of_a_run_that_gets_further_are_bounded_too(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path)
    manifest = job.record("run.json")
    assert manifest["restarts"] == {"most": 5, "without_progress": 2}
    (job.folder / "run.json").write_text(json.dumps({**manifest, "restarts": {"most": 1, "without_progress": 2}}))
    for step in (10, 20):
        checkpoint(job, f"ckpt_{step}.pt")
        assert job.run("train", STAND_IN="sys.exit(9)")[0] == 9
    checkpoint(job, "ckpt_30.pt")
    code, said = job.run("train")
    assert (code, "it has started again 1 times, which is the most that run.json allows" in said) == (75, True)


def signalled(job: JobFolder, number: int, stand_in: str) -> tuple[int, str]:
    """Run training, and send a signal to the batch script alone once its worker has said that it is up."""
    process = job.start("train", STAND_IN=stand_in)
    log = job.folder / "logs/train/node-0.log"
    deadline = time.monotonic() + 30
    while not (log.exists() and "worker is up" in log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    return end(process)


WORKER = """
import subprocess, signal
signal.signal(signal.SIGTERM, lambda *_: (worker.terminate(), sys.exit(1)))
code = '''import signal, sys, time
{handling}
print("worker is up", flush=True)
time.sleep({seconds})
print("worker went on", flush=True)'''
worker = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
sys.exit(worker.wait())
"""


def test_a_worker_that_saves_on_usr1_gets_it(tmp_path: Path) -> None:
    saves = replace(recipe(), checkpoint=replace(recipe().checkpoint, on_signal=True))
    job = make_job_folder(tmp_path, workload=saves)
    handling = 'signal.signal(signal.SIGUSR1, lambda *_: (print("worker saves", flush=True), sys.exit(0)))'
    code, said = signalled(job, signal.SIGUSR1, WORKER.format(handling=handling, seconds=30))
    assert code == 0, said
    assert "worker saves" in job.log("train")
    assert job.record("ended/train.json")["warned"] is True
    assert job.record("results.json")["complete"] is False, "it saved and left before its last step"


def test_a_worker_that_knows_no_usr1_goes_on(job: JobFolder) -> None:
    code, said = signalled(job, signal.SIGUSR1, WORKER.format(handling="", seconds=1))
    assert code == 0, said
    assert "worker went on" in job.log("train")
    assert "the script does not save on a signal" in said
    assert job.record("results.json")["complete"] is True


def test_term_ends_the_workers_and_is_written_down(job: JobFolder) -> None:
    code, said = signalled(job, signal.SIGTERM, WORKER.format(handling="", seconds=30))
    assert code == 143, said
    assert "worker went on" not in job.log("train")
    assert job.record("ended/train.json")["exit_code"] == 143


def test_the_users_variables_reach_the_workers_and_nothing_else(tmp_path: Path) -> None:
    mine = {"folder": "/nowhere", "arguments": "none", "IFS": "e", "PYTHONPATH": "/nowhere", "SLURM_JOB_ID": "8"}
    job = make_job_folder(tmp_path, environment=mine)
    code, said = job.run("train", STAND_IN=STEPS)
    assert code == 0, said
    seen = job.seen()["environment"]
    assert {name: seen[name] for name in mine} == mine
    assert job.record("ended/train.json")["job"] == "7"
    assert job.record("results.json")["steps_done"] == 3


def test_the_user_may_name_another_cache(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path, environment={"NEURON_COMPILE_CACHE_URL": "s3://mine/cache"})
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-west-2"}
    code, said = job.run("compile", COMPILER=SUMMARY.format(failed=0), AWS_ENDPOINT_URL="http://127.0.0.1:9", **keys)
    assert (code, "only the summaries are looked at: S3 gave no answer" in said) == (0, True), said
    assert job.seen()["environment"]["NEURON_COMPILE_CACHE_URL"] == "s3://mine/cache"
    assert job.record("run.json")["cache"] == "s3://mine/cache"


SUMMARY = """
echo '||NEURON_PARALLEL_COMPILE||: Total graphs: 1'
echo "||NEURON_PARALLEL_COMPILE||: Total successful compilations: $((1 - {failed}))"
echo '||NEURON_PARALLEL_COMPILE||: Total failed compilations: {failed}'
"""
GRAPH = """
module=$NEURON_COMPILE_CACHE_URL/neuronxcc-2.26.1+abc/MODULE_{name}
mkdir -p $module
echo "||NEURON_CC_WRAPPER||: Call compiler with cmd: neuronx-cc compile $module/model.hlo_module.pb"
rm -f $module/*
for file in model.hlo_module.pb {left}; do echo x >$module/$file; done
"""
COMPILED = GRAPH + SUMMARY
WHOLE = "model.neff model.done"


def cache(job: JobFolder) -> Path:
    return job.mount / "trnctl/cache/trn1/2.31.1"


def ledger(job: JobFolder) -> dict[str, Any]:
    (path,) = (cache(job) / "ledger").glob("*.json")
    assert path.stem == job.record("run.json")["fingerprint"]
    return dict(json.loads(path.read_text()))


def test_a_compile_stage_passes_when_every_graph_did_and_tells_runs_to_come(job: JobFolder) -> None:
    code, said = job.run("compile", COMPILER=COMPILED.format(name="1+a", left=WHOLE, failed=0))
    assert code == 0, said
    assert "--steps_this_run=5" in job.seen()["argv"]
    ended = job.record("ended/compile.json")
    assert (ended["exit_code"], ended["failed_graphs"]) == (0, [])
    results = job.record("results.json")
    assert results["compile_s"] is not None
    assert results["complete"] is False
    told = ledger(job)
    assert (told["state"], told["graphs"]) == ("complete", ["neuronxcc-2.26.1+abc/MODULE_1+a"])
    assert (told["workload"], told["nodes"], told["run"]) == ("bert-large", 2, "bert-large-1129-a3f")
    assert told["bytes"] == 2


def test_a_failed_graph_fails_the_stage_although_the_compiler_ends_with_0(job: JobFolder) -> None:
    code, said = job.run("compile", COMPILER=COMPILED.format(name="12+ab", left="model.log", failed=1))
    assert code == 70
    log = f"{cache(job)}/neuronxcc-2.26.1+abc/MODULE_12+ab/model.log"
    assert f"trnctl: graph failed: MODULE_12+ab (log {log})\n" in said
    assert job.record("ended/compile.json")["failed_graphs"] == [
        {"graph": "MODULE_12+ab", "log": log, "state": "failed"}
    ]
    assert (ledger(job)["state"], ledger(job)["failed"]) == ("partial", ["MODULE_12+ab"])


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ("", "is not compiled"),
        ("model.neff", "is damaged"),
        ("model.neff model.done model.hlo_module.pb.lock", "is locked"),
    ],
)
def test_a_summary_that_says_all_is_well_is_not_believed_against_the_cache(
    tmp_path: Path, left: str, told: str
) -> None:
    job = make_job_folder(tmp_path)
    gate = job.folder / "gate.py"
    gate.write_text(gate.read_text().replace("PATIENCE_S = 1800", "PATIENCE_S = 0.1"))
    code, said = job.run("compile", COMPILER=COMPILED.format(name="1+a", left=left, failed=0))
    assert (code, f"graph failed: MODULE_1+a: it {told}" in said) == (70, True), said
    assert ledger(job)["state"] == "partial"


def test_a_graph_that_another_run_compiles_is_waited_for(job: JobFolder) -> None:
    others = "(sleep 1; rm $module/model.hlo_module.pb.lock) &"
    locked = GRAPH.format(name="1+a", left=f"{WHOLE} model.hlo_module.pb.lock") + others + SUMMARY.format(failed=0)
    code, said = job.run("compile", COMPILER=locked)
    assert (code, ledger(job)["state"]) == (0, "complete"), said


def test_a_compiler_that_says_nothing_did_nothing(job: JobFolder) -> None:
    code, said = job.run("compile", COMPILER="true")
    assert (code, "said neither that it compiled nor that there was nothing to do" in said) == (70, True)
    code, said = job.run("compile", COMPILER="echo 'No todo hlos found in cache or hlo_tasklist'")
    assert code == 0, said
    assert not (cache(job) / "ledger").exists(), "no log names a graph, and nothing can be promised to runs to come"


def test_graphs_that_the_summary_forgets_fail_the_stage(job: JobFolder) -> None:
    wrong = SUMMARY.format(failed=0).replace("Total graphs: 1", "Total graphs: 3")
    code, said = job.run("compile", COMPILER=GRAPH.format(name="1+a", left=WHOLE) + wrong)
    assert (code, "of 3 graphs only 1 are said to have compiled" in said) == (70, True)


def test_a_compilers_own_exit_code_is_kept(job: JobFolder) -> None:
    failing = COMPILED.format(name="12+ab", left="model.log", failed=1) + "exit 5"
    code, said = job.run("compile", COMPILER=failing)
    assert (code, "graph failed: MODULE_12+ab" in said) == (5, True)


def test_a_compiler_that_was_killed_for_memory_is_tried_again_with_fewer_at_once(job: JobFolder) -> None:
    """The kernel kills the first try, which leaves its lock; the second has what it needs."""
    marker = job.mount / "tried"
    first = GRAPH.format(name="1+a", left="model.log x.lock") + "echo 'RuntimeError: neuronx-cc failed with -9'; exit 1"
    second = COMPILED.format(name="1+a", left=WHOLE, failed=0)
    code, said = job.run("compile", COMPILER=f"if [ ! -e {marker} ]; then touch {marker}; {first}\nfi\n{second}")
    assert code == 0, said
    assert "compiled once more, at most 2 at a time" in said
    tries = (job.mount / "seen.json.compiler").read_text().splitlines()
    assert [line.startswith("--num_parallel=2 torchrun ") for line in tries] == [False, True]
    assert ledger(job)["state"] == "complete"


def test_a_compiler_that_is_killed_again_fails_the_stage(job: JobFolder) -> None:
    code, said = job.run("compile", COMPILER="kill -9 $PPID")
    assert (code, "the compiler was killed again, with 2 at a time" in said) == (137, True), said
    assert len((job.mount / "seen.json.compiler").read_text().splitlines()) == 2


def test_what_failed_first_is_told_of_the_last_compilation(job: JobFolder) -> None:
    marker = job.mount / "tried"
    code, said = job.run("compile", COMPILER=f"[ -e {marker} ] || {{ touch {marker}; kill -9 $PPID; }}; exit 5")
    assert (code, "node 0 failed first, with exit code 5" in said) == (5, True), said


def locked(job: JobFolder) -> Path:
    module = cache(job) / "neuronxcc-2.26.1+abc/MODULE_1+a"
    module.mkdir(parents=True)
    lock = module / "model.hlo_module.pb.lock"
    lock.touch()
    return lock


@pytest.mark.parametrize("stage", ["compile", "train"])
def test_a_lock_that_nobody_can_hold_is_removed_before_anything_waits(job: JobFolder, stage: str) -> None:
    lock = locked(job)
    own = "7\x1fRUNNING\x1f2020-01-01T00:00:00\x1fubuntu\x1ftrnctl:bert-large-1129-a3f:compile\n"
    _, said = job.run(stage, JOBS=own, COMPILER=COMPILED.format(name="1+a", left=WHOLE, failed=0))
    assert "MODULE_1+a had the lock of a compiler that no longer runs; it is removed" in said
    assert not lock.exists()


@pytest.mark.parametrize("comment", ["(null)", "trnctl:another:compile"])
def test_a_lock_that_a_running_job_may_hold_stays(job: JobFolder, comment: str) -> None:
    lock = locked(job)
    other = job.folder.parent / "another"
    other.mkdir()
    (other / "run.json").write_text(json.dumps({"cache": str(cache(job))}))
    jobs = f"8\x1fRUNNING\x1f2020-01-01T00:00:00\x1fubuntu\x1f{comment}\n"
    _, said = job.run("train", JOBS=jobs)
    assert "MODULE_1+a is locked, perhaps by" in said
    assert lock.exists()


@pytest.mark.parametrize(
    "job_line",
    [
        "8\x1fRUNNING\x1f2100-01-01T00:00:00\x1fubuntu\x1f(null)",  # it began after the lock
        "8\x1fPENDING\x1fN/A\x1fubuntu\x1f(null)",
        "8\x1fRUNNING\x1f2020-01-01T00:00:00\x1fubuntu\x1ftrnctl:elsewhere:train",
    ],
)
def test_who_cannot_hold_a_lock(job: JobFolder, job_line: str) -> None:
    lock = locked(job)
    other = job.folder.parent / "elsewhere"
    other.mkdir()
    (other / "run.json").write_text(json.dumps({"cache": "/fsx/another/cache"}))
    job.run("train", JOBS=f"{job_line}\n")
    assert not lock.exists()


def test_under_an_old_release_each_node_has_a_cache_of_its_own(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path, sdk="2.20.2")
    code, said = job.run("compile", COMPILER=COMPILED.format(name="1+a", left=WHOLE, failed=0))
    assert code == 0, said
    own = f"{job.mount}/trnctl/cache/trn1/2.20.2/hosts/n-1"
    assert job.seen()["environment"]["NEURON_COMPILE_CACHE_URL"] == own
    assert job.record("run.json")["cache_shared"] is False


def test_records_that_cannot_be_copied_to_the_bucket_fail_no_run(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path, mirror="s3://demo/trnctl/ultra1/runs/r")
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-west-2"}
    code, said = job.run("train", STAND_IN=STEPS, AWS_ENDPOINT_URL="http://127.0.0.1:9", **keys)
    assert code == 0, said
    # When the stage begins, and when it ends.
    assert said.count("the records are not mirrored to s3://demo/trnctl/ultra1/runs/r: S3 gave no answer") == 2
    assert job.record("ended/train.json")["exit_code"] == 0


@pytest.fixture
def checked(tmp_path: Path) -> JobFolder:
    """A run whose jobs first look at their nodes; what health.py would find is what UNFIT says."""
    made = make_job_folder(tmp_path, check=True)
    found = {"failed": ["n-2"]}
    (made.folder / "health.py").write_text(
        "import json, os, pathlib, sys\n"
        f"pathlib.Path(sys.argv[1], 'health.json').write_text(json.dumps({found!r}))\n"
        "print('looked', *sys.argv[2:])\n"
        "sys.exit(int(os.environ['UNFIT']))\n"
    )
    return made


def test_nodes_that_pass_their_check_train(checked: JobFolder) -> None:
    code, said = checked.run("train", STAND_IN=STEPS, UNFIT="0")
    assert code == 0, said
    assert "looked drain" in said
    assert checked.record("results.json")["steps_done"] == 3
    expect = checked.record("health/train/expect.json")
    assert (expect["devices"], expect["collectives"], expect["links"]) == (16, True, True)
    assert checked.record("health/compile/expect.json")["collectives"] is False


def test_a_job_whose_node_fails_its_check_waits_for_another(checked: JobFolder) -> None:
    code, said = checked.run("train", STAND_IN=STEPS, UNFIT="6")
    assert (code, "the job waits for other nodes" in said) == (75, True), said
    assert (checked.mount / "seen.json.requeued").read_text() == "requeue 7\n"
    assert not (checked.mount / "seen.json").exists(), "nothing is started on nodes that fail"
    (attempt,) = json.loads((checked.folder / "logs/train/attempts.json").read_text())
    assert (attempt["unfit"], attempt["exit_code"]) == (["n-2"], 75)


def test_a_check_that_no_other_node_would_pass_ends_the_stage_with_the_reason(checked: JobFolder) -> None:
    code, said = checked.run("train", STAND_IN=STEPS, UNFIT="7")
    assert (code, "the job does not go on" in said) == (76, True), said
    assert not (checked.mount / "seen.json.requeued").exists()
    assert checked.record("ended/train.json")["reason"].startswith(
        "n-2 did not pass the check: health/train/health.json"
    )


def test_starts_that_a_check_ended_are_none_without_progress(checked: JobFolder) -> None:
    for _ in range(4):
        assert checked.run("train", UNFIT="6")[0] == 75
    assert checked.run("train", STAND_IN=STEPS, UNFIT="0")[0] == 0
    for _ in range(2):
        code, said = checked.run("train", UNFIT="6")
    assert (code, "which is the most that run.json allows" in said) == (75, True), said


HOSTILE = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=30) | st.sampled_from(
    ["$(touch HACKED)", "`touch HACKED`", "a'b\"c", "two\nlines", "\n#SBATCH --uid=0", "'; touch HACKED; '", "\\", "-n",
     "$HOME", "*", "~", "{steps}", "  ", "!!", "\r", "\x1b[31m", "é€😀", "&&", "a=b", "EOF", "${arguments[@]}"]
)  # fmt: skip


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(HOSTILE, min_size=15, max_size=25))
def test_no_value_breaks_or_injects(values: list[str]) -> None:
    environment = {f"VALUE_{number}": value for number, value in enumerate(values)}
    arguments = {f"value_{number}": value for number, value in enumerate(values)}
    with tempfile.TemporaryDirectory(prefix="it's $(id) ") as folder:
        job = make_job_folder(Path(folder), environment=environment, arguments=arguments)
        code, said = job.run("train")
        assert code == 0, said
        seen = job.seen()
        assert {name: seen["environment"].get(name) for name in environment} == environment
        assert [word for word in seen["argv"] if word.startswith("--value_") and "=" in word] == [
            f"--{name}={value}" for name, value in arguments.items() if value not in {"true", "false"}
        ]
        assert not list(Path(folder).rglob("HACKED"))


@pytest.mark.parametrize(("state", "code"), [("RUNNING", 0), ("", 0), ("COMPLETING", 143), ("NODE_FAIL", 143)])
def test_a_job_that_slurm_has_ended_is_not_complete_whatever_srun_says(job: JobFolder, state: str, code: int) -> None:
    """srun ends with 0 when slurmctld takes a node for lost that is alive."""
    ended, said = job.run("train", OWN_STATE=state)
    assert (ended, job.record("ended/train.json")["exit_code"]) == (code, code), said
    assert job.record("results.json")["complete"] is (code == 0)
