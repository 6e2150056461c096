"""The templates, and the examples that recipes run, as texts: from the wheel (`trnctl/templates`), from the checkout
(`templates/`) when not installed."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from trnctl.errors import UsageError


@cache
def _root() -> Traversable:
    return _packaged("templates")


def _packaged(folder: str) -> Traversable:
    packaged = files("trnctl") / folder
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / folder


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


def example(name: str) -> dict[str, str]:
    """The scripts of an example that recipes name as their code, by file name: `example("fsdp_trainer")`."""
    found = {path.name: path for path in (_packaged("examples") / name).iterdir() if path.name.endswith(".py")}
    return {name: found[name].read_text(encoding="utf-8") for name in sorted(found)}


def _below(folder: Traversable, path: str) -> list[str]:
    found: list[str] = []
    for entry in folder.iterdir():
        name = f"{path}{entry.name}"
        found += _below(entry, f"{name}/") if entry.is_dir() else [name]
    return found
