"""Keep a run's record: when stages began and ended, and results.json, from what lies in the run's folder.

Runs on a stage's first node, from the run's folder, where run.json lies beside it:

    results.py begin STAGE         a stage begins (again); exit code 3, with the reason on stdout, when it may not
    results.py end STAGE CODE [warned]
                                   it has ended, warned of the time limit or not: write ended/STAGE.json, results.json
    results.py close STAGE [EPOCH] the job is over and wrote no end: its attempt ended then (seconds since 1970), else
                                   when its logs were last written
    results.py budget              print for how many minutes this attempt may run, of a run with a cap on its cost
    results.py unfit STAGE [stop]  its nodes did not pass their check, so that this attempt is none without progress;
                                   with `stop` the stage ends
    results.py checkpoint          print the newest whole checkpoint, of this run or of the one that it starts from
    results.py                     write results.json

Files are replaced in one step, so that a reader never sees half of one. A run that failed keeps what it reached. Needs
only Python 3.6.
"""

import json
import math
import os
import re
import sys
import zipfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

GRACE_S = 90  # which Slurm may need to end a job that is over its time limit
LONGEST_LINE = 2000  # characters of a log line that are searched for a step
MOST_POINTS = 100  # of the curve that results.json keeps; results are read for many runs at once


def main(folder, words):
    """Do what the words say."""
    manifest = read_json(folder / "run.json", {})
    verb = words[0] if words else ""
    if verb == "checkpoint":
        newest = newest_checkpoint(folder, manifest) or manifest.get("from_checkpoint")
        if newest:
            print(newest)
        return
    if verb == "budget":
        print(minutes_left(folder, manifest))
        return
    if verb == "begin":
        refused = begin(folder, manifest, words[1])
        if refused:
            print(refused)
            sys.exit(3)
        return
    if verb == "end":
        end(folder, words[1], int(words[2]), "warned" in words[3:])
    if verb == "unfit":
        unfit(folder, words[1], "stop" in words[2:])
    if verb == "close":
        attempts = attempts_of(folder, words[1])
        close(folder, words[1], attempts, float(words[2]) if words[2:] else None)
        write_json(folder / "logs" / words[1] / "attempts.json", attempts)
    write_json(folder / "results.json", results(folder, manifest))


def begin(folder, manifest, stage):
    """Note the start of an attempt, and say why it may not go on, if it may not. One that was cut off, as by a lost
    node, ended when its log was last written."""
    attempts = attempts_of(folder, stage)
    close(folder, stage, attempts)
    newest = newest_checkpoint(folder, manifest) if stage == "train" else None
    attempt = {"started": now().timestamp(), "ended": None, "exit_code": None}
    attempt.update(job=os.environ.get("SLURM_JOB_ID", ""), node_list=os.environ.get("SLURM_JOB_NODELIST", ""))
    attempt["nodes"] = int(os.environ.get("SLURM_JOB_NUM_NODES") or manifest.get("nodes") or 0)
    attempt["checkpoint"] = newest.name if newest else None
    refused = too_often(manifest, stage, attempts, attempt) or spent_up(folder, manifest, attempt["nodes"])
    if refused:
        attempt["refused"] = refused
    write_json(folder / "logs" / stage / "attempts.json", [*attempts, attempt])
    return refused


def close(folder, stage, attempts, ended=None):
    """Give the last attempt its end when it has none: `ended`, else when one of its logs was last written."""
    if attempts and attempts[-1]["ended"] is None:
        last_words = [log.stat().st_mtime for log in (folder / "logs" / stage).glob("node-*.log")]
        told = max([*last_words, attempts[-1]["started"]]) if ended is None else ended
        attempts[-1]["ended"] = max(told, attempts[-1]["started"])


