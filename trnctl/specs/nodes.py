"""YAML text as a tree of values that know their lines and columns; what YAML itself makes of a scalar is settled here.

Anchors, aliases and merge keys are resolved. Duplicate keys, keys that are not text, foreign tags and aliases that
contain themselves become findings; only a text that is no YAML at all is raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trnctl.errors import UsageError
from trnctl.findings import Finding

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode
    from yaml.nodes import Node as YamlNode

_CORE = "tag:yaml.org,2002:"
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_OF_CLOUDFORMATION = {"!Ref", "!Sub", "!GetAtt", "!ImportValue", "!Select", "!Join", "!If", "!FindInMap"}
_DEEPEST = 60
_LARGEST = 20_000  # values, aliases counted each time they are used: far above any honest file


@dataclass(frozen=True, eq=False)
class Scalar:
    """One value as written (`text`) and as YAML reads it (`value`; None for a null, a date stays text).

    `kind` is text, integer, number, flag, null or date. `surprising` says that the plain text does not look like
    what YAML makes of it: `no`, `on`, `0755`, `1:30:00`.
    """

    line: int
    text: str
    kind: str
    value: str | int | float | bool | None
    quoted: bool
    surprising: bool = False
    size: int = 1
    column: int = 1


@dataclass(frozen=True, eq=False)
class Items:
    """A list."""

    line: int
    items: tuple[Node, ...]
    size: int
    column: int = 1


@dataclass(frozen=True, eq=False)
class Entries:
    """A mapping; each entry keeps the line of its key. Of duplicate keys the first is kept, or, where both hold
    mappings, both together. `merge` is the line and column of the first merge key (`<<`), None without one."""

    line: int
    entries: Mapping[str, Entry]
    size: int
    column: int = 1
    merge: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Entry:
    """One key of a mapping, with the line and column on which the key stands (1-based)."""

    line: int
    node: Node
    column: int = 1


Node = Scalar | Items | Entries


def parse(text: str | bytes, file: str) -> tuple[Node | None, list[Finding]]:
    """The tree of one YAML document (None when it is empty), and what is wrong with its keys and tags.

    Raises UsageError, with one finding, when the text is not UTF-8 or not YAML.
    """
    import yaml

    source = _decoded(text, file)
    try:
        root = _composed(source)
    except yaml.reader.ReaderError as error:
        line = source.count("\n", 0, error.position) + 1
        raise _broken(
            file, line, f"The character U+{ord(source[error.position]):04X} cannot stand in a YAML file", "Remove it."
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise _broken(
            file, mark.line + 1 if mark else None, f"This is not YAML: {what}", _syntax_remedy(what)
        ) from error
    except RecursionError as error:
        raise _broken(file, None, "The values are nested too deeply", "Write the file with fewer levels.") from error
    if root is None:
        return None, []
    tree = _Tree(file)
    node = tree.node(root, "", 0)
    if node.size > _LARGEST:
        raise _broken(
            file, None, f"Its aliases expand to more than {_LARGEST:,} values", "Write the values out, without aliases."
        )
    return node, tree.findings


def _composed(source: str) -> YamlNode | None:
    """PyYAML's tree: from libyaml where PyYAML has it (ten times as fast), from Python's own parser otherwise, whose
    words are also the ones that people read when the text is no YAML."""
    import yaml

    quick = getattr(yaml, "CSafeLoader", None)
    if quick is not None and source.count("[") + source.count("{") + source.count("- ") < _LARGEST:
        try:
            return yaml.compose(source, Loader=quick)
        except (yaml.YAMLError, RecursionError):
            pass  # told by the parser below
    return yaml.compose(source, Loader=yaml.SafeLoader)


def _decoded(text: str | bytes, file: str) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise _broken(
            file,
            line,
            f"The file is not UTF-8 text: byte 0x{text[error.start]:02x} at offset {error.start}",
            "Save it as UTF-8.",
        ) from error


def _broken(file: str, line: int | None, message: str, remedy: str) -> UsageError:
    finding = Finding("yaml-syntax", "error", message, remedy, file=file, line=line)
    return UsageError(str(finding), remedy="Correct the file and run the command again.", findings=[finding])


def _syntax_remedy(problem: str) -> str:
    if "'\\t'" in problem:
        return "Indent with spaces, never with tabs."
    if "'`'" in problem:
        return "Remove the backticks: documentation marks with them what its reader is to replace, and code."
    if "single document" in problem:
        return "Keep one document: remove the line `---` and what follows it."
    if "undefined alias" in problem:
        return "Define the anchor (&name) before its alias (*name)."
    if "mapping values are not allowed" in problem:
        return "Check the indentation, or put a value that holds `: ` in quotes."
    return "Check this line and the one before it: indentation, brackets, quotes, a missing colon."


class _Tree:
    """Turns PyYAML's nodes into ours, once each, and notes what is wrong on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self._done: dict[int, Node] = {}
        self._open: set[int] = set()

    def node(self, raw: YamlNode, path: str, depth: int) -> Node:
        """The tree below one node; `path` is its dotted place."""
        from yaml.nodes import MappingNode, ScalarNode, SequenceNode

        known = self._done.get(id(raw))
        if known is not None:
            return known
        line = raw.start_mark.line + 1
        if id(raw) in self._open or depth > _DEEPEST:
            self._problem(
                "yaml-too-deep", path, line, "This value contains itself or is nested too deeply", "Write it flat."
            )
            return Scalar(line, "", "null", None, quoted=False)
        self._open.add(id(raw))
        made: Node
        if isinstance(raw, MappingNode):
            made = self._entries(raw, path, depth)
        elif isinstance(raw, SequenceNode):
            made = self._items(raw, path, depth)
        else:
            assert isinstance(raw, ScalarNode)  # noqa: S101  # PyYAML composes no fourth kind
            made = self._scalar(raw, path)
        self._open.discard(id(raw))
        self._done[id(raw)] = made
        return made

    def _problem(self, code: str, path: str, line: int, message: str, remedy: str) -> None:
        self.findings.append(Finding(code, "error", message, remedy, path=path, line=line, file=self.file))

    def _check_tag(self, raw: YamlNode, path: str) -> None:
        if not raw.tag.startswith(_CORE) or raw.tag.removeprefix(_CORE) in {"binary", "omap", "pairs", "set"}:
            shown = raw.tag.replace(_CORE, "!!")
            self._problem(
                "yaml-tag",
                path,
                raw.start_mark.line + 1,
                f"The YAML tag `{shown}` is not understood here",
                "Write the plain value, without a tag: only CloudFormation fills such values in."
                if shown in _OF_CLOUDFORMATION
                else "Write the plain value, without a tag.",
            )

    def _items(self, raw: SequenceNode, path: str, depth: int) -> Items:
        self._check_tag(raw, path)
        items = tuple(self.node(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(raw.value))
        return Items(raw.start_mark.line + 1, items, 1 + sum(item.size for item in items), raw.start_mark.column + 1)

    def _entries(self, raw: MappingNode, path: str, depth: int) -> Entries:
        self._check_tag(raw, path)
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        merge: tuple[int, int] | None = None
        for key_node, value_node in raw.value:
            line, column = key_node.start_mark.line + 1, key_node.start_mark.column + 1
            if key_node.tag == _CORE + "merge":
                merge = merge or (line, column)
                self._merge(merged, value_node, path, depth)
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            if key in own:
                self._problem(
                    "duplicate-key",
                    join(path, key),
                    line,
                    f"The key `{key}` stands twice, here and on line {own[key].line}",
                    "Keep one of the two.",
                )
                second = self.node(value_node, join(path, key), depth + 1)
                own[key] = replace(own[key], node=_together(own[key].node, second))
                continue
            own[key] = Entry(line, self.node(value_node, join(path, key), depth + 1), column)
        entries = {**{key: entry for key, entry in merged.items() if key not in own}, **own}
        size = 1 + sum(entry.node.size for entry in entries.values())
        return Entries(raw.start_mark.line + 1, entries, size, raw.start_mark.column + 1, merge)

    def _merge(self, merged: dict[str, Entry], raw: YamlNode, path: str, depth: int) -> None:
        """`<<: *a` or `<<: [*a, *b]`: the first that has a key wins, as YAML has it."""
        from yaml.nodes import SequenceNode

        for source in raw.value if isinstance(raw, SequenceNode) else [raw]:
            node = self.node(source, path, depth + 1)
            if isinstance(node, Entries):
                for key, entry in node.entries.items():
                    merged.setdefault(key, entry)
            else:
                self._problem("yaml-merge", path, node.line, "`<<` merges mappings only", "Give it an alias (*name).")

    def _key(self, raw: YamlNode, path: str) -> str | None:
        from yaml.nodes import ScalarNode

        line = raw.start_mark.line + 1
        if not isinstance(raw, ScalarNode):
            self._problem("key-not-text", path, line, "A key must be one word or text", "Write a plain key.")
            return None
        scalar = self._scalar(raw, path)
        if scalar.kind != "text":
            self._problem(
                "key-not-text",
                path,
                line,
                f"YAML reads the key `{scalar.text}` as {meaning(scalar)}",
                f'Put it in quotes: "{scalar.text}":',
            )
            return None
        return scalar.text

    def _scalar(self, raw: ScalarNode, path: str) -> Scalar:
        """What YAML makes of one value, and where it stands."""
        self._check_tag(raw, path)
        return Scalar(raw.start_mark.line + 1, raw.value, *_read(raw), size=1, column=raw.start_mark.column + 1)


def _together(first: Node, second: Node) -> Node:
    """What a key that stands twice is judged by: the keys of both mappings, otherwise the first value."""
    if not isinstance(first, Entries) or not isinstance(second, Entries):
        return first
    return replace(first, entries={**second.entries, **first.entries}, size=first.size + second.size)


def _read(raw: ScalarNode) -> tuple[str, str | int | float | bool | None, bool, bool]:
    """Kind, value, whether it is quoted, and whether the plain text looks like something else."""
    text, quoted = raw.value, bool(raw.style)
    name = raw.tag.removeprefix(_CORE)
    if name == "bool":
        lower = text.lower()
        return "flag", lower in {"true", "yes", "on"}, quoted, lower not in {"true", "false"}
    if name == "int" and (value := _constructed(raw)) is not None:
        return "integer", int(value), quoted, _DECIMAL.fullmatch(text) is None
    if name == "float" and (value := _constructed(raw)) is not None:
        return "number", float(value), quoted, ":" in text
    if name == "null":
        return "null", None, quoted, False
    return "date" if name == "timestamp" else "text", text, quoted, False


def _constructed(raw: ScalarNode) -> int | float | None:
    """The number that YAML 1.1 makes of a plain scalar (octal, hexadecimal, base 60, …); None when an explicit tag
    stands before what is no number."""
    import yaml

    loader = yaml.SafeLoader("")
    make = loader.construct_yaml_int if raw.tag.endswith("int") else loader.construct_yaml_float
    try:
        value: int | float = make(raw)
    except ValueError:
        return None
    return value


def meaning(scalar: Scalar) -> str:
    """What YAML reads, in words: `the number 420`, `false`, `a date`, `nothing`."""
    if scalar.kind in {"integer", "number"}:
        return f"the number {scalar.value}"
    if scalar.kind == "flag":
        return str(scalar.value).lower()
    return {"null": "nothing", "date": "a date"}.get(scalar.kind, "text")


def join(path: str, key: str) -> str:
    """The dotted path of a key; keys that are no plain words stand in brackets."""
    if not key.isidentifier() and re.fullmatch(r"[\w-]+", key) is None:
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key
