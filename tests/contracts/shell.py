"""What every Shell must do."""

from __future__ import annotations

import time

import pytest

from trnctl.errors import ToolMissing, WaitedTooLong
from trnctl.ports import CommandFailed, Shell

NASTY = 'it\'s a "test" with $(touch /tmp/no), `ticks`, \\ and $HOME; * ? [a] {b} ~ # ! & | <>\ttab\nnewline é'


class ShellContract:
    """Give a fixture `shell` that runs commands of a Unix machine; `far` is True when another shell is in between."""

    far = False

    def test_run_returns_output_and_exit_code(self, shell: Shell) -> None:
        done = shell.run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=20)
        assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
        assert done.argv == ("sh", "-c", "echo out; echo err >&2; exit 3")

    def test_words_arrive_as_they_are(self, shell: Shell) -> None:
        done = shell.run(["printf", "%s|", NASTY, "", "-n", "a b"], timeout=20)
        assert done.stdout == f"{NASTY}||-n|a b|"

    def test_stdin_arrives_whole(self, shell: Shell) -> None:
        text = "zeile ü\n" * 60_000
        assert shell.run(["cat"], stdin=text, timeout=20).stdout == text

    def test_without_stdin_a_reader_sees_the_end_at_once(self, shell: Shell) -> None:
        assert shell.run(["cat"], timeout=20).stdout == ""

    def test_bytes_that_are_no_text_are_replaced(self, shell: Shell) -> None:
        done = shell.run(["printf", "a\\377b\\n"], timeout=20)
        assert done.stdout == "a�b\n"

    def test_a_command_that_takes_too_long_is_ended(self, shell: Shell) -> None:
        began = time.monotonic()
        with pytest.raises(WaitedTooLong) as caught:
            shell.run(["sleep", "30"], timeout=0.7)
        assert time.monotonic() - began < 6
        assert caught.value.remedy

    def test_stream_yields_lines_as_they_come(self, shell: Shell) -> None:
        began = time.monotonic()
        lines = shell.stream(["sh", "-c", "echo one; sleep 2; echo two"])
        assert next(lines) == "one"
        assert time.monotonic() - began < 1.9
        assert list(lines) == ["two"]

    def test_stream_takes_stdin(self, shell: Shell) -> None:
        assert list(shell.stream(["cat"], stdin="a\nb\n")) == ["a", "b"]

    def test_a_stream_that_fails_says_so_after_its_last_line(self, shell: Shell) -> None:
        lines = shell.stream(["sh", "-c", "echo one; echo the reason >&2; exit 9"])
        assert next(lines) == "one"
        with pytest.raises(CommandFailed, match="the reason") as caught:
            next(lines)
        assert caught.value.completed.returncode == 9

    def test_closing_a_stream_ends_its_command(self, shell: Shell) -> None:
        """Far away at the next line that it writes: sshd sends no signal."""
        lines = shell.stream(["sh", "-c", "echo $$; while sleep 0.1; do echo more; done"])
        pid = next(lines)
        lines.close()  # type: ignore[attr-defined]  # every implementation is a generator
        lives, tries = True, 50
        while lives and tries:
            time.sleep(0.1)
            lives, tries = shell.run(["kill", "-0", pid], timeout=20).returncode == 0, tries - 1
        shell.run(["kill", pid], timeout=20)
        assert not lives, "the command outlived its stream by five seconds"

    def test_a_program_that_is_not_there(self, shell: Shell) -> None:
        """Here it cannot be started; far away the shell there says so."""
        if self.far:
            assert shell.run(["no-such-program-of-trnctl"], timeout=20).returncode == 127
            return
        with pytest.raises(ToolMissing, match="no-such-program-of-trnctl") as caught:
            shell.run(["no-such-program-of-trnctl"], timeout=20)
        assert caught.value.program == "no-such-program-of-trnctl"
        assert caught.value.remedy

    def test_interact_returns_the_exit_code(self, shell: Shell) -> None:
        assert shell.interact(["sh", "-c", "exit 4"]) == 4
