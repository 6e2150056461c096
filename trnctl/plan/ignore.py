"""What of a folder is left out: git's rules (gitignore(5)), as text -> a test of paths. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Never code: what tools write for themselves. As lines of a .gitignore that stands above all others.
ALWAYS = (".git", ".venv", "__pycache__", "*.pyc", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints",
          "node_modules", ".DS_Store")  # fmt: skip


@dataclass(frozen=True)
class IgnoreRule:
    """One line. `base` is the folder of its file, '' for the top, else with a slash at its end."""

    base: str
    pattern: re.Pattern[str]
    negated: bool
    folders_only: bool

    def matches(self, path: str, *, folder: bool) -> bool:
        """Whether the line speaks of that path, relative to the top, without a slash at its end."""
        if (self.folders_only and not folder) or not path.startswith(self.base):
            return False
        return self.pattern.fullmatch(path[len(self.base) :]) is not None


def rules_of(lines: Iterable[str], base: str = "") -> list[IgnoreRule]:
    """The rules of a .gitignore that lies in the folder `base`."""
    found = (_rule(line, base) for line in lines)
    return [rule for rule in found if rule is not None]


def ignored(path: str, rules: Sequence[IgnoreRule], *, folder: bool) -> bool:
    """Whether the last rule that speaks of the path leaves it out. Whoever walks does not enter what is left out, so
    that nothing below it can be taken back in, as with git."""
    for rule in reversed(rules):
        if rule.matches(path, folder=folder):
            return not rule.negated
    return False


def _rule(line: str, base: str) -> IgnoreRule | None:
    text = re.sub(r"(?<!\\) +$", "", line.rstrip("\r\n"))
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[1:] if negated else text
    folders_only = text.endswith("/")
    text = text.rstrip("/") if folders_only else text
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    try:
        pattern = re.compile(("" if anchored else "(?:.*/)?") + _expression(text), re.DOTALL)
    except re.error:  # an open bracket, say: it matches nothing, as with git
        return None
    return IgnoreRule(base, pattern, negated, folders_only)


def _expression(text: str) -> str:
    """A pattern as a regular expression."""
    parts: list[str] = []
    at = 0
    while at < len(text):
        rest = text[at:]
        if rest.startswith("**/") and (at == 0 or text[at - 1] == "/"):
            parts.append("(?:.*/)?")
            at += 3
        elif rest == "**" and at and text[at - 1] == "/":
            parts.append(".*")
            at += 2
        elif rest[0] == "*":
            parts.append("[^/]*")
            at += len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            parts.append("[^/]")
            at += 1
        elif rest[0] == "[" and (found := re.match(r"\[([!^]?)(\]?[^\]]*)\]", rest)):
            inner = found[2].replace("\\", "\\\\").replace("[", "\\[").replace("&", "\\&").replace("~", "\\~")
            parts.append(f"(?!/)[{'^' if found[1] else ''}{inner.replace('|', chr(92) + '|')}]")
            at += len(found[0])
        elif rest[0] == "[":
            raise re.error("an open bracket")
        elif rest[0] == "\\" and len(rest) > 1:
            parts.append(re.escape(rest[1]))
            at += 2
        else:
            parts.append(re.escape(rest[0]))
            at += 1
    return "".join(parts)
