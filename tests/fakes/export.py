"""An export in memory."""

from __future__ import annotations

from collections.abc import Iterator

from trnctl.errors import ToolError
from trnctl.ports import Exported, ExportStep


class InMemoryExport:
    """Copies two files, or breaks off with what `fails` says; `asked` notes where to."""

    def __init__(self) -> None:
        self.fails = ""
        self.asked: list[str] = []
        self.left_out: tuple[str, ...] = ()

    def export(self, runs_folder: str, to: str, region: str) -> Iterator[ExportStep | Exported]:
        """In two steps."""
        self.asked.append(to)
        yield ExportStep(2, 2000)
        yield ExportStep(2, 2000, 1, 1000, "a3f/results.json")
        if self.fails:
            raise ToolError(f"The export to {to} broke off. It said: {self.fails}", remedy="Run the command again.")
        yield Exported(2, 2000, 2, to, self.left_out)
