"""The door to files on the head node: copies from here to there and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Transfer:
    """A copy. Of `here` and `there`, both paths, the one is copied to the other: `up` to the head node, else down.

    With `names` only these files of the folder `here` go up, into the folder `there`; without them what is named is
    copied as `cp -r` would: a file or folder, a folder with a slash at its end its content alone. `delete` removes at
    the target what the source has not (of `names`: those that are not here), but nothing that `exclude` names;
    `dry_run` changes nothing.
    """

    here: str
    there: str
    up: bool
    names: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    delete: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Transferred:
    """What was copied, and what was removed, by name relative to the target; None when the program does not say."""

    names: tuple[str, ...] | None
    deleted: tuple[str, ...] = ()


class HeadFiles(Protocol):
    """Files between this machine and a head node."""

    def copy(self, transfer: Transfer) -> Transferred:
        """Carry a copy out. Raises NotFoundError when the source is not there, ToolError when the program fails,
        ToolMissing when only a program that is not installed could do it, ConnectionLost when the way broke."""
