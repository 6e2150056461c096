"""The files of a run: each job compared whole, judged by bash and shellcheck, and closed to what users write."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace

import pytest

from tests.conftest import Snapshot
from tests.recipes import layout, recipe, request
from trnctl.errors import UsageError
from trnctl.ports import File
from trnctl.render.job import JobRequest, documents, log_node
from trnctl.render.places import code_folder
from trnctl.specs.workload import Checkpoint, LogPattern, Scaling, Source, WorkloadSpec

CASES: list[tuple[int, Scaling]] = [(1, "strong"), (4, "strong"), (16, "strong"), (16, "weak")]


def files(
    nodes: int = 16, scaling: Scaling = "strong", asked: JobRequest | None = None, workload: WorkloadSpec | None = None
) -> dict[str, File]:
    spec = workload or recipe()
    return {file.name: file for file in documents(spec, layout(nodes, scaling), asked or request())}


def judged(script: str) -> str:
    """What bash and shellcheck say of a script: nothing, when it is well."""
    for argv in (["bash", "-n"], ["shellcheck", "-s", "bash", "-"]):
        done = subprocess.run(argv, input=script, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            return done.stdout + done.stderr
    return ""


def directives(script: str) -> dict[str, str]:
    """The #SBATCH options that Slurm sees: those before the first command."""
    head = script[: script.index("\nset -u")]
    lines = [line.removeprefix("#SBATCH --").partition("=") for line in head.split("\n")[1:]]
    return {name: value for name, _, value in lines}


@pytest.mark.parametrize(("nodes", "scaling"), CASES)
@pytest.mark.parametrize("stage", ["compile", "train"])
def test_bert_large(nodes: int, scaling: Scaling, stage: str, snapshot: Snapshot) -> None:
    script = files(nodes, scaling)[f"{stage}.sbatch"].text
    snapshot(f"jobs/bert-large-{nodes}-{scaling}.{stage}.sbatch", script)
    assert judged(script) == ""


def test_a_run_has_its_scripts_and_its_manifest() -> None:
    last = ["blame.py", "results.py"]
    assert list(files()) == ["run.json", "compile.sbatch", "train.sbatch", "gate.py", "cache.py", *last]
    skipped, none = ["run.json", "train.sbatch", "cache.py", *last], ["run.json", "train.sbatch", *last]
    for asked, spec, names in [
        (request(compile=False), recipe(), skipped),
        (request(), replace(recipe(), compile="none"), none),
    ]:
        made = files(asked=asked, workload=spec)
        assert list(made) == names
        assert json.loads(made["run.json"].text)["stages"] == ["train"]


def test_the_directives_of_both_jobs() -> None:
    asked = replace(request(time_limit="8:00:00", exclude="compute1-dy-i1-[3,7]"), constraint="trn1.32xlarge")
    made = files(asked=asked)
    train = directives(made["train.sbatch"].text)
    assert train == {
        "job-name": "bert-large-1129-a3f-train",
        "comment": "trnctl:bert-large-1129-a3f:train",
        "partition": "compute1",
        "nodes": "16",
        "ntasks-per-node": "1",
        "cpus-per-task": "128",
        "exclusive": "",
        "exclude": '"compute1-dy-i1-[3,7]"',
        "constraint": "trn1.32xlarge",
        "time": "8:00:00",
        "signal": "B:USR1@120",
        "requeue": "",
        "open-mode": "append",
        "output": "/fsx/trnctl/runs/bert-large-1129-a3f/train.log",
        "kill-on-invalid-dep": "yes",
    }
    assert "kill-on-invalid-dep" not in directives(made["compile.sbatch"].text)
    assert "time" not in directives(files()["train.sbatch"].text)
    assert not re.search(r"^#SBATCH --mem", made["train.sbatch"].text, re.MULTILINE)


def test_what_differs_between_one_node_and_many() -> None:
    one, many = files(1)["train.sbatch"].text, files(16)["train.sbatch"].text
    assert "\n    FI_PROVIDER=efa\n" in many
    assert "FI_" not in one
    assert "--nnodes=16" in many
    assert "\n    --grad_accum_usteps=2\n" in many
    assert "\n    --grad_accum_usteps=32\n" in one


def test_a_script_that_saves_on_a_signal_is_asked_to() -> None:
    saves = replace(recipe(), checkpoint=Checkpoint("*.pt", on_signal=True))
    script = files(workload=saves)["train.sbatch"].text
    assert "the workers are asked to save" in script
    assert "will be lost" not in script
    assert "checkpoint=" not in script, "without resume arguments there is nothing to go on from"
    assert judged(script) == ""


def test_without_ports_to_reserve_and_an_unknown_type_the_script_is_whole() -> None:
    spec = replace(recipe(), reserved_ports=(), ranks_per_node={"trn9.32xlarge": 32})
    made = documents(spec, layout(2, workload=recipe()), replace(request(), instance_type="trn9.32xlarge"))
    script = next(file.text for file in made if file.name == "train.sbatch")
    assert "reserve" not in script
    assert "cpus" not in script.lower()
    assert judged(script) == ""


