"""Reads a YAML file with types and lines, and collects every problem instead of stopping at the first.

    root = read(text, "trnctl.yaml", to_start="`trnctl init` writes one to start from.")
    cluster = root.section("cluster")
    name = cluster.text("name", rule=CLUSTER_NAME)          # required: no default
    ami = cluster.section("image").text("ami", None)         # optional
    warnings = root.finish()                                 # raises UsageError with all findings

Each method of `Section` takes the key, then the default; without a default the key is required. A value that is wrong
is reported with its path and line, and a stand-in of the right type is returned (the default; '' , 0 or the first
choice where there is none), so that reading goes on; `finish` raises, so no stand-in ever leaves the loader. A null
counts as absent. A section or list that is absent reads as an empty one.

    text, choice, integer, number, flag      one value
    flag_or_text                             `true`, `false` or a name
    integer_or_choice                        a whole number or one of a few words
    texts                                    a list of texts
    mapping, integers, scalars               text -> text, integer, or any scalar
    section, sections                        a mapping, a list of mappings
    data                                     anything, as plain Python values
    shape, has, count, keys                  what the user wrote, before choosing how to read it
    problem                                  reports what only the caller can know, at a key or at an item below it
    finish                                   on the root, last: unknown keys (those never asked for), then raises

Texts hold no control characters; with `multiline=True` line ends and tabs may stand in them. NUL and lone surrogates,
which no file, argument or document can carry, are always refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeVar, overload

from trnctl.errors import UsageError
from trnctl.findings import Finding, Level, errors_among
from trnctl.specs.nodes import Entries, Items, Node, Scalar, join, parse
from trnctl.specs.values import (
    Plain,
    Rule,
    Wrong,
    as_choice,
    as_data,
    as_flag,
    as_integer,
    as_number,
    as_plain,
    as_text,
    forbidden_character,
    matching,
    shown,
    texts_in,
    what,
    within,
    wrong_type,
)

__all__ = ["REQUIRED", "Plain", "Rule", "Section", "matching", "read", "shown"]

T = TypeVar("T")
Choice = TypeVar("Choice", bound=str)
Item = TypeVar("Item", int, str)
Shape = Literal["absent", "scalar", "list", "mapping"]


class _Required:
    """The default of a key that has none."""


REQUIRED = _Required()


def read(text: str | bytes, file: str, *, to_start: str = "Write the file.") -> Section:
    """The file's outermost section. `to_start` is the remedy for an empty file.

    Raises UsageError at once only when nothing can be read: not UTF-8, not YAML, empty, not a mapping.
    """
    node, findings = parse(text, file)
    if node is None or (isinstance(node, Scalar) and node.kind == "null"):
        finding = Finding("file-empty", "error", "The file is empty", to_start, file=file)
        raise UsageError(str(finding), remedy=to_start, findings=[finding])
    if not isinstance(node, Entries):
        remedy = "Begin it with a key, as in `cluster:`."
        finding = Finding(
            "wrong-type", "error", f"The file is {what(node)}, not keys with values", remedy, file=file, line=node.line
        )
        raise UsageError(str(finding), remedy=remedy, findings=[finding])
    return Section(_Report(file, findings, []), "", node.line, node)


@dataclass
class _Report:
    """What all sections of one file share."""

    file: str
    findings: list[Finding]
    sections: list[Section]


class Section:
    """One mapping of the file; `path` is its dotted place and `line` where its key stands."""

    def __init__(self, report: _Report, path: str, line: int, node: Entries | None) -> None:
        self.path = path
        self.line = line
        self._report = report
        self._entries = node.entries if node is not None else {}
        self._asked: dict[str, None] = {}
        report.sections.append(self)

    # ------------------------------------------------------------------ what the user wrote

    def shape(self, key: str) -> Shape:
        """What stands under the key; a null is absent."""
        node = self._node(key)
        if node is None:
            return "absent"
        return {"Scalar": "scalar", "Items": "list", "Entries": "mapping"}[type(node).__name__]  # type: ignore[return-value]  # mypy widens the dict's values to str

    def has(self, key: str) -> bool:
        """Whether the key has a value."""
        return self._node(key) is not None

    def count(self, key: str) -> int:
        """How many items the list under the key has; 0 when there is no list."""
        node = self._node(key)
        return len(node.items) if isinstance(node, Items) else 0

    def keys(self) -> tuple[str, ...]:
        """All keys that the user wrote here, in order; asking for them does not make them known."""
        return tuple(self._entries)

    def line_of(self, key: str, item: int | str | None = None) -> int:
        """The 1-based line of a key, or of an item or entry below it; the section's own line when it is absent."""
        entry = self._entries.get(key)
        if entry is None:
            return self.line
        if isinstance(entry.node, Items) and isinstance(item, int) and item < len(entry.node.items):
            return entry.node.items[item].line
        if isinstance(entry.node, Entries) and isinstance(item, str) and item in entry.node.entries:
            return entry.node.entries[item].line
        return entry.line

    def problem(
        self,
        code: str,
        message: str,
        remedy: str,
        *,
        key: str | None = None,
        item: int | str | None = None,
        level: Level = "error",
    ) -> None:
        """Report a finding at this section, at one of its keys, or at an item (list) or entry (mapping) below it."""
        path, line = self.path, self.line
        if key is not None:
            path, line = join(path, key), self.line_of(key, item)
        if item is not None:
            path = join(path, item) if isinstance(item, str) else f"{path}[{item}]"
        self._report.findings.append(
            Finding(code, level, message, remedy, path=path, line=line, file=self._report.file)
        )

    # ------------------------------------------------------------------------- single values

    @overload
    def text(self, key: str, *, rule: Rule | None = None, multiline: bool = False) -> str: ...
    @overload
    def text(self, key: str, default: T, *, rule: Rule | None = None, multiline: bool = False) -> str | T: ...
    def text(
        self, key: str, default: object = REQUIRED, *, rule: Rule | None = None, multiline: bool = False
    ) -> object:
        """A text. A bare `no`, number or date is refused with the quoted form."""
        return self._one(key, default, "", lambda node: as_text(node, rule, multiline=multiline))

    @overload
    def choice(self, key: str, choices: Sequence[Choice]) -> Choice: ...
    @overload
    def choice(self, key: str, choices: Sequence[Choice], default: T) -> Choice | T: ...
    def choice(self, key: str, choices: Sequence[Choice], default: object = REQUIRED) -> object:
        """One of a few words."""
        return self._one(key, default, choices[0], lambda node: as_choice(node, choices))

    @overload
    def integer(self, key: str, *, minimum: int | None = None, maximum: int | None = None) -> int: ...
    @overload
    def integer(self, key: str, default: T, *, minimum: int | None = None, maximum: int | None = None) -> int | T: ...
    def integer(
        self, key: str, default: object = REQUIRED, *, minimum: int | None = None, maximum: int | None = None
    ) -> object:
        """A whole number within its bounds (both inclusive)."""
        return self._one(key, default, 0, lambda node: within(as_integer(node), minimum, maximum))

    @overload
    def number(self, key: str, *, minimum: float | None = None, maximum: float | None = None) -> float: ...
    @overload
    def number(
        self, key: str, default: T, *, minimum: float | None = None, maximum: float | None = None
    ) -> float | T: ...
    def number(
        self, key: str, default: object = REQUIRED, *, minimum: float | None = None, maximum: float | None = None
    ) -> object:
        """A finite number within its bounds; `4e-4`, which YAML 1.1 reads as text, is one too."""
        return self._one(key, default, 0.0, lambda node: within(as_number(node), minimum, maximum))

    @overload
    def flag(self, key: str) -> bool: ...
    @overload
    def flag(self, key: str, default: T) -> bool | T: ...
    def flag(self, key: str, default: object = REQUIRED) -> object:
        """`true` or `false`."""
        return self._one(key, default, False, as_flag)

    def flag_or_text(self, key: str, default: bool | str, *, rule: Rule | None = None) -> bool | str:
        """`true`, `false`, or a name."""
        node = self._node(key)
        if isinstance(node, Scalar) and node.kind == "flag":
            return bool(node.value)
        if node is not None and not isinstance(node, Scalar):
            self._report_wrong(wrong_type(node, "true, false or a text", "Write true, false or one text."), key)
            return default
        return self.text(key, default, rule=rule)

    def integer_or_choice(
        self, key: str, choices: Sequence[Choice], default: None = None, *, minimum: int | None = None
    ) -> int | Choice | None:
        """A whole number, or one of a few words."""
        node = self._node(key)
        if isinstance(node, Scalar) and isinstance(node.value, str):
            return self.choice(key, choices, default)
        return self.integer(key, default, minimum=minimum)

    # ------------------------------------------------------------------------- many values

    def texts(
        self, key: str, default: Sequence[str] = (), *, rule: Rule | None = None, multiline: bool = False
    ) -> tuple[str, ...]:
        """A list of texts; `rule` holds for each."""
        if not self.has(key):
            return tuple(default)
        items = dict(enumerate(self._items(key, "texts")))
        return tuple(self._each(key, items, lambda node: as_text(node, rule, multiline=multiline)).values())

    def mapping(self, key: str, *, multiline: bool = True) -> dict[str, str]:
        """Names with texts, as in tags and environment variables."""
        return self._each(key, self._pairs(key), lambda node: as_text(node, multiline=multiline))

    def integers(self, key: str) -> dict[str, int]:
        """Names with whole numbers."""
        return self._each(key, self._pairs(key), as_integer)

    def scalars(self, key: str) -> dict[str, Plain]:
        """Names with values of any simple type; what YAML would read differently than it looks is refused."""
        return self._each(key, self._pairs(key), as_plain)

    def section(self, key: str) -> Section:
        """The mapping under the key; an empty one, at this section's line, when it is absent."""
        return Section(self._report, join(self.path, key), self.line_of(key), self._mapping_node(key))

    def sections(self, key: str) -> list[Section]:
        """The mappings of a list."""
        made = []
        for number, node in enumerate(self._items(key, "mappings")):
            if isinstance(node, Entries):
                made.append(Section(self._report, f"{join(self.path, key)}[{number}]", node.line, node))
            else:
                wrong = wrong_type(node, "keys with values", "Write each item as a mapping: - {…: …}.")
                self._report_wrong(wrong, key, number)
        return made

    def data(self, key: str) -> dict[str, object]:
        """A mapping of anything, as plain Python values; texts may be multiline, nulls stay, dates become text."""
        node = self._mapping_node(key)
        if node is None:
            return {}
        for text in texts_in(node):
            forbidden = forbidden_character(text, multiline=True)
            if forbidden is not None:
                self._report_wrong(forbidden, key)
        return {name: as_data(entry.node) for name, entry in node.entries.items()}

    # ---------------------------------------------------------------------------- the end

    def finish(self) -> tuple[Finding, ...]:
        """On the root, when all is read: report unknown keys, then raise UsageError if there is any error.

        Otherwise returns the warnings. The error's `findings` hold everything, by line; its message, one line each,
        only what must be corrected.
        """
        for section in list(self._report.sections):
            section._report_unknown()
        findings = sorted(dict.fromkeys(self._report.findings), key=lambda finding: finding.line or 0)
        wrong = errors_among(findings)
        if wrong:
            raise UsageError(
                "\n".join(map(str, wrong)), remedy="Correct the file and run the command again.", findings=findings
            )
        return tuple(findings)

    def _report_unknown(self) -> None:
        for key in self._entries:
            if key in self._asked:
                continue
            self.problem("unknown-key", f"The key {shown(key)} is not known here", self._nearest(key), key=key)

    def _nearest(self, key: str) -> str:
        """ParallelCluster's spelling of a key (`MinCount`) finds ours (`min_count`)."""
        plain = {re.sub("[_-]", "", known.lower()): known for known in self._asked}
        near = get_close_matches(re.sub("[_-]", "", key.lower()), plain, n=1)
        if near:
            return f"Did you mean `{plain[near[0]]}`?"
        return f"Known here: {', '.join(self._asked)}." if self._asked else "Remove it: nothing is expected here."

    # ------------------------------------------------------------------------------- parts

    def _node(self, key: str) -> Node | None:
        self._asked[key] = None
        entry = self._entries.get(key)
        if entry is None or (isinstance(entry.node, Scalar) and entry.node.kind == "null"):
            return None
        return entry.node

    def _one(self, key: str, default: object, blank: object, convert: Callable[[Node], object]) -> object:
        """One value; the default (or `blank`, for a required key) where it is absent or wrong."""
        node = self._node(key)
        stand_in = blank if default is REQUIRED else default
        if node is None:
            if default is REQUIRED:
                state = "empty" if key in self._entries else "missing"
                self.problem("missing-key", f"This key is {state}", f"Add `{key}: …`.", key=key)
            return stand_in
        value = convert(node)
        if isinstance(value, Wrong):
            self._report_wrong(value, key)
            return stand_in
        return value

    def _each(self, key: str, nodes: Mapping[Item, Node], convert: Callable[[Node], T | Wrong]) -> dict[Item, T]:
        """The values of many nodes; those that are wrong are reported and left out."""
        found: dict[Item, T] = {}
        for item, node in nodes.items():
            value = convert(node)
            if isinstance(value, Wrong):
                self._report_wrong(value, key, item)
            else:
                found[item] = value
        return found

    def _items(self, key: str, of: str) -> tuple[Node, ...]:
        node = self._node(key)
        if node is None:
            return ()
        if isinstance(node, Items):
            return node.items
        example = f"[{node.text}]" if isinstance(node, Scalar) and of == "texts" else "[…]"
        self._report_wrong(wrong_type(node, f"a list of {of}", f"Write it as a list: {key}: {example}."), key)
        return ()

    def _pairs(self, key: str) -> dict[str, Node]:
        node = self._mapping_node(key)
        return {name: entry.node for name, entry in node.entries.items()} if node is not None else {}

    def _mapping_node(self, key: str) -> Entries | None:
        node = self._node(key)
        if node is None or isinstance(node, Entries):
            return node
        self._report_wrong(wrong_type(node, "keys with values", f"Write it as a mapping: {key}: {{…: …}}."), key)
        return None

    def _report_wrong(self, wrong: Wrong, key: str, item: int | str | None = None) -> None:
        self.problem(wrong.code, wrong.message, wrong.remedy, key=key, item=item)
