"""neuron-monitor on the nodes of runs, through the head node's script and one bounded `srun` into each job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from trnctl.adapters.agent import Agent
from trnctl.adapters.slurm import parse_duration
from trnctl.ports import JobLoad, LoadPicture, NodeLoad, Shell


class AgentMonitor:
    """The LoadMonitor behind a Shell. `script` is the program of `render.agent`, `node_script` what runs on nodes."""

    def __init__(self, shell: Shell, script: str, node_script: str) -> None:
        self._agent = Agent(shell, script)
        self._node_script = node_script

    def watch(
        self, runs_folder: str, *, run: str = "", period: float = 5.0, once: bool = False
    ) -> Iterator[LoadPicture]:
        """See `ports.LoadMonitor.watch`."""
        request = {"runs_folder": runs_folder, "run": run, "period": period, "reports": 1 if once else 0}
        for message in self._agent.listen("top", {**request, "script": self._node_script}):
            if "jobs" in message:
                yield parse_picture(message)
            if "ok" in message:
                return


def parse_picture(message: Mapping[str, Any]) -> LoadPicture:
    """The script's picture as ours."""
    return LoadPicture(_time(message["at"]), tuple(_job(job) for job in message["jobs"]))


def _job(job: Mapping[str, Any]) -> JobLoad:
    names = tuple(job["names"])
    place = {name: index for index, name in enumerate(names)}
    loads = sorted((_load(one) for one in job["reports"]), key=lambda load: place.get(load.node, len(place)))
    words = [word.removeprefix("srun: ").removeprefix("error: ") for word in job["said"]]
    said = " ".join(dict.fromkeys(words))
    return JobLoad(job["run"], job["stage"], job["job"], parse_duration(job["elapsed"]), names, tuple(loads), said)


def _load(one: Mapping[str, Any]) -> NodeLoad:
    device, host = one.get("device_bytes") or (0, 0), one.get("host_bytes") or (0, 0)
    return NodeLoad(
        node=one["node"],
        at=_time(one["at"]),
        instance_type=one.get("type", ""),
        devices=one.get("devices", 0),
        cores=tuple(one.get("cores", ())),
        device_used=device[0],
        device_total=device[1],
        host_used=host[0],
        host_total=host[1],
        cpu=one.get("cpu"),
        ecc=one.get("ecc", {}),
        errors=one.get("errors", {}),
        outcomes=one.get("outcomes", {}),
        latency_s=one.get("latency_s"),
        processes=one.get("processes", 0),
        problem=one.get("problem", ""),
        emulated=one.get("emulated", ""),
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
