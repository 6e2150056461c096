"""The nodes of a cluster in memory, as a check finds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trnctl.errors import RefusedError
from trnctl.ports import CheckProgress, Drained, HealthCheck, HealthReport


class InMemoryHealth:
    """Answers every check with `report` (no node is there while it is None); `undrainable` holds what Slurm says of
    nodes that it will not drain."""

    def __init__(self) -> None:
        self.report: HealthReport | None = None
        self.undrainable: dict[str, str] = {}
        self.asked: list[HealthCheck] = []
        self.drained: dict[str, str] = {}

    def check(self, wanted: HealthCheck) -> Iterator[CheckProgress | HealthReport]:
        """One step, and the report."""
        self.asked.append(wanted)
        if self.report is None:
            raise RefusedError("No node is up and idle.", remedy="Start one.")
        yield CheckProgress("7", "RUNNING", "", len(self.report.nodes), 0)
        yield self.report

    def drain(self, reasons: Mapping[str, str]) -> Drained:
        """Into `drained`, but for those in `undrainable`."""
        gone = {node: reason for node, reason in reasons.items() if node not in self.undrainable}
        self.drained.update(gone)
        return Drained(tuple(gone), {node: said for node, said in self.undrainable.items() if node in reasons})
