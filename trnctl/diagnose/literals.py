"""What a text must hold for a pattern to match at all: plain pieces, so that most lines are never shown to a pattern.

Lines are compared as their `shape`: in lower case, without digits, the letters of hexadecimal numbers, blanks and
quotes. Times, addresses and ids vanish, so that a log of millions of lines has few shapes, and few words.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

DROPPED = b"0123456789abcdefABCDEF \t\r\f\v\"'\\"
KEPT_BETWEEN = b" \t\r\f\v"  # what parts words stays where words are wanted
LOWER = bytes(ord(chr(code).lower()) if code < 128 else code for code in range(256))
SHORTEST = 3
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))(?P<inner>.*)\)", re.DOTALL)
_ESCAPED = {**dict.fromkeys("dbBAZ", ""), "s": " "}  # classes and places that are no characters in a shape
_IN_WORDS = bytes(set(DROPPED) - set(KEPT_BETWEEN))
_BLANKS = frozenset(chr(code) for code in KEPT_BETWEEN)
_DROPPED = frozenset(bytes((code,)) for code in DROPPED)
_SHORTEST_RUN = 2
_LONG_RUN = 5  # characters of several words, which make up for words that are short each


def shape(text: bytes) -> bytes:
    """The shape of some lines; line ends stay."""
    return text.translate(LOWER, DROPPED)


def worded(text: bytes) -> bytes:
    """The shape of some lines in which blanks stay, so that it can be split into words."""
    return text.translate(LOWER, _IN_WORDS)


@dataclass(frozen=True)
class Either:
    """Alternatives, each a row of what stands one behind the other: shapes, and alternatives again."""

    rows: tuple[tuple[bytes | Either, ...], ...]


def skeleton(pattern: str) -> Either:
    """What of a pattern stands, as shapes and in this order, in every text that it matches."""
    rows: list[tuple[bytes | Either, ...]] = []
    for branch in _branches(pattern):
        row: list[bytes | Either] = []
        for part in _parts(branch):
            if isinstance(part, Group):
                row.append(skeleton(part.inner))
            elif len(one := shape(part.encode())) >= _SHORTEST_RUN:
                row.append(one)
        rows.append(tuple(row))
    return Either(tuple(rows))


def stands_in(form: bytes, wanted: Either) -> bool:
    """Whether a line of that shape holds all of it."""
    return _end_of(form, wanted, 0) >= 0


def _end_of(form: bytes, wanted: Either, start: int) -> int:
    """Where the alternative that ends first ends, -1 when none stands there."""
    return min((end for row in wanted.rows if (end := _end_of_row(form, row, start)) >= 0), default=-1)


def _end_of_row(form: bytes, row: tuple[bytes | Either, ...], start: int) -> int:
    at = start
    for one in row:
        if isinstance(one, Either):
            at = _end_of(form, one, at)
        else:
            at = form.find(one, at)
            at += len(one) if at >= 0 else 0
        if at < 0:
            return -1
    return at


def pieces(pattern: str) -> tuple[bytes, ...]:
    """Pieces of words, as shapes, of which every text that the pattern matches holds at least one.

    ValueError when there are none that are long enough to be worth looking for.
    """
    found: dict[bytes, None] = {}
    for branch in _branches(pattern):
        best = max(_choices(branch), key=lambda choice: min(map(len, choice)), default=())
        if not best:
            raise ValueError(f"{branch!r} has no plain piece of {SHORTEST} characters besides digits and a to f")
        found.update(dict.fromkeys(best))
    return tuple(found)


def _choices(branch: str) -> list[tuple[bytes, ...]]:
    """Sets of pieces, each of which would do for the branch: one word, or those of a group that must be there."""
    choices: list[tuple[bytes, ...]] = []
    for part in _parts(branch):
        if isinstance(part, Group):
            with suppress(ValueError):
                choices.append(pieces(part.inner))
            continue
        shortest = SHORTEST - 1 if len(shape(part.encode())) >= _LONG_RUN else SHORTEST
        words = (shape(word.encode()) for word in part.split())
        choices += [(word,) for word in words if len(word) >= shortest]
    return choices


def _branches(pattern: str) -> list[str]:
    """The alternatives at the top level."""
    found, depth, start, at = [], 0, 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "[":
            at = _class_end(pattern, at)
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "|" and not depth:
            found.append(pattern[start:at])
            start = at + 1
        at += 1
    return [*found, pattern[start:]]


@dataclass(frozen=True)
class Group:
    """A group that must be there; `inner` is what stands in it."""

    inner: str


def _parts(branch: str) -> list[str | Group]:
    """Runs of characters that stand for themselves, and groups that must be there, in their order.

    What may be absent or is a choice parts the runs.
    """
    found: list[str | Group] = []
    run, at = "", 0
    while at < len(branch):
        token, plain, after = _token(branch, at)
        optional, after = _quantifier(branch, after)
        inner = _GROUP.fullmatch(token)
        if inner and after == at + len(token) and len(_branches(inner["inner"])) == 1:
            branch = branch[:at] + inner["inner"] + branch[after:]  # the group changes nothing
            continue
        if plain is None or (optional and plain):
            found.append(run)
            run = ""
            if inner and not optional:
                found.append(Group(inner["inner"]))
        else:
            run += plain
            if after > at + len(token) and plain:  # repeated: what follows need not stand beside the first
                found.append(run)
                run = ""
        at = after
    return [*found, run]


def _token(branch: str, at: int) -> tuple[str, str | None, int]:
    """(text, what it stands for or None, where it ends) of the token that begins there."""
    char = branch[at]
    if char == "\\":
        name = branch[at + 1]
        return branch[at : at + 2], _ESCAPED.get(name, None if name.isalnum() else name), at + 2
    if char == "[":
        end = _class_end(branch, at) + 1
        return branch[at:end], None, end
    if char == "(":
        end = _group_end(branch, at)
        return branch[at:end], None, end
    if char in _BLANKS:
        return char, " ", at + 1
    if char in "^$" or char.encode() in _DROPPED:
        return char, "", at + 1
    return char, None if char == "." else char, at + 1


def _quantifier(branch: str, at: int) -> tuple[bool, int]:
    """(whether the token before may be absent, where the quantifier ends)."""
    if at >= len(branch) or branch[at] not in "*+?{":
        return False, at
    optional = branch[at] in "*?" or branch[at : at + 2] == "{0"
    end = branch.index("}", at) + 1 if branch[at] == "{" else at + 1
    if end < len(branch) and branch[end] == "?":
        end += 1
    return optional, end


def _class_end(text: str, at: int) -> int:
    """The place of the `]` that ends the class which begins there."""
    end = at + 2 if text[at + 1 : at + 2] in ("^", "]") else at + 1
    if text[at + 1 : at + 3] == "^]":
        end = at + 3
    while text[end] != "]":
        end += 2 if text[end] == "\\" else 1
    return end


def _group_end(text: str, at: int) -> int:
    """The place behind the `)` that ends the group which begins there."""
    depth = 0
    while True:
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "[":
            at = _class_end(text, at)
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if not depth:
                return at + 1
        at += 1
