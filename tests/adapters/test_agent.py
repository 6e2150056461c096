"""The script that travels to the head node, as a text."""

from __future__ import annotations

import ast
from pathlib import Path

AGENT = Path(__file__).parents[2] / "templates" / "node" / "queue.py"
# What Python 3.6 has; ParallelCluster's oldest head nodes (RHEL 8) have no newer one.
STANDARD = {"contextlib", "errno", "fcntl", "json", "os", "pathlib", "re", "select", "shutil", "subprocess", "sys"}
STANDARD |= {"tempfile", "time"}
NEWER_METHODS = {"removeprefix", "removesuffix", "missing_ok", "capture_output", "is_relative_to", "with_stem"}


def test_it_is_python_3_6() -> None:
    tree = ast.parse(AGENT.read_text(), feature_version=(3, 6))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    assert not names & NEWER_METHODS


def test_it_imports_only_what_every_python_has() -> None:
    tree = ast.parse(AGENT.read_text())
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert found <= STANDARD


def test_it_never_asks_sacct() -> None:
    """ParallelCluster keeps no accounting unless it is given a database."""
    words = [node.value for node in ast.walk(ast.parse(AGENT.read_text())) if isinstance(node, ast.Constant)]
    assert "sacct" not in words


def test_it_survives_every_locale() -> None:
    """Python 3.6 may run in the C locale, where it reads and prints only ASCII."""
    assert AGENT.read_text().isascii()
