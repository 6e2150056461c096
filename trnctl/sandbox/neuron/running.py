"""Which training holds the NeuronCores of a node: one small file for each process, locked while it lives.

The lock, not the process id, tells whether the process lives: emulated nodes may have their own process numbers,
and the kernel lets go of the lock however a process ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Training(NamedTuple):
    """A process on the cores of a node. `busy` is False while it compiles or hangs; `started` in seconds of the
    epoch; `step` counts the optimizer steps it has done."""

    pid: int
    command: str
    cores: int
    tag: str = ""
    started: float = 0.0
    busy: bool = False
    step: int = 0


def _folder(cluster: Path, node: str) -> Path:
    return cluster / "run" / "neuron" / node


@contextmanager
def holding_cores(cluster: Path, node: str, training: Training) -> Iterator[Callable[[Training], None]]:
    """Hold the cores of a node inside the block; the value is a function that tells how the training goes."""
    folder = _folder(cluster, node)
    folder.mkdir(parents=True, exist_ok=True)
    path, fresh = folder / f"{training.pid}.json", folder / f".{training.pid}.new"
    with fresh.open("w", encoding="utf-8") as file:
        # Locked under another name first: a reader would take an unlocked file for one left by a dead process.
        fcntl.flock(file, fcntl.LOCK_EX)

        def tell(now: Training) -> None:
            text = json.dumps(now._asdict()).encode()
            os.pwrite(file.fileno(), text, 0)
            os.ftruncate(file.fileno(), len(text))

        tell(training)
        fresh.rename(path)
        try:
            yield tell
        finally:
            path.unlink(missing_ok=True)


def trainings(cluster: Path, node: str) -> list[Training]:
    """The trainings that run on a node now, oldest first; files of dead processes are removed."""
    found = (_read(path) for path in _folder(cluster, node).glob("*.json"))
    return sorted((each for each in found if each), key=lambda each: (each.started, each.pid))


def _read(path: Path) -> Training | None:
    try:
        with path.open("r", encoding="utf-8") as file:
            if _unlocked(file.fileno()):
                path.unlink(missing_ok=True)
                return None
            return _training(file.read())
    except FileNotFoundError:  # it ended in between
        return None


def _unlocked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _training(text: str) -> Training | None:
    try:
        content: dict[str, Any] = json.loads(text)
        return Training(**content)
    except ValueError:  # caught between the write and the truncation; the next look sees it whole
        return None


def now() -> float:
    """Seconds of the epoch, for `Training.started`."""
    return time.time()