def test_the_manifest_tells_what_the_run_is() -> None:
    asked = request(environment={"HF_TOKEN": "hf_secret"}, arguments={"steps_this_run": "100"}, notice="Emulated.")
    text = files(asked=asked)["run.json"].text
    told = json.loads(text)
    assert list(told) == sorted(told)
    assert told["layout"]["accumulation"] == 2
    assert (told["steps"], told["unit"], told["nodes"], told["queue"]) == (100, "seq/s", 16, "compute1")
    assert told["stages"] == ["compile", "train"]
    assert told["cache"] == "/fsx/trnctl/cache/trn1/2.31.1"
    assert "shared by all nodes" in told["cache_why"]
    assert len(told["fingerprint"]) == 12
    assert told["notice"] == "Emulated."
    assert re.search(told["log_pattern"], "LOG x - (0, 3) step_loss : 9.1 learning_rate : 1e-05 throughput : 2.0 ")
    assert "published strong-scaling rate" in told["expected"]["basis"]
    assert told["environment_names"] == ["HF_TOKEN"]
    assert "hf_secret" not in text


def test_the_same_request_makes_the_same_files() -> None:
    assert files() == files()


@pytest.mark.parametrize("run", ["", "-x", "a b", "a/../b", "a\nb", "../x", "x;id", "$(id)"])
def test_a_run_needs_a_name_that_is_a_folder(run: str) -> None:
    with pytest.raises(UsageError, match="cannot name a run"):
        documents(recipe(), layout(1), replace(request(), run=run))


@pytest.mark.parametrize("limit", ["", "soon", "8h", "10\n#SBATCH --uid=0", "1:2:3:4", "-5"])
def test_a_time_limit_is_one_of_slurms_forms(limit: str) -> None:
    with pytest.raises(UsageError, match="no time limit"):
        files(asked=request(time_limit=limit))


@pytest.mark.parametrize("limit", ["30", "30:00", "8:00:00", "2-0", "2-12:30", "2-12:30:00"])
def test_slurms_forms_of_a_time_limit(limit: str) -> None:
    assert directives(files(asked=request(time_limit=limit))["train.sbatch"].text)["time"] == limit


@pytest.mark.parametrize("field", ["partition", "exclude", "constraint"])
def test_a_directive_takes_no_second_line(field: str) -> None:
    with pytest.raises(UsageError, match="line end"):
        files(asked=replace(request(), **{field: "x\n#SBATCH --nodes=1"}))  # type: ignore[arg-type]  # a text field


def test_percent_signs_of_a_folder_are_no_placeholders_of_slurm() -> None:
    script = files(asked=request(folder="/fsx/100%j/r"))["train.sbatch"].text
    assert directives(script)["output"] == "/fsx/100%%j/r/train.log"
    assert "--output=/fsx/100%%j/r/logs/train/node-%n.log" in script
    assert "\nfolder=/fsx/100%j/r\n" in script


@pytest.mark.parametrize(
    ("repository", "path", "folder"),
    [
        ("https://github.com/me/code", "", "/fsx/trnctl/src/code-0123456789ab"),
        ("https://github.com/me/code.git", "a/b", "/fsx/trnctl/src/code-0123456789ab/a/b"),
        ("git@github.com:me/code.git", "a", "/fsx/trnctl/src/code-0123456789ab/a"),
    ],
)
def test_where_the_code_lies(repository: str, path: str, folder: str) -> None:
    assert code_folder("/fsx", Source(repository, "0123456789abcdef", path)) == folder


def test_a_recipe_may_name_a_cache_on_the_shared_file_system() -> None:
    spec = replace(recipe(), environment={"NEURON_COMPILE_CACHE_URL": "{mount}/mine"})
    made = files(workload=spec)
    assert json.loads(made["run.json"].text)["cache"] == "/fsx/mine"
    for script in (made["compile.sbatch"].text, made["train.sbatch"].text):
        assert "\ncache=/fsx/mine\n" in script
        assert "\n    NEURON_COMPILE_CACHE_URL=/fsx/mine\n" in script


def test_a_graph_that_failed_once_is_compiled_again() -> None:
    spec = replace(recipe(), environment={"NEURON_CC_FLAGS": "-O1"})
    made = files(workload=spec)
    assert "\n    'NEURON_CC_FLAGS=-O1 --retry_failed_compilation'\n" in made["compile.sbatch"].text
    assert "\n    NEURON_CC_FLAGS=-O1\n" in made["train.sbatch"].text
    assert "--retry_failed_compilation" in files(workload=replace(recipe(), environment={}))["compile.sbatch"].text


def test_the_step_lines_stand_in_the_log_of_the_last_stages_first_node() -> None:
    split = replace(recipe("llama3-70b"), log=LogPattern(r"(?P<step>\d+)", printed_by="last-stage"))
    made = layout(32, workload=split)
    assert (made.tensor, made.pipeline, made.data) == (32, 8, 4)
    assert log_node(split, made) == 28, "worker 896 = 7 stages x 128 workers"
    assert log_node(recipe("llama3-70b-nxdt"), made) == 0


def test_the_scripts_that_copy_records_are_judged_too() -> None:
    found = files(asked=replace(request(), mirror="s3://demo/trnctl/ultra1/runs/r", region="us-west-2"))
    assert {"mirror.py", "s3.py"} <= set(found)
    for stage in ("compile", "train"):
        assert judged(found[f"{stage}.sbatch"].text) == ""
    assert json.loads(found["run.json"].text)["mirror"] == "s3://demo/trnctl/ultra1/runs/r"


def test_the_scripts_that_check_nodes_are_judged_too() -> None:
    found = files(asked=replace(request(), check=True))
    assert {"health.py", "judge_health.py", "node_health.py", "health/compile/expect.json"} <= set(found)
    for stage in ("compile", "train"):
        assert judged(found[f"{stage}.sbatch"].text) == ""
    assert not {"health.py", "health/train/expect.json"} & set(files())
