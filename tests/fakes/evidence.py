"""A head node's logs in memory."""

from __future__ import annotations

from trnctl.errors import NotFoundError, TrnctlError
from trnctl.ports import Gathered, SavedText


class InMemoryEvidence:
    """What a head node would tell: `texts` of itself, `runs` of each run. `asked` counts the connections; `broken` is
    the error that each ends with."""

    def __init__(self) -> None:
        self.texts: list[SavedText] = []
        self.runs: dict[str, list[SavedText]] = {}
        self.asked = 0
        self.broken: TrnctlError | None = None

    def gather(self, runs_folder: str = "", run: str = "") -> Gathered:
        """The run's texts before the head node's own."""
        self.asked += 1
        if self.broken is not None:
            raise self.broken
        name = next((one for one in self.runs if run and (one == run or one.endswith(f"-{run}"))), "")
        if run and not name:
            raise NotFoundError(f"There is no run {run}.", remedy="List the runs: trnctl runs.")
        return Gathered(name, (*self.runs.get(name, ()), *self.texts))
