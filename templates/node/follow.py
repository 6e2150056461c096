"""Follow a run: its log lines and its jobs' states as they come. Travels with the head node's script."""

import calendar
import json
import os
import re
import select
import sys
import time
from contextlib import suppress

import preparing
from folder import Refused, log_node, read_json, run_folder, tail
from slurm import SEP, call, require_slurm
from submit import STAGES

# Slurm's words for a job that is over, and ours for one whose end nobody wrote down.
OVER = ["BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"]
OVER += ["REVOKED", "TIMEOUT", "UNKNOWN_END", "LOST"]
DIED = "the preparer has died on the head node; trnctl resume starts it again"


def emit(event):
    """One line of the protocol."""
    sys.stdout.write("trnctl " + json.dumps(event) + "\n")
    sys.stdout.flush()


class Log:
    """One growing file, read from where the last look ended."""

    def __init__(self, stage, name, path, offset):
        self.stage, self.name, self.path, self.offset, self.rest = stage, name, path, offset, b""

    def read(self, last):
        """The next whole lines, each with the offset behind it; None = no more. With `last` also a line without an end.

        A carriage return ends a line too: progress bars write nothing else for hours.
        """
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self.offset:  # a job that started again without appending
                    self.offset, self.rest = 0, b""
                file.seek(self.offset)
                data = file.read(1 << 20)
        except OSError:
            return None
        if not data and not (last and self.rest):
            return None
        begin, text = self.offset - len(self.rest), self.rest + data
        self.offset += len(data)
        ends = list(re.finditer(b"\r?\n|\r(?!$)", text))
        starts = [0] + [end.end() for end in ends]
        lines = [(text[at : end.start()], begin + end.end()) for at, end in zip(starts, ends)]  # noqa: B905  strict= needs Python 3.10
        self.rest = text[starts[-1] :]
        if (last and not data) or len(self.rest) > 65536:
            lines.append((self.rest, self.offset))
            self.rest = b""
        return [(line.decode("utf-8", "replace"), behind) for line, behind in lines]


def follow(request):
    """Write log lines and state changes until the run's jobs are over, or, without `wait`, what is there now."""
    folder = run_folder(request)
    submitted = read_json(folder / "submitted.json")
    if submitted is None:
        raise Refused("no-run", "There is no submitted run {run} in {runs_folder}.".format(**request))
    jobs = {s: i for s, i in jobs_of_stages(folder, submitted).items() if request.get("stage") in ("", None, s)}
    logs = logs_to_follow(folder, request)
    pause, known, spoke = request.get("poll", 0.5), {}, time.time()
    reader = select.poll()
    reader.register(sys.stdout.fileno(), 0)  # only its errors: the reader hung up, and sshd sends no signal
    while not reader.poll(0):
        states = stage_states(folder, jobs)
        for stage, state in states.items():
            if known.get(stage) != state:
                emit({"stage": stage, "job": jobs[stage], "state": state[0], "reason": state[1]})
        known = states
        over = all(state in OVER for state, _ in states.values()) or ("LOST", DIED) in states.values()
        if over or not request.get("wait", True):
            time.sleep(pause if request.get("wait", True) else 0)  # the last lines may still be on their way here
            drain(logs, last=True)
            return {"over": {stage: state for stage, (state, _) in states.items()}}
        for _ in range(4):  # states change more slowly than logs grow
            if drain(logs, last=False):
                spoke = time.time()
            elif time.time() - spoke > 10:  # so that the other end can tell a quiet run from a dead line
                spoke = time.time()
                emit({"beat": spoke})
            time.sleep(pause)
    return None


def logs_to_follow(folder, request):
    """The logs of the stages asked for, in their order, each from where the reader wants it."""
    logs = []
    for stage in STAGES:
        if request.get("stage") not in ("", None, stage):
            continue
        node = request.get("node")
        names = [f"{stage}/node-{node or 0}.log"] if node is not None else [f"{stage}.log", f"{stage}/node-0.log"]
        with_steps = log_node(read_json(folder / "run.json")) if stage == "train" and node is None else 0
        names += [f"{stage}/node-{with_steps}.log"] if with_steps else []
        for name in names:
            path = folder / "logs" / name if "/" in name else folder / name
            start_at = beginning(path, request)
            logs.append(Log(stage, name, path, request.get("offsets", {}).get(name, start_at)))
    return logs


