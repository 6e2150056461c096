"""The door to copying runs to a bucket before the file system that they lie on goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ExportStep:
    """How far an export is: of `files` with `bytes` in all, so many are there. `name` is the file in work."""

    files: int
    bytes: int
    done_files: int = 0
    done_bytes: int = 0
    name: str = ""


@dataclass(frozen=True)
class Exported:
    """The end of an export; `copied` of the files were not there already. `to` is s3://… `left_out` are words for what
    lies beside them and was not copied: links that lead out of a run."""

    files: int
    bytes: int
    copied: int
    to: str
    left_out: tuple[str, ...] = ()


class RunExport(Protocol):
    """Copies runs from the shared storage, with the rights of the head node."""

    def export(self, runs_folder: str, to: str, region: str) -> Iterator[ExportStep | Exported]:
        """Copy results, records, logs, output and checkpoints of all runs to `to` (s3://BUCKET/PREFIX), each under the
        run's name; the last step is the end. What lies there already is not copied again. ToolError when it breaks
        off."""
