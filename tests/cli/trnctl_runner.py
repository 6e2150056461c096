"""Runs trnctl as a person does: a process of its own, a limit on its time, and a report of all that it printed."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trnctl.sandbox.neuron.install import install_source
from trnctl.specs.loading import load_cluster_file

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SIXTEEN = EXAMPLES / "trn1-16-nodes.yaml"  # the cluster ultra1: one queue of at most 16 nodes
TWO_QUEUES = EXAMPLES / "two-queues.yaml"  # the cluster twins: trn1 and trn1n
NOTICE = "AWS and the Neuron tools are emulated"
PATIENCE = 3  # times as long as a test says: what suffices on a quiet machine, where three tests share two cores


@dataclass(frozen=True)
class Ended:
    """One command that has ended. A failing assertion shows it whole, because it is printed where pytest captures."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> Any:
        """The one JSON value that is the whole of stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON objects of stdout, one a line, as `-f` and `-w` print them."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def talk(self) -> str:
        """stderr as one line, so that a sentence is found however it was wrapped."""
        return " ".join(self.err.split())

    def __str__(self) -> str:
        lines = [f"$ trnctl {shlex.join(self.words)}", "--- stdout", self.out, "--- stderr", self.err]
        return "\n".join([*lines, f"--- exit code {self.code} after {self.seconds:.1f} s", ""])


class Running:
    """A command that runs, leader of a process group as in a terminal of its own."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: Path, stdin: str) -> None:
        self._words = tuple(words)
        # Files, not pipes: nobody has to read them for the command to go on. `close` closes them.
        self._out = tempfile.TemporaryFile()  # noqa: SIM115
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            # Whoever started pytest in the background may have had SIGINT ignored, which children inherit.
            ["env", "--default-signal=INT", sys.executable, "-P", "-m", "trnctl", *words],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=self._out,
            stderr=self._err,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as given:  # it may have ended without reading
            given.write(stdin.encode("utf-8", "surrogateescape"))

    @property
    def out(self) -> str:
        """What stdout holds by now."""
        return self._read(self._out)

    @property
    def err(self) -> str:
        """What stderr holds by now."""
        return self._read(self._err)

    def until(self, holds: Callable[[Running], bool], what: str, timeout: float = 60) -> None:
        """Wait until something holds; AssertionError with all that was printed when it does not, or when it ends."""
        limit = time.monotonic() + PATIENCE * timeout
        while not holds(self):
            assert self._process.poll() is None, f"ended before {what}\n{self.end()}"
            assert time.monotonic() < limit, f"{PATIENCE * timeout:g} s, and still not: {what}\n{self.out}\n{self.err}"
            time.sleep(0.1)

    def interrupt(self) -> None:
        """Ctrl-C: the terminal sends SIGINT to the whole group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def end(self, timeout: float = 60) -> Ended:
        """Wait for its end, and print it."""
        try:
            code = self._process.wait(PATIENCE * timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            after = f"still running after {PATIENCE * timeout:g} s"
            raise AssertionError(f"{after}\n{self._ended(-signal.SIGKILL)}") from None
        ended = self._ended(code)
        print(ended)
        return ended

    def kill(self) -> None:
        """End the command and what it started in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)

    def close(self) -> None:
        """Leave nothing behind."""
        self.kill()
        self._out.close()
        self._err.close()

    def _ended(self, code: int) -> Ended:
        return Ended(self._words, code, self.out, self.err, time.monotonic() - self._began)

    @staticmethod
    def _read(file: Any) -> str:
        size = os.fstat(file.fileno()).st_size
        return os.pread(file.fileno(), size, 0).decode(errors="replace")


