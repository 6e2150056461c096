"""The records that evidence is made of: where a piece of text was seen, and what a pattern found in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Facts = Mapping[str, str]  # what is known besides the text: `nodes` -> `4`, `version` -> `3.14.1`, …


@dataclass(frozen=True)
class Origin:
    """Where text comes from: a source of `kinds.SOURCES`, the file's name, the node whose file it is ('' unknown)."""

    source: str = "unknown"
    file: str = ""
    node: str = ""


@dataclass(frozen=True)
class Evidence:
    """One line. `line` counts from 1, None where lines have no numbers; `at` is the time that it names, '' if none."""

    source: str
    text: str
    file: str = ""
    line: int | None = None
    node: str = ""
    at: str = ""


@dataclass(frozen=True)
class Hit:
    """A line that a pattern matched, with what its named groups hold."""

    evidence: Evidence
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """What was read of one file."""

    source: str
    file: str
    lines: int
    size: int

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {"source": self.source, "file": self.file, "lines": self.lines, "bytes": self.size}