def unfit(folder, stage, stops):
    """Note which nodes did not pass the check that the stage began with."""
    found = read_json(folder / "health" / stage / "health.json", {})
    attempts = attempts_of(folder, stage)
    if attempts:
        attempts[-1]["unfit"] = found.get("failed", [])
        if stops:
            nodes = ", ".join(found.get("failed", [])) or "its nodes"
            attempts[-1]["refused"] = f"{nodes} did not pass the check: health/{stage}/health.json tells more"
        write_json(folder / "logs" / stage / "attempts.json", attempts)


def too_often(manifest, stage, attempts, attempt):
    """Why a job may not start again: it has too often, or gets no further. A job that a person submits counts anew."""
    bounds = manifest.get("restarts") or {}
    own = [one for one in attempts if one.get("job") == attempt["job"]]
    if bounds.get("most") is not None and len(own) > bounds["most"]:
        return "it has started again {} times, which is the most that run.json allows".format(bounds["most"])
    idle = bounds.get("without_progress") if stage == "train" else None
    since = [one for one in own if one.get("checkpoint") == attempt["checkpoint"] and "unfit" not in one]
    if idle is not None and len(since) > idle:
        start = "from {}".format(attempt["checkpoint"]) if attempt["checkpoint"] else "from its beginning"
        return f"it has started {len(since)} times {start} and reached no checkpoint after it"
    return None


def spent_up(folder, manifest, nodes):
    """Why a run with a cap on its cost may not begin a job: what is left is less than Slurm can limit a job to."""
    if not manifest.get("max_node_seconds") or node_seconds_left(folder, manifest) >= (60 + GRACE_S) * nodes:
        return None
    hours = (manifest["max_node_seconds"] - node_seconds_left(folder, manifest)) / 3600
    return "its cap of ${:,.2f} is used up: {:,.2f} node-hours".format(manifest["max_cost_usd"], hours)


def minutes_left(folder, manifest):
    """Whole minutes for which the attempt that has just begun may run, with its nodes."""
    last = max(open_attempts(folder, manifest, manifest.get("stages", [])), key=lambda one: one["started"])
    return int((node_seconds_left(folder, manifest) / max(1, last["nodes"]) - GRACE_S) / 60)


def node_seconds_left(folder, manifest):
    """What is left of the run's cap, in node-seconds."""
    used = sum(row["node_seconds"] for row in ledger(folder, manifest, manifest.get("stages", [])))
    return manifest["max_node_seconds"] - used


def attempts_of(folder, stage):
    """The attempts of a stage, oldest first: started and ended in seconds since 1970, exit_code, the job, and the
    newest whole checkpoint at its start."""
    return read_json(folder / "logs" / stage / "attempts.json", [])


def end(folder, stage, code, warned):
    """Note the end of the attempt, and write ended/STAGE.json."""
    moment = now()
    attempts = attempts_of(folder, stage)
    if attempts:
        attempts[-1].update(ended=moment.timestamp(), exit_code=code)
        write_json(folder / "logs" / stage / "attempts.json", attempts)
    record = {
        "stage": stage,
        "exit_code": code,
        "at": iso(moment),
        "warned": warned,
        "restarts": int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        "node_list": os.environ.get("SLURM_JOB_NODELIST", ""),
        "job": os.environ.get("SLURM_JOB_ID", ""),
    }
    if attempts and attempts[-1].get("refused"):
        record["reason"] = attempts[-1]["refused"]
    if code and (folder / "ended" / (".cancelled-" + record["job"])).exists():  # by trnctl, which says so beforehand
        record["slurm_state"] = "CANCELLED"
    if stage == "compile":
        record["failed_graphs"] = read_json(folder / "logs" / stage / "failed-graphs.json", [])
    write_json(folder / "ended" / (stage + ".json"), record)


