"""Two streams, one truth: errors, questions, wrapped words and waits that are never silent."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trnctl.actions.stack import Progress
from trnctl.cli.main import show_error
from trnctl.cli.output import Screen, wrap
from trnctl.cli.progress import follow, readable, stack_words
from trnctl.cli.session import Session
from trnctl.errors import Interrupted, UsageError
from trnctl.findings import Finding


def test_an_error_is_two_lines_and_its_findings_stand_between() -> None:
    out = io.StringIO()
    finding = Finding("unknown-key", "error", "there is no nmae", "write name", "cluster.nmae", 3, "trnctl.yaml")
    show_error(UsageError("The file has a problem.", remedy="Mend it.", findings=[finding]), out)
    assert out.getvalue().splitlines() == [
        "error: The file has a problem.",
        "  error: trnctl.yaml:3: cluster.nmae: there is no nmae — write name [unknown-key]",
        "remedy: Mend it.",
    ]


def test_words_wrap_under_themselves_and_a_path_stays_whole() -> None:
    lines = wrap("kept fs-1 and a security group beside it", width=24, lead="kept  ")
    assert lines == ["kept  kept fs-1 and a", "      security group", "      beside it"]
    path = "/fsx/trnctl/runs/" + "x" * 90
    assert path in "".join(wrap(f"run {path}", width=40, lead=""))


def test_nothing_is_asked_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(Session())
    with pytest.raises(UsageError) as caught:
        screen.confirm("Create it?", yes=False)
    assert "-y" in caught.value.remedy
    screen.confirm("Create it?", yes=True)
    assert capsys.readouterr().out == ""


def test_a_wait_says_its_first_and_its_last_step_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    last = follow(Screen(Session()), iter(range(1000)), lambda step: f"step {step}", "look again")
    assert last == 999
    assert capsys.readouterr().err.split() == ["step", "0", "step", "999"]


def test_a_line_that_fits_is_not_wrapped_because_it_is_indented(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(Session())
    row = "      1  " + "x " * ((screen.err.width - 10) // 2)
    screen.say(row)
    screen.say(row + "more words that do not fit")
    once, first, more = capsys.readouterr().err.splitlines()
    assert (once, first, more) == (row.rstrip(), row.rstrip(), "      more words that do not fit")


def test_a_new_state_is_told_at_once_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    follow(Screen(Session()), iter(range(30)), lambda step: f"step {step}", "look again", lambda step: step // 10)
    assert capsys.readouterr().err.split("step")[1:] == [" 0\n  ", " 10\n  ", " 20\n  ", " 29\n"]


def test_ctrl_c_leaves_the_work_running_and_says_how_to_look_again() -> None:
    def steps() -> Iterator[int]:
        yield 1
        raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        follow(Screen(Session()), steps(), str, "trnctl status shows it")
    assert caught.value.remedy == "trnctl status shows it"


def test_progress_stays_one_line_and_says_what_takes_longest_if_that_fits() -> None:
    def words(*names: str) -> str:
        return stack_words(Progress("creating", 31, 58, tuple((name, 61.0) for name in names), 61.0))

    assert words("FSX1", "HeadNode").endswith("31/58  1m01s  creating  now: FSx file system (1m01s), head node (1m01s)")
    assert words("FSX1", "CleanupResourcesS3BucketCustomResource").endswith("now: FSx file system (1m01s)")
    assert words("CleanupResourcesS3BucketCustomResource" * 2).endswith("31/58  1m01s  creating")
    assert stack_words(Progress(None, 1, None, (), 5.0)) == "1 resource  5s  gone"
    assert stack_words(Progress(None, 59, 63, (), 5.0)).endswith("━  63/63  5s  gone")


@pytest.mark.parametrize(
    ("logical_id", "words"),
    [("HeadNode", "head node"), ("HeadNodeWaitCondition20261129", "head node boots"), ("RoleX", "RoleX")],
)
def test_resources_are_told_in_words(logical_id: str, words: str) -> None:
    assert readable(logical_id) == words


def trnctl(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder."""
    argv = [sys.executable, "-P", "-m", "trnctl", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=folder, check=False)


PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("TRNCTL_", "AWS_", "LC_", "LANG"))}


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_reason_to_fail(closed: str, tmp_path: Path) -> None:
    line = f"'{sys.executable}' -P -m trnctl workloads list {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert (done.returncode, "error" in done.stderr) == (0, False), done.stderr
    assert ("bert-large" in done.stdout) == (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_lacks_characters_gets_others_for_them(encoding: str, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        argv = [sys.executable, "-P", "-m", "trnctl", *words]
        environ = {**PLAIN, "PYTHONIOENCODING": encoding}
        done = subprocess.run(argv, capture_output=True, timeout=60, cwd=tmp_path, env=environ, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode(encoding)

    words = ["plan", "llama3-8b", "-N", "4", "--instance-type", "trn1.32xlarge"]
    assert "llama3-8b ? 8.03B parameters" in said(*words)
    titles = {one["name"]: one["title"] for one in json.loads(said("workloads", "list", "-o", "json"))["workloads"]}
    assert "tensor × pipeline" in titles["llama3.1-405b"]


def test_a_user_whom_the_system_does_not_know_can_work(tmp_path: Path) -> None:
    """As in a container that runs as a number. Without the module pwd, Python knows no user's home either."""
    unknown = "import sys; sys.modules['pwd'] = None; from trnctl.cli.main import main; main()"
    environ = {name: value for name, value in PLAIN.items() if name not in {"HOME", "XDG_STATE_HOME"}}
    argv = [sys.executable, "-P", "-c", unknown, "--sandbox", "status", "--cluster", "ultra1"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environ, check=False)
    assert (done.returncode, "the sandbox is not up" in done.stderr.lower()) == (4, True), done.stderr


SMALL = """
cluster:
  name: small1
  region: us-west-2
  network: {head_subnet: subnet-0aa11bb22cc33dd41, compute_subnet: subnet-0aa11bb22cc33dd42}
  head_node: {key_name: demo-ed25519, ssh_from: [203.0.113.0/24]}
"""


def test_the_file_is_found_here_or_above(tmp_path: Path) -> None:
    (tmp_path / "trnctl.yaml").write_text(SMALL)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    done = trnctl("cluster", "render", folder=below)
    assert done.returncode == 0
    assert "InstanceType: " in done.stdout


def test_a_bad_file_tells_everything_at_once(tmp_path: Path) -> None:
    (tmp_path / "trnctl.yaml").write_text(SMALL.replace("us-west-2", "mars-1").replace("name: small1", "nmae: small1"))
    done = trnctl("cluster", "render", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "trnctl.yaml:3" in done.stderr
    assert "trnctl.yaml:4" in done.stderr
    assert "Traceback" not in done.stderr


def test_validate_tells_findings_as_json_and_exits_2(tmp_path: Path) -> None:
    (tmp_path / "trnctl.yaml").write_text(SMALL.replace("name: small1", "name: 1e3"))
    done = trnctl("cluster", "validate", "-o", "json", folder=tmp_path)
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == 2
    assert {"code", "level", "path", "line", "message", "remedy", "evidence"} <= set(findings[0])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cluster", "render"], 2, "there is no trnctl.yaml"),
        (["-c", "missing.yaml", "cluster", "render"], 2, "missing.yaml cannot be read"),
        (["frobnicate"], 2, "No such command"),
        (["status", "--output", "xml"], 2, "xml is not table or json"),
        (["--version"], 0, ""),
        (["submit", "bert-large", "-h"], 0, ""),
    ],
)
def test_usage(words: list[str], code: int, said: str, tmp_path: Path) -> None:
    done = trnctl(*words, folder=tmp_path)
    assert done.returncode == code, done
    assert said in done.stderr


def test_an_unknown_workload_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "trnctl.yaml").write_text(SMALL)
    done = trnctl("submit", "bert-lrage", "--dry-run", folder=tmp_path)
    assert done.returncode == 2
    assert "bert-large" in done.stderr


def test_a_dry_run_needs_no_cluster_and_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "trnctl.yaml").write_text(SMALL)
    shown = trnctl("submit", "bert-large", "-N", "4", "--dry-run", folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "train.sbatch" in shown.stdout
    written = trnctl("submit", "bert-large", "-N", "4", "--dry-run", "--write", "out", folder=tmp_path)
    assert written.returncode == 0, written.stderr
    assert subprocess.run(["bash", "-n", tmp_path / "out" / "train.sbatch"], check=False, timeout=20).returncode == 0


def test_the_unexpected_goes_to_a_log_file(tmp_path: Path) -> None:
    code = (
        "import sys, trnctl.cli.app as a, trnctl.cli.main as m\n"
        "@a.app.command()\ndef boom():\n    raise ZeroDivisionError('no')\n"
        "sys.exit(m.run(['boom']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False,
        env={"XDG_STATE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 1
    [log] = (tmp_path / "trnctl" / "log").iterdir()
    assert "ZeroDivisionError" in log.read_text()
    assert str(log) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["workloads", "list"], ["-o", "json", "workloads", "list"]])
def test_a_reader_that_goes_away_is_no_failure_worth_a_word(words: list[str]) -> None:
    argv = [sys.executable, "-m", "trnctl", *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        command.stdout.close()
        said = command.stderr.read().decode()
        assert command.wait(timeout=30) == 141
    assert "error" not in said.lower()
