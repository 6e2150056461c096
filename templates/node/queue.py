"""The end of trnctl that runs on the head node: writes run folders, talks to Slurm, reads logs.

It is sent with each call and leaves nothing installed. Standard library only, Python 3.6 and newer, Slurm 22.05 and
newer; it never asks sacct, because ParallelCluster keeps no accounting without a database.

    python3 -c BOOT VERB < text     VERB is a key of VERBS; after this script, and the modules that it imports,
                                    comes the request, JSON

Every line of its own starts with `trnctl `, then JSON, so that what a login script prints does no harm. All verbs
answer one line, {"ok": ...} or {"error": {"kind", "message", "said"}}; follow, top and check write events before it.

A run's folder, which it shares with the job scripts:

    run.json, *.sbatch          what the submission brought
    submitted.json              the job ids: {"run", "jobs": {stage: id}, "at", "released", "compile", "why"}
    not-submitted.json          why the last try was refused: nothing of it is left in the queue
    STAGE.log                   the batch script's output
    logs/STAGE/node-N.log       one log per node
    ended/STAGE.json            what the exit trap wrote, or what Slurm said when the trap could not run
    results.json                what the run achieved
"""

import calendar
import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import check
import preparing
import tend
from folder import Refused, listed, log_node, now, read_json, run_folder, runs_folders, safe, tail, write_json
from follow import OVER, emit, follow
from resume import resume
from slurm import SEP, call, finish, jobs_of, require_slurm, start
from submit import STAGES, living_jobs, submit
from watch import top

ENDED_BY_SLURM = ("TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED", "DEADLINE")
JOB_FORMAT = SEP.join(["%i", "%T", "%r", "%D", "%u", "%P", "%M", "%S", "%N", "%k"])
NODE_FORMAT = SEP.join(["%R", "%a", "%T", "%D", "%N", "%E"])


def observe(request):
    """Jobs, nodes and runs at one moment. What Slurm says is sent as it is; the other end reads it."""
    answer = {"at": time.time(), "slurm": "up", "said": "", "jobs": "", "restarts": "", "nodes": "", "version": ""}
    try:
        require_slurm()
        answer.update(ask_slurm())
    except Refused as refused:
        answer.update(slurm="down", said=refused.answer["said"] or refused.answer["message"])
    places = runs_folders(request)
    living = remember_ends(places, answer["jobs"])
    if request.get("run"):
        runs = [read_run(place / safe(request["run"]), True, request["tail_bytes"]) for place in places]
    else:
        runs = []
        for folder in newest(places, request["newest"]):
            # The end of a log tells how far a run is; one that is over has its results, and needs no log on the wire.
            runs.append(read_run(folder, False, request["tail_bytes"] if folder.name in living else 0))
    answer["runs"] = [run for run in runs if run]
    answer["fleet"] = read_json(Path(request["ledger"])) if request.get("ledger") else None
    return answer


def ask_slurm():
    """All questions at once, because each command takes its time to start."""
    asked = {
        "jobs": ["squeue", "-h", "-a", "-t", "all", "-o", JOB_FORMAT],
        # The short format has no letter for the number of restarts; the long one cuts what is longer than its width.
        "restarts": ["squeue", "-h", "-a", "-O", "JobID:32,RestartCnt:12"],
        "nodes": ["sinfo", "-h", "-a", "-o", NODE_FORMAT],
        "version": ["sinfo", "--version"],
    }
    started = [(name, start(argv)) for name, argv in asked.items()]
    answers = {}
    for name, process in started:
        code, out, err = finish(process, 20)
        if code and name in ("jobs", "nodes"):
            raise Refused("slurm-down", "Slurm did not answer.", err)
        answers[name] = out if not code else ""
    # Of ten thousand jobs hardly one has started again: the others need not cross the wire.
    answers["restarts"] = "\n".join(line for line in answers["restarts"].splitlines() if line.split()[1:] != ["0"])
    return answers


def remember_ends(places, lines):
    """Write down how a job ended when its own exit trap could not, before Slurm forgets it (MinJobAge).

    Returns the names of the runs that have a job which is not over.
    """
    living = set()
    for line in lines.splitlines():
        fields = line.split(SEP)
        named = re.match(r"trnctl:(\w[^:/]*):(\w+)$", fields[9]) if len(fields) == 10 else None
        if not named:
            continue
        if fields[1] not in OVER:
            living.add(named.group(1))
            continue
        for place in places:
            folder, stage = place / named.group(1), named.group(2)
            path = folder / "ended" / (stage + ".json")
            known = (read_json(folder / "submitted.json") or {}).get("jobs", {})
            if known.get(stage) != fields[0]:
                continue
            if not path.exists():
                remember(path, fields[0], fields[1], fields[2])
                close_attempt(folder, stage, ended_at(fields[7], fields[6]))
            elif fields[1] in ENDED_BY_SLURM:
                complete(path, fields[1], fields[2])
    return living


def complete(path, state, reason):
    """Add Slurm's word to the note of a job that knew only that it was ended (143): Slurm forgets it soon."""
    note = read_json(path) or {}
    if note.get("exit_code") == 143 and "slurm_state" not in note and not note.get("reason"):
        with suppress(OSError):
            write_json(path, dict(note, slurm_state=state, reason=reason))


def remember(path, job, state, reason):
    """Note the end of a job that wrote none itself."""
    with suppress(OSError):  # another user's run is theirs to write down
        write_json(path, {"by": "slurm", "slurm_state": state, "reason": reason, "job": job, "at": now()})


