"""What `trnctl health` does on the head node: a small job that looks at nodes, followed to its end; and draining.

Travels with the head node's script. The job has a time limit of its own, waits only so long for its nodes, and is
cancelled when whoever asked has gone: nodes that nobody waits for would cost.
"""

import json
import os
import re
import select
import sys
import time
from contextlib import suppress
from pathlib import Path

from folder import Refused, listed, share, write
from follow import emit
from slurm import SEP, call, require_slurm

POLL_S = 1.0
OVER_S = 20  # for the last words of a job that Slurm calls over
KEPT = 20  # folders of earlier checks


def check(request):
    """Start the job, tell of it as it goes, answer what it found: {"job", "health", "nodes", "not_had", "why"}."""
    require_slurm()
    nodes, not_had = candidates(request)
    folder = prepare(request)
    job = start(request, nodes, folder)
    emit({"job": job, "state": "PENDING", "reason": "", "reports": 0, "nodes": 0})
    try:
        why = follow(job, folder, request)
    finally:
        call(["scancel", job])
    health = None
    with suppress(OSError, ValueError):
        health = json.loads((folder / "health.json").read_text(encoding="utf-8"))
    return {"job": job, "folder": str(folder), "health": health, "not_had": not_had, "why": "" if health else why}


def candidates(request):
    """(the nodes to ask for by name, {node: why it cannot be had}). Without a number: all that are up and idle. With
    one Slurm chooses, and starts nodes if it must."""
    form = SEP.join(["%N", "%T", "%E", "%f"])
    code, out, err = call(["sinfo", "-h", "-N", "-p", request["queue"], "-o", form])
    if code:
        raise Refused("slurm-down", "sinfo failed on the head node.", err)
    rows = [line.split(SEP) for line in out.splitlines()]
    wanted = request.get("constraint")
    seen = {r[0]: (r[1], r[2]) for r in rows if len(r) == 4 and (not wanted or wanted in r[3].split(","))}
    if not seen:
        raise Refused("no-nodes", "There is no queue {queue}, or it has no nodes.".format(**request))
    up = {node: state for node, state in seen.items() if not re.search(r"[~#%!]|^powered|^powering", state[0])}
    if request.get("count"):
        return [], {node: words(*state) for node, state in up.items() if re.search("down|drain|fail", state[0])}
    idle = sorted((node for node, state in up.items() if state[0] == "idle"), key=number_last)
    if not idle:
        raise Refused("no-nodes", "No node of {queue} is up and idle.".format(**request))
    return idle, {node: words(*state) for node, state in up.items() if node not in idle}


def words(state, reason):
    """Why a node cannot be had."""
    return state.strip("*") + ("" if reason in ("none", "") else f" ({reason})")


def number_last(node):
    """compute1-dy-i1-2 before compute1-dy-i1-10."""
    return [int(part) if part.isdigit() else 0 for part in node.split("-")][-1:], node


def prepare(request):
    """Write the job's folder beside those of the runs; folders of old checks go."""
    folder = Path(request["folder"])
    try:
        share(folder.parent.parent, folder.parent)
        folder.mkdir(parents=True)
        for file in request["files"]:
            write(folder / file["name"], file["text"])
    except OSError as error:
        raise Refused("no-folder", f"The folder {folder} cannot be made on the head node.", error) from error
    import shutil

    found = [one for one in listed(folder.parent) if one.name.startswith("health-") and one != folder]
    found.sort(key=written)  # by name January would come before December
    for old in found[: -(KEPT - 1)]:
        shutil.rmtree(str(old), ignore_errors=True)
    return folder


def written(folder):
    """When something was last made or removed in a folder; 0 once it is gone."""
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def start(request, nodes, folder):
    """Submit the job; its id."""
    wanted = ["--nodelist=" + ",".join(nodes)] if nodes else []
    wanted.append("--nodes={}".format(len(nodes) or request["count"]))
    code, out, err = call(
        ["sbatch", "--parsable", "--chdir=" + str(folder), *wanted, str(folder / "health.sbatch")], 90
    )
    found = re.search(r"^(\d+)(;|$)", out, re.M)
    if code or not found:
        raise Refused("refused", "Slurm refused the job that checks the nodes.", err or out)
    return found.group(1)


def follow(job, folder, request):
    """Wait for the job's end, and tell of each change; why it ended without a result. Not longer than the nodes may
    take to come (`wait_s`) and the job may run (`limit_s`)."""
    reader = select.poll()
    reader.register(sys.stdout.fileno(), 0)  # only its errors: the reader hung up, and sshd sends no signal
    began, running, known, spoke = time.time(), None, None, time.time()
    while not reader.poll(0):
        state, reason, count = state_of(job)
        told = {"job": job, "state": state, "reason": reason, "nodes": count, "reports": reports(folder)}
        if told != known:
            emit(told)
            known, spoke = told, time.time()
        elif time.time() - spoke > 10:
            emit({"beat": time.time()})
            spoke = time.time()
        if (folder / "health.json").exists():
            return ""
        if state == "RUNNING":
            running = running or time.time()
            if time.time() - running > request["limit_s"] + OVER_S:
                return "the check did not end in its time"
        elif state not in ("PENDING", "CONFIGURING", "COMPLETING"):
            time.sleep(2 * POLL_S)  # a shared file system may show the job's last file a moment later
            return "" if (folder / "health.json").exists() else last_words(folder) or f"the job ended as {state}"
        elif time.time() - began > request["wait_s"] and running is None:
            return "the nodes could not be had in {:.0f} s ({})".format(request["wait_s"], reason or state)
        time.sleep(POLL_S)
    return "whoever asked has gone"


def state_of(job):
    """(Slurm's word, its reason, how many nodes); OVER once Slurm has forgotten the job."""
    code, out, err = call(["squeue", "-h", "-j", job, "-o", SEP.join(["%T", "%r", "%D"])])
    row = out.strip().split(SEP)
    if len(row) != 3:
        return ("OVER", "", 0) if code == 0 or "Invalid job id" in err else ("PENDING", err.strip(), 0)
    return row[0], "" if row[1] == "None" else row[1], int(row[2]) if row[2].isdigit() else 0


def reports(folder):
    """How many nodes have reported."""
    return sum(path.suffix == ".json" and not path.name.endswith(".allr.json") for path in listed(folder / "reports"))


def last_words(folder):
    """The last line of the job's own output."""
    with suppress(OSError):
        lines = (folder / "health.log").read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""


def drain(request):
    """Drain nodes, each with its reason: {"drained": [...], "refused": {node: what Slurm said}}."""
    require_slurm()
    drained, refused = [], {}
    for node, reason in sorted(request["nodes"].items()):
        argv = ["scontrol", "update", "NodeName=" + node, "State=DRAIN", "Reason=" + reason]
        code, out, err = call(argv)
        if code:  # only root and Slurm's own user may; ParallelCluster's first user may become root
            path = "PATH=" + os.environ.get("PATH", "") + ":/opt/slurm/bin"
            code, out, again = call(["sudo", "-n", "env", path, *argv])
            err = again or err
        if code:
            refused[node] = (err or out).strip()
        else:
            drained.append(node)
    return {"drained": drained, "refused": refused}
