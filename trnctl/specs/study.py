"""A scaling study: one workload on several numbers of nodes, each a run whose name tells which."""

from __future__ import annotations

from dataclasses import dataclass

from trnctl.specs.workload import Scaling


@dataclass(frozen=True)
class Study:
    """What each of its runs carries in its record, so that the study is known from any of them: its name, how it
    scales, and all its numbers of nodes, in order."""

    name: str
    scaling: Scaling
    nodes: tuple[int, ...]

    def run(self, nodes: int) -> str:
        """The run of one point. The same name again is the same run, which Slurm is never given twice."""
        return f"{self.name}-n{nodes}"

    def as_json(self) -> dict[str, object]:
        """As it stands in run.json."""
        return {"name": self.name, "scaling": self.scaling, "nodes": list(self.nodes)}


def study_name(workload: str, scaling: Scaling) -> str:
    """The name of a study that nobody has named: `bert-large-strong`."""
    return f"{workload}-{scaling}"