# How lines tell their time: ISO 8601, the Neuron runtime (2026-Nov-29 09:12:01), and Python's asctime (Sun Nov 29
# 09:12:01 2026), which the training scripts print. The nodes of a cluster keep UTC.
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
MONTH = "|".join(MONTHS)
STAMPS = [
    re.compile(r"(?P<y>20\d\d)-(?P<m>\d\d)-(?P<d>\d\d)[T ](?P<t>\d\d:\d\d:\d\d)"),
    re.compile(r"(?P<y>20\d\d)-(?P<m>" + MONTH + r")-(?P<d>\d\d) (?P<t>\d\d:\d\d:\d\d)"),
    re.compile(r"(?P<m>" + MONTH + r") +(?P<d>\d\d?) (?P<t>\d\d:\d\d:\d\d) (?P<y>20\d\d)"),
]


def time_of(line):
    """When a line was written, in seconds since 1970; None when it does not say."""
    for stamp in STAMPS:
        found = stamp.search(line)
        if found:
            month = found.group("m")
            number = int(month) if month.isdigit() else MONTHS.index(month) + 1
            words = "{}-{:02d}-{} {}".format(found.group("y"), number, found.group("d"), found.group("t"))
            with suppress(ValueError):
                return calendar.timegm(time.strptime(words, "%Y-%m-%d %H:%M:%S"))
    return None


def beginning(path, request):
    """From where a log is read: its start, or the last lines, or the first line of a time."""
    if request.get("since") is not None:
        return offset_since(path, request["since"])
    if request.get("last"):
        return offset_of_last(path, request["last"])
    return 0 if request.get("from_start", True) else tail(path, 2000)[1]


def offset_since(path, since):
    """Where the first line stands that was written at that time or later. A log that was last written before has none;
    one whose lines tell no time is taken whole."""
    told, offset = False, 0
    with suppress(OSError):
        if path.stat().st_mtime < since:
            return path.stat().st_size
        with path.open("rb") as file:
            for line in file:
                at = time_of(line[:400].decode("utf-8", "replace"))
                if at is not None and at >= since:
                    return offset
                told = told or at is not None
                offset += len(line)
    return offset if told else 0


def offset_of_last(path, lines):
    """Where the last so many lines begin."""
    data, at = b"", 0
    with suppress(OSError), path.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        while at > 0 and data[:-1].count(b"\n") < lines:
            size = min(1 << 16, at)
            at -= size
            file.seek(at)
            data = file.read(size) + data
    starts = [0] + [end.end() for end in re.finditer(b"\n", data[:-1])]
    return at + starts[-lines:][0]


def drain(logs, last):
    """Write every new line; True when there was one."""
    wrote = False
    for log in logs:
        lines = log.read(last)
        while lines is not None:
            for text, behind in lines:
                emit({"stage": log.stage, "log": log.name, "text": text, "next": behind})
                wrote = True
            lines = log.read(last)
    return wrote


def stage_states(folder, jobs):
    """{stage: (Slurm's state, reason)}: from the queue, else from what was written down at the end."""
    try:
        require_slurm()  # squeue would hang for a minute when the controller is down, and the log's lines with it
    except Refused:
        return dict.fromkeys(jobs, ("UNKNOWN", "Slurm's controller does not answer"))
    code, out, err = call(["squeue", "-h", "-a", "-t", "all", "-o", SEP.join(["%i", "%T", "%r"])], 70)
    rows = [line.split(SEP) for line in out.splitlines()]
    found = {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}
    states = {}
    for stage, job in jobs.items():
        if stage == "prepare":
            states[stage] = state_of_preparer(folder)
        elif job in found and found[job][1] == "JobHeldUser" and states.get("prepare", ("",))[0] == "PREPARING":
            states[stage] = ("PENDING", "Preparing")
        elif job in found:
            states[stage] = found[job]
        elif code:
            states[stage] = ("UNKNOWN", err.strip()[-200:])
        else:
            states[stage] = state_at_end(read_json(folder / "ended" / (stage + ".json")) or {})
    return states


def jobs_of_stages(folder, submitted):
    """{stage: job id} of a run; the preparer's is its process id."""
    seen = preparing.look(folder) if submitted.get("preparing") else None
    return dict({"prepare": str(seen["pid"])} if seen else {}, **submitted["jobs"])


def state_of_preparer(folder):
    """(state, reason) of a run's preparer."""
    seen = preparing.look(folder)
    if seen["ended"]:
        return state_at_end(read_json(folder / "ended" / "prepare.json") or {})
    return ("PREPARING", "") if seen["alive"] else ("LOST", DIED)


def state_at_end(note):
    """A job that Slurm no longer knows is over; how it ended stands in its folder, if anywhere."""
    by_exit = {None: "UNKNOWN_END", 0: "COMPLETED"}.get(note.get("exit_code"), "FAILED")
    return note.get("slurm_state", by_exit), str(note.get("reason", ""))