@dataclass(frozen=True)
class Trnctl:
    """trnctl against the sandbox in `folder`; calling it runs one command. `config` goes along as `-c`; commands run
    in `where`, without which that is a folder that holds no cluster file."""

    folder: Path
    config: Path | None = None
    where: Path | None = None

    @property
    def home(self) -> Path:
        """The sandbox's home."""
        return self.folder / "home"

    def of(self, config: Path) -> Trnctl:
        """The same sandbox, another cluster file."""
        return Trnctl(self.folder, config)

    def __call__(
        self, *words: str, code: int | None = 0, timeout: float = 60, stdin: str = "", target: str = "sandbox"
    ) -> Ended:
        """Run one command to its end, with stdin as no terminal; it must exit with `code` unless that is None."""
        with self.start(*words, stdin=stdin, target=target) as running:
            ended = running.end(timeout)
        assert code is None or ended.code == code, f"exit code {ended.code}, not {code}\n{ended}{self._tracebacks()}"
        return ended

    def json(self, *words: str, code: int = 0, timeout: float = 60) -> Any:
        """What a command answers with -o json."""
        return self("-o", "json", *words, code=code, timeout=timeout).json

    @contextlib.contextmanager
    def start(self, *words: str, stdin: str = "", target: str = "sandbox") -> Iterator[Running]:
        """Start one command; it is ended at the end of the block if it still runs then."""
        given = ["-c", str(self.config), *words] if self.config else [*words]
        running = Running(given, self.environment(target), self.where or self.folder, stdin)
        try:
            yield running
        finally:
            running.close()

    def environment(self, target: str = "sandbox") -> dict[str, str]:
        """What the command sees: this sandbox, nothing of the AWS account or the terminal of whoever runs the tests."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "TRNCTL_")) and name not in {"COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM"}
        }
        return {
            **kept,
            "PATH": os.pathsep.join([str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "TRNCTL_TARGET": target,
            "TRNCTL_SANDBOX_HOME": str(self.home),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }

    def cluster_folder(self, cluster: str = "ultra1") -> Path:
        """Where the machines of a cluster live."""
        return self.home / "clusters" / cluster

    def shared(self, path: str, cluster: str = "ultra1") -> Path:
        """A path of the cluster's own, as it lies on this machine: /fsx/data, say."""
        return self.cluster_folder(cluster) / "root" / path.lstrip("/")

    def world(self) -> dict[str, Any]:
        """What the world wrote of itself: its pid, its endpoint."""
        return dict(json.loads((self.home / "sandbox.json").read_text()))

    def connections(self, cluster: str = "ultra1") -> int:
        """How many connections the head node's sshd has let in."""
        return (self.cluster_folder(cluster) / "log" / "sshd.out").read_text().count("Accepted publickey")

    def counting_ssh(self) -> Callable[[], int]:
        """Put a program before ssh that notes each start; how many starts there have been."""
        log, program = self.folder / "ssh.log", self.folder / "bin" / "ssh"
        log.touch()
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho start >>'{log}'\nexec '{shutil.which('ssh')}' \"$@\"\n")
        program.chmod(0o755)
        return lambda: len(log.read_text().splitlines())

    def slurm(self, *words: str, code: int | None = 0) -> str:
        """Run a command of Slurm's on the head node; what it printed."""
        return self("ssh", "--", shlex.join(words), code=code).out

    def place_needs(self, cluster: str = "ultra1") -> None:
        """What the shipped recipes need lies on the shared storage, so that no submit has to fetch it."""
        assert self.config is not None
        spec = load_cluster_file(self.config.read_text(), str(self.config)).cluster
        install_source(self.cluster_folder(cluster) / "root", spec.shared_mount, sdk=spec.neuron_sdk, os=spec.os)

    def _tracebacks(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("state/trnctl/log/*.log")))


@contextlib.contextmanager
def empty_folder() -> Iterator[Path]:
    """A folder with a short path, as sockets need one; gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="trnctl-cli-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def sandbox(config: Path = SIXTEEN, *options: str) -> Iterator[Trnctl]:
    """A sandbox that is up; at the end it is down, and a process or file that it leaves is an AssertionError."""
    with empty_folder() as folder:
        trnctl = Trnctl(folder, config)
        try:
            trnctl("sandbox", "up", *options, timeout=60)
            yield trnctl
        finally:
            trnctl("sandbox", "down", timeout=60)
        assert left(trnctl) == []


def left(trnctl: Trnctl) -> list[str]:
    """What still is there of a sandbox that should be gone: files, and processes that carry its home in their words
    or their environment."""
    found = [str(path) for path in trnctl.home.glob("**/*")]
    mark = str(trnctl.home).encode()
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            with contextlib.suppress(OSError):  # it has ended, or it is none of ours
                words, environment = ((process / name).read_bytes() for name in ("cmdline", "environ"))
                if mark in words or mark in environment:
                    found.append(f"process {process.name}: {words.replace(bytes(1), b' ').decode(errors='replace')}")
    return found


def eventually(holds: Callable[[], bool], what: str, timeout: float = 30) -> None:
    """Wait until something holds; AssertionError after `timeout` seconds."""
    limit = time.monotonic() + PATIENCE * timeout
    while not holds():
        assert time.monotonic() < limit, f"{PATIENCE * timeout:g} s, and still not: {what}"
        time.sleep(0.3)
