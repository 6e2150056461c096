"""Processes that the sandbox starts: written down with pid and start time, so that a later command can end them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One process. `started` is in clock ticks since the machine booted: pids are used again, this pair is not."""

    pid: int
    started: int
    what: str = ""
    cluster: str = ""

    @property
    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        fields = _stat(self.pid)
        return fields is not None and fields[0] not in "ZX" and int(fields[19]) == self.started

    def signal(self, number: int) -> None:
        """Send a signal; silent when the process is gone."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def __str__(self) -> str:
        return f"{self.what} of {self.cluster}" if self.cluster else self.what


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on (proc(5) numbers them from 3); None when there is no such pid."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def process(pid: int, what: str = "", cluster: str = "") -> Process | None:
    """The process with that pid as it is now, None when there is none."""
    fields = _stat(pid)
    return None if fields is None else Process(pid, int(fields[19]), what, cluster)


class Register:
    """Starts processes of their own session and writes each down at once, one JSON line in `file`.

    The file outlives us: whoever comes next reads it and ends what is left. Also reaps what has ended, which a
    daemon has to.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._children: list[int] = []

    def start(
        self,
        argv: Sequence[str],
        *,
        what: str,
        cluster: str = "",
        environment: Mapping[str, str],
        log: Path,
    ) -> Process:
        """Start a program, by its path, whose output is appended to `log`. OSError when it cannot be started.

        It may outlive us: posix_spawn, as subprocess would warn about children that still run when we end.
        """
        with Path(os.devnull).open() as nothing, log.open("ab") as output:
            streams = ((nothing, 0), (output, 1), (output, 2))
            actions = [(os.POSIX_SPAWN_DUP2, stream.fileno(), number) for stream, number in streams]
            pid = os.posix_spawn(argv[0], list(argv), environment, file_actions=actions, setsid=True)
        # A child that has already ended is a zombie until we reap it, so that its entry in /proc can be read.
        started = process(pid, what, cluster)
        assert started is not None, "a child that nobody has waited for has an entry in /proc"  # noqa: S101
        with self._lock:
            self._children.append(pid)
        self.write(started)
        return started

    def write(self, entry: Process) -> None:
        """Write a process down that is ours."""
        with self._lock, self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry)) + "\n")

    def reap(self) -> None:
        """Take leave of children that have ended."""
        with self._lock:
            self._children = [pid for pid in self._children if os.waitpid(pid, os.WNOHANG) == (0, 0)]


def written(file: Path) -> list[Process]:
    """All processes ever written to that register; a torn last line (we were killed while writing) is left out."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, TypeError):
            found.append(Process(**json.loads(line)))
    return found


def environments() -> Iterable[tuple[int, bytes]]:
    """pid and environment block of every process whose environment we may read, in no order."""
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile, or belongs to somebody else
                yield int(entry.name), (entry / "environ").read_bytes()


def with_environment(matches: Callable[[Mapping[str, str]], bool]) -> list[Process]:
    """Processes whose environment matches, and all their descendants: what a job has left behind is found by it."""
    roots = []
    for pid, block in environments():
        pairs = (item.partition(b"=") for item in block.split(b"\0"))
        if matches({os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}):
            roots.append(pid)
    found = (process(pid) for pid in _descendants(roots) if pid != os.getpid())
    return [each for each in found if each is not None]


def _descendants(roots: Iterable[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


def children(pid: int) -> list[Process]:
    """The processes that a process has started, and that still are its children."""
    found = [process(each) for each in _descendants([pid]) if each != pid]
    return [each for each in found if each is not None and (_stat(each.pid) or ["", "0"])[1] == str(pid)]


def command_lines(program: str) -> Iterator[tuple[int, list[str]]]:
    """pid and words of every process of that program (ssh and sshd rewrite their first word: `sshd: …`)."""
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if words[0].split(" ")[0].rstrip(":").rpartition("/")[2] == program:
                    yield int(entry.name), words


def end(processes: Iterable[Process], *, patience: float) -> list[Process]:
    """Ask processes to end, wait up to `patience` seconds, kill the rest; those that were alive.

    With `patience` 0 it is as if the power went: none of them lives to see another die, and to report it. Returns
    when all are gone.
    """
    living = [each for each in processes if each.alive]
    for each in living:
        each.signal(signal.SIGTERM if patience > 0 else signal.SIGSTOP)
    if patience > 0:
        _wait(living, patience)
    for each in living:
        each.signal(signal.SIGKILL)
    _wait(living, 10)
    return living


def _wait(processes: Iterable[Process], seconds: float) -> None:
    limit = time.monotonic() + seconds
    while time.monotonic() < limit and any(each.alive for each in processes):
        time.sleep(0.01)
