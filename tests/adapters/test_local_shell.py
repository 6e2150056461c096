"""The local Shell."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.contracts.shell import ShellContract
from trnctl.adapters.local_shell import LocalShell
from trnctl.errors import ToolError, ToolMissing, WaitedTooLong
from trnctl.ports import Shell


class TestLocalShell(ShellContract):
    """It keeps the promises of every Shell."""

    @pytest.fixture
    def shell(self) -> Shell:
        return LocalShell()


def test_a_process_left_behind_does_not_hold_the_caller() -> None:
    """It keeps its ends of stdout and stderr open, as ssh's connection master may."""
    began = time.monotonic()
    done = LocalShell().run(["sh", "-c", "nohup sleep 4 & echo done"], timeout=20)
    assert done.stdout.splitlines()[-1:] == ["done"]
    assert time.monotonic() - began < 3.5


def alive(pid: int) -> bool:
    """The process runs, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_timeout_ends_children_that_ignore_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"sh -c 'trap \"\" TERM; echo $$ >{note}; sleep 30; sleep 30' & wait"
    with pytest.raises(WaitedTooLong):
        LocalShell().run(["sh", "-c", script], timeout=0.5)
    pid = int(note.read_text())
    for _ in range(30):
        if not alive(pid):
            return
        time.sleep(0.1)
    pytest.fail("the child that ignores TERM lives on")


def test_closing_a_stream_ends_a_silent_command() -> None:
    lines = LocalShell().stream(["sh", "-c", "echo $$; exec sleep 60"])
    pid = int(next(lines))
    lines.close()  # type: ignore[attr-defined]  # it is a generator
    assert not alive(pid)


def test_the_timeout_quotes_the_last_words() -> None:
    with pytest.raises(WaitedTooLong, match="It said: still waiting for AWS"):
        LocalShell().run(["sh", "-c", "echo still waiting for AWS >&2; exec sleep 30"], timeout=0.5)


def test_ctrl_c_ends_the_command(tmp_path: Path) -> None:
    """A process that waits in `run` is interrupted: its command must not live on."""
    note = tmp_path / "pid"
    code = (
        "from trnctl.adapters.local_shell import LocalShell\n"
        f"LocalShell().run(['sh', '-c', 'echo $$ >{note}; exec sleep 30'], timeout=60)"
    )
    waiting = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    for _ in range(100):
        if note.exists() and note.read_text().strip():
            break
        time.sleep(0.05)
    waiting.send_signal(2)
    _, said = waiting.communicate(timeout=10)
    assert b"KeyboardInterrupt" in said
    assert not alive(int(note.read_text()))


def test_environ_is_the_whole_environment() -> None:
    shell = LocalShell({"ONLY": "this"}, path=os.environ["PATH"])
    assert shell.run(["sh", "-c", "echo $ONLY-$HOME"], timeout=20).stdout == "this-\n"


def test_programs_are_looked_up_on_the_given_path(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    assert LocalShell({}, path=str(tmp_path)).run(["tool"], timeout=20).stdout == "mine\n"
    with pytest.raises(ToolMissing):
        LocalShell({}, path=str(tmp_path)).run(["ls"], timeout=20)
    with pytest.raises(ToolMissing):
        next(LocalShell({}, path=str(tmp_path)).stream(["ls"]))
    with pytest.raises(ToolMissing):
        LocalShell({}, path=str(tmp_path)).interact(["ls"])


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    with pytest.raises(ToolError, match="could not be started"):
        LocalShell().run([str(broken)], timeout=20)


def test_a_signal_is_a_negative_code() -> None:
    assert LocalShell().run(["sh", "-c", "kill -9 $$"], timeout=20).returncode == -9
