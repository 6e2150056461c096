"""The templates as texts: from the wheel (`trnctl/templates`), from the checkout (`templates/`) when not installed."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from trnctl.errors import UsageError


@cache
def _root() -> Traversable:
    packaged = files("trnctl") / "templates"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "templates"


def read(name: str) -> str:
    """The text of one template, by its name below `templates/` (`cluster/cluster.yaml.j2`). UsageError without it."""
    place = _root()
    for part in name.split("/"):
        place = place / part
    if ".." in name.split("/") or not place.is_file():
        raise UsageError(f"There is no template `{name}`.", remedy="Install trnctl again: its templates are missing.")
    return place.read_text(encoding="utf-8")


def names(prefix: str = "") -> tuple[str, ...]:
    """The names of all templates that begin with `prefix`, sorted."""
    return tuple(sorted(name for name in _below(_root(), "") if name.startswith(prefix)))


def _below(folder: Traversable, path: str) -> list[str]:
    found: list[str] = []
    for entry in folder.iterdir():
        name = f"{path}{entry.name}"
        found += _below(entry, f"{name}/") if entry.is_dir() else [name]
    return found
