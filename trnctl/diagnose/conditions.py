"""Conditions on facts: `yes`, `no`, a word, or a comparison of numbers and versions (`>1`, `<3.11`, `3.3.0..3.9.0`)."""

from __future__ import annotations

import re

_NUMBER = r"\d+(?:\.\d+)*"
_FORM = re.compile(
    rf"(?P<operator><=|>=|<|>|=)\s*(?P<bound>{_NUMBER})|(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})|(?P<word>[\w./-]+)"
)


def check_condition(condition: str) -> None:
    """ValueError when it is no condition."""
    if not _FORM.fullmatch(condition):
        raise ValueError(f"{condition!r} is no condition")


def holds(condition: str, value: str) -> bool:
    """Whether a known fact fulfils a condition; a value that is no number fulfils no comparison."""
    found = _FORM.fullmatch(condition)
    if found is None:
        raise ValueError(f"{condition!r} is no condition")
    if found["word"]:
        return value.lower() == found["word"].lower()
    number = _parts(value)
    if number is None:
        return False
    if found["low"]:
        return _version(found["low"]) <= number <= _version(found["high"])
    bound = _version(found["bound"])
    return {
        "<": number < bound,
        "<=": number <= bound,
        ">": number > bound,
        ">=": number >= bound,
        "=": number == bound,
    }[found["operator"]]


def _parts(text: str) -> tuple[int, ...] | None:
    return _version(text) if re.fullmatch(_NUMBER, text) else None


def _version(text: str) -> tuple[int, ...]:
    """The numbers of a version, without zeros at its end: 3.10 and 3.10.0 are one."""
    numbers = [int(part) for part in text.split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
