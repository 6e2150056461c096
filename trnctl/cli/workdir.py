"""A user's own code as it lies on this machine: which files belong to it, and what is in them."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trnctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnctl.plan.code import Code, CodeFile
    from trnctl.plan.ignore import IgnoreRule
    from trnctl.specs.workload import WorkloadSpec


def read_code(folder: str) -> Code:
    """The code in a folder, without what git's rules leave out. UsageError when it cannot be read."""
    from trnctl.plan.code import code_of

    root = Path(folder).expanduser()
    if not root.is_dir():
        raise UsageError(f"there is no folder {folder}", remedy="correct the path; it is relative to the recipe's file")
    rules: list[IgnoreRule] = []
    try:
        return replace(code_of(str(root.absolute()), _files(root.resolve(), rules)), rules=tuple(rules))
    except OSError as error:
        raise UsageError(
            f"{error.filename or folder} cannot be read: {error.strerror}", remedy="check its permissions"
        ) from error


def workdir_of(recipe: WorkloadSpec, path: str) -> str:
    """The folder of a recipe's own code, which is relative to the recipe's file."""
    return str(Path(path).parent / Path(recipe.workdir).expanduser())


def origin_of(folder: str) -> str:
    """Whose code a folder holds: USER@HOST:PATH, as far as this machine knows."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}:{Path(folder).expanduser().resolve()}"


def _files(root: Path, found: list[IgnoreRule]) -> Iterator[CodeFile]:
    """Every file that belongs to the code. Folders that are left out are not entered. `found` takes all rules, those of
    a folder behind those of the folders above it."""
    from trnctl.plan.ignore import ALWAYS, ignored, rules_of

    found += [*rules_of(ALWAYS), *_above(root), *_rules(root, "")]
    rules = {"": [*found]}
    for place, folders, names in os.walk(root):
        inside = Path(place).relative_to(root).as_posix()
        base = "" if inside == "." else f"{inside}/"
        if base:
            above = base[:-1].rpartition("/")[0]
            own = _rules(Path(place), base)
            rules[base] = [*rules[f"{above}/" if above else ""], *own]
            found += own
        known = rules[base]
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        folders[:] = sorted(
            name for name in folders if name not in links and not ignored(base + name, known, folder=True)
        )
        for name in sorted([*names, *links]):
            if not ignored(base + name, known, folder=False) and (file := _file(Path(place) / name, base + name)):
                yield file


def _rules(folder: Path, base: str) -> list[IgnoreRule]:
    """The rules of the .gitignore in a folder."""
    from trnctl.plan.ignore import rules_of

    try:
        text = (folder / ".gitignore").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    return rules_of(text.splitlines(), base)


def _above(root: Path) -> list[IgnoreRule]:
    """Rules of the repository that the folder is a part of, which hold here too: those that name no path."""
    from trnctl.plan.ignore import rules_of

    found: list[IgnoreRule] = []
    for folder in root.parents if not (root / ".git").exists() else ():
        try:
            text = (folder / ".gitignore").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            text = ""
        plain = [line for line in text.splitlines() if "/" not in line.strip().rstrip("/")]
        found = [*rules_of(plain), *found]
        if (folder / ".git").exists():
            return found
    return []  # no repository: what lies above is somebody else's


def _file(path: Path, name: str) -> CodeFile | None:
    """One file, or a link by where it leads; None for what is neither, as a socket."""
    from trnctl.plan.code import CodeFile

    seen = path.lstat()
    if stat.S_ISLNK(seen.st_mode):
        leads = os.fsencode(path.readlink())
        return CodeFile(name, executable=False, size=0, digest=hashlib.sha256(b"-> " + leads).hexdigest())
    if not stat.S_ISREG(seen.st_mode):
        return None
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return CodeFile(name, executable=bool(seen.st_mode & 0o100), size=seen.st_size, digest=digest)
