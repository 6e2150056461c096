"""What a text must hold for a pattern to match at all: plain pieces, so that most lines are never shown to a pattern.

Lines are compared as their `shape`: in lower case, without digits, the letters of hexadecimal numbers, blanks and
quotes. Times, addresses and ids vanish, so that a log of millions of lines has few shapes.
"""

from __future__ import annotations

import re
from contextlib import suppress

DROPPED = b"0123456789abcdefABCDEF \t\r\f\v\"'\\"
LOWER = bytes(ord(chr(code).lower()) if code < 128 else code for code in range(256))
SHORTEST = 3
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))(?P<inner>.*)\)", re.DOTALL)
_DROPPED = frozenset(bytes((code,)) for code in DROPPED)
_VANISHING = frozenset("sd")  # classes that stand for nothing but dropped characters


def shape(text: bytes) -> bytes:
    """The shape of some lines; line ends stay."""
    return text.translate(LOWER, DROPPED)


def pieces(pattern: str) -> tuple[bytes, ...]:
    """Pieces of which every text that the pattern matches holds at least one, as shapes.

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
    """Sets of pieces, each of which would do for the branch: one run, or those of a group that must be there."""
    runs, groups = _parts(branch)
    choices: list[tuple[bytes, ...]] = [(piece,) for run in runs if len(piece := shape(run.encode())) >= SHORTEST]
    for group in groups:
        with suppress(ValueError):
            choices.append(pieces(group))
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


def _parts(branch: str) -> tuple[list[str], list[str]]:
    """(runs of characters that stand for themselves, what stands in groups that must be there).

    What may be absent or is a choice parts the runs.
    """
    runs, groups, run, at = [], [], "", 0
    while at < len(branch):
        token, plain, after = _token(branch, at)
        optional, after = _quantifier(branch, after)
        inner = _GROUP.fullmatch(token)
        if inner and after == at + len(token) and len(_branches(inner["inner"])) == 1:
            branch = branch[:at] + inner["inner"] + branch[after:]  # the group changes nothing
            continue
        if inner and not optional:
            groups.append(inner["inner"])
        if plain is None or (optional and plain):
            runs.append(run)
            run = ""
        else:
            run += plain
            if after > at + len(token) and plain:  # repeated: what follows need not stand beside the first
                runs.append(run)
                run = ""
        at = after
    return [*runs, run], groups


def _token(branch: str, at: int) -> tuple[str, str | None, int]:
    """(text, what it stands for or None, where it ends) of the token that begins there."""
    char = branch[at]
    if char == "\\":
        name = branch[at + 1]
        if name in _VANISHING or name in "bBAZ":
            return branch[at : at + 2], "", at + 2
        return branch[at : at + 2], None if name.isalnum() else name, at + 2
    if char == "[":
        end = _class_end(branch, at) + 1
        return branch[at:end], None, end
    if char == "(":
        end = _group_end(branch, at)
        return branch[at:end], None, end
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
