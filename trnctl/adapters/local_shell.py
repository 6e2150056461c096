"""Commands on this machine.

Output goes to temporary files, not to pipes: a background process that a command leaves behind (ssh's connection
master, the proxy of Session Manager) keeps its end of a pipe open, and a reader that waits for the pipe's end would
wait with it. The end of the command itself is what counts here.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from trnctl.errors import ToolError, ToolMissing, WaitedTooLong
from trnctl.ports import CommandFailed, Completed

_CALLS = logging.getLogger("trnctl.calls")  # what `-v` shows: no argument holds a secret, and no environment is told
_LONG = 300  # characters of a command line that are shown
_GRACE = 1.0  # seconds between asking a command to end and ending it


class LocalShell:
    """Runs commands as child processes, each in a process group of its own.

    `environ` is their whole environment (None = a copy of this process's); `path`, when given, replaces its PATH.
    `grace` is how many seconds a command has, whose stream is closed, between being asked to end and being ended.
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, path: str | None = None, *, grace: float = _GRACE
    ) -> None:
        self._grace = grace
        self._environ = dict(os.environ if environ is None else environ)
        if path is not None:
            self._environ["PATH"] = path

    def run(self, argv: Sequence[str], *, stdin: str | None = None, timeout: float) -> Completed:
        """Run to the end; see `ports.Shell.run`. After `timeout` seconds the whole process group is ended."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, _stdin_file(stdin) as given:
            process = self._start(argv, given, out, err)
            expired = _wait(process, timeout)
            completed = Completed(tuple(argv), process.returncode, _text(out), _text(err))
        if expired:
            raise WaitedTooLong(
                f"{argv[0]} did not finish within {timeout:g} seconds and was ended.{_last_words(completed)}",
                remedy="Run the command again; if it keeps hanging, run it by hand to see where it waits: "
                + " ".join(argv[:3]),
            )
        return completed

    def stream(self, argv: Sequence[str], *, stdin: str | None = None) -> Iterator[str]:
        """Yield stdout's lines as they come; see `ports.Shell.stream`."""
        with tempfile.TemporaryFile() as err, _stdin_file(stdin) as given:
            process = self._start(argv, given, subprocess.PIPE, err)
            assert process.stdout is not None  # noqa: S101  a pipe was asked for
            try:
                for line in process.stdout:
                    yield line.decode("utf-8", "replace").rstrip("\r\n")
                process.wait()
            finally:
                _end_group(process, self._grace)
                process.stdout.close()
            completed = Completed(tuple(argv), process.returncode, "", _text(err))
        if completed.returncode != 0:
            raise CommandFailed(
                f"{argv[0]} failed with exit code {completed.returncode}.{_last_words(completed)}",
                remedy="Run it by hand to see more: " + " ".join(argv[:3]),
                completed=completed,
            )

    def interact(self, argv: Sequence[str]) -> int:
        """Hand over the terminal; an empty `argv` is the user's login shell."""
        command = list(argv) or [self._environ.get("SHELL", "/bin/sh"), "-l"]
        _tell(command)
        try:
            return subprocess.run([self._find(command[0]), *command[1:]], env=self._environ, check=False).returncode
        except OSError as error:
            raise _cannot_start(command[0], error) from error

    def _find(self, program: str) -> str:
        found = shutil.which(program, path=self._environ.get("PATH", os.defpath))
        if found is None:
            raise ToolMissing(
                f"{program} is not installed, or not on PATH.",
                remedy=f"Install {program}, or put the folder that holds it on PATH.",
                program=program,
            )
        return found

    def _start(
        self, argv: Sequence[str], stdin: IO[bytes] | int, out: IO[bytes] | int, err: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        _tell(argv)
        try:
            return subprocess.Popen(
                [self._find(argv[0]), *argv[1:]],
                env=self._environ,
                stdin=stdin,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            raise _cannot_start(argv[0], error) from error


def _tell(argv: Sequence[str]) -> None:
    if _CALLS.isEnabledFor(logging.DEBUG):
        line = " ".join(shlex.join(argv).split())
        _CALLS.debug("$ %s", line if len(line) <= _LONG else f"{line[: _LONG // 2]} … {line[-_LONG // 2 :]}")


@contextmanager
def _stdin_file(text: str | None) -> Iterator[IO[bytes] | int]:
    """What the command reads: nothing, or a file with the text, so that no thread has to feed it."""
    if text is None:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        file.seek(0)
        yield file


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _wait(process: subprocess.Popen[bytes], timeout: float) -> bool:
    """Wait for the end of the command; True when it had to be ended.

    A watchdog thread keeps the time, because `wait(timeout)` polls and would add up to 50 ms to every command.
    """
    ended, expired = threading.Event(), threading.Event()

    def watch() -> None:
        if not ended.wait(timeout):
            expired.set()
            _signal(process, signal.SIGTERM)
            ended.wait(_GRACE)
            _signal(process, signal.SIGKILL)  # also those of the group that outlived its leader

    watchdog = threading.Thread(target=watch, daemon=True)
    watchdog.start()
    try:
        process.wait()
    except BaseException:  # Ctrl-C included: nothing that was started may outlive its caller's interest
        _end_group(process)
        raise
    finally:
        ended.set()
    if expired.is_set():
        watchdog.join()
    return expired.is_set()


def _end_group(process: subprocess.Popen[bytes], grace: float = _GRACE) -> None:
    """End a command that still runs, with its children; one that ended by itself is left as it is."""
    if process.poll() is not None:
        return
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # The group's id is the leader's pid; the group may be gone already. macOS answers EPERM for a group of zombies.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _last_words(completed: Completed) -> str:
    """The last line of stderr as a sentence to append, '' when it said nothing."""
    lines = [line for line in completed.stderr.splitlines() if line.strip()]
    return f" It said: {lines[-1].strip()}" if lines else ""


def _cannot_start(program: str, error: OSError) -> ToolError:
    return ToolError(
        f"{program} could not be started: {error.strerror or error}.",
        remedy="Look whether the file is executable and made for this machine; reinstall it if in doubt.",
    )
