"""Every command line that the documents show is one that the command line takes, and every link in them leads on."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.transcripts import ROOT
from trnctl.cli.app import app
from trnctl.cli.argv import arrange
from trnctl.cli.session import Session

DOCUMENTS = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TYPED = re.compile(r"^\$ (?:\w+=\S+ )*(trnctl .*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)")


def lines(path: Path) -> list[str]:
    """What stands after `$ trnctl` in a document, without comments and what a shell does with it; `[…]` once left out
    and once with its first choice."""
    found = []
    for match in TYPED.finditer(path.read_text(encoding="utf-8").replace("\\\n", " ")):
        line = re.split(r"\s+#|\s[|;&]|\s>\s", match[1])[0]
        found += [re.sub(r"\s*\[[^\]]*\]", "", line), re.sub(r"\[([^\]|]*)[^\]]*\]", r"\1", line)]
    return sorted(set(found))


def parse(line: str) -> str:
    """The command that a line means. A typer error when it is none, or does not take these words."""
    command: Any = get_command(app)
    arguments, name, context = list(arrange(shlex.split(line)[1:]).argv), "trnctl", None
    while True:
        context = command.make_context(name, arguments, parent=context, obj=Session())
        if not hasattr(command, "commands"):
            return str(context.command_path)
        name, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_shows_can_be_typed(path: Path) -> None:
    refused = {}
    for line in lines(path):
        try:
            parse(line)
        except Exception as error:  # noqa: BLE001  # whatever typer says of it, for all lines at once
            refused[line] = str(error)
    assert refused == {}


def test_there_is_something_to_type() -> None:
    assert len(lines(ROOT / "README.md")) > 30
    assert parse("trnctl teardown --keep-storage -o json") == "trnctl teardown"


@pytest.mark.parametrize("line", ["trnctl submit x --nodse 3", "trnctl cluster frob", "trnctl teardown x"])
def test_what_cannot_be_typed_is_seen(line: str) -> None:
    with pytest.raises(Exception, match=r"No such|unexpected"):
        parse(line)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    inside = [one for one in LINK.findall(path.read_text(encoding="utf-8")) if "://" not in one]
    assert [one for one in inside if not (path.parent / one).exists()] == []