def results(folder, manifest):
    """All that is known of the run now; null for what is not."""
    layout = manifest.get("layout", {})
    ended = {stage: read_json(folder / "ended" / (stage + ".json"), None) for stage in manifest.get("stages", [])}
    seconds = {stage: elapsed(folder, stage) for stage in ended}
    spent = ledger(folder, manifest, ended)
    train = ended.get("train") or {}
    summary = {
        "schema": 1,
        "run": manifest.get("run"),
        "workload": manifest.get("workload"),
        "model": manifest.get("model"),
        "dataset": manifest.get("dataset"),
        "sequence": manifest.get("sequence"),
        "sdk": manifest.get("sdk"),
        "cluster": manifest.get("cluster"),
        "instance_type": manifest.get("instance_type"),
        "nodes": manifest.get("nodes"),
        "node_list": train.get("node_list") or (ended.get("compile") or {}).get("node_list", ""),
        "world_size": layout.get("world"),
        "micro_batch": layout.get("micro_batch"),
        "accumulation": layout.get("accumulation"),
        "global_batch": layout.get("global_batch"),
        "scaling": layout.get("scaling"),
        "total_steps": manifest.get("steps"),
        "unit": manifest.get("unit"),
        "complete": train.get("exit_code") == 0 and not saved_and_left(manifest, train),
        "time_to_train_s": seconds.get("train"),
        "compile": read_json(folder / "submitted.json", {}).get("compile"),
        "compile_s": seconds.get("compile"),
        "node_seconds": sum(row["node_seconds"] for row in spent),
        "ledger": spent,
        "nodes_running": sum(attempt["nodes"] for attempt in open_attempts(folder, manifest, ended)),
        "cost_usd": cost(manifest, spent),
        "max_cost_usd": manifest.get("max_cost_usd"),
        "checkpoints": checkpoints(folder, manifest),
        "restarts": sum(max(0, len(attempts_of(folder, stage)) - 1) for stage in ended),
        "stages": ended,
        "submitted_at": manifest.get("submitted_at"),
        "updated_at": iso(now()),
        "emulated": manifest.get("notice") or None,
    }
    summary.update(steps_reached(folder, manifest))
    return summary


def saved_and_left(manifest, record):
    """Whether a script that saves on a signal did so, before the time limit, and ended with 0 in mid-run."""
    return bool(record.get("warned") and manifest.get("checkpoint", {}).get("on_signal"))


def steps_reached(folder, manifest):
    """What the step lines tell, read from the one node's log that holds them (the first worker's)."""
    told = {
        "steps_done": None,
        "final_loss": None,
        "peak_throughput": None,
        "average_throughput": None,
        "curve": [],
    }
    pattern = re.compile(manifest.get("log_pattern") or r"(?!)")
    for log in sorted((folder / "logs" / "train").glob("node-*.log"), key=lambda path: last_number(path.name)):
        rates, curve = [], []
        with log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                match = pattern.search(line[:LONGEST_LINE]) if line.endswith("\n") else None
                if match is None:
                    continue
                found = match.groupdict()
                step = number(found.get("step"))
                told["steps_done"] = None if step is None else int(step) + 1 - manifest.get("log_first", 1)
                told["final_loss"] = number(found.get("loss"))
                rates.append(number(found.get("throughput")))
                curve.append([told["steps_done"], told["final_loss"], rates[-1]])
        rates = [rate for rate in rates if rate is not None]
        if rates:
            told["peak_throughput"] = max(rates)
            told["average_throughput"] = round(sum(rates) / len(rates), 4)
        if told["steps_done"] is not None:
            told["curve"] = thinned(curve)
            break
    return told


def thinned(curve):
    """At most MOST_POINTS of [step, loss, throughput], evenly taken, the last among them. Steps that were done again
    after a restart, because they came after the checkpoint, are told as they were done the last time."""
    points = []
    for point in curve:
        if point[0] is not None:
            while points and points[-1][0] >= point[0]:
                points.pop()
            points.append(point)
    if len(points) <= MOST_POINTS:
        return points
    stride = (len(points) - 1) / (MOST_POINTS - 1)
    return [points[round(index * stride)] for index in range(MOST_POINTS)]


