"""Every fault that can be made to happen has a story that tests it, and a row in the users' table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trnctl.actions.why import why_code
from trnctl.sandbox.faults import FAULTS, list_faults

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "faults.md"


def stories() -> Iterator[tuple[str, str]]:
    """(fault, test) of every `pytest.mark.fault(…)` on a test or on a parameter of it. A fixture of tests/cli sees to
    it that such a test lets the fault happen and asks why."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for words in re.findall(
                    r"pytest\.mark\.fault\(([^)]*)\)", " ".join(map(ast.unparse, node.decorator_list))
                ):
                    assert path.parent.name == "cli", f"{path}: nothing checks the marker there"
                    yield from ((name, node.name) for name in re.findall(r"'([\w-]+)'", words))


def rows() -> dict[str, list[str]]:
    """The users' table: fault -> its other columns."""
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].strip("` "): row[1:] for row in cells}


def test_every_fault_has_a_story() -> None:
    assert {name for name, _ in stories()} == set(FAULTS)
    assert set(list_faults()) == {*FAULTS, "clear"}


def test_every_fault_has_a_row_in_the_users_table_with_the_code_that_why_gives() -> None:
    found = rows()
    assert set(found) == set(FAULTS)
    for name, (seen, code, remedy) in found.items():
        assert len(seen) > 20, name
        assert len(remedy) > 10, name
        assert code == (f"`{FAULTS[name].why}`" if FAULTS[name].why else "nothing is left to find"), name


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.why])
def test_the_code_of_every_fault_is_one_that_why_explains(name: str) -> None:
    explanation = why_code(FAULTS[name].why)
    assert explanation is not None
    assert explanation.remedy
