"""Every command of trnctl's that a text of trnctl's names is one that there is, with options that it takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from trnctl.cli.app import app

ROOT = Path(__file__).parents[2]
# Behind `trnctl `: words, options, names in capitals and dots, as far as they go.
NAMED = re.compile(r"\btrnctl((?: (?:--?[a-zA-Z][\w-]*|[a-z][\w-]*|[A-Z][A-Z_.]*|…|\[[^\]]*\]|\d+))+)")


def texts() -> Iterator[tuple[str, str]]:
    """(file, text) of every text in the package, its templates and its documents."""
    for path in sorted(ROOT.glob("trnctl/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [str(one.value) if isinstance(one, ast.Constant) else "X" for one in node.values]
                yield path.name, "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.name, node.value
    for pattern in ("templates/**/*", "docs/*.md", "README.md"):
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file():
                yield path.name, " ".join(path.read_text().split())


@cache
def commands() -> Any:
    """The tree of all commands."""
    return typer.main.get_command(app)


def options(command: Any) -> set[str]:
    return {word for one in command.params for word in (*one.opts, *one.secondary_opts)} | {"--help", "-h"}


def wrong(text: str) -> list[str]:
    """What is named in a text and does not exist."""
    root, found = commands(), []
    for match in NAMED.finditer(text) if "trnctl " in text else ():
        command, words = root, match[1].split()
        for word in words:
            if word == "--":
                break
            if word.startswith("--") and command is not root and word not in options(command) | options(root):
                found.append(f"trnctl{match[1]}: {word}")
            command = getattr(command, "commands", {}).get(word, command)
    return found


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("run trnctl resume RUN --time, then wait", 1), ("trnctl submit … --from RUN --time T", 0),
        ("trnctl teardown --delete-storage", 0), ("trnctl cluster fleet start --now", 1),
    ],
)  # fmt: skip
def test_what_does_not_exist_is_seen(text: str, count: int) -> None:
    assert len(wrong(text)) == count


def test_every_option_that_a_text_names_exists() -> None:
    assert [f"{file}: {one}" for file, text in texts() for one in wrong(text)] == []
