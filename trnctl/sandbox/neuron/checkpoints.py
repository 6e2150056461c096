"""Checkpoints as torch.save leaves them: a zip archive, written in place, its directory last.

A process that is killed while it writes leaves a part of an archive, as with the real one.
"""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trnctl.sandbox.neuron.emulation import NOTICE

_PIECES = 16
_WRITING_SECONDS = 0.05  # long enough that a kill can hit it, as it can hit the real 4 GB
_FILLER = 64 * 1024


class CheckpointError(Exception):
    """A checkpoint cannot be found or read; the text is what the public script or torch would say."""


class CheckpointFolder:
    """The output folder of a training; keeps the last `keep` checkpoints that this process wrote, -1 = all."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        self._keep = keep
        self._written: deque[Path] = deque()

    def save(self, step: int, content: dict[str, Any]) -> list[str]:
        """Write ckpt_<step>.pt; the lines that the public script prints about it."""
        path = self._folder / f"ckpt_{step}.pt"
        write_archive(path, {**content, "step": step, "note": NOTICE})
        lines = ["Checkpointing done..."]
        self._written.append(path)
        if 0 <= self._keep < len(self._written):
            oldest = self._written.popleft()
            if oldest.is_file():
                lines.append(f"Keeping only {self._keep} checkpoints. Deleting {oldest}")
                oldest.unlink()
        return lines


def find(folder: Path, step: int, path: str | None) -> Path:
    """The checkpoint to resume from: the one named, else that of a step, else (-1) the newest by its number.

    Raises CheckpointError when there is none.
    """
    if path:
        if not Path(path).exists():
            raise CheckpointError(f"Checkpoint path passed to resume_ckpt_path option is not a path: {path}")
        return Path(path)
    if step != -1:
        return folder / f"ckpt_{step}.pt"
    if not folder.is_dir():
        raise CheckpointError(
            f"Resuming from last checkpoint in {folder}, but it doesn't exist or is not a dir. "
            "You can also specify path to checkpoint using resume_ckpt_path option."
        )
    steps = [step_of(each) for each in folder.glob("*.pt")]
    if not steps:
        raise CheckpointError(f"Make sure there are ckpt_*.pt files in {folder}")
    return folder / f"ckpt_{max(steps)}.pt"


def step_of(path: Path) -> int:
    """The step in a checkpoint's name. Raises CheckpointError for a name that has none."""
    number = path.name.split(".pt")[0].partition("_")[2]
    if not number.isdigit():
        raise CheckpointError(f"invalid literal for int() with base 10: {number!r} ({path.name})")
    return int(number)


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint. Raises CheckpointError when it is not there or only a part of one."""
    try:
        with zipfile.ZipFile(path) as archive:
            content: dict[str, Any] = json.loads(archive.read(f"{path.stem}/data.json"))
            return content
    except FileNotFoundError as problem:
        raise CheckpointError(f"[Errno 2] No such file or directory: '{path}'") from problem
    except (zipfile.BadZipFile, KeyError) as problem:
        text = "PytorchStreamReader failed reading zip archive: failed finding central directory"
        raise CheckpointError(f"{text} ({path})") from problem


def write_archive(path: Path, content: dict[str, Any]) -> None:
    """Write a file as torch.save does, in pieces, so that a kill can hit it."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as parts:
        parts.writestr(f"{path.stem}/data.json", json.dumps(content))
        parts.writestr(f"{path.stem}/data/0", bytes(_FILLER))
    with path.open("wb") as file:
        for piece in _pieces(archive.getvalue()):
            file.write(piece)
            file.flush()
            time.sleep(_WRITING_SECONDS / _PIECES)


def _pieces(content: bytes) -> Sequence[bytes]:
    size = -(-len(content) // _PIECES)
    return [content[start : start + size] for start in range(0, len(content), size)]
