"""What the nodes of running runs do now: each node's load, and which of them idle, lag behind or report errors."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from statistics import fmean, median

from trnctl.actions.head_node import head_of
from trnctl.actions.runs import OpenCluster
from trnctl.errors import ConnectionLost, WaitedTooLong
from trnctl.findings import Finding, Level, by_severity
from trnctl.ports import JobLoad, LoadPicture, NodeLoad

IDLE_PERCENT = 1.0  # a core below that does nothing
LAG_POINTS = 15.0  # of utilisation below the median of the run's nodes
LAG_FACTOR = 1.3  # of the latency of one execution
FEWEST = 3  # nodes, below which nobody can say which of them is the odd one
FULL = 0.97  # of the device memory
_LONGEST_PAUSE = 15.0  # seconds between two tries to connect again


@dataclass(frozen=True)
class RunLoad:
    """One run's job, judged. `silent` are its nodes that have not reported."""

    load: JobLoad
    silent: tuple[str, ...]
    findings: tuple[Finding, ...]

    @cached_property
    def cores(self) -> tuple[float, ...]:
        """The utilisation of all cores that are known."""
        return tuple(core for node in self.load.loads for core in node.cores)

    @cached_property
    def by_node(self) -> Mapping[str, list[Finding]]:
        """What there is to note, by node."""
        found: dict[str, list[Finding]] = {}
        for finding in self.findings:
            found.setdefault(finding.node, []).append(finding)
        return found

    def of(self, node: str) -> list[Finding]:
        """What there is to note of one node."""
        return self.by_node.get(node, [])

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        job = self.load
        return {
            "run": job.run, "stage": job.stage, "job": job.job, "elapsed_s": job.elapsed_s,
            "busy_percent": busy(self.cores), "nodes": [_node_json(node) for node in job.loads],
            "silent": list(self.silent), "findings": [finding.as_json() for finding in self.findings],
        }  # fmt: skip


@dataclass(frozen=True)
class TopPicture:
    """All runs at one moment of the head node's clock."""

    at: datetime
    runs: tuple[RunLoad, ...]
    notice: str = ""

    def as_json(self) -> dict[str, object]:
        """The stable JSON form: one line of `trnctl top -o json`."""
        return {
            "at": self.at.isoformat(timespec="seconds"),
            "runs": [run.as_json() for run in self.runs],
            "notice": self.notice,
        }


@dataclass(frozen=True)
class LostSight:
    """The connection broke; it is tried again in `pause_s` seconds."""

    why: str
    pause_s: float


def _node_json(node: NodeLoad) -> dict[str, object]:
    return {
        "node": node.node, "at": node.at.isoformat(timespec="seconds"), "instance_type": node.instance_type,
        "devices": node.devices, "cores": list(node.cores), "busy_percent": busy(node.cores),
        "idle_cores": idle(node.cores), "device_memory": {"used": node.device_used, "total": node.device_total},
        "host_memory": {"used": node.host_used, "total": node.host_total}, "cpu_percent": node.cpu,
        "ecc": dict(node.ecc), "errors": dict(node.errors), "outcomes": dict(node.outcomes),
        "latency_s": node.latency_s, "processes": node.processes, "problem": node.problem, "emulated": node.emulated,
    }  # fmt: skip


def busy(cores: tuple[float, ...]) -> float | None:
    """The mean utilisation in percent; None without cores."""
    return round(fmean(cores), 1) if cores else None


def idle(cores: tuple[float, ...]) -> int:
    """How many cores do nothing."""
    return sum(core < IDLE_PERCENT for core in cores)


def top(
    opened: OpenCluster, run: str = "", *, period: float = 5.0, once: bool = False
) -> Iterator[TopPicture | LostSight]:
    """Pictures of a run, or of all that run, from one connection that is taken up again when it breaks.

    Raises as `ports.LoadMonitor.watch`; ConnectionLost only when nothing has been seen yet, or with `once`.
    """
    services = opened.services
    monitor = services.head.monitor(head_of(opened.cluster, services))
    seen, failures = False, 0
    while True:
        try:
            for picture in monitor.watch(opened.runs_folder, run=run, period=period, once=once):
                seen, failures = True, 0
                yield judged(picture, period, services.notice)
            return
        except (ConnectionLost, WaitedTooLong) as error:
            if once or not seen:
                raise
            failures += 1
            # Several people who watch one cluster must not all knock at once when it comes back.
            pause = min(_LONGEST_PAUSE, 2.0 ** (failures - 1)) * random.uniform(0.5, 1.0)  # noqa: S311  no secret
            yield LostSight(error.message, round(pause, 1))
            services.clock.sleep(pause)


def judged(picture: LoadPicture, period: float, notice: str = "") -> TopPicture:
    """The picture with what there is to note of it."""
    return TopPicture(picture.at, tuple(_run(job, picture.at, period) for job in picture.jobs), notice)


def _run(job: JobLoad, at: datetime, period: float) -> RunLoad:
    there = {load.node for load in job.loads}
    silent = tuple(name for name in job.names if name not in there)
    usual = _usual(job)
    of_nodes = (found for load in job.loads for found in _of_node(load, usual, at, period))
    named = (replace(found, remedy=found.remedy.replace("RUN", job.run)) for found in of_nodes)
    return RunLoad(job, silent, tuple(by_severity([*_of_run(job, usual), *named])))


