"""Slurm on the head node: one Shell call per question, answered by the script that travels with it.

The script sends what Slurm printed as it is. The functions that read it are pure.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

from trnctl.adapters.agent import Agent, slurm_down
from trnctl.adapters.slurm_states import job_state, node_state, reason_in_words
from trnctl.errors import ConnectionLost
from trnctl.ports import (
    CacheWish,
    Compile,
    File,
    FleetLedger,
    FollowEvent,
    Job,
    LineLost,
    Lock,
    LogLine,
    NodeGroup,
    QueuePicture,
    Resumed,
    RunOver,
    RunRecord,
    Shell,
    Stage,
    StageState,
    Submission,
    Submitted,
)

_SEPARATOR = "\x1f"
_LONG = 10 * 365 * 86400  # seconds; Slurm prints the time since 1970 for a job that never started
_RECONNECTS = 3  # tries before anything has come
_PATIENCE = 10  # tries in a row after that


class SlurmQueue:
    """The JobQueue behind a Shell. `script` is the program that `render.agent` makes; `root` stands before the paths of
    what the head node keeps of itself ('' on AWS)."""

    def __init__(
        self, shell: Shell, script: str, root: str = "", *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._agent = Agent(shell, script)
        self._pause = pause
        self._ledger = f"{root}/opt/trnctl/state/fleet.json"

    def submit(self, submission: Submission) -> Submitted:
        """Write the folder and submit its jobs; see `ports.JobQueue.submit`.

        One Shell call; a second one only when the connection broke after it had come up, and that one finds what the
        first has submitted. Raises ToolError with sbatch's own words.
        """
        request = {
            "run": submission.run,
            "folder": submission.folder,
            "files": [_file(file) for file in submission.files],
            "stages": list(submission.stages),
            "sbatch_args": list(submission.sbatch_args),
            "hold": submission.hold,
            "from_run": submission.from_run,
            "from_recipes": list(submission.from_recipes),
            "from_step": submission.from_step,
            "cache": _wish(submission.cache) if submission.cache else None,
            "needs": [asdict(need) for need in submission.needs],
        }
        try:
            answer = self._agent.ask("submit", request, timeout=300)
        except ConnectionLost as error:
            if not error.reached:
                raise
            answer = self._agent.ask("submit", request, timeout=300)
        jobs = cast("Mapping[Stage, str]", dict(answer["jobs"]))
        freed = _locks(answer.get("freed"))
        compiling = cast("Compile", answer.get("compile") or "skipped")
        why = answer.get("why") or ""
        return Submitted(
            answer["run"],
            answer["folder"],
            jobs,
            bool(answer["again"]),
            compiling,
            why,
            freed,
            answer.get("prepare"),
            tuple(answer.get("preparing") or ()),
        )

    def resume(self, run: str, runs_folder: str, *, hold: bool = False) -> Resumed:
        """Submit what a run has not done again; see `ports.JobQueue.resume`."""
        answer = self._agent.ask("resume", {"run": run, "runs_folder": runs_folder, "hold": hold}, timeout=300)
        jobs = cast("Mapping[Stage, str]", dict(answer["jobs"]))
        excluded, freed = tuple(answer["excluded"]), _locks(answer["freed"])
        return Resumed(
            answer["run"],
            answer["folder"],
            jobs,
            answer["checkpoint"],
            excluded,
            answer["short"],
            freed,
            answer.get("prepare"),
        )

    def observe(self, runs_folder: str, *, run: str = "", newest: int = 20, tail_bytes: int = 16000) -> QueuePicture:
        """Jobs, nodes and runs; see `ports.JobQueue.observe`. Jobs that ended some minutes ago are still among them.

        Raises ToolError when Slurm's controller does not answer.
        """
        request = {"runs_folder": runs_folder, "run": run, "newest": newest, "tail_bytes": tail_bytes}
        request["ledger"] = self._ledger
        answer = self._agent.ask("observe", request, timeout=60)
        if answer["slurm"] != "up":
            raise slurm_down(answer["said"])
        return QueuePicture(
            at=datetime.fromtimestamp(answer["at"], UTC),
            jobs=parse_jobs(answer["jobs"], parse_restarts(answer["restarts"])),
            nodes=parse_nodes(answer["nodes"]),
            runs=tuple(parse_run(record) for record in answer["runs"]),
            slurm_version=answer["version"].split()[-1] if answer["version"].strip() else "",  # `slurm-wlm 22.05.8`
            fleet=FleetLedger.read(answer.get("fleet") or {}),
        )

    def cancel(self, run: str, runs_folder: str) -> list[str]:
        """Cancel all jobs of a run; see `ports.JobQueue.cancel`. Raises NotFoundError when there is no such run."""
        return list(self._agent.ask("cancel", {"run": run, "runs_folder": runs_folder}, timeout=120)["cancelled"])

    def follow(
        self,
        run: str,
        runs_folder: str,
        *,
        stage: str = "",
        node: int | None = None,
        from_start: bool = True,
        wait: bool = True,
        last: int | None = None,
        since: datetime | None = None,
    ) -> Iterator[FollowEvent]:
        """Log lines and state changes; see `ports.JobQueue.follow`. A broken connection is taken up again where it
        broke, at once and then after pauses that grow; ConnectionLost is raised when that has failed for about two
        minutes, or three times before anything came."""
        request: dict[str, Any] = {"run": run, "runs_folder": runs_folder, "stage": stage, "node": node}
        request.update(from_start=from_start, wait=wait, offsets={}, last=last)
        request["since"] = since.timestamp() if since else None
        states: dict[str, StageState] = {}
        failures, begun = 0, False
        while True:
            try:
                for event in self._events(request):
                    failures, begun = 0, True
                    if isinstance(event, StageState):
                        if states.get(event.stage) == event:
                            continue  # told before the connection broke
                        states[event.stage] = event
                    yield event
                    if isinstance(event, RunOver):
                        return
                raise ConnectionLost(
                    "The head node stopped sending the run's log.",
                    remedy=f"Follow it again: trnctl logs {run} -f. The run itself goes on.",
                )
            except ConnectionLost as error:
                failures += 1
                if failures >= (_PATIENCE if begun else _RECONNECTS):
                    raise
                if begun and failures > 1:
                    # Whoever follows runs of one cluster must not all knock at once when it comes back.
                    pause = min(30.0, 2.0 ** (failures - 2)) * random.uniform(0.5, 1.0)  # noqa: S311  no secret
                    yield LineLost(error.message, round(pause, 1))
                    self._pause(pause)

    def _events(self, request: dict[str, Any]) -> Iterator[FollowEvent]:
        """One connection's events; keeps in `request` from where another one would go on."""
        for message in self._agent.listen("follow", request):
            event = parse_event(message)
            if event is not None:
                yield event
            if "next" in message:
                request["offsets"][message["log"]] = message["next"]


