"""Exit codes, messages and streams as docs promise them: what a script or a person in a hurry relies on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_argv import COMMANDS
from tests.cli.trnctl_runner import EXAMPLES, NOTICE, SIXTEEN, Trnctl

BAD = """\
cluster:
  name: Ultra_1!
  regoin: us-west-2
  network: {head_subnet: subnet-1, compute_subnet: 7}
  head_node: {key_name: demo}
  queues:
    - name: c
      compute_resources:
        - {name: i1, instance_type: trn1.32xlarge, min_count: 5, max_count: 2}
"""


def as_typed(value: object) -> str:
    """The name of a test from the words of its command; codes and messages add nothing."""
    return " ".join(value) if isinstance(value, list) else ""


# ------------------------------------------------------------------------------ without a sandbox, without an account


@pytest.mark.parametrize(
    ("words", "code", "promised"),
    [
        (["-N", "3"], 2, "one of 1, 2, 4, 8, 16, 32"),
        (["-N", "64"], 2, "accumulation steps of one node become zero"),
        (["-N", "32"], 3, "at most 16 nodes of trn1.32xlarge (max_count of i1: 16)"),
        (["-N", "0"], 2, "at least one"),
        (["-N", "x"], 2, "valid integer"),
        (["-N", "4", "-p", "nope"], 2, "choose one of compute1"),
        (["-N", "4", "--scaling", "loose"], 2, "strong, weak"),
        (["-N", "4", "--name", "A B"], 2, "cannot name a run"),
        (["-N", "4", "--set", "lr"], 2, "--set key=value"),
        (["-N", "4", "--set", "batch_size=3"], 2, "cannot be set by hand"),
        (["-N", "4", "--env", "A B=c"], 2, "cannot be the name of an environment variable"),
        (["-N", "4", "--time", "soon"], 2, "--time 8:00:00"),
    ],
    ids=as_typed,
)
def test_what_cannot_run_is_refused_before_anything_is_asked(
    nowhere: Trnctl, words: list[str], code: int, promised: str
) -> None:
    ended = nowhere.of(SIXTEEN)("submit", "bert-large", *words, code=code, target="aws")
    assert promised in ended.talk
    assert ended.out == ""


def test_legality_is_judged_before_capacity(nowhere: Trnctl) -> None:
    # 24 nodes are illegal (24 does not divide 32) and too many (the queue has 16).
    ended = nowhere.of(SIXTEEN)("submit", "bert-large", "-N", "24", code=2, target="aws")
    assert "1, 2, 4, 8, 16, 32" in ended.talk


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_dry_run_shows_no_value_of_a_variable(nowhere: Trnctl, tmp_path: Path, form: str) -> None:
    words = ["submit", "bert-large", "-N", "2", "--dry-run", "-o", form, "--env", "TOKEN=s3c r3t", "--env", "N=4t2"]
    ended = nowhere.of(SIXTEEN)(*words, target="aws")
    assert "TOKEN=(not shown)" in ended.out
    assert "s3c r3t" not in ended.out + ended.err
    assert "N=4t2" not in ended.out
    nowhere.of(SIXTEEN)(*words, "--write", str(tmp_path), target="aws")
    holders = [path for path in tmp_path.rglob("*") if path.is_file() and "'TOKEN=s3c r3t'" in path.read_text()]
    assert "train.sbatch" in [path.name for path in holders]
    assert [path.name for path in holders if path.stat().st_mode & 0o077] == []


def test_v_tells_what_is_asked(nowhere: Trnctl) -> None:
    ended = nowhere.of(SIXTEEN)("status", "-v", code=5, target="aws")
    assert "aws cloudformation describe_stacks in us-west-2" in ended.talk
    assert "describe_stacks in" not in nowhere.of(SIXTEEN)("status", code=5, target="aws").talk


def test_an_unknown_workload_names_the_nearest(nowhere: Trnctl) -> None:
    ended = nowhere.of(SIXTEEN)("submit", "bert-larg", "-N", "4", code=2, target="aws")
    assert "there is no workload bert-larg" in ended.talk.lower()
    assert "did you mean bert-large?" in ended.talk.lower()


def test_every_problem_of_a_file_is_told_once_with_its_line(nowhere: Trnctl, cluster_file: Path) -> None:
    cluster_file.write_text(BAD)
    ended = nowhere.of(cluster_file)("status", code=2, target="aws")
    for line, key in ((1, "region"), (2, "name"), (3, "regoin"), (4, "head_subnet"), (4, "compute_subnet")):
        place = f"{cluster_file}:{line}: cluster."
        assert any(row.count(place) == 1 and key in row for row in ended.err.splitlines())
    assert ended.err.count(f"{cluster_file}:9: ") == 1
    assert ended.err.count("Did you mean `region`?") == 1
    assert ended.err.splitlines()[-1].startswith("remedy: ")


def test_validate_tells_the_same_as_findings(nowhere: Trnctl, cluster_file: Path) -> None:
    cluster_file.write_text(BAD)
    findings = nowhere.of(cluster_file).json("cluster", "validate", code=2)["findings"]
    assert set(findings[0]) >= {"code", "level", "path", "line", "message", "remedy", "evidence"}
    wrong = {(one["line"], one["path"]) for one in findings if one["level"] == "error"}
    assert {(1, "cluster.region"), (2, "cluster.name"), (3, "cluster.regoin")} <= wrong
    assert (9, "cluster.queues[0].compute_resources[0].max_count") in wrong


@pytest.mark.parametrize(
    ("words", "code", "promised"),
    [
        (["-c", "none.yaml", "status"], 2, "none.yaml cannot be read"),
        (["status"], 2, "there is no trnctl.yaml in this folder or above it"),
        (["-o", "xml", "workloads", "list"], 2, "xml is not table or json"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["workloads", "list", "--nonsense"], 2, "No such option"),
        (["sandbox", "fault", "compile-failure"], 4, "Start it with trnctl sandbox up"),
        (["sandbox", "status"], 4, "Start it with trnctl sandbox up"),
    ],
    ids=as_typed,
)
def test_wrong_words_are_told_with_the_way_out(nowhere: Trnctl, words: list[str], code: int, promised: str) -> None:
    ended = nowhere(*words, code=code)
    assert promised in ended.talk
    assert ended.out == ""
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("words", [["status"], ["submit", "bert-large", "-N", "4"], ["teardown", "-y"], ["runs"]])
def test_without_a_sandbox_the_way_to_one_is_named(nowhere: Trnctl, words: list[str]) -> None:
    ended = nowhere.of(SIXTEEN)(*words, code=4)
    assert "Start it with trnctl sandbox up" in ended.talk


def test_a_dry_run_prints_everything_and_needs_no_cluster(nowhere: Trnctl) -> None:
    trnctl = nowhere.of(SIXTEEN)
    words = ["submit", "bert-large", "-N", "16", "--dry-run", "--name", "dry"]
    printed = trnctl(*words, "--", "--mail-type=END", target="aws").out
    for part in (
        "compile.sbatch",
        "train.sbatch",
        "#SBATCH --nodes=16",
        "--kill-on-invalid-dep=yes",
        "scontrol release",
    ):
        assert part in printed
    assert printed.count("--mail-type=END") == 2
    answer = json.loads(trnctl(*words, "-o", "json", target="aws").out)
    assert set(answer) >= {"run", "folder", "compile", "commands", "files"}
    assert answer["folder"] == "/fsx/trnctl/runs/dry"
    assert "#SBATCH --nodes=16" in answer["files"]["train.sbatch"]


def test_the_commands_of_a_dry_run_can_be_followed_by_hand(nowhere: Trnctl) -> None:
    words = ["submit", "bert-large", "-N", "4", "--dry-run", "--name", "dry", "-o", "json"]
    first, second, last = json.loads(nowhere.of(SIXTEEN)(*words, target="aws").out)["commands"]
    script = 'sbatch() { echo 4711; }; scontrol() { echo "$@"; }; set -u\n'
    done = subprocess.run(
        ["bash", "-c", "\n".join([script, first, second, last])],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "release 4711", "")
    assert "--dependency=afterok:$compile" in second
    assert "--comment=trnctl:dry:train" in second


def test_a_dry_run_writes_files_that_bash_can_read(nowhere: Trnctl, tmp_path: Path) -> None:
    folder = tmp_path / "written here"
    nowhere.of(SIXTEEN)("submit", "bert-large", "-N", "8", "--write", str(folder), target="aws")
    scripts = sorted(folder.glob("*.sbatch"))
    assert [path.name for path in scripts] == ["compile.sbatch", "train.sbatch"]
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True, timeout=10)


# ----------------------------------------------------------------------------------------------- with a cluster


def absent(sandbox: Trnctl) -> Trnctl:
    """Another cluster of the same account, which was never made."""
    return sandbox.of(EXAMPLES / "smallest.yaml")


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize(
    "words",
    [
        ["status"], ["runs"], ["results", "x"], ["logs", "x"], ["cancel", "x"], ["ssh", "--", "true"],
        ["cluster", "describe"], ["cluster", "events"], ["cluster", "delete", "-y"], ["cluster", "update", "-y"],
        ["cluster", "fleet", "start"], ["submit", "bert-large", "-N", "4"], ["teardown", "-y"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_cluster_that_is_not_there_is_exit_code_8_for_every_command(ultra1: Trnctl, words: list[str]) -> None:
    ended = absent(ultra1)(*words, code=8)
    assert "small1" in ended.talk
    assert ended.out == ""


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("words", [["results"], ["logs"], ["cancel"]], ids=" ".join)
def test_a_run_that_is_not_there_is_exit_code_8(ultra1: Trnctl, words: list[str]) -> None:
    assert "has no run nope" in ultra1(*words, "nope", code=8).talk


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["cluster", "delete"], "-y"),
        (["cluster", "fleet", "stop"], "-y"),
        (["teardown", "--keep-storage"], "-y"),
        (["teardown", "-y"], "--keep-storage or --delete-storage"),
        (["teardown"], "--keep-storage or --delete-storage"),
    ],
    ids=as_typed,
)
def test_without_a_terminal_nothing_is_asked_and_the_flag_is_named(ultra1: Trnctl, words: list[str], flag: str) -> None:
    ended = ultra1(*words, stdin="y\ny\n", code=2)
    assert flag in ended.err.splitlines()[-1]
    assert ultra1.json("status")["cluster"]["phase"] == "running"


@pytest.mark.slow
@pytest.mark.sandbox
def test_create_without_a_terminal_names_the_flag(ultra1: Trnctl) -> None:
    ended = absent(ultra1)("cluster", "create", code=2)
    assert "add -y" in ended.talk
    assert "idle $" in ended.talk  # the price is told all the same
    absent(ultra1)("status", code=8)


@pytest.mark.slow
@pytest.mark.sandbox
def test_a_live_run_stands_in_the_way_of_a_teardown(ultra1: Trnctl) -> None:
    ultra1("submit", "bert-large", "-N", "2", "--hold", "--name", "alive")
    try:
        ended = ultra1("teardown", "-y", "--delete-storage", code=3)
        assert "ultra1 is at work: alive" in ended.talk
        assert "--cancel-runs" in ended.err.splitlines()[-1]
        assert ultra1.json("status")["cluster"]["phase"] == "running"
    finally:
        ultra1("cancel", "alive")


# What each command is given besides -o json.
SPOKEN: dict[tuple[str, ...], list[str]] = {
    ("cluster", "render"): [],
    ("cluster", "validate"): [],
    ("cluster", "create"): [],
    ("cluster", "update"): [],
    ("cluster", "list"): [],
    ("cluster", "describe"): [],
    ("cluster", "events"): [],
    ("cluster", "fleet", "start"): [],
    ("network", "show"): [],
    ("image", "build"): ["--dry-run"],
    ("image", "list"): [],
    ("doctor",): [],
    ("workloads", "list"): [],
    ("workloads", "show"): ["bert-large"],
    ("workloads", "new"): ["mine"],
    ("plan",): ["llama3-8b", "--suggest"],
    ("parallel", "export"): ["llama3-8b", "--backend", "auto"],
    ("submit",): ["bert-large", "-N", "2", "--hold", "--name", "spoken"],
    ("cache", "ls"): [],
    ("cache", "verify"): [],
    ("why",): ["cluster"],
    ("diagnose",): ["cluster"],
    ("explain",): ["cluster"],
    ("runs",): [],
    ("status",): [],
    ("cost",): [],
    ("top",): ["--once"],
    ("cancel",): ["spoken"],
    ("sandbox", "up"): [],
    ("sandbox", "status"): [],
    ("sandbox", "fault"): [],
}
LINES: dict[tuple[str, ...], list[str]] = {("logs",): ["spoken"]}
# `ssh` and `alloc` hand the streams over; others end what this module needs, or need more than it has: their JSON is
# read where they are tested.
ELSEWHERE = {
    ("health",), ("resume",), ("run-local",), ("cache", "prune"), ("cache", "unlock"),
    ("sync",), ("cp",),
    ("alloc",), ("ssh",), ("results",), ("teardown",), ("cluster", "delete"), ("cluster", "fleet", "stop"),
    ("sandbox", "down"), ("init",), ("network", "create"), ("network", "delete"), ("parallel", "import"),
    ("study", "run"), ("study", "report"),
}  # fmt: skip


@pytest.fixture(scope="module")
def spoken(ultra1: Trnctl) -> Iterator[Trnctl]:
    """The cluster with a run that is held."""
    ultra1("submit", "bert-large", "-N", "2", "--hold", "--name", "spoken")
    yield ultra1
    ultra1("cancel", "spoken")


def test_no_command_escapes_the_test_of_its_json() -> None:
    new = set(COMMANDS) - {*SPOKEN, *LINES, *ELSEWHERE}
    assert not new, "say in SPOKEN how each is called, or in ELSEWHERE that its JSON is read by another test"
    assert {*SPOKEN, *LINES, *ELSEWHERE} <= set(COMMANDS)


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("command", SPOKEN, ids=" ".join)
def test_stdout_holds_json_and_nothing_else(spoken: Trnctl, command: tuple[str, ...]) -> None:
    answer = spoken(*command, *SPOKEN[command], "-o", "json").json
    assert isinstance(answer, dict)
    assert answer


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("command", LINES, ids=" ".join)
def test_what_comes_line_by_line_is_json_line_by_line(spoken: Trnctl, command: tuple[str, ...]) -> None:
    lines = spoken(*command, *LINES[command], "-o", "json").lines
    assert lines
    assert all(isinstance(line, dict) for line in lines)


@pytest.mark.slow
@pytest.mark.sandbox
def test_every_screen_that_is_not_aws_says_so(spoken: Trnctl) -> None:
    looks = (["status"], ["runs"], ["cache", "ls"], ["cluster", "list"], ["cluster", "describe"], ["cluster", "events"])
    for words in (*looks, ["cluster", "create"], ["submit", "bert-large", "-N", "2", "--hold", "--name", "spoken"]):
        ended = spoken(*words)
        assert NOTICE in " ".join((ended.out + ended.err).split())
    assert NOTICE in spoken.json("status")["notice"]