@dataclass(frozen=True)
class _Usual:
    """What the nodes of a job do together: `judged` False where they cannot be compared; medians, None of too few."""

    judged: bool
    idle: bool
    busy: float | None
    latency_s: float | None
    places: dict[str, int]


def _usual(job: JobLoad) -> _Usual:
    shares = [share for load in job.loads if (share := busy(load.cores)) is not None]
    latencies = [load.latency_s for load in job.loads if load.latency_s]
    at_rest = bool(shares) and all(core < IDLE_PERCENT for load in job.loads for core in load.cores)
    return _Usual(
        # While graphs are compiled, cores idle by nature.
        judged=job.stage == "train" and not at_rest,
        idle=job.stage == "train" and at_rest,
        busy=median(shares) if len(shares) >= FEWEST else None,
        latency_s=median(latencies) if len(latencies) >= FEWEST else None,
        places={name: number for number, name in enumerate(job.names)},
    )


def _of_run(job: JobLoad, usual: _Usual) -> Iterator[Finding]:
    """What concerns the run as a whole."""
    if job.said and not job.loads:
        yield Finding(
            "load-refused", "error", f"Slurm does not let anybody look into job {job.job}: {job.said}",
            "only its owner and an administrator of Slurm may: log in as the user who submitted it",
        )  # fmt: skip
    if usual.idle:
        yield Finding(
            "run-idle", "warning", f"no core of any node of {job.run} works: it compiles, loads data, or hangs",
            f"trnctl logs {job.run} -f shows whether its steps go on; trnctl why {job.run} says why they do not",
        )  # fmt: skip


def _of_node(load: NodeLoad, usual: _Usual, at: datetime, period: float) -> Iterator[Finding]:
    """What concerns one node."""
    if load.problem:
        yield _note(load, "load-unknown", "warning", load.problem, "look there: trnctl ssh NODE -- neuron-ls")
        return
    age = (at - load.at).total_seconds()
    if age > 3 * period + 5:
        text = f"has not reported for {age:.0f} s"
        yield _note(load, "load-stale", "warning", text, "trnctl status says whether the node lives")
    yield from _errors(load)
    yield from _laziness(load, usual)
    if load.device_total and load.device_used > FULL * load.device_total:
        share = 100 * load.device_used / load.device_total
        text = f"{share:.0f} % of the device memory is used"
        yield _note(load, "device-memory-full", "warning", text, "a smaller micro-batch, or more tensor parallelism")


def _errors(load: NodeLoad) -> Iterator[Finding]:
    """Memory errors and executions that failed. Corrected memory errors are what the correction is for."""
    for name, count in load.ecc.items():
        device, _, counter = name.partition(" ")
        if counter.endswith("_uncorrected"):
            text = f"device {device} has {count} uncorrected error{'s' * (count != 1)} of its {_memory(counter)}"
            yield _note(load, "ecc-uncorrected", "error", text, _LEAVE)
    for kind, count in load.errors.items():
        text = f"{count:g} execution error{'s' * (count != 1)} of kind {kind} in the last period"
        if kind == "hardware":
            yield _note(load, "execution-errors", "error", text, _LEAVE)
        elif kind != "transient":  # those were corrected
            yield _note(load, "execution-errors", "warning", text, "trnctl why RUN says what its log tells")
    late = load.outcomes.get("timed_out", 0)
    if late:
        text = f"{late:g} execution{'s' * (late != 1)} ran into the runtime's time limit"
        yield _note(load, "execution-errors", "warning", text, "a peer may hang: look at nodes with idle cores")


_LEAVE = "it must be replaced: let the run end, or requeue it, without that node"


def _memory(counter: str) -> str:
    return "SRAM" if counter.startswith("sram") else "device memory"


def _laziness(load: NodeLoad, usual: _Usual) -> Iterator[Finding]:
    """Cores that do nothing, and nodes that the others wait for."""
    share = busy(load.cores)
    if not usual.judged or share is None:
        return
    lazy, of_all = idle(load.cores), len(load.cores)
    if lazy:
        text = f"none of its {of_all} cores works" if lazy == of_all else f"{lazy} of its {of_all} cores do nothing"
        remedy = f"trnctl logs RUN --node {usual.places.get(load.node, 0)} shows its log"
        yield _note(load, "cores-idle", "warning", text, remedy)
    elif usual.busy is not None and share < usual.busy - LAG_POINTS:
        text = f"its cores are {share:.0f} % busy, those of the others {usual.busy:.0f} %"
        yield _note(load, "straggler", "warning", text, _STRAGGLER)
    elif load.latency_s and usual.latency_s is not None and load.latency_s > LAG_FACTOR * usual.latency_s:
        text = f"an execution takes {load.latency_s:.3g} s there, {usual.latency_s:.3g} s on the others"
        yield _note(load, "straggler", "warning", text, _STRAGGLER)


_STRAGGLER = "all others wait for it in every step: drain it before the run is next resumed (trnctl health)"


def _note(load: NodeLoad, code: str, level: Level, text: str, remedy: str) -> Finding:
    return Finding(code, level, f"{load.node}: {text}", remedy.replace("NODE", load.node), node=load.node)
