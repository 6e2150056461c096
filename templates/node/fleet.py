#!/usr/bin/env python3
"""What the head node does about money once a minute: count the nodes that are on; stop the fleet when its time is over.

Written by trnctl; its timer runs it as root. Settings lie in /opt/trnctl/fleet.json, what it knows in
/opt/trnctl/state/fleet.json, which everybody may read:

    cluster, known_from      whose nodes are counted, and since when (seconds since 1970, as all times here)
    head_type                the head node's own instance type
    updated_at               the last look
    days                     {"2026-11-29": {"trn1.32xlarge": node-seconds}}: nodes that were on, boot and idling too;
                             `trn1.32xlarge spot` where they are bought otherwise than on demand
    on                       {"trn1.32xlarge": how many are on now}
    idle_since               since when no job was in the queue; null while there is one
    ttl                      stopped_at, why, waits_for (jobs that keep the fleet), done (an end that has been obeyed)

The fleet is stopped as `pcluster update-compute-fleet` does it: STOP_REQUESTED in the cluster's DynamoDB table, under
the condition that it runs, protected or not, which clusterstatusmgtd then carries out. The head node's role may do so
(ParallelCluster's own policy, sid DynamoDBTable); the script that ParallelCluster has on the node takes no other word
than PROTECTED. Setting the partitions inactive with scontrol would leave the fleet `running` for pcluster, and updates
be refused.

Standard library only, Python 3.6 and newer.
"""

import json
import os
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))  # beside timer.d, where this program lies
import dynamodb
import s3

LONGEST_GAP = 300  # seconds between two looks that are counted whole; of a longer gap nobody knows what was on
MIRROR_EVERY = 600  # seconds between two copies into the bucket
START_GRACE = 900  # seconds after a stop in which partitions may still look active
PATH = "/opt/slurm/bin:/usr/local/bin:/usr/bin:/bin"


def main(root, now):
    """One look."""
    settings = read(root / "opt/trnctl/fleet.json")
    place = root / "opt/trnctl/state/fleet.json"
    state = read(place) or {"schema": 1, "cluster": settings["cluster"], "known_from": now, "days": {}, "ttl": {}}
    nodes, jobs = ask(["sinfo", "-h", "-N", "-o", "%N|%T|%f|%a|%R"]), ask(["squeue", "-h", "-a", "-o", "%i|%T"])
    if nodes is None or jobs is None:
        return  # Slurm does not answer: the next look counts what lies between
    rows = [line.split("|") for line in nodes.splitlines() if line.count("|") == 4]
    state["head_type"] = settings.get("head_type", "")
    state["on"] = powered(rows, settings.get("capacity", {}))
    count(state, now)
    state["idle_since"] = None if jobs.split() else state.get("idle_since") or now
    state["updated_at"] = now
    if settings.get("ttl"):
        active = any(row[3] == "up" for row in rows)
        mind(settings, state, active, len(jobs.splitlines()), now)
    mirror(settings, place, state, now)
    write(place, state)


def powered(rows, capacity):
    """How many nodes of each kind are on; `capacity` says how those of a queue are bought, if not on demand.

    A node in two partitions counts once; `~` ends the state of one that is off, `%` that of one that is being switched
    off.
    """
    kinds = {}
    for name, state, features, _, queue in rows:
        if not state.endswith(("~", "%")):
            kind = next((word for word in features.split(",") if "." in word), "unknown")
            kinds[name] = f"{kind} {capacity[queue]}" if queue in capacity else kind
    found = {}
    for kind in kinds.values():
        found[kind] = found.get(kind, 0) + 1
    return found


def count(state, now):
    """Add what was on since the last look; a gap in which nobody looked counts one minute."""
    last = state.get("updated_at")
    if last is None or now <= last:
        return
    began = last if now - last <= LONGEST_GAP else now - 60
    for day, seconds in days_of(began, now):
        row = state["days"].setdefault(day, {})
        for kind, nodes in state["on"].items():
            row[kind] = round(row.get(kind, 0) + nodes * seconds, 1)


def days_of(started, ended):
    """The stretch between two times as (2026-11-29, seconds) of each day (UTC) that it touches."""
    parts = []
    while started < ended:
        day = datetime.fromtimestamp(started, timezone.utc)  # noqa: UP017  Python 3.6 has no datetime.UTC
        midnight = day.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        until = min(ended, midnight.timestamp())
        parts.append((day.strftime("%Y-%m-%d"), until - started))
        started = until
    return parts


