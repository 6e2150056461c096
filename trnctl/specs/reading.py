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

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeVar, overload

from trnctl.errors import UsageError
from trnctl.findings import Finding, Level, errors_among
from trnctl.specs.nodes import Entries, Items, Node, Scalar, join, meaning, parse

T = TypeVar("T")
Choice = TypeVar("Choice", bound=str)
Plain = str | int | float | bool
Shape = Literal["absent", "scalar", "list", "mapping"]


class _Required:
    """The default of a key that has none."""


REQUIRED = _Required()
_FLOAT = re.compile(r"[-+]?([0-9][0-9_]*)?(\.[0-9_]*)?([eE][-+]?[0-9]+)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_MULTILINE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True)
class Rule:
    """A test of one text. The message follows the quoted value: "`x` " + "is not …"."""

    code: str
    holds: Callable[[str], object]
    message: str
    remedy: str


def matching(code: str, pattern: str, message: str, remedy: str) -> Rule:
    """A rule that the whole text matches a regular expression."""
    return Rule(code, re.compile(pattern).fullmatch, message, remedy)


def shown(text: str) -> str:
    """A value for a message: in backticks, at most 60 characters, control characters escaped."""
    visible = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"`{visible[:57]}…`" if len(visible) > 58 else f"`{visible}`"


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
            "wrong-type", "error", f"The file is {_what(node)}, not keys with values", remedy, file=file, line=node.line
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
        node = self._value(key, default)
        stand_in = "" if default is REQUIRED else default
        if node is None:
            return stand_in
        value = self._text(node, key, None, rule, multiline)
        return stand_in if value is None else value

    @overload
    def choice(self, key: str, choices: Sequence[Choice]) -> Choice: ...
    @overload
    def choice(self, key: str, choices: Sequence[Choice], default: T) -> Choice | T: ...
    def choice(self, key: str, choices: Sequence[Choice], default: object = REQUIRED) -> object:
        """One of a few words."""
        stand_in = choices[0] if default is REQUIRED else default
        value = self.text(key, "") if default is not REQUIRED else self.text(key)
        if not value:
            return stand_in
        if value not in choices:
            near = get_close_matches(value.lower(), choices, n=1)
            remedy = f"Did you mean `{near[0]}`? " if near else ""
            self.problem(
                "unknown-value",
                f"{shown(value)} is not known here",
                f"{remedy}Write one of: {', '.join(choices)}.",
                key=key,
            )
            return stand_in
        return value

    @overload
    def integer(self, key: str, *, minimum: int | None = None, maximum: int | None = None) -> int: ...
    @overload
    def integer(self, key: str, default: T, *, minimum: int | None = None, maximum: int | None = None) -> int | T: ...
    def integer(
        self, key: str, default: object = REQUIRED, *, minimum: int | None = None, maximum: int | None = None
    ) -> object:
        """A whole number within its bounds (both inclusive)."""
        node = self._value(key, default)
        stand_in = 0 if default is REQUIRED else default
        if node is None:
            return stand_in
        value = self._integer(node, key, None)
        if value is None or not self._within(value, minimum, maximum, key):
            return stand_in
        return value

    @overload
    def number(self, key: str, *, minimum: float | None = None, maximum: float | None = None) -> float: ...
    @overload
    def number(
        self, key: str, default: T, *, minimum: float | None = None, maximum: float | None = None
    ) -> float | T: ...
    def number(
        self, key: str, default: object = REQUIRED, *, minimum: float | None = None, maximum: float | None = None
    ) -> object:
        """A finite number; `4e-4`, which YAML 1.1 reads as text, is one too."""
        node = self._value(key, default)
        stand_in = 0.0 if default is REQUIRED else default
        if node is None:
            return stand_in
        value = _as_float(node)
        if value is None or not math.isfinite(value):
            self._wrong(node, "a number", 'Write a number, without quotes and units, as in "0.5".', key, None)
            return stand_in
        return value if self._within(value, minimum, maximum, key) else stand_in

    @overload
    def flag(self, key: str) -> bool: ...
    @overload
    def flag(self, key: str, default: T) -> bool | T: ...
    def flag(self, key: str, default: object = REQUIRED) -> object:
        """`true` or `false`."""
        node = self._value(key, default)
        stand_in = False if default is REQUIRED else default
        if node is None:
            return stand_in
        if isinstance(node, Scalar) and node.kind == "flag":
            return node.value
        self._wrong(node, "true or false", "Write true or false, without quotes.", key, None)
        return stand_in

    def flag_or_text(self, key: str, default: bool | str, *, rule: Rule | None = None) -> bool | str:
        """`true`, `false`, or a name."""
        node = self._node(key)
        if isinstance(node, Scalar) and node.kind == "flag":
            return bool(node.value)
        if node is not None and not isinstance(node, Scalar):
            self._wrong(node, "true, false or a text", "Write true, false or one text.", key, None)
            return default
        return self.text(key, default, rule=rule)

    # ------------------------------------------------------------------------- many values

    def texts(
        self, key: str, default: Sequence[str] = (), *, rule: Rule | None = None, multiline: bool = False
    ) -> tuple[str, ...]:
        """A list of texts; `rule` holds for each."""
        if not self.has(key):
            return tuple(default)
        found = (self._text(node, key, i, rule, multiline) for i, node in enumerate(self._items(key, "texts")))
        return tuple(value for value in found if value is not None)

    def mapping(self, key: str, *, multiline: bool = True) -> dict[str, str]:
        """Names with texts, as in tags and environment variables."""
        found = {name: self._text(node, key, name, None, multiline) for name, node in self._pairs(key)}
        return {name: value for name, value in found.items() if value is not None}

    def integers(self, key: str) -> dict[str, int]:
        """Names with whole numbers."""
        found = {name: self._integer(node, key, name) for name, node in self._pairs(key)}
        return {name: value for name, value in found.items() if value is not None}

    def scalars(self, key: str) -> dict[str, Plain]:
        """Names with values of any simple type; what YAML would read differently than it looks is refused."""
        found: dict[str, Plain] = {}
        for name, node in self._pairs(key):
            value = self._plain(node, key, name)
            if value is not None:
                found[name] = value
        return found

    def section(self, key: str) -> Section:
        """The mapping under the key; an empty one, at this section's line, when it is absent."""
        node = self._node(key)
        if node is not None and not isinstance(node, Entries):
            self._wrong(node, "keys with values", f"Write it as a mapping: {key}: {{…: …}}.", key, None)
            node = None
        return Section(self._report, join(self.path, key), self.line_of(key), node)

    def sections(self, key: str) -> list[Section]:
        """The mappings of a list."""
        made = []
        for number, node in enumerate(self._items(key, "mappings")):
            if not isinstance(node, Entries):
                self._wrong(node, "keys with values", "Write each item as a mapping: - {…: …}.", key, number)
                continue
            made.append(Section(self._report, f"{join(self.path, key)}[{number}]", node.line, node))
        return made

    def data(self, key: str) -> dict[str, object]:
        """A mapping of anything, as plain Python values; texts may be multiline, nulls stay, dates become text."""
        node = self._node(key)
        if node is None:
            return {}
        if not isinstance(node, Entries):
            self._wrong(node, "keys with values", f"Write it as a mapping: {key}: {{…: …}}.", key, None)
            return {}
        return {name: self._data(entry.node, key) for name, entry in node.entries.items()}

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

    def _value(self, key: str, default: object) -> Node | None:
        node = self._node(key)
        if node is None and default is REQUIRED:
            written = key in self._entries
            self.problem(
                "missing-key", "This key is empty" if written else "This key is missing", f"Add `{key}: …`.", key=key
            )
        return node

    def _items(self, key: str, of: str) -> tuple[Node, ...]:
        node = self._node(key)
        if node is None:
            return ()
        if isinstance(node, Items):
            return node.items
        example = f"[{node.text}]" if isinstance(node, Scalar) and of == "texts" else "[…]"
        self._wrong(node, f"a list of {of}", f"Write it as a list: {key}: {example}.", key, None)
        return ()

    def _pairs(self, key: str) -> list[tuple[str, Node]]:
        node = self._node(key)
        if node is None:
            return []
        if isinstance(node, Entries):
            return [(name, entry.node) for name, entry in node.entries.items()]
        self._wrong(node, "names with values", f"Write it as a mapping: {key}: {{name: value}}.", key, None)
        return []

    def _wrong(self, node: Node, wanted: str, remedy: str, key: str, item: int | str | None) -> None:
        self.problem("wrong-type", f"Here stands {_what(node)}, but {wanted} is wanted", remedy, key=key, item=item)

    def _within(self, value: float, minimum: float | None, maximum: float | None, key: str) -> bool:
        if (minimum is None or value >= minimum) and (maximum is None or value <= maximum):
            return True
        bounds = [f"at least {minimum}"] if minimum is not None else []
        bounds += [f"at most {maximum}"] if maximum is not None else []
        self.problem("out-of-range", f"{value} is out of range", f"Write {' and '.join(bounds)}.", key=key)
        return False

    def _text(self, node: Node, key: str, item: int | str | None, rule: Rule | None, multiline: bool) -> str | None:
        if not isinstance(node, Scalar):
            self._wrong(node, "text", "Write one text.", key, item)
            return None
        if node.kind != "text":
            self.problem(
                "not-text",
                f"YAML reads {shown(node.text)} as {meaning(node)}, but text is wanted",
                f'Put it in quotes: "{node.text}".' if node.text else 'Write "" for an empty text.',
                key=key,
                item=item,
            )
            return None
        return self._clean(node.text, key, item, rule, multiline)

    def _clean(self, text: str, key: str, item: int | str | None, rule: Rule | None, multiline: bool) -> str | None:
        control = _SURROGATE.search(text) or (_CONTROL_MULTILINE if multiline else _CONTROL).search(text)
        if control is not None:
            self.problem(
                "control-character",
                f"{shown(text)} holds the character U+{ord(control[0]):04X}, which cannot stand here",
                "Remove it.",
                key=key,
                item=item,
            )
            return None
        if rule is not None and not rule.holds(text):
            self.problem(rule.code, f"{shown(text)} {rule.message}", rule.remedy, key=key, item=item)
            return None
        return text

    def _integer(self, node: Node, key: str, item: int | str | None) -> int | None:
        if isinstance(node, Scalar) and node.kind == "integer" and not node.surprising:
            return int(node.value or 0)
        self._wrong(node, "a whole number", "Write a whole number, without quotes and units.", key, item)
        return None

    def _plain(self, node: Node, key: str, item: str) -> Plain | None:
        if not isinstance(node, Scalar):
            self._wrong(node, "one value", "Write one text or number.", key, item)
            return None
        if node.surprising or node.kind in {"date", "null"} or node.value is None:
            self.problem(
                "not-plain",
                f"YAML reads {shown(node.text)} as {meaning(node)}",
                f'Put it in quotes when text is meant: "{node.text}"; otherwise write true, false or a plain number.',
                key=key,
                item=item,
            )
            return None
        if isinstance(node.value, str):
            return self._clean(node.value, key, item, None, True)
        return node.value

    def _data(self, node: Node, key: str) -> object:
        if isinstance(node, Entries):
            return {name: self._data(entry.node, key) for name, entry in node.entries.items()}
        if isinstance(node, Items):
            return [self._data(item, key) for item in node.items]
        if isinstance(node.value, str):
            return self._clean(node.value, key, None, None, True) or ""
        return node.value


def _what(node: Node) -> str:
    """What stands there, for a message."""
    if isinstance(node, Entries):
        return "a mapping"
    if isinstance(node, Items):
        return "a list"
    if node.kind == "text":
        return f"the text {shown(node.text)}"
    read_as = meaning(node)
    return f"{shown(node.text)}, which YAML reads as {read_as}" if node.surprising else read_as


def _as_float(node: Node) -> float | None:
    if not isinstance(node, Scalar) or node.surprising:
        return None
    if isinstance(node.value, int | float) and node.kind in {"integer", "number"}:
        return float(node.value)
    if node.kind == "text" and not node.quoted and _FLOAT.fullmatch(node.text):
        try:
            return float(node.text)
        except ValueError:  # the expression also matches "." and "e5"
            return None
    return None
