"""The only place that draws: data to stdout, everything else to stderr, colour only as a second signal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from trnctl.cli.session import Session
from trnctl.errors import Interrupted, UsageError
from trnctl.findings import Finding, by_severity

WIDTH = 100
NAME_WIDTH = 12
LEVEL_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}
MARKS = {"error": "✗", "warning": "!", "info": "·"}


class Stream(Console):
    """A console that leaves a reader's going away to main: rich would end with 1, the code of what is unexpected."""

    def on_broken_pipe(self) -> None:
        """What rich calls when nobody reads any more."""
        raise BrokenPipeError


class Hanging:
    """Words that wrap at blanks, every further line indented, and no line ending in blanks."""

    def __init__(self, words: Text, indent: int) -> None:
        self._words, self._indent = words, indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What rich calls to draw it."""
        plain = self._words.plain
        lead = len(plain) - len(plain.lstrip(" "))  # it stands before the words, and takes none of their width twice
        width = max(options.max_width - max(lead, self._indent), 20)
        for index, line in enumerate(self._words[lead:].wrap(console, width, overflow="fold")):
            line.rstrip()
            yield Text(" " * (self._indent if index else lead)) + line


class Screen:
    """Both streams of one command, in the form that the person asked for."""

    def __init__(self, session: Session) -> None:
        self.session = session
        plain = not session.color or bool(os.environ.get("NO_COLOR"))
        self.out = Stream(file=sys.stdout, no_color=plain, highlight=False, soft_wrap=False, width=_width(sys.stdout))
        self.err = Stream(file=sys.stderr, no_color=plain, highlight=False, soft_wrap=False, width=_width(sys.stderr))

    @property
    def json(self) -> bool:
        """Whether data is printed as JSON."""
        return self.session.json

    @property
    def live(self) -> bool:
        """Whether progress may redraw: stderr is a terminal."""
        return self.err.is_terminal and os.environ.get("TERM") != "dumb"

    def data(self, value: object) -> None:
        """One JSON value on stdout, indented: the whole answer of a command."""
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=_ascii(), default=str) + "\n")

    def line(self, value: object) -> None:
        """One JSON object on one line: a step of something that is followed or watched."""
        sys.stdout.write(json.dumps(value, ensure_ascii=_ascii(), default=str) + "\n")
        sys.stdout.flush()

    def say(self, text: str = "", style: str = "") -> None:
        """A sentence to the person, on stderr, wrapped at words."""
        self.err.print(Hanging(Text(text, style=style), len(text) - len(text.lstrip(" "))))

    def field(self, name: str, words: str, *, style: str = "", data: bool = False, indent: str = "") -> None:
        """A name and what it is, the words wrapped under themselves; on stdout when it is data."""
        console = self.out if data else self.err
        lead = f"{indent}{name:<{NAME_WIDTH}}"
        for line in wrap(words, width=min(console.width, WIDTH), lead=lead):
            console.print(Text(line, style=style), soft_wrap=True)

    def text(self, text: str) -> None:
        """Text that is data, as it is."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def notice(self, notice: str) -> None:
        """What answers when it is not AWS; shown with every result."""
        if notice:
            self.say(notice, style="dim")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> None:
        """A plain table on stdout: no boxes, columns by white space, within 100 columns."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for index, column in enumerate(columns):
            table.add_column(column, justify="right" if index in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
        self.out.print(table)

    def done(self, result: Mapping[str, object], sentence: str, *, after: str = "") -> None:
        """The result of a verb: JSON on stdout, or a sentence and the next command."""
        if self.json:
            self.data(result)
            return
        self.out.print(Hanging(Text(sentence), 0))
        if after:
            self.say(f"  next: {after}", style="dim")

    def findings(self, findings: Sequence[Finding], extra: Mapping[str, object] | None = None) -> None:
        """Findings, errors first: a table of file:line, level, code, message and remedy; or JSON."""
        ordered = by_severity(findings)
        if self.json:
            self.data({"findings": [finding.as_json() for finding in ordered], **(extra or {})})
            return
        for finding in ordered:
            self.out.print(finding_line(finding))
        counts = [sum(f.level == level for f in ordered) for level in ("error", "warning")]
        self.out.print(Text(f"{counts[0]} error{'s' * (counts[0] != 1)}, {counts[1]} warning{'s' * (counts[1] != 1)}."))

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before money or data moves. UsageError without a terminal, Interrupted when the answer is no."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise UsageError(f"{question} There is no terminal to ask on.", remedy="add -y to say yes in advance")
        self.err.print(Text(f"{question} [y/N] "), end="")
        if (sys.stdin.readline() or "n").strip().lower() not in {"y", "yes"}:
            raise Interrupted("nothing was changed", remedy="run it again and answer y, or add -y")


def wrap(words: str, *, width: int, lead: str) -> list[str]:
    """`words` after `lead`, broken at blanks to `width` columns, every further line indented under the first word.

    A word that is longer than a line stays whole, so that a path can be copied.
    """
    import textwrap

    lines = textwrap.wrap(
        words, width=width, initial_indent=lead, subsequent_indent=" " * len(lead), break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return lines or [lead.rstrip()]


def finding_line(finding: Finding) -> Hanging:
    """`file:line:column  level  code  message — remedy`, with the level coloured."""
    line = Text()
    if finding.place:
        line.append(f"{finding.place}  ")
    line.append(f"{MARKS[finding.level]} {finding.level}", style=LEVEL_STYLES[finding.level])
    line.append(f"  {finding.code}  ")
    line.append(f"{finding.path}: {finding.message}" if finding.path else finding.message)
    if finding.remedy:
        line.append(f" — {finding.remedy}", style="dim")
    return Hanging(line, 2)


def _ascii() -> bool:
    """Whether JSON must do without what the encoding of stdout may lack."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") != "utf8"


def _width(stream: object) -> int | None:
    """100 columns where there is no terminal; a terminal's own width, but no more than needed, where there is one."""
    if getattr(stream, "isatty", lambda: False)():
        return None
    return WIDTH