def close_attempt(folder, stage, ended=None):
    """Let the run's own script count a job that is over and wrote no end: its nodes have cost until then. And copy the
    records, which the job could not do; nobody waits for that, and it ends by itself."""
    script = folder / "results.py"
    if script.is_file() and (folder / "logs" / stage / "attempts.json").is_file():
        when = [] if ended is None else [str(ended)]
        with suppress(Refused):
            call([sys.executable, "-E", str(script), "close", stage, *when], 60)
    if (folder / "mirror.py").is_file():
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        subprocess.Popen([sys.executable, "-E", str(folder / "mirror.py")], start_new_session=True, **quiet)


def ended_at(starts, elapsed):
    """When a job ended, in seconds since 1970, from squeue's start and elapsed time; None for one that never ran."""
    found = re.match(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)$", elapsed)
    try:
        began = calendar.timegm(time.strptime(starts, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None
    if not found:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return began + ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def newest(places, count):
    """The folders of the last runs, the youngest first."""
    found = []
    for folder in [folder for place in places for folder in listed(place)]:
        try:
            found.append(((folder / "run.json").stat().st_mtime, folder))
        except OSError:
            continue
    return [folder for _, folder in sorted(found, reverse=True)[:count]]


def read_run(folder, whole, tail_bytes):
    """What a run's folder holds; None when it is no run's folder."""
    manifest, submitted = read_json(folder / "run.json"), read_json(folder / "submitted.json")
    if manifest is None and submitted is None:
        return None
    paths = log_paths(folder, whole, log_node(manifest)) if tail_bytes else []
    tails = [(name, tail(path, tail_bytes)[0]) for name, path in paths]
    refused = read_json(folder / "not-submitted.json") or {}
    return {
        "run": folder.name,
        "folder": str(folder),
        "manifest": manifest or {},
        "jobs": (submitted or {}).get("jobs", {}),
        "preparing": preparing.look(folder) if (submitted or {}).get("preparing") else None,
        "saved": newest_saved(folder, (manifest or {}).get("checkpoint") or {}),
        "results": read_json(folder / "results.json"),
        "refused": "" if submitted else refused.get("said") or refused.get("message", ""),
        "ended": {p.name[:-5]: read_json(p) or {} for p in listed(folder / "ended") if p.name.endswith(".json")},
        "logs": {name: text for name, text in tails if text is not None},
        "quiet": {name: silence(path) for name, path in paths if path.is_file()},
    }


def silence(path):
    """For how many seconds a log has not been written; the file system's clock and ours may differ a little."""
    try:
        return max(0, int(time.time() - path.stat().st_mtime))
    except OSError:
        return 0


def newest_saved(folder, wanted):
    """The newest checkpoint of a run by its time, with its age in seconds; one that waits for its last file is none."""
    found = []
    for path in (folder / "checkpoints").glob(wanted.get("pattern") or "*"):
        with suppress(OSError):
            last = path / "done" if wanted.get("complete_when") == "done-file" else path
            found.append((last.stat().st_mtime, path.name))
    return {"name": max(found)[1], "age_s": max(0, round(time.time() - max(found)[0]))} if found else None


def log_paths(folder, whole, node):
    """[(name, path)] of a run's logs: `train.log`, `train/node-0.log`, that of `node`; of every node when `whole`."""
    found = [(stage + ".log", folder / (stage + ".log")) for stage in STAGES]
    for place in listed(folder / "logs"):
        some = [place / f"node-{number}.log" for number in sorted({0, node if place.name == "train" else 0})]
        nodes = [path for path in listed(place) if path.name.endswith(".log")] if whole else some
        found += [(f"{place.name}/{path.name}", path) for path in nodes]
    return found


def cancel(request):
    """Cancel all jobs of a run; the ids of those that were alive. A stage that never ran is noted as cancelled."""
    folder = run_folder(request)
    if not folder.is_dir():
        raise Refused("no-run", "There is no run {run} in {runs_folder}.".format(**request))
    require_slurm()
    alive = [job for job in jobs_of(request["run"]) if job[2] != "COMPLETING"]
    if alive:
        for job, _, _ in alive:  # the exit trap of one that runs cannot tell who ends it
            with suppress(OSError):
                (folder / "ended").mkdir(exist_ok=True)
                (folder / "ended" / (".cancelled-" + job)).touch()
        code, _, err = call(["scancel", *(job for job, _, _ in alive)])
        if code:
            raise Refused("refused", "Slurm would not cancel the run's jobs.", err)
    preparer = preparing.stop(folder)
    if preparer is not None:
        remember(folder / "ended" / "prepare.json", str(preparer), "CANCELLED", "cancelled")
    for job, stage, state in alive:
        if state == "PENDING":  # a running job's exit trap writes this itself
            remember(folder / "ended" / (stage + ".json"), job, "CANCELLED", "cancelled before it started")
            close_attempt(folder, stage)  # of a job that had lost its nodes and waited for others
    return {"cancelled": [job for job, _, _ in alive]}


def tended(verb):
    """A verb of `tend` on the compile caches, which lie beside the runs."""

    def carry_out(request):
        require_slurm()
        places = runs_folders(request)
        return getattr(tend, verb)(request, places, living_jobs())

    return carry_out


VERBS = {"submit": submit, "resume": resume, "observe": observe, "cancel": cancel, "follow": follow, "top": top}
VERBS.update({verb: tended(verb) for verb in ("look", "unlock", "prune")})
VERBS.update(check=check.check, drain=check.drain)


def main(verb, text):
    """Do one verb; the exit code is 0 when it was done, 3 when it was refused."""
    os.umask(0o022)
    try:
        answer = VERBS[verb](json.loads(text))
        if answer is not None:
            emit({"ok": answer})
    except Refused as refused:
        emit({"error": refused.answer})
        return 3
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads: no complaint at exit either
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.stdin.read()))