# ------------------------------------------------------------------------------------ what Slurm printed


def parse_jobs(text: str, restarts: Mapping[str, int]) -> tuple[Job, ...]:
    """squeue's lines by job id, fields in the order of the script's JOB_FORMAT; other lines are left out.

    While a job completes, Slurm counts only the nodes that are still busy with it.
    """
    rows = [row for line in text.splitlines() if len(row := line.split(_SEPARATOR)) == 10]
    return tuple(sorted((_job(row, restarts) for row in rows), key=_by_id))


def _by_id(job: Job) -> tuple[int, str]:
    """By number; an array's job is called 12_3."""
    return int(re.match(r"\d*", job.id)[0] or 0), job.id  # type: ignore[index]  # it matches every text


def _job(row: list[str], restarts: Mapping[str, int]) -> Job:
    job, state, reason, nodes, user, partition, elapsed, starts, node_list, comment = (field.strip() for field in row)
    ours = re.fullmatch(r"trnctl:([^:]+):(prepare|compile|train)", comment)
    stage = cast("Stage", ours[2]) if ours else ""
    count = restarts.get(job, 0)
    return Job(
        id=job,
        run=ours[1] if ours else "",
        stage=stage,
        state=job_state(state, reason, count),
        reason=reason_in_words(reason, stage),
        nodes=int(nodes) if nodes.isdigit() else 0,
        user=user,
        partition=partition,
        elapsed_s=parse_duration(elapsed),
        starts=parse_time(starts),
        node_list="" if node_list in ("(null)", "None assigned") else node_list,
        restarts=count,
    )


