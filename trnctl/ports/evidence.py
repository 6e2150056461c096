"""The door to what a head node has written down, and the records of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class SavedText:
    """The end of a log, or what a command said. `source` is a word of `diagnose.kinds.SOURCES`; `node` is '' for the
    head node."""

    source: str
    name: str
    text: str
    node: str = ""


@dataclass(frozen=True)
class Gathered:
    """What was read in one go; `run` is the whole name of the run that was asked for ('' for none), `since` when it was
    submitted (`2026-10-01T09:12:01Z`, '' when nobody knows)."""

    run: str
    texts: tuple[SavedText, ...]
    since: str = ""


class HeadEvidence(Protocol):
    """Reads a head node's logs and Slurm's words in one connection; changes nothing there."""

    def gather(self, runs_folder: str = "", run: str = "") -> Gathered:
        """The ends of all logs that matter, what Slurm says of nodes and jobs, and with `run` (its name, or how that
        ends) its own logs and what the kernels of its nodes say of the hardware. What cannot be read is left out.

        Raises NotFoundError when there is no such run, ToolError when the head node does not answer.
        """
