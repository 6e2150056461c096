"""Copies runs to a bucket, by a script that is sent to the head node."""

from __future__ import annotations

from collections.abc import Iterator

from trnctl.adapters.agent import Agent
from trnctl.errors import ToolError
from trnctl.ports import Exported, ExportStep, Shell


class AgentExport:
    """The RunExport behind a Shell. `script` is what `render.agent.exporter` makes."""

    def __init__(self, shell: Shell, script: str) -> None:
        self._agent = Agent(shell, script)

    def export(self, runs_folder: str, to: str, region: str) -> Iterator[ExportStep | Exported]:
        """Copy; see `ports.RunExport.export`."""
        request = {"runs_folder": runs_folder, "to": to, "region": region}
        whole = ExportStep(0, 0)
        for told in self._agent.listen("export", request):
            if "ok" in told:
                ok = told["ok"]
                yield Exported(ok["files"], ok["bytes"], ok["copied"], ok["to"], tuple(ok["left_out"]))
                return
            if "files" in told:
                whole = ExportStep(int(told["files"]), int(told["bytes"]))
                yield whole
            elif "done" in told:
                yield ExportStep(whole.files, whole.bytes, int(told["done"]), int(told["bytes"]), str(told["name"]))
        raise ToolError(
            "The head node stopped in the middle of the export.",
            remedy="Run the command again: it goes on where this ended, and nothing has been deleted.",
        )
