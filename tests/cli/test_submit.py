"""Submit: one connection, never twice, all or nothing, and every value reaches the training unharmed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.trnctl_runner import Trnctl

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

# A recipe whose script writes down what it was started with.
RECIPE = """\
name: probe
title: Says what reached it
source: {repository: https://git.example.org/probe, commit: 0123456789abcdef0123456789abcdef01234567, path: .}
script: probe.py
ranks_per_node: {trn1.32xlarge: 32}
batch: {global: 32, micro: 1, accumulation: 1, sequence: 1}
steps: 1
arguments: {steps: "{steps}"}
compile: none
log: {step: 'step (?P<step>[0-9]+)', unit: words}
checkpoint: {pattern: "*.none"}
"""
PROBE = """\
import json, os, sys
print("step 1")
json.dump({"arguments": sys.argv[1:], "environment": dict(os.environ)}, open("seen.json", "w"))
"""
SNAPSHOTS = Path(__file__).parents[1] / "snapshots" / "jobs"


@pytest.fixture
def slurm(ultra1: Trnctl) -> Iterator[Trnctl]:
    """The cluster with an empty queue, which is empty again afterwards."""
    assert jobs(ultra1) == []
    yield ultra1
    for run in ultra1.json("runs")["runs"]:
        if run["state"] in {"held", "pending", "running", "configuring", "completing"}:
            ultra1("cancel", run["run"])


def jobs(trnctl: Trnctl) -> list[str]:
    """Slurm's own view: `ID COMMENT STATE REASON` of every living job."""
    return trnctl.slurm("squeue", "-h", "-o", "%i %k %T %r").splitlines()


def test_a_submit_is_one_connection(slurm: Trnctl) -> None:
    counted = slurm.counting_ssh()
    starts, connections = counted(), slurm.connections()
    slurm("submit", "bert-large", "-N", "4", "--hold", "--name", "counted")
    assert counted() - starts == 1
    assert slurm.connections() - connections <= 1  # none, when the one of an earlier command still stands
    assert slurm.connections() >= 1


def test_the_same_name_is_never_submitted_twice(slurm: Trnctl) -> None:
    first = slurm.json("submit", "bert-large", "-N", "4", "--hold", "--name", "once")
    again = slurm("submit", "bert-large", "-N", "4", "--hold", "--name", "once")
    assert "it had been submitted already" in " ".join(again.out.split())
    assert slurm.json("submit", "bert-large", "-N", "4", "--hold", "--name", "once")["jobs"] == first["jobs"]
    assert len([job for job in jobs(slurm) if ":once:" in job]) == 2


def test_two_at_once_under_one_name_are_one_run(slurm: Trnctl) -> None:
    words = ("submit", "bert-large", "-N", "1", "--hold", "--name", "twins")
    with slurm.start(*words) as one, slurm.start(*words) as other:
        ends = [one.end(180), other.end(180)]
    assert [ended.code for ended in ends] == [0, 0]
    again = ["it had been submitted already" in " ".join(ended.out.split()) for ended in ends]
    assert sorted(again) == [False, True]
    assert len([job for job in jobs(slurm) if ":twins:" in job]) == 2


def test_held_jobs_stay_held_and_the_second_waits_for_the_first(slurm: Trnctl) -> None:
    slurm("submit", "bert-large", "-N", "4", "--hold", "--name", "held")
    compiling, training = sorted(job for job in jobs(slurm) if ":held:" in job)
    assert compiling.endswith("trnctl:held:compile PENDING JobHeldUser")
    assert training.endswith("trnctl:held:train PENDING Dependency")
    (run,) = [run for run in slurm.json("status")["runs"] if run["run"] == "held"]
    assert run["state"] == "held"


def test_options_of_sbatch_and_of_ours_reach_slurm(slurm: Trnctl) -> None:
    options = ["--hold", "--name", "picky", "--exclude", "compute1-dy-i1-[2-3]", "--time", "2:30:00"]
    slurm("submit", "bert-large", "-N", "4", *options, "--", "--nice=77", "--job-name=two words")
    job = next(job.split()[0] for job in jobs(slurm) if ":picky:train" in job)
    shown = slurm.slurm("scontrol", "show", "job", job)
    for part in ("ExcNodeList=compute1-dy-i1-[2-3]", "TimeLimit=02:30:00", "Nice=77", "NumNodes=4", "OverSubscribe=NO"):
        assert part in shown
    assert "JobName=two words" in shown
    assert "Requeue=1" in shown


def test_what_sbatch_refuses_leaves_no_job_and_says_why(slurm: Trnctl) -> None:
    ended = slurm("submit", "bert-large", "-N", "4", "--name", "refused", "--", "-p", "nowhere", code=4)
    assert "invalid partition specified: nowhere" in ended.talk
    assert ended.out == ""
    assert jobs(slurm) == []


def test_what_sbatch_refuses_can_be_mended_and_submitted_under_the_same_name(slurm: Trnctl) -> None:
    slurm("submit", "bert-large", "-N", "4", "--hold", "--name", "mended", "--", "--nonsense", code=4)
    assert jobs(slurm) == []
    slurm("submit", "bert-large", "-N", "4", "--hold", "--name", "mended")
    assert len(jobs(slurm)) == 2


def test_weak_scaling_keeps_the_accumulation(slurm: Trnctl) -> None:
    ended = slurm("submit", "bert-large", "-N", "3", "--scaling", "weak", "--hold", "--name", "weak")
    assert "16 × 32 × 96 = 49,152 global (weak scaling)" in ended.talk
    script = slurm.shared("/fsx/trnctl/runs/weak/train.sbatch").read_text()
    assert "--grad_accum_usteps=32" in script


def test_a_skipped_compile_leaves_the_training_alone(slurm: Trnctl) -> None:
    answer = slurm.json("submit", "bert-large", "-N", "4", "--compile", "skip", "--hold", "--name", "alone")
    assert answer["compile"] == "skipped"
    assert answer["jobs"]["compile"] is None
    (job,) = jobs(slurm)
    assert "trnctl:alone:train PENDING JobHeldUser" in job


def test_values_reach_the_process_that_trains_unharmed(slurm: Trnctl, tmp_path: Path) -> None:
    marker = tmp_path / "never"
    nasty = {
        "SPACES": "a  b ",
        "QUOTES": """it's "quoted" """,
        "DOLLARS": f"$HOME $(touch {shlex.quote(str(marker))}) `id` ${{x}}",
        "LINES": "one\ntwo\n  three",
        "SIGNS": "!*?[a] \\ & | ; < > # ~ %j {{ x }}",
    }
    recipe = tmp_path / "probe.yaml"
    recipe.write_text(RECIPE)
    code = slurm.shared("/fsx/trnctl/src/probe-0123456789ab")
    code.mkdir(parents=True)
    (code / "probe.py").write_text(PROBE)
    words = [word for name, value in nasty.items() for word in ("--env", f"{name}={value}")]
    words += ["--set", f"title={''.join(nasty.values())}"]
    slurm("submit", str(recipe), "-N", "1", "--name", "nasty", *words, "-f", timeout=90)
    seen = json.loads((code / "seen.json").read_text())
    assert {name: seen["environment"].get(name) for name in nasty} == nasty
    assert f"--title={''.join(nasty.values())}" in seen["arguments"]
    assert not marker.exists()


def test_rendered_jobs_pass_slurms_own_test(ultra1: Trnctl, tmp_path: Path) -> None:
    for nodes, scaling in (("1", "strong"), ("16", "weak")):
        folder = str(tmp_path / nodes)
        ultra1("submit", "bert-large", "-N", nodes, "--scaling", scaling, "--write", folder, "--name", "judged")
    scripts = [*sorted(tmp_path.glob("*/*.sbatch")), *sorted(SNAPSHOTS.glob("bert-large*.sbatch"))]
    assert len(scripts) > 4
    each = " ".join(shlex.quote(str(script)) for script in scripts)
    ended = ultra1("ssh", "--", f'for script in {each}; do sbatch --test-only "$script" || exit; done')
    assert ended.err.count("to start at") == len(scripts)