def mind(settings, state, active, jobs, now):
    """Stop the fleet when its time is over; never under a job, unless the cluster file says so."""
    wanted, told = settings["ttl"], state["ttl"]
    if told.get("stopped_at") and active and now - told["stopped_at"] > START_GRACE:
        # A person has started it again: the time of idling begins anew, and a date that has passed is not obeyed twice.
        state["ttl"] = told = {"done": told.get("done"), "started_at": now}
    told.pop("waits_for", None)
    if not active and not told.get("stopped_at"):
        told["started_at"] = now  # a person has stopped it: the time of idling begins when it is started again
    why = due(wanted, told, state, now)
    if not active or told.get("stopped_at") or why is None:
        return
    if jobs and not wanted.get("end_jobs"):
        told["waits_for"] = jobs
        return
    if jobs and not told.get("asked_at"):
        ask(["scancel", *job_ids()])  # Slurm sends TERM first: the jobs write down what they have reached
        told["asked_at"] = now
    if jobs and now - told["asked_at"] < LONGEST_GAP:
        return
    came = ask(["squeue", "-h", "-a", "-o", "%i"])
    if not wanted.get("end_jobs") and (came is None or came.strip()):
        return  # a job has come since the look, or Slurm no longer answers
    if stop(settings, now):
        state["ttl"] = {"stopped_at": now, "why": why, "done": wanted.get("at")}


def due(wanted, told, state, now):
    """Why the fleet's time is over, in words; None while it is not."""
    if wanted.get("at") and wanted["at"] <= now and told.get("done") != wanted["at"]:
        return "its ttl ended at {}".format(words(wanted["at"]))
    since = max(state["idle_since"] or now, told.get("started_at") or 0)
    if wanted.get("idle_s") and state["idle_since"] and now - since >= wanted["idle_s"]:
        return "no job for {:.3g} h, its ttl".format(wanted["idle_s"] / 3600)
    return None


def job_ids():
    """The jobs in the queue."""
    return (ask(["squeue", "-h", "-a", "-o", "%i"]) or "").split()


def stop(settings, now):
    """Ask for a stopped fleet; True when it was asked for, or is stopping already."""
    names = {"#data": "Data", "#status": "status", "#at": "lastStatusUpdatedTime"}
    moment = datetime.fromtimestamp(now, timezone.utc)  # noqa: UP017
    wanted = {
        "TableName": "parallelcluster-" + settings["cluster"],
        "Key": {"Id": {"S": "COMPUTE_FLEET"}},
        "UpdateExpression": "SET #data.#status = :asked, #data.#at = :now",
        "ConditionExpression": "#data.#status IN (:runs, :protected)",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {
            ":asked": {"S": "STOP_REQUESTED"},
            ":runs": {"S": "RUNNING"},
            ":protected": {"S": "PROTECTED"},  # some queues are inactive, and the others have nodes that cost
            ":now": {"S": str(moment)},
        },
    }
    try:
        dynamodb.call("UpdateItem", wanted, settings["region"])
    except s3.Unreachable as error:
        if "ConditionalCheckFailed" not in str(error):
            sys.stderr.write(f"trnctl: the fleet cannot be stopped: {error}\n")
            return False
    return True


def mirror(settings, place, state, now):
    """Copy what is known into the cluster's bucket now and then, so that it outlives the head node."""
    if not settings.get("bucket") or now - state.get("mirrored_at", 0) < MIRROR_EVERY or not place.is_file():
        return
    key = key_of(settings["cluster"], state["known_from"])
    try:
        s3.Bucket(settings["bucket"], settings["region"]).put(key, place.read_bytes())
    except (OSError, s3.Unreachable) as error:
        sys.stderr.write("trnctl: s3://{}/{} cannot be written: {}\n".format(settings["bucket"], key, error))
    state["mirrored_at"] = now  # also when it failed: the next try is as far away


def key_of(cluster, known_from):
    """Where a cluster's ledger lies in its bucket; another cluster of the same name has another."""
    moment = datetime.fromtimestamp(known_from, timezone.utc)  # noqa: UP017
    return "trnctl/{}/ledger/{}.json".format(cluster, moment.strftime("%Y%m%dT%H%M%SZ"))


def words(epoch):
    """2026-11-29 18:00 UTC."""
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")  # noqa: UP017


def ask(argv):
    """What a command of Slurm's printed; None when it failed."""
    done = run(argv)
    return None if done.returncode else done.stdout


def run(argv):
    """Run a command, at most 20 seconds; one that is missing or hangs has failed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SQUEUE_", "SINFO_"))}
    kept["PATH"] = kept.get("PATH", "") + ":" + PATH
    pipe, limit = subprocess.PIPE, 20
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            encoding="utf-8",
            timeout=limit,
            env=kept,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 124, "", str(error))


def read(path):
    """What a JSON file holds; None when it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write(path, state):
    """Write beside the file and move it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name}.part"
    beside.write_text(json.dumps(state, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    beside.chmod(0o644)
    beside.replace(path)


if __name__ == "__main__":
    # It lies in /opt/trnctl/timer.d, below the root of the head node's files.
    main(Path(__file__).resolve().parents[3], time.time())
