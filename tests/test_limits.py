"""No call to the outside is without a time limit: processes, AWS, connections, the head node's own commands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What waits for something outside, and the keyword that limits it.
WAITS = {
    "run": "timeout",
    "check_output": "timeout",
    "check_call": "timeout",
    "call": "timeout",
    "communicate": "timeout",
}
# Where a call waits for as long as a person wants, or for something that has its own limit; each with the reason.
UNLIMITED = {
    ("trnctl/adapters/local_shell.py", "run"): "hands over the terminal: the person ends it",
    ("templates/node/alloc.py", "call"): "salloc: the person ends it, and Slurm at the time limit",
    ("trnctl/sandbox/neuron/git.py", "call"): "stands in front of git: who starts it limits it",
}


def calls(text: str) -> Iterator[tuple[int, str, ast.Call, bool]]:
    """Line, last word, and node of each call, and whether it is subprocess's."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            yield node.lineno, node.func.attr, node, isinstance(of, ast.Name) and of.id == "subprocess"


def unlimited(name: str, text: str) -> list[str]:
    """Calls in a file that could wait for ever."""
    found = []
    for line, word, node, of_subprocess in calls(text):
        keywords = {keyword.arg for keyword in node.keywords}
        waits = of_subprocess if word != "communicate" else not _after_kill(text, line)
        if word in WAITS and waits and WAITS[word] not in keywords and (name, word) not in UNLIMITED:
            found.append(f"{name}:{line}: {word} has no {WAITS[word]}")
        if word in {"urlopen", "create_connection", "HTTPConnection", "HTTPSConnection"} and "timeout" not in keywords:
            found.append(f"{name}:{line}: {word} has no timeout")
    return found


def _after_kill(text: str, line: int) -> bool:
    """Whether the process was killed a line or two before: then its end is near."""
    before = text.splitlines()[max(0, line - 3) : line - 1]
    return any(".kill()" in one or "SIGKILL" in one for one in before)


SOURCES = [*sorted((ROOT / "trnctl").rglob("*.py")), *sorted((ROOT / "templates").rglob("*.py"))]


def test_every_call_to_the_outside_has_a_limit() -> None:
    assert len(SOURCES) > 150
    rows = (unlimited(path.relative_to(ROOT).as_posix(), path.read_text()) for path in SOURCES)
    assert [complaint for found in rows for complaint in found] == []


def test_no_exception_is_kept_that_nothing_needs() -> None:
    for name, word in UNLIMITED:
        text = (ROOT / name).read_text()
        assert any(found == word and of_subprocess for _, found, _, of_subprocess in calls(text)), name


def test_boto3_is_given_limits_and_retries() -> None:
    text = (ROOT / "trnctl" / "adapters" / "aws_clients.py").read_text()
    for setting in ("connect_timeout", "read_timeout", "retries"):
        assert setting in text, setting


def test_ssh_is_told_to_give_up_and_to_notice_a_dead_line() -> None:
    from trnctl.adapters.local_shell import LocalShell
    from trnctl.adapters.ssh_shell import SshShell

    words = " ".join(SshShell(LocalShell(), "head")._command(["-T"], ["true"]))
    for option in ("ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3", "BatchMode=yes"):
        assert option in words


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("import subprocess\nsubprocess.run(['x'])\n", "run has no timeout"),
        ("from http import client\nclient.HTTPConnection('x')\n", "HTTPConnection has no timeout"),
        ("process.communicate()\n", "communicate has no timeout"),
    ],
)
def test_a_call_without_a_limit_is_seen(text: str, complaint: str) -> None:
    assert complaint in "\n".join(unlimited("x.py", text))
