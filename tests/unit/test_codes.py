"""The table of finding codes holds every code that the code uses, once, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trnctl.actions.why import known
from trnctl.codes import CODES, ROWS, explained

PACKAGE = Path(__file__).parents[2] / "trnctl"
TEMPLATES = PACKAGE.parent / "templates"  # scripts that travel to nodes give codes as well
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# Whose first argument is a code; `finding` of the layout rules has its rule's number before it.
FIRST = {"Finding", "problem", "Wrong", "matching", "Rule", "say", "Form", "_matching", "Verdict", "_problem"}
# Codes that are put together: an id's prefix and `-id`.
PREFIXED = {"specs/rules.py"}


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def codes_in(path: Path) -> Iterator[str]:
    inside = path.relative_to(PACKAGE).as_posix()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        place = 1 if name_of(node) == "finding" and len(node.args) > 1 else 0
        wanted = name_of(node) in FIRST or place == 1 or name_of(node) == "_id"
        argument = node.args[place]
        if not wanted or not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
            continue
        if name_of(node) == "say" and not inside.startswith("preflight/"):
            continue  # the screen's own word for telling something
        yield f"{argument.value}-id" if name_of(node) == "_id" and inside in PREFIXED else argument.value


def used() -> dict[str, str]:
    """Every code that is used, and where."""
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE).as_posix()
        if not inside.startswith(("codes/", "sandbox/")):
            found |= dict.fromkeys(codes_in(path), inside)
    return found


def test_every_code_that_is_used_stands_in_the_table() -> None:
    found = used()
    assert len(found) > 150
    diagnosed = known().by_code()  # those explain themselves
    assert {code: where for code, where in found.items() if explained(code) is None and code not in diagnosed} == {}


def test_no_code_stands_in_the_table_that_nothing_uses() -> None:
    literals = {
        node.value
        for path in (*PACKAGE.rglob("*.py"), *TEMPLATES.rglob("*.py"))
        if "/codes/" not in path.as_posix()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    } | set(used())
    assert [row.code for row in ROWS if row.code not in literals] == []


def test_no_code_stands_twice() -> None:
    assert len(CODES) == len(ROWS)


def test_rows_are_written_as_people_read_them() -> None:
    for row in ROWS:
        assert KEBAB.fullmatch(row.code), row.code
        assert row.level in {"error", "warning", "info"}, row.code
        assert row.meaning.endswith((".", "?", ")")), row.code
        assert row.remedy, row.code


@pytest.mark.parametrize("code", ["pcluster-fsx-storage-capacity", "quota-short"])
def test_a_code_is_explained(code: str) -> None:
    row = explained(code)
    assert row is not None
    assert row.code == code
    assert row.meaning
    assert row.remedy


def test_the_validator_of_a_family_is_named() -> None:
    row = explained("pcluster-fsx-storage-capacity")
    assert row is not None
    assert "FsxStorageCapacityValidator" in row.meaning


def test_what_is_no_code_is_not_explained() -> None:
    assert explained("no-such-code") is None
