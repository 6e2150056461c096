"""Code and results on their way: a user's own code to shared storage, files of runs and of the head node back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from trnctl.actions.head_node import head_of
from trnctl.actions.runs import OpenCluster, find_run
from trnctl.errors import ToolError, UsageError
from trnctl.plan.code import Code
from trnctl.plan.ignore import ALWAYS, IgnoreRule, ignored, rules_of
from trnctl.ports import Shell, Transfer, Transferred

_TIMEOUT = 120.0  # seconds for a question to the head node
# Makes a folder that all users may write into beside others' (as /tmp), and tells whether the code is there already.
_LOOK = """\
[ -d "$1" ] && { echo there; exit; }
umask 022; mkdir -p "$2" && chmod 1777 "${1%/*}" 2>/dev/null; [ -d "$2" ]
"""
# Two that bring the same code at once bring the same files: whoever is second throws its own away.
_PLACE = '[ -d "$1" ] || mv -T "$2" "$1" 2>/dev/null; [ -d "$1" ] && rm -rf "$2"'
_LIST = 'cd "$1" 2>/dev/null || exit 0; find . \\( -type f -o -type l \\) -print0'
_HEAD = "head"  # names the head node in `cp`, where else a run's name stands


@dataclass(frozen=True)
class Brought:
    """A user's code on shared storage: where, and whether it had to be brought."""

    path: str
    files: int
    fresh: bool


def bring(code: Code, path: str, opened: OpenCluster) -> Brought:
    """Put this state of the code at `path`, whose name holds its digest; once. Later edits do not change it."""
    head = head_of(opened.cluster, opened.services)
    shell, files = opened.services.head.shell(head), opened.services.head.files(head)
    part = f"{path}.{code.digest[-8:]}.part"
    if _ask(shell, _LOOK, path, part).strip() == "there":
        return Brought(path, len(code.names), fresh=False)
    files.copy(Transfer(code.folder, part, up=True, names=code.names))
    _ask(shell, _PLACE, path, part)
    return Brought(path, len(code.names), fresh=True)


def sync(code: Code, path: str, opened: OpenCluster, *, delete: bool, dry_run: bool) -> Transferred:
    """Make the folder `path` on shared storage like the code here. With `delete` also what is no longer here goes, but
    for what git's rules leave out: what a training has written there, as outputs and checkpoints, is often among it."""
    head = head_of(opened.cluster, opened.services)
    shell, files = opened.services.head.shell(head), opened.services.head.files(head)
    names = code.names
    if delete:
        names = (*names, *gone(_ask(shell, _LIST, path), code))
    if not dry_run:
        _ask(shell, 'umask 022; mkdir -p "$1"', path)
    elif not _ask(shell, '[ -d "$1" ] && echo there; exit 0', path):
        return Transferred(code.names)
    return files.copy(Transfer(code.folder, path, up=True, names=names, delete=delete, dry_run=dry_run))


def gone(listing: str, code: Code) -> list[str]:
    """The files of a listing (`find -print0`, names after `./`) that the code no longer has. What is never code, as
    `__pycache__`, and what the code's own rules leave out, is none of it."""
    there = [name.removeprefix("./") for name in listing.split("\0") if name]
    rules, known = [*rules_of(ALWAYS), *code.rules], set(code.names)
    return [name for name in there if name not in known and not _left_out(name, rules)]


def _left_out(name: str, rules: Sequence[IgnoreRule]) -> bool:
    parts = PurePosixPath(name).parts
    paths = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    return any(ignored(path, rules, folder=path != name) for path in paths)


def _ask(shell: Shell, script: str, *words: str) -> str:
    """What a small script prints on the head node."""
    done = shell.run(["/bin/sh", "-c", script, "sh", *words], timeout=_TIMEOUT)
    if done.returncode:
        raise ToolError(
            f"{words[0]} cannot be made on the head node. It said: {' '.join(done.stderr.split()) or '(nothing)'}",
            remedy="Look at the file system there, it may be full or gone: trnctl ssh -- df -h.",
        )
    return done.stdout


# ------------------------------------------------------------------------------------------------ results, and any file


@dataclass(frozen=True)
class Place:
    """One side of `cp`: a path here (`where` is ''), on the head node (`head`), or in a run's folder (its name)."""

    where: str
    path: str


def place_of(text: str) -> Place:
    """`head:/fsx/x`, `RUN:results.json`, or a path of this machine; a slash before the colon makes it one."""
    found = re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*):(.*)", text, re.DOTALL)
    if found is None:
        return Place("", text)
    return Place(found[1], found[2])


def copy(source: str, target: str, opened: OpenCluster, *, dry_run: bool = False) -> tuple[Transfer, Transferred]:
    """Copy between this machine and the cluster's shared storage. UsageError unless exactly one of the two is there."""
    ends = place_of(source), place_of(target)
    if bool(ends[0].where) == bool(ends[1].where):
        raise UsageError(
            f"one of {source} and {target} must be on the cluster, and the other here",
            remedy="write head:/fsx/… for a path there, RUN:results.json for a file of a run; ./a:b is a path here",
        )
    up = bool(ends[1].where)
    here, there = (source, ends[1]) if up else (target, ends[0])
    transfer = Transfer(here, _remote(there, opened), up=up, dry_run=dry_run)
    head = head_of(opened.cluster, opened.services)
    return transfer, opened.services.head.files(head).copy(transfer)


def _remote(place: Place, opened: OpenCluster) -> str:
    """The path on the head node."""
    if place.where == _HEAD:
        mounts = tuple(one.mount for one in opened.spec.storage) if opened.spec else ()
        shared = any(place.path == mount or place.path.startswith(f"{mount}/") for mount in mounts)
        return f"{opened.services.mount_prefix}{place.path}" if shared else place.path or "."
    if place.path.startswith("/") or ".." in PurePosixPath(place.path).parts:
        raise UsageError(
            f"{place.path} is no path in the folder of the run {place.where}",
            remedy=f"leave out the slash in front and `..`, or write head:{place.path}",
        )
    folder = find_run(opened, place.where)[1].folder
    return f"{folder}/{place.path}" if place.path else f"{folder}/"


def results(run: str, here: str, opened: OpenCluster, *, dry_run: bool) -> tuple[str, Transferred]:
    """What a run left, without its checkpoints, in a folder here that is called after it."""
    record = find_run(opened, run)[1]
    target = f"{here}/{record.run}/"
    left_out = ("/checkpoints", "/prepare", "__pycache__", ".*.lock", ".lock")
    transfer = Transfer(target, f"{record.folder}/", up=False, exclude=left_out, dry_run=dry_run)
    head = head_of(opened.cluster, opened.services)
    return target, opened.services.head.files(head).copy(transfer)
