"""Nodes for a person: the script that goes along, on a terminal, with a real salloc."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from tests.adapters.small_slurm import SmallSlurm
from tests.fakes import ScriptedShell
from trnctl.adapters.allocator import SlurmAllocator
from trnctl.ports import Allocation
from trnctl.render import templates

SCRIPT = templates.read("node/alloc.py")


def test_it_is_one_command_on_a_terminal() -> None:
    with ScriptedShell().on("python3", "-c", SCRIPT, returncode=7) as shell:
        assert SlurmAllocator(shell, SCRIPT).shell(Allocation(2, "1:00:00", "compute1")) == 7
    [call] = shell.calls
    assert call.kind == "interact"
    wish = json.loads(call.argv[-1])
    assert (wish["nodes"], wish["time"], wish["queue"]) == (2, "1:00:00", "compute1")
    assert wish["reasons"]["Resources"] == "waits for free nodes"


class Person:
    """Somebody at a terminal, who has asked for nodes."""

    def __init__(self, slurm: SmallSlurm, nodes: int) -> None:
        self.shown = ""
        wish = json.dumps({"nodes": nodes, "time": "5", "queue": "", "reasons": {"Resources": "waits for free nodes"}})
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            environ = {**slurm.environ, "SHELL": "/bin/sh", "PS1": "$ "}
            os.execve(sys.executable, [sys.executable, "-I", "-c", SCRIPT, wish], environ)  # noqa: S606  no shell is wanted

    def types(self, text: str) -> None:
        """Type it."""
        os.write(self._terminal, text.encode())

    def sees(self, text: str, seconds: float = 30) -> None:
        """Read until it is there."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._terminal], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self._terminal, 65536).decode(errors="replace")
                except OSError:  # Linux tells so that nobody holds the other side
                    assert text in self.shown, self.shown

    def leaves(self) -> int:
        """The exit code."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            with contextlib.suppress(OSError):
                if select.select([self._terminal], [], [], 0.1)[0]:
                    self.shown += os.read(self._terminal, 65536).decode(errors="replace")
        raise AssertionError(f"still there\n{self.shown}")

    def hangs_up(self) -> None:
        """The connection breaks."""
        os.close(self._terminal)


@pytest.fixture
def empty(slurm: SmallSlurm) -> Iterator[SmallSlurm]:
    """A Slurm without jobs, before and after."""
    slurm.call("scancel", "--me") if slurm.call("squeue", "-h") else None
    _wait_until_empty(slurm)
    yield slurm
    _wait_until_empty(slurm)


def _wait_until_empty(slurm: SmallSlurm) -> None:
    deadline = time.monotonic() + 30
    while slurm.call("squeue", "-h"):
        assert time.monotonic() < deadline, slurm.call("squeue")
        time.sleep(0.2)


def test_the_shell_is_on_the_first_node_and_its_end_gives_the_nodes_back(empty: SmallSlurm) -> None:
    person = Person(empty, 2)
    person.types("echo on $SLURMD_NODENAME of $SLURM_JOB_NUM_NODES; srun -N 2 -n 2 true && echo both; exit 3\n")
    assert person.leaves() == 3
    assert "on compute1-dy-i1-1 of 2" in person.shown
    assert "both" in person.shown
    assert "The nodes are given back after" in person.shown


def test_who_waits_is_told_for_what_and_may_stop(empty: SmallSlurm) -> None:
    busy = empty.call("sbatch", "--parsable", "-N", "4", "--exclusive", "--output=/dev/null", "--wrap=sleep 60").strip()
    try:
        person = Person(empty, 4)
        person.sees("waits for free nodes")
        person.types("\x03")
        assert person.leaves() == 130
        assert empty.call("squeue", "-h", "-o", "%i").split() == [busy]
    finally:
        empty.call("scancel", busy)


def test_a_connection_that_breaks_gives_the_nodes_back(empty: SmallSlurm) -> None:
    person = Person(empty, 1)
    person.types("echo here $((40 + 2))\n")
    person.sees("here 42")
    person.hangs_up()
    assert person.leaves() in {-signal.SIGHUP, 128 + signal.SIGHUP}
