"""What `sync` and `cp` show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen
from trnctl.cli.words import plural

if TYPE_CHECKING:
    from trnctl.plan.code import Code
    from trnctl.ports import Transferred

_SHOWN = 20  # names; `-o json` has all


def begins(screen: Screen, code: Code, path: str) -> None:
    """What will be compared, before it takes its time."""
    screen.say(f"{code.folder}: {plural(len(code.names), 'file')}, {code.size / 2**20:,.1f} MiB → head:{path}")


def synced(screen: Screen, path: str, done: Transferred, *, dry_run: bool) -> None:
    """What differed."""
    if screen.json:
        screen.data({"to": path, **_json(done), "dry_run": dry_run})
        return
    _names(screen, done)
    would = "would be " if dry_run else ""
    words = [f"{plural(len(done.names or ()), 'file')} {would}copied"]
    words += [f"{len(done.deleted):,} {would}removed"] if done.deleted else []
    screen.done({}, f"{', '.join(words)}: head:{path}", after="" if dry_run else f"trnctl ssh -- ls {path}")


def brought(screen: Screen, here: str, done: Transferred, *, dry_run: bool) -> None:
    """What a run left, here now."""
    if screen.json:
        screen.data({"to": here, **_json(done), "dry_run": dry_run})
        return
    _names(screen, done)
    would = "would be " if dry_run else ""
    screen.done({}, f"{plural(len(done.names or ()), 'file')} {would}copied to {here} (checkpoints stay there)")


def copied(screen: Screen, source: str, target: str, done: Transferred) -> None:
    """What was copied by `cp`."""
    if screen.json:
        screen.data({"from": source, "to": target, **_json(done)})
        return
    _names(screen, done)
    what = "all of it" if done.names is None else plural(len(done.names), "file") if done.names else "nothing new"
    screen.done({}, f"{source} → {target}: {what}")


def _json(done: Transferred) -> dict[str, object]:
    return {"copied": None if done.names is None else [*done.names], "removed": [*done.deleted]}


def _names(screen: Screen, done: Transferred) -> None:
    _list(screen, done.names or (), "  ")
    _list(screen, done.deleted, "  removed  ")


def _list(screen: Screen, names: Sequence[str], lead: str) -> None:
    for name in names[:_SHOWN]:
        screen.say(f"{lead}{name}")
    if len(names) > _SHOWN:
        screen.say(f"{lead}and {len(names) - _SHOWN:,} more")
