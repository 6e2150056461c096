"""What a head node has written down, gathered by a script that is sent along with the call."""

from __future__ import annotations

from trnctl.adapters.agent import Agent
from trnctl.ports import Gathered, SavedText, Shell

_BYTES = 256 * 1024  # of the end of each log
_SECONDS = 60


class AgentEvidence:
    """The HeadEvidence behind a Shell. `script` is the text of `templates/node/evidence.py`; `mount_prefix` stands
    before the head node's folders (see `ports.Services`)."""

    def __init__(self, shell: Shell, script: str, mount_prefix: str = "") -> None:
        self._agent = Agent(shell, script)
        self._mount_prefix = mount_prefix

    def gather(self, runs_folder: str = "", run: str = "") -> Gathered:
        """One connection; see `ports.HeadEvidence.gather`."""
        request = {"mount_prefix": self._mount_prefix, "runs_folder": runs_folder, "run": run, "bytes": _BYTES}
        answer = self._agent.ask("evidence", request, timeout=_SECONDS)
        texts = (SavedText(one["source"], one["name"], one["text"], one["node"]) for one in answer["texts"])
        return Gathered(answer["run"], tuple(texts), answer.get("since", ""))
