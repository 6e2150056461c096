"""The door to commands, on this machine or on the head node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from trnctl.errors import ToolError


@dataclass(frozen=True)
class Completed:
    """The outcome of one command; `returncode` is negative when a signal ended it."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class CommandFailed(ToolError):
    """A streamed command ended with a failure, after its last line; `completed` says how (its stdout is '')."""

    def __init__(self, message: str, *, remedy: str, completed: Completed) -> None:
        super().__init__(message, remedy=remedy)
        self.completed = completed


class Shell(Protocol):
    """Runs commands somewhere: on this machine, or on the head node over ssh."""

    def run(self, argv: Sequence[str], *, stdin: str | None = None, timeout: float) -> Completed:
        """Run to the end. Raises WaitedTooLong after `timeout` seconds, ToolError when it cannot start,
        ConnectionLost when the way there broke (a remote exit code is returned, not raised)."""

    def stream(self, argv: Sequence[str], *, stdin: str | None = None) -> Iterator[str]:
        """Yield stdout line by line, without line ends, as they come; closing the iterator ends the command (a
        remote one when it writes its next line: sshd sends no signal).
        Raises CommandFailed after the last line when the command failed, ConnectionLost when the way broke."""

    def interact(self, argv: Sequence[str]) -> int:
        """Hand over the terminal; returns the exit code. An empty `argv` is a login shell."""
