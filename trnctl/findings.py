"""A finding: something a person should know about a file, a layout, a cluster or a run, with the way out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["error", "warning", "info"]
_ORDER: dict[Level, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class Finding:
    """One problem or notice.

    `code` is kebab-case and never reused. `path` is the dotted place in a file (`cluster.queues[0].name`),
    `file`, `line` and `column` (1-based) say where that stands; `evidence` quotes what led to the finding,
    from a `source` that `why` knows (stack-event, clustermgtd, job-log, …), at a `node`. A diagnosis also says the
    `cause` and how sure it is of it: `confidence` is high, medium, low, or '' where nothing had to be weighed.
    """

    code: str
    level: Level
    message: str
    remedy: str
    path: str = ""
    line: int | None = None
    file: str = ""
    evidence: str = ""
    column: int | None = None
    cause: str = ""
    confidence: Literal["high", "medium", "low", ""] = ""
    node: str = ""
    source: str = ""

    @property
    def place(self) -> str:
        """`file:line:column`, as far as they are known."""
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return asdict(self)

    def __str__(self) -> str:
        """`file:line:column: path: what — what to do`, leaving out what is unknown."""
        where = ": ".join(part for part in (self.place, self.path) if part)
        text = f"{self.message} — {self.remedy}" if self.remedy else self.message
        return f"{where}: {text}" if where else text


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Errors first, then by file and line; the order is stable, so that output can be compared."""
    return sorted(findings, key=lambda f: (_ORDER[f.level], f.file, f.line or 0, f.code))


def errors_among(findings: Iterable[Finding]) -> list[Finding]:
    """Only the findings that forbid going on."""
    return [finding for finding in findings if finding.level == "error"]
