"""A head node's files that lie in a folder of this machine."""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path

from trnctl.errors import NotFoundError
from trnctl.ports import Transfer, Transferred


class FolderFiles:
    """The head node's root is `root`; `transfers` is what was asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.transfers: list[Transfer] = []

    def copy(self, transfer: Transfer) -> Transferred:
        """Copy what differs in its content."""
        self.transfers.append(transfer)
        there = self.root / transfer.there.lstrip("/")
        here = Path(transfer.here)
        source, target = (here, there) if transfer.up else (there, here)
        if transfer.names is not None:
            return self._named(transfer, source, target)
        if not source.exists():
            raise NotFoundError("The copy found no such file.", remedy="Look whether it is there.")
        whole = (transfer.here if transfer.up else transfer.there).endswith("/")
        if target.is_dir() and not whole:
            target /= source.name
        pairs = [(path, target / path.relative_to(source)) for path in _files(source)] or [(source, target)]
        if source.is_file():
            pairs = [(source, target)]
        pairs = [pair for pair in pairs if not _left_out(pair[0].relative_to(source).as_posix(), transfer.exclude)]
        names = [self._put(one, other, dry=transfer.dry_run) for one, other in pairs]
        known = {other for _, other in pairs}
        surplus = [path for path in _files(target) if path not in known] if transfer.delete else []
        for path in surplus if not transfer.dry_run else ():
            path.unlink()
        return Transferred(tuple(filter(None, names)), tuple(path.relative_to(target).as_posix() for path in surplus))

    def _named(self, transfer: Transfer, source: Path, target: Path) -> Transferred:
        names, deleted = [], []
        for name in transfer.names or ():
            if (source / name).exists():
                if self._put(source / name, target / name, dry=transfer.dry_run):
                    names.append(name)
            elif transfer.delete and (target / name).exists():
                deleted.append(name)
                if not transfer.dry_run:
                    (target / name).unlink()
        return Transferred(tuple(names), tuple(deleted))

    @staticmethod
    def _put(source: Path, target: Path, *, dry: bool) -> str:
        if target.is_file() and target.read_bytes() == source.read_bytes():
            return ""
        if not dry:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        return source.name


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []


def _left_out(name: str, patterns: tuple[str, ...]) -> bool:
    parts = name.split("/")
    return any(
        fnmatch.fnmatch(parts[0], pattern[1:]) if pattern.startswith("/") else fnmatch.filter(parts, pattern)
        for pattern in patterns
    )
