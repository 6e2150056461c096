"""A shell that knows only what a test has told it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from trnctl.errors import TrnctlError
from trnctl.ports import CommandFailed, Completed


@dataclass(frozen=True)
class Call:
    """One command that a ScriptedShell was asked for."""

    kind: str  # run | stream | interact
    argv: tuple[str, ...]
    stdin: str | None = None


@dataclass
class _Reply:
    words: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    error: TrnctlError | None
    times: int | None
    used: int = 0

    def fits(self, argv: Sequence[str]) -> bool:
        """The words appear in the command, in their order."""
        rest = iter(argv)
        return (self.times is None or self.used < self.times) and all(word in rest for word in self.words)


class ScriptedShell:
    """Answers the commands that a test has told it of, and no others.

    Use it in a `with` block: at its end it complains about replies that nobody asked for.
    """

    def __init__(self) -> None:
        self._replies: list[_Reply] = []
        self.calls: list[Call] = []

    def on(
        self,
        *words: str,
        stdout: str = "",
        stderr: str = "",
        returncode: int = 0,
        error: TrnctlError | None = None,
        times: int | None = 1,
    ) -> ScriptedShell:
        """Answer a command that holds these words in this order; `times` None = as often as it comes."""
        self._replies.append(_Reply(words, returncode, stdout, stderr, error, times))
        return self

    def run(self, argv: Sequence[str], *, stdin: str | None = None, timeout: float) -> Completed:
        """The scripted answer."""
        assert timeout > 0, "every command needs a time limit"
        reply = self._reply(Call("run", tuple(argv), stdin))
        return Completed(tuple(argv), reply.returncode, reply.stdout, reply.stderr)

    def stream(self, argv: Sequence[str], *, stdin: str | None = None) -> Iterator[str]:
        """The scripted answer line by line."""
        reply = self._reply(Call("stream", tuple(argv), stdin))
        yield from reply.stdout.splitlines()
        if reply.returncode:
            done = Completed(tuple(argv), reply.returncode, "", reply.stderr)
            raise CommandFailed(
                f"{argv[0]} failed: {reply.stderr}", remedy="Change what the test has scripted.", completed=done
            )

    def interact(self, argv: Sequence[str]) -> int:
        """The scripted exit code."""
        return self._reply(Call("interact", tuple(argv))).returncode

    def _reply(self, call: Call) -> _Reply:
        self.calls.append(call)
        for reply in self._replies:
            if reply.fits(call.argv):
                reply.used += 1
                if reply.error is not None:
                    raise reply.error
                return reply
        raise AssertionError(f"nobody told the scripted shell what to answer to: {' '.join(call.argv)!r}")

    def complain(self) -> None:
        """Fail when a reply was never used."""
        unused = [" ".join(reply.words) for reply in self._replies if reply.times is not None and reply.used == 0]
        assert not unused, f"the scripted shell was never asked for: {unused}"

    def __enter__(self) -> ScriptedShell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.complain()