def checkpoints(folder, manifest):
    """The checkpoints that are there, oldest first by the number in their names."""
    wanted = manifest.get("checkpoint", {})
    found = (folder / "checkpoints").glob(wanted.get("pattern") or "*")
    rule = wanted.get("complete_when")
    return [
        {
            "name": str(path.relative_to(folder / "checkpoints")),
            # A folder may hold a file for each tensor of each worker: to add them up would take minutes.
            "bytes": None if path.is_dir() else path.stat().st_size,
            "complete": is_whole(path, rule),
        }
        for path in sorted(found, key=lambda path: (last_number(path.name), path.stat().st_mtime))
    ]


def is_whole(path, rule):
    """Whether a checkpoint was written to its end, by the rule that its script makes possible."""
    if rule == "zip":
        return zipfile.is_zipfile(str(path))
    return rule != "done-file" or (path / "done").is_file()


def newest_checkpoint(folder, manifest):
    """The path of the newest whole checkpoint; None without one."""
    whole = [checkpoint for checkpoint in checkpoints(folder, manifest) if checkpoint["complete"]]
    return folder / "checkpoints" / whole[-1]["name"] if whole else None


def elapsed(folder, stage):
    """Seconds of all attempts of a stage together; one that still runs counts until now. None before the first."""
    attempts = attempts_of(folder, stage)
    if not attempts:
        return None
    return round(sum((attempt["ended"] or now().timestamp()) - attempt["started"] for attempt in attempts), 1)


def ledger(folder, manifest, stages):
    """What was used on each day (UTC): its date, the nodes, their seconds, their type. An attempt that goes on counts
    until now, so that what `nodes_running` use comes on top from `updated_at` on."""
    days = {}
    for stage in stages:
        for attempt in attempts_of(folder, stage):
            nodes = attempt.get("nodes") or manifest.get("nodes") or 0
            for day, seconds in days_of(attempt["started"], attempt["ended"] or now().timestamp()):
                row = days.setdefault(day, {"nodes": 0, "seconds": 0.0})
                row["nodes"] = max(row["nodes"], nodes)
                row["seconds"] += nodes * seconds
    kind = manifest.get("instance_type")
    return [
        {"day": day, "nodes": row["nodes"], "node_seconds": round(row["seconds"]), "instance_type": kind}
        for day, row in sorted(days.items())
    ]


def cost(manifest, rows):
    """What the nodes have cost, at the price that the submission found; None without one."""
    price = manifest.get("price_per_node_hour_usd")
    return None if price is None else round(sum(row["node_seconds"] for row in rows) * price / 3600, 4)


def days_of(started, ended):
    """The stretch between two times, in seconds since 1970, as (2026-11-29, seconds) of each day that it touches."""
    parts = []
    while started < ended:
        day = datetime.fromtimestamp(started, timezone.utc)  # noqa: UP017  Python 3.6 has no datetime.UTC
        midnight = day.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        until = min(ended, midnight.timestamp())
        parts.append((day.strftime("%Y-%m-%d"), until - started))
        started = until
    return parts


def open_attempts(folder, manifest, stages):
    """The attempts that go on, each with its nodes."""
    last = [attempts[-1] for attempts in (attempts_of(folder, stage) for stage in stages) if attempts]
    return [dict(one, nodes=one.get("nodes") or manifest.get("nodes") or 0) for one in last if one["ended"] is None]


def last_number(name):
    """The last number in a name, -1 without one: ckpt_900.pt comes before ckpt_1000.pt."""
    numbers = re.findall(r"\d+", name)
    return int(numbers[-1]) if numbers else -1


def number(text):
    """A finite number, else None: JSON has no nan."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def now():
    """The current time in UTC."""
    return datetime.now(timezone.utc)  # noqa: UP017  Python 3.6 has no datetime.UTC


def iso(moment):
    """2026-11-29T12:00:00Z."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def read_json(path, default):
    """What the file holds; the default when it is not there or only half there."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return default


def write_json(path, value):
    """Write beside the file and move it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name}.{os.getpid()}"
    beside.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    beside.replace(path)


if __name__ == "__main__":
    main(Path(__file__).resolve().parent, sys.argv[1:])