def parse_restarts(text: str) -> dict[str, int]:
    """`squeue -O JobID,RestartCnt`: job id to number of restarts."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


@lru_cache(maxsize=4096)  # ten thousand waiting jobs say the same
def parse_duration(text: str) -> int:
    """Seconds of Slurm's `[days-][hours:]minutes:seconds`; 0 for INVALID, N/A and the age of the epoch."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if not found:
        return 0
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return total if total < _LONG else 0


@lru_cache(maxsize=4096)
def parse_time(text: str) -> datetime | None:
    """A time that Slurm printed under TZ=UTC; it has no zone of its own. None for N/A, Unknown and nonsense."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def parse_nodes(text: str) -> tuple[NodeGroup, ...]:
    """sinfo's lines, fields in the order of the script's NODE_FORMAT; empty partitions are left out."""
    groups = []
    for line in text.splitlines():
        row = [field.strip() for field in line.split(_SEPARATOR)]
        if len(row) != 6 or not row[3].isdigit() or row[3] == "0":
            continue
        partition, available, state, count, hostlist, reason = row
        available = {"inact": "inactive"}.get(available, available)
        reason = "" if reason.lower() == "none" else reason
        groups.append(NodeGroup(partition, node_state(state), int(count), hostlist, reason, available))
    return tuple(groups)


def parse_run(record: Mapping[str, Any]) -> RunRecord:
    """A run's folder as the script read it; Slurm's word for how a stage ended becomes ours."""
    ended = {}
    for stage, note in record["ended"].items():
        ended[stage] = dict(note)
        if "slurm_state" in note:
            words = reason_in_words(note.get("reason", ""), stage)
            ended[stage].update(state=job_state(note["slurm_state"]), reason=words)
    return RunRecord(
        run=record["run"],
        folder=record["folder"],
        manifest=record["manifest"],
        jobs=record["jobs"],
        results=record["results"],
        logs=record["logs"],
        ended=ended,
        saved=record.get("saved"),
        preparing=record.get("preparing"),
        refused=record.get("refused", ""),
        quiet_s=record.get("quiet", {}),
    )


def parse_event(message: Mapping[str, Any]) -> FollowEvent | None:
    """A message of `follow` as an event; None for a heartbeat."""
    if "text" in message:
        return LogLine(message["stage"], message["log"], message["text"])
    if "state" in message:
        stage, reason = message["stage"], message.get("reason", "")
        words = reason_in_words(reason, stage)
        return StageState(stage, message["job"], job_state(message["state"], reason), words)
    if "ok" in message:
        return RunOver({cast("Stage", s): job_state(word) for s, word in message["ok"]["over"].items()})
    return None


def _file(file: File) -> dict[str, object]:
    return {"name": file.name, "text": file.text, "executable": file.executable, "secret": file.secret}


def _wish(wish: CacheWish) -> dict[str, object]:
    """What the script must know of the compile cache."""
    return {**asdict(wish), "without": [{"name": name, "text": text} for name, text in wish.without]}


def _locks(found: list[dict[str, Any]] | None) -> tuple[Lock, ...]:
    return tuple(Lock(graph=one["graph"], age_s=one["age_s"]) for one in found or ())
