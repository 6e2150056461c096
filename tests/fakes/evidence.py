"""A head node's logs in memory."""

from __future__ import annotations

from trnctl.errors import NotFoundError
from trnctl.ports import Gathered, SavedText


class InMemoryEvidence:
    """What a head node would tell: `texts` of itself, `runs` of each run. `asked` counts the connections."""

    def __init__(self) -> None:
        self.texts: list[SavedText] = []
        self.runs: dict[str, list[SavedText]] = {}
        self.asked = 0

    def gather(self, runs_folder: str = "", run: str = "") -> Gathered:
        """The run's texts before the head node's own."""
        self.asked += 1
        name = next((one for one in self.runs if run and (one == run or one.endswith(f"-{run}"))), "")
        if run and not name:
            raise NotFoundError(f"There is no run {run}.", remedy="List the runs: trnctl runs.")
        return Gathered(name, (*self.runs.get(name, ()), *self.texts))
