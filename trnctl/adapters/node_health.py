"""The nodes' health, looked after by the head node's script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trnctl.adapters.agent import Agent
from trnctl.ports import CheckProgress, Drained, HealthCheck, HealthReport, Link, NodeFinding, Shell


class AgentHealth:
    """The NodeHealth behind a Shell. `script` is the program that `render.agent` makes."""

    def __init__(self, shell: Shell, script: str) -> None:
        self._agent = Agent(shell, script)

    def check(self, wanted: HealthCheck) -> Iterator[CheckProgress | HealthReport]:
        """See `ports.NodeHealth.check`."""
        request = {
            "folder": wanted.folder,
            "files": [{"name": file.name, "text": file.text} for file in wanted.files],
            "queue": wanted.queue,
            "count": wanted.count,
            "constraint": wanted.constraint,
            "wait_s": wanted.wait_s,
            "limit_s": wanted.limit_s,
        }
        for message in self._agent.listen("check", request):
            if "ok" in message:
                yield parse_health(message["ok"])
            elif "state" in message:
                names = ("job", "state", "reason", "nodes", "reports")
                yield CheckProgress(*(message[name] for name in names))

    def drain(self, reasons: Mapping[str, str]) -> Drained:
        """See `ports.NodeHealth.drain`."""
        answer = self._agent.ask("drain", {"nodes": dict(reasons)}, timeout=60 + 30 * len(reasons))
        return Drained(tuple(answer["drained"]), dict(answer["refused"]))


def parse_health(answer: Mapping[str, Any]) -> HealthReport:
    """What the script says, as our record; without a result only why."""
    told = answer["health"]
    if told is None:
        return HealthReport(answer["job"], not_had=dict(answer["not_had"]), why=answer["why"])
    return HealthReport(
        job=answer["job"],
        nodes=tuple(told["nodes"]),
        reports=dict(told["reports"]),
        links=tuple(Link((one["nodes"][0], one["nodes"][1]), one["busbw"], one["error"]) for one in told["links"]),
        findings=tuple(NodeFinding(**one) for one in told["findings"]),
        failed=tuple(told["failed"]),
        systemic=told["systemic"],
        not_had=dict(answer["not_had"]),
        seconds=told["seconds"],
    )
