"""What a command asks: connections to the head node, and calls to AWS, as docs/running.md lists them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import urllib.request
from typing import Any

import pytest

from tests.cli.trnctl_runner import Trnctl

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


def asked(trnctl: Trnctl, *, clear: bool = False) -> dict[str, Any]:
    """What the emulated account was asked since the last clearing."""
    endpoint = trnctl.world()["endpoint"]
    method = "DELETE" if clear else "GET"
    wanted = urllib.request.Request(f"{endpoint}/_sandbox/calls", method=method)  # noqa: S310  the sandbox's own address
    with urllib.request.urlopen(wanted, timeout=20) as answer:  # noqa: S310
        return dict(json.loads(answer.read()))


# What is asked of AWS besides: `why` wants the stack's events, and of the head node's subnet its route.
LOOKS: list[tuple[list[str], int]] = [
    (["status"], 3), (["runs"], 3), (["top", "--once"], 3), (["logs", "howoften"], 3), (["results", "howoften"], 3),
    (["why", "howoften"], 6), (["why"], 6), (["ssh", "--", "true"], 3), (["resume", "howoften", "--hold"], 3),
    (["cancel", "howoften"], 3),
]  # fmt: skip


def counted(trnctl: Trnctl, *words: str, code: int | None = 0, timeout: float = 120) -> tuple[int, int, dict[str, int]]:
    """Connections that the head node let in, calls to AWS, and these by name, of one command. The head node's timer
    copies what it knows to the bucket now and then: S3 is left out."""
    before, _ = trnctl.connections(), asked(trnctl, clear=True)
    trnctl(*words, code=code, timeout=timeout)
    ours = {name: count for name, count in asked(trnctl)["calls"].items() if not name.startswith("s3:")}
    return trnctl.connections() - before, sum(ours.values()), ours


def test_each_command_asks_as_often_as_the_document_says(ultra1: Trnctl) -> None:
    submit = ("submit", "bert-large", "-N", "1", "--name", "howoften", "--hold", "--compile", "skip")
    found = {"submit": counted(ultra1, *submit)[:2]}
    ultra1("cancel", "howoften")
    for words, calls in LOOKS:
        code = 3 if words[0] == "results" else 0  # a run that never ran has none
        connections, count, names = counted(ultra1, *words, code=code)
        assert (connections <= 1, count) == (True, calls), (words, names)
        found[words[0]] = (connections, count)
    assert found["submit"][1] == 3
    assert ultra1.slurm("squeue", "-h") == ""


@pytest.mark.parametrize(
    "words", [["status"], ["submit", "bert-large", "-N", "1", "--hold", "--dry-run"]], ids=" ".join
)
def test_one_start_of_ssh_is_enough(ultra1: Trnctl, words: list[str]) -> None:
    count = ultra1.counting_ssh()
    before = count()
    ultra1(*words)
    assert count() - before == (0 if "--dry-run" in words else 1)


def test_alloc_is_one_connection_for_the_terminal(ultra1: Trnctl) -> None:
    count = ultra1.counting_ssh()
    before, _ = count(), asked(ultra1, clear=True)
    terminal, other = pty.openpty()
    words = [sys.executable, "-P", "-m", "trnctl", "-c", str(ultra1.config), "alloc", "-N", "1"]
    alloc = subprocess.Popen(
        words, env=ultra1.environment(), cwd=ultra1.folder, stdin=other, stdout=other, stderr=other,
        start_new_session=True,
    )  # fmt: skip
    os.close(other)
    os.write(terminal, b"exit\n")  # the shell reads it when it comes
    said = b""
    with contextlib.suppress(OSError):  # the terminal is gone with its process
        while part := os.read(terminal, 4096):
            said += part
    os.close(terminal)
    assert alloc.wait(60) == 0, said.decode(errors="replace")
    calls = {name: n for name, n in asked(ultra1)["calls"].items() if not name.startswith("s3:")}
    # The node that it gets is launched by the head node's own programs, which the account does not count.
    assert (count() - before, sum(calls.values())) == (1, 3), calls
