"""What a node of a YAML file is worth as a value of one type, or what is wrong with it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from trnctl.specs.nodes import Entries, Items, Node, Scalar, meaning

Plain = str | int | float | bool
Number = TypeVar("Number", int, float)

_FLOAT = re.compile(r"[-+]?([0-9][0-9_]*)?(\.[0-9_]*)?([eE][-+]?[0-9]+)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_MULTILINE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True)
class Wrong:
    """Why a node is not the value that is wanted, and what to do."""

    code: str
    message: str
    remedy: str


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


def what(node: Node) -> str:
    """What stands there, for a message: `a list`, `the text …`, what YAML made of a scalar."""
    if isinstance(node, Entries):
        return "a mapping"
    if isinstance(node, Items):
        return "a list"
    if node.kind == "text":
        return f"the text {shown(node.text)}"
    read_as = meaning(node)
    return f"{shown(node.text)}, which YAML reads as {read_as}" if node.surprising else read_as


def wrong_type(node: Node, wanted: str, remedy: str) -> Wrong:
    """The node is of another type than what is wanted."""
    return Wrong("wrong-type", f"Here stands {what(node)}, but {wanted} is wanted", remedy)


def as_text(node: Node, rule: Rule | None = None, *, multiline: bool = False) -> str | Wrong:
    """A text without control characters; with `multiline`, line ends and tabs may stand in it."""
    if not isinstance(node, Scalar):
        return wrong_type(node, "text", "Write one text.")
    if node.kind != "text":
        return Wrong(
            "not-text",
            f"YAML reads {shown(node.text)} as {meaning(node)}, but text is wanted",
            f'Put it in quotes: "{node.text}".' if node.text else 'Write "" for an empty text.',
        )
    control = forbidden_character(node.text, multiline=multiline)
    if control is not None:
        return control
    if rule is not None and not rule.holds(node.text):
        return Wrong(rule.code, f"{shown(node.text)} {rule.message}", rule.remedy)
    return node.text


def as_choice(node: Node, choices: Sequence[str]) -> str | Wrong:
    """One of a few words."""
    value = as_text(node)
    if isinstance(value, Wrong) or value in choices:
        return value
    near = get_close_matches(value.lower(), choices, n=1)
    remedy = f"Did you mean `{near[0]}`? " if near else ""
    return Wrong("unknown-value", f"{shown(value)} is not known here", f"{remedy}Write one of: {', '.join(choices)}.")


def forbidden_character(text: str, *, multiline: bool) -> Wrong | None:
    """What no value may hold: NUL and other control characters, halves of surrogate pairs."""
    found = _SURROGATE.search(text) or (_CONTROL_MULTILINE if multiline else _CONTROL).search(text)
    if found is None:
        return None
    return Wrong(
        "control-character",
        f"{shown(text)} holds the character U+{ord(found[0]):04X}, which cannot stand here",
        "Remove it.",
    )


def as_integer(node: Node) -> int | Wrong:
    """A whole number that is written as people write one: no octal, no base 60, no quotes."""
    if isinstance(node, Scalar) and node.kind == "integer" and not node.surprising:
        return int(node.value or 0)
    return wrong_type(node, "a whole number", "Write a whole number, without quotes and units.")


def as_number(node: Node) -> float | Wrong:
    """A finite number; `4e-4`, which YAML 1.1 reads as text, is one too."""
    value = _float(node)
    if value is None or not math.isfinite(value):
        return wrong_type(node, "a number", "Write a number, without quotes and units.")
    return value


def _float(node: Node) -> float | None:
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


def within(value: Number | Wrong, minimum: float | None, maximum: float | None) -> Number | Wrong:
    """The number, if it is within its bounds (both inclusive)."""
    if isinstance(value, Wrong):
        return value
    if (minimum is None or value >= minimum) and (maximum is None or value <= maximum):
        return value
    bounds = [f"at least {minimum}"] if minimum is not None else []
    bounds += [f"at most {maximum}"] if maximum is not None else []
    return Wrong("out-of-range", f"{value} is out of range", f"Write {' and '.join(bounds)}.")


def as_flag(node: Node) -> bool | Wrong:
    """`true` or `false`."""
    if isinstance(node, Scalar) and node.kind == "flag":
        return bool(node.value)
    return wrong_type(node, "true or false", "Write true or false, without quotes.")


def as_plain(node: Node) -> Plain | Wrong:
    """A value of any simple type; what YAML reads differently than it looks is refused."""
    if not isinstance(node, Scalar):
        return wrong_type(node, "one value", "Write one text or number.")
    if node.surprising or node.kind in {"date", "null"} or node.value is None:
        return Wrong(
            "not-plain",
            f"YAML reads {shown(node.text)} as {meaning(node)}",
            f'Put it in quotes when text is meant: "{node.text}"; otherwise write true, false or a plain number.',
        )
    if isinstance(node.value, str):
        return as_text(node, multiline=True)
    return node.value


def as_data(node: Node) -> object:
    """Plain Python values below a node; nulls stay, dates become text. Characters are judged by `texts_in`."""
    if isinstance(node, Entries):
        return {name: as_data(entry.node) for name, entry in node.entries.items()}
    if isinstance(node, Items):
        return [as_data(item) for item in node.items]
    return node.value


def texts_in(node: Node) -> Iterable[str]:
    """Every text below a node, keys included."""
    if isinstance(node, Entries):
        for name, entry in node.entries.items():
            yield name
            yield from texts_in(entry.node)
    elif isinstance(node, Items):
        for item in node.items:
            yield from texts_in(item)
    elif isinstance(node.value, str):
        yield node.value
