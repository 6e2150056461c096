"""notify.py as a node and the head node's timer run it: who is told, when, how often; the target stays hidden."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from trnctl.render import templates

TOKEN = "s3cr3t-t0ken"  # nothing may show it


class Hook:
    """A webhook on loopback: what it was sent, and with what it answers, in turn."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.answers: list[int] = []
        hook = self

        class Door(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(hook.answers.pop(0) if hook.answers else 200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook?token={TOKEN}"


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.server.shutdown()
    hook.server.server_close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder whose two jobs are done."""
    (tmp_path / "ended").mkdir()
    (tmp_path / "notify.py").write_text(templates.read("job/notify.py"))
    write(
        tmp_path, "run.json", {"workload": "bert-large", "cluster": "ultra1", "nodes": 4, "steps": 12, "unit": "seq/s"}
    )
    write(tmp_path, "submitted.json", {"jobs": {"compile": "1", "train": "2"}})
    write(tmp_path, "results.json", {"steps_done": 12, "total_steps": 12, "node_seconds": 96})
    for stage in ("compile", "train"):
        write(tmp_path, f"ended/{stage}.json", {"exit_code": 0})
    return tmp_path


def write(folder: Path, name: str, content: object) -> None:
    (folder / name).write_text(json.dumps(content))


def tell(folder: Path, *words: str, squeue: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run it, with a squeue that prints this (None: that fails)."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    program = tools / "squeue"
    program.write_text(f"#!/bin/sh\nprintf '{squeue}'\n" if squeue is not None else "#!/bin/sh\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    done = subprocess.run(
        [sys.executable, "-E", str(folder / "notify.py"), *words],
        env={"PATH": f"{tools}:{os.environ['PATH']}"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert TOKEN not in done.stdout + done.stderr
    return done


def test_a_webhook_is_told_once(run: Path, hook: Hook) -> None:
    write(run, "notify.json", {"target": hook.url})
    assert tell(run, "trap", "train", "0").returncode == 0
    assert tell(run, "timer", squeue="").returncode == 0
    [told] = hook.got
    assert (told["run"], told["state"], told["stage"], told["exit_code"]) == (run.name, "completed", "train", 0)
    assert (told["workload"], told["steps_done"], told["total_steps"], told["node_seconds"]) == (
        "bert-large",
        12,
        12,
        96,
    )
    assert told["text"] == f"{run.name} completed at step 12 of 12"
    note = json.loads((run / "notified.json").read_text())
    assert (note["ok"], note["tries"]) == (True, 1)


def test_the_end_of_the_compile_stage_is_no_end_unless_it_failed(run: Path, hook: Hook) -> None:
    write(run, "notify.json", {"target": hook.url})
    tell(run, "trap", "compile", "0")
    assert hook.got == []
    write(run, "ended/compile.json", {"exit_code": 70, "reason": "a graph did not compile"})
    tell(run, "trap", "compile", "70")
    [told] = hook.got
    assert (told["state"], told["stage"], told["exit_code"]) == ("failed", "compile", 70)
    assert told["text"].endswith("failed in its compile stage at step 12 of 12: a graph did not compile")


@pytest.mark.parametrize(
    ("note", "state"),
    [
        ({"exit_code": 143}, "cancelled"),
        ({"slurm_state": "NODE_FAIL", "by": "slurm"}, "node-fail"),
        ({"slurm_state": "TIMEOUT"}, "timeout"),
    ],
)
def test_the_timer_tells_of_ends_that_no_job_could(run: Path, hook: Hook, note: dict[str, Any], state: str) -> None:
    write(run, "notify.json", {"target": hook.url})
    write(run, "ended/train.json", note)
    tell(run, "timer", squeue="2|PENDING\\n")
    tell(run, "timer", squeue=None)
    assert hook.got == [], "the run goes on, or nobody knows"
    tell(run, "timer", squeue="2|CANCELLED\\n")
    assert [told["state"] for told in hook.got] == [state]


@pytest.mark.parametrize(
    ("word", "note", "text"),
    [
        ("TIMEOUT", {"exit_code": 143}, "ran out of time in its train stage at step 12 of 12"),
        ("CANCELLED", {"exit_code": 143}, "cancelled in its train stage at step 12 of 12"),
        ("NODE_FAIL", None, "lost a node in its train stage at step 12 of 12"),
        ("CANCELLED", None, "cancelled in its train stage at step 12 of 12: before it started"),
    ],
)
def test_slurms_word_counts_where_the_job_knew_only_that_it_was_ended(
    run: Path, hook: Hook, word: str, note: dict[str, Any] | None, text: str
) -> None:
    write(run, "notify.json", {"target": hook.url})
    (run / "ended/train.json").unlink()
    if note is not None:
        write(run, "ended/train.json", note)
    tell(run, "timer", squeue=f"2|{word}\\n")
    [told] = hook.got
    assert (told["state"], told["text"]) == (word.lower().replace("_", "-"), f"{run.name} {text}")


def test_a_webhook_that_refuses_is_tried_three_times(run: Path, hook: Hook) -> None:
    write(run, "notify.json", {"target": hook.url})
    hook.answers = [500, 503, 404]
    done = tell(run, "trap", "train", "0")
    assert done.returncode == 1
    assert "it answered 404" in done.stdout
    assert len(hook.got) == 3
    assert json.loads((run / "notified.json").read_text())["ok"] is False


def test_a_command_gets_the_json_and_two_variables(run: Path) -> None:
    command = f"cat >{run}/told; echo $TRNCTL_RUN $TRNCTL_STATE >{run}/words; : {TOKEN}"
    write(run, "notify.json", {"target": command})
    assert tell(run, "trap", "train", "0").returncode == 0
    assert json.loads((run / "told").read_text())["state"] == "completed"
    assert (run / "words").read_text() == f"{run.name} completed\n"


def test_a_command_that_does_not_end_is_not_run_again(run: Path) -> None:
    """It may have worked: whoever is paged twice trusts neither."""
    script = run / "notify.py"
    text = script.read_text()
    script.write_text(text.replace("COMMAND_SECONDS = 20", "COMMAND_SECONDS = 1"))
    assert script.read_text() != text
    write(run, "notify.json", {"target": f"echo told >>{run}/told; exec sleep 30"})
    assert tell(run, "trap", "train", "0").returncode == 1
    assert (run / "told").read_text() == "told\n"
    note = json.loads((run / "notified.json").read_text())
    assert (note["ok"], note["tries"]) == (False, 1)
    tell(run, "timer", squeue="")
    assert (run / "told").read_text() == "told\n"


def test_who_is_killed_before_it_could_tell_is_followed_by_one_more(run: Path, hook: Hook) -> None:
    write(run, "notify.json", {"target": f"kill -9 $PPID; echo told >>{run}/told"})
    tell(run, "trap", "train", "0")
    assert not (run / "notified.json").exists()
    tell(run, "timer", squeue="")
    assert not (run / ".notify-2").exists(), "it may be at it still"
    old = time.time() - 1000
    os.utime(run / ".notify-1", (old, old))
    write(run, "notify.json", {"target": hook.url})
    tell(run, "timer", squeue="")
    tell(run, "timer", squeue="")
    assert len(hook.got) == 1
    note = json.loads((run / "notified.json").read_text())
    assert (note["ok"], note["attempt"]) == (True, 2)


def test_two_that_were_killed_are_enough(run: Path, hook: Hook) -> None:
    write(run, "notify.json", {"target": hook.url})
    old = time.time() - 1000
    for mark in (run / ".notify-1", run / ".notify-2"):
        mark.touch()
        os.utime(mark, (old, old))
    tell(run, "timer", squeue="")
    assert (hook.got, json.loads((run / "notified.json").read_text())["ok"]) == ([], False)


def test_what_could_not_be_prepared_is_told_with_its_reason(run: Path, hook: Hook) -> None:
    write(run, "notify.json", {"target": hook.url})
    for stage in ("compile", "train"):
        (run / f"ended/{stage}.json").unlink()
    write(run, "ended/prepare.json", {"exit_code": 1, "kind": "network", "reason": "no way to the source"})
    tell(run, "timer", squeue="")
    [told] = hook.got
    assert (told["state"], told["stage"], told["exit_code"]) == ("failed", "prepare", 1)
    assert told["text"].endswith("no way to the source")


# ------------------------------------------------------------------------------------------- the head node's timer


def timer(root: Path, stat_does: str = "") -> None:
    """Run the head node's timer below `root`; `stat_does` happens each time before it looks at a file."""
    source = templates.read("node/system.sh").partition("put /opt/trnctl/timer.d/notify 755 <<'END'\n")[2]
    program = root / "opt/trnctl/timer.d/notify"
    tool = root / "bin/stat"
    for path, text in (
        (program, source.partition("\nEND\n")[0]), (tool, f'#!/bin/sh\n{stat_does}\nexec /usr/bin/stat "$@"\n')
    ):  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    subprocess.run([str(program)], env={"PATH": f"{tool.parent}:{os.environ['PATH']}"}, timeout=60, check=True)


def run_that_notes(folder: Path, word: str, notes: Path) -> Path:
    """A run whose notify.py only notes that it ran."""
    folder.mkdir(parents=True)
    write(folder, "notify.json", {"target": "true"})
    (folder / "notify.py").write_text(f"open({str(notes)!r}, 'a').write('{word} ')")
    return folder


def test_the_timer_runs_what_it_has_looked_at(tmp_path: Path) -> None:
    """A user who may change what a path leads to swaps it after the look at its owner."""
    root, notes = tmp_path / "root", tmp_path / "notes"
    run_that_notes(tmp_path / "true/trnctl/runs/a3f", "true", notes)
    run_that_notes(tmp_path / "false/trnctl/runs/a3f", "false", notes)
    root.mkdir()
    (root / "fsx").symlink_to(tmp_path / "true")
    timer(root, f"ln -sfn {tmp_path}/false {root}/fsx")
    assert (root / "fsx").resolve() == tmp_path / "false"
    assert notes.read_text().split() == ["true"]


@pytest.mark.parametrize("link", ["", "notify.py", "notify.json"])
def test_the_timer_follows_no_link(tmp_path: Path, link: str) -> None:
    root, notes = tmp_path / "root", tmp_path / "notes"
    place = run_that_notes(root / "fsx/trnctl/runs/a3f", "ran", notes) / link
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    timer(root)
    assert not notes.exists()


@pytest.mark.parametrize("foreign", ["notify.py", "notify.json"])
def test_the_timer_runs_nothing_that_is_not_the_folders_owners(tmp_path: Path, foreign: str) -> None:
    root, notes = tmp_path / "root", tmp_path / "notes"
    run_that_notes(root / "fsx/trnctl/runs/a3f", "ran", notes)
    timer(root, f'case "$*" in *{foreign}) echo another; exit ;; esac')
    assert not notes.exists()
    timer(root)
    assert notes.read_text() == "ran "
