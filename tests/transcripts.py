"""Runs a tutorial as its reader would: its files are written, its commands run in order, its lines looked for.

A tutorial is Markdown. Its fenced blocks mean:

    ```console                 `$ ` begins a command, which must succeed; below it are lines that it must print, in this
                               order. `…` stands for any text, a line of it for any lines, and lines may be left out
                               between those that are there. `export NAME=VALUE` holds for what follows
    ```json file=NAME          (or yaml, …) the text of a file that the reader writes
    ```diff file=NAME          a change to a file: lines with a blank or `-` before them must stand there, once

Other blocks are only read. In the folder where commands run, `examples` is that of the checkout.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"export (\w+)=(\S+)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it is about ('' for none), its text and its line in the tutorial."""

    language: str
    file: str
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """What is typed, and the lines that must follow."""

    text: str
    expected: tuple[str, ...]
    line: int


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a tutorial that are more than text."""
    text = path.read_text(encoding="utf-8")
    found = [Block(m[1], m[2] or "", m[3], text.count("\n", 0, m.start()) + 2) for m in _FENCE.finditer(text)]
    return [block for block in found if block.file or block.language == "console"]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block."""
    typed, expected, at = "", list[str](), block.line
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        if line.startswith("$ "):
            if typed:
                yield Command(typed, tuple(expected), at)
            typed, expected, at = line[2:], [], number
        elif line.startswith("> ") and typed.endswith("\\"):
            typed = f"{typed}\n{line[2:]}"
        elif line.strip():
            expected.append(line.rstrip())
    if typed:
        yield Command(typed, tuple(expected), at)


def missing(expected: tuple[str, ...], printed: str) -> str:
    """The first expected line that is not printed after those before it; '' when all are."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    at = 0
    for line in expected:
        if line.strip() == "…":
            continue
        pattern = re.compile(".*".join(re.escape(" ".join(part.split())) for part in line.split("…")))
        while at < len(lines) and pattern.search(lines[at]) is None:
            at += 1
        if at == len(lines):
            return line
        at += 1
    return ""


def changed(text: str, diff: str) -> str:
    """The text after a change. ValueError when what should be there is not there once."""
    lines = [line for line in diff.splitlines() if line and not line.startswith("…")]
    old = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
    new = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
    if text.count(old) != 1:
        raise ValueError(f"stands there {text.count(old)} times, not once:\n{old}")
    return text.replace(old, new)


def follow(path: Path, folder: Path, environment: Mapping[str, str], *, timeout: float = 300) -> Iterator[str]:
    """Do what the tutorial says in a folder, and yield what was typed and printed. AssertionError, with the tutorial's
    line, when a command fails or does not print what it should."""
    variables = dict(environment)
    (folder / "examples").symlink_to(ROOT / "examples")
    for block in blocks(path):
        if block.language == "diff":
            target = folder / block.file
            target.write_text(changed(target.read_text(), block.text))
        elif block.file:
            (folder / block.file).write_text(block.text)
        else:
            for command in commands(block):
                yield from _run(command, path, folder, variables, timeout)


def _run(command: Command, path: Path, folder: Path, variables: dict[str, str], timeout: float) -> Iterator[str]:
    place = f"{path.name}:{command.line}: {command.text}"
    yield f"$ {command.text}\n"
    if found := _EXPORT.fullmatch(command.text):
        variables[found[1]] = found[2]
        return
    done = subprocess.run(
        ["bash", "-c", command.text], cwd=folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=timeout, check=False,
    )  # fmt: skip
    printed = done.stderr + done.stdout  # talk comes first: the plan before the result
    yield printed
    assert done.returncode == 0, f"{place}\nexit code {done.returncode}\n{printed}"
    lost = missing(command.expected, printed)
    assert not lost, f"{place}\ndid not print: {lost}\nbut:\n{textwrap.indent(printed, '  ')}"
