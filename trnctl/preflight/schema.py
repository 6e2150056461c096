"""The vocabulary in which ParallelCluster's sections are written down: what a key may hold, since and until when."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Version = tuple[int, int]
OLDEST: Version = (3, 0)
NEWEST: Version = (3, 16)

Kind = Literal["text", "integer", "number", "flag", "any", "texts", "table", "tables", "section", "sections", "actions"]


@dataclass(frozen=True)
class Key:
    """What one key of a section may hold.

    `section` names the section that stands there (of a `sections` list: in every item). `form` is a row of `FORMS`
    that the text, or every text of a list, must match. `minimum` and `maximum` bound a number, `fewest` and `most` a
    list's items or a text's characters. `since` is the first version that knows the key, `until` the first that no
    longer does. `table` is a mapping of any names, `actions` one script or a `Sequence` of them.
    """

    kind: Kind
    required: bool = False
    section: str = ""
    form: str = ""
    choices: tuple[str | int, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    fewest: int | None = None
    most: int | None = None
    since: Version = OLDEST
    until: Version | None = None

    def known(self, version: Version) -> bool:
        """Whether that version of ParallelCluster has this key in this shape."""
        return self.since <= version and (self.until is None or version < self.until)


# A key whose shape changed with a version has several Keys, of which one at most is known to any version.
Section = Mapping[str, Key | tuple[Key, ...]]
NEED = True  # reads better than a bare True in the tables: `text(NEED)`


def text(
    required: bool = False,
    *,
    form: str = "",
    choices: tuple[str, ...] = (),
    most: int | None = None,
    since: Version = OLDEST,
    until: Version | None = None,
) -> Key:
    """A text."""
    return Key("text", required, form=form, choices=choices, most=most, since=since, until=until)


def integer(
    required: bool = False,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    choices: tuple[int, ...] = (),
    since: Version = OLDEST,
    until: Version | None = None,
) -> Key:
    """A whole number."""
    return Key("integer", required, minimum=minimum, maximum=maximum, choices=choices, since=since, until=until)


def number(*, minimum: int | None = None) -> Key:
    """A number."""
    return Key("number", minimum=minimum)


def table(*, since: Version = OLDEST) -> Key:
    """A mapping of any names."""
    return Key("table", since=since)


def flag(*, since: Version = OLDEST) -> Key:
    """True or false."""
    return Key("flag", since=since)


def texts(
    required: bool = False,
    *,
    form: str = "",
    choices: tuple[str, ...] = (),
    fewest: int | None = None,
    most: int | None = None,
    since: Version = OLDEST,
    until: Version | None = None,
) -> Key:
    """A list of texts."""
    return Key("texts", required, form=form, choices=choices, fewest=fewest, most=most, since=since, until=until)


def section(name: str, required: bool = False, *, since: Version = OLDEST, until: Version | None = None) -> Key:
    """One section."""
    return Key("section", required, section=name, since=since, until=until)


def sections(
    name: str,
    required: bool = False,
    *,
    fewest: int | None = None,
    most: int | None = None,
    since: Version = OLDEST,
    until: Version | None = None,
) -> Key:
    """A list of sections."""
    return Key("sections", required, section=name, fewest=fewest, most=most, since=since, until=until)


def shapes(keys: Key | tuple[Key, ...]) -> tuple[Key, ...]:
    """All shapes that a key has had."""
    return keys if isinstance(keys, tuple) else (keys,)


def shape(keys: Key | tuple[Key, ...], version: Version) -> Key | None:
    """The shape that a key has in a version; None when that version does not know it."""
    return next((key for key in shapes(keys) if key.known(version)), None)


def version_of(words: str) -> Version:
    """`3.16.1` as (3, 16), brought into the range of the tables; ValueError when it is no version of
    ParallelCluster 3."""
    found = re.match(r"(\d+)\.(\d+)", words)
    if found is None or int(found[1]) != NEWEST[0]:
        raise ValueError(words)
    return min(max((int(found[1]), int(found[2])), OLDEST), NEWEST)
