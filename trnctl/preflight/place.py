"""A place in a file: its dotted path, its line and column, and what stands there, read as rules ask for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trnctl.specs.nodes import Entries, Items, Node, Scalar, join

# What ParallelCluster's schema (marshmallow) takes for true and false, besides YAML's own.
_TRUE = {"t", "T", "true", "True", "TRUE", "on", "On", "ON", "y", "Y", "yes", "Yes", "YES", "1"}
_FALSE = {"f", "F", "false", "False", "FALSE", "off", "Off", "OFF", "n", "N", "no", "No", "NO", "0"}
_INTEGER = re.compile(r"\s*[-+]?\d[\d_]*\s*")


@dataclass(frozen=True)
class Place:
    """`node` is None where nothing stands; line and column (1-based) are then those of what is around it."""

    path: str
    line: int
    column: int
    node: Node | None

    def at(self, *keys: str) -> Place:
        """The place below a chain of keys."""
        here = self
        for key in keys:
            here = here._child(key)
        return here

    def _child(self, key: str) -> Place:
        entry = self.node.entries.get(key) if isinstance(self.node, Entries) else None
        if entry is None:
            return Place(join(self.path, key), self.line, self.column, None)
        return Place(join(self.path, key), entry.line, entry.column, entry.node)

    def __bool__(self) -> bool:
        """Whether something stands there; a null is nothing."""
        return self.node is not None and not (isinstance(self.node, Scalar) and self.node.kind == "null")

    @property
    def is_section(self) -> bool:
        """Whether keys with values stand there."""
        return isinstance(self.node, Entries)

    @property
    def is_list(self) -> bool:
        """Whether a list stands there."""
        return isinstance(self.node, Items)

    def keys(self) -> tuple[str, ...]:
        """The keys that are written here, in order."""
        return tuple(self.node.entries) if isinstance(self.node, Entries) else ()

    def items(self) -> Iterator[Place]:
        """The items of a list; none when there is no list."""
        if isinstance(self.node, Items):
            for number, node in enumerate(self.node.items):
                yield Place(f"{self.path}[{number}]", node.line, node.column, node)

    def sections(self) -> list[Place]:
        """The items of a list that are mappings."""
        return [item for item in self.items() if item.is_section]

    def text(self) -> str:
        """The text, '' when none stands there."""
        return str(self.node.value) if isinstance(self.node, Scalar) and self.node.kind in {"text", "date"} else ""

    def texts(self) -> list[str]:
        """The texts of a list."""
        return [item.text() for item in self.items() if item.text()]

    def integer(self) -> int | None:
        """The whole number; ParallelCluster also reads one in quotes."""
        if not isinstance(self.node, Scalar):
            return None
        if self.node.kind == "integer" and isinstance(self.node.value, int):
            return self.node.value
        if self.node.kind == "number" and isinstance(self.node.value, float) and self.node.value.is_integer():
            return int(self.node.value)
        if self.node.kind == "text" and _INTEGER.fullmatch(self.node.text):
            return int(self.node.text)
        return None

    def number(self) -> float | None:
        """The number; ParallelCluster also reads one in quotes."""
        if isinstance(self.node, Scalar) and self.node.kind in {"integer", "number"}:
            return float(self.node.value or 0)
        if isinstance(self.node, Scalar) and self.node.kind == "text":
            try:
                return float(self.node.text)
            except ValueError:
                return None
        return None

    def flag(self) -> bool | None:
        """True or false; ParallelCluster also takes `yes`, "1" and their like."""
        if not isinstance(self.node, Scalar) or self.node.kind not in {"flag", "text", "integer"}:
            return None
        if self.node.kind == "flag":
            return bool(self.node.value)
        return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}.get(self.node.text)
