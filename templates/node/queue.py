"""The end of trnctl that runs on the head node: writes run folders, talks to Slurm, reads logs.

It is sent with each call and leaves nothing installed. Standard library only, Python 3.6 and newer, Slurm 22.05 and
newer; it never asks sacct, because ParallelCluster keeps no accounting without a database.

    python3 -c BOOT VERB < text     VERB is submit, resume, observe, cancel, follow, look, unlock or prune; after this
                                    script, and the modules that it imports, comes the request, JSON

Every line of its own starts with `trnctl `, then JSON, so that what a login script prints does no harm. All verbs
answer one line, {"ok": ...} or {"error": {"kind", "message", "said"}}, but follow, which writes one line an event.

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
import errno
import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import cache
import tend

SEP = "\x1f"  # no name, reason or comment holds it
JOB_FORMAT = SEP.join(["%i", "%T", "%r", "%D", "%u", "%P", "%M", "%S", "%N", "%k"])
NODE_FORMAT = SEP.join(["%R", "%a", "%T", "%D", "%N", "%E"])
# Slurm's words for a job that is over, and ours for one whose end nobody wrote down.
OVER = ["BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"]
OVER += ["REVOKED", "TIMEOUT", "UNKNOWN_END"]
STAGES = ("prepare", "compile", "train")


class Refused(Exception):
    """A request that cannot be met; `kind` is a word that the other end knows, `said` a tool's own words."""

    def __init__(self, kind, message, said=""):
        super().__init__(message)
        self.answer = {"kind": kind, "message": message, "said": str(said).strip()}


# ------------------------------------------------------------------------------------------------ Slurm's commands


def environment():
    """Times in UTC and formats of our own, whatever the user has set; Slurm's folder for shells that are no login."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SQUEUE_", "SINFO_", "SLURM_TIME_FORMAT"))}
    kept.update(TZ="UTC", PATH=os.environ.get("PATH", "/usr/bin:/bin") + ":/opt/slurm/bin")
    return kept


def start(argv):
    """Start a command of Slurm's, looked up where `environment` says."""
    text = {"encoding": "utf-8", "errors": "replace", "env": environment()}
    program = shutil.which(argv[0], path=text["env"]["PATH"])
    if program is None:
        raise Refused("no-slurm", f"{argv[0]} is not installed on the head node, or not on PATH.")
    out, err = subprocess.PIPE, subprocess.PIPE
    return subprocess.Popen([program, *argv[1:]], stdin=subprocess.DEVNULL, stdout=out, stderr=err, **text)


def finish(process, timeout):
    """(exit code, stdout, stderr) of a started command; 124 when it had to be ended."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return 124, "", f"no answer within {timeout} seconds"
    return process.returncode, out, err


def call(argv, timeout=30):
    """Run a command to its end; see `finish`."""
    return finish(start(argv), timeout)


def require_slurm():
    """slurmctld must answer a ping: squeue and sbatch would hang for a minute (MessageTimeout) when it is down."""
    code, out, err = call(["scontrol", "ping"], 8)
    if not re.search(r"\bis UP\b", out):
        raise Refused("slurm-down", "Slurm's controller does not answer on the head node.", out + err or f"exit {code}")


def jobs_of(run):
    """The run's living jobs by their comment: [(id, stage, state)]; the comment survives a lost answer."""
    code, out, err = call(["squeue", "-h", "-a", "-o", SEP.join(["%i", "%T", "%k"])])
    if code:
        raise Refused("slurm-down", "squeue failed on the head node.", err)
    ours = f"trnctl:{run}:"
    rows = [line.split(SEP) for line in out.splitlines()]
    return [(row[0], row[2][len(ours) :], row[1]) for row in rows if len(row) == 3 and row[2].startswith(ours)]


# ---------------------------------------------------------------------------------------------------------- files


def read_json(path):
    """What a JSON file holds; None when it is missing, unreadable, half written or no object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write(path, text, mode=0o644):
    """Write a file so that nobody ever reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.chmod(mode)
    part.replace(path)


def write_json(path, value):
    """Write an object; see `write`."""
    write(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def safe(name):
    """The name, unless it could leave the run's folder."""
    if not name or name.startswith("/") or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise Refused("bad-request", f"The name {name!r} is not a plain relative path.")
    return name


def listed(folder):
    """The entries of a folder, [] when it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def now():
    """The time as it stands in our files: UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def lock(folder):
    """Hold the run alone; the lock goes with this process."""
    handle = (folder / ".lock").open("w")
    for _ in range(120):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except OSError as error:
            if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
                # A Lustre mounted without `flock`: there is one head node, so its own disk can hold the lock.
                name = "trnctl-{}-{}.lock".format(os.getuid(), str(folder).replace("/", "_")[-150:])
                handle = Path(tempfile.gettempdir(), name).open("w")  # noqa: SIM115  the lock lives as long as this
            elif error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            else:
                time.sleep(0.25)
    raise Refused("busy", "Another submission of this run has held its lock for 30 seconds.")


# --------------------------------------------------------------------------------------------------------- submit


def submit(request):
    """Write the folder and submit its jobs; the same run is never submitted twice. A compile stage whose graphs all lie
    in the cache is left out."""
    folder = Path(request["folder"])
    for file in request["files"]:
        safe(file["name"])
    digest = digest_of(request)
    try:
        share(folder.parent.parent, folder.parent)
        folder.mkdir(parents=True, exist_ok=True)
        held = lock(folder)
    except OSError as error:
        raise Refused("no-folder", f"The run's folder {folder} cannot be made on the head node.", error) from error
    with held:
        done = read_json(folder / "submitted.json")
        if done and done.get("digest", digest) != digest:
            raise Refused("name-taken", "There is a run {run} already, and it is another one.".format(**request))
        if done:
            return release(folder, done, request, again=True)
        require_slurm()
        look_for(request.get("needs", []))
        request, found = without_needless_compile(started_from(request))
        found["digest"] = digest
        alive = {stage: job for job, stage, _ in jobs_of(request["run"])}
        if alive and set(alive) == set(request["stages"]):
            # The jobs are there but their record is not: the first try broke off between the two.
            return release(folder, record(folder, request, alive, found), request, again=True)
        if alive:
            call(["scancel", *sorted(alive.values())])
        write_files(folder, request)
        jobs = submit_stages(folder, request)
        return release(folder, record(folder, request, jobs, found), request, again=False)


def digest_of(request):
    """What makes two submissions the same: scripts, stages and options of sbatch; not when they were made."""
    scripts = sorted((file["name"], file["text"]) for file in request["files"] if file["name"].endswith(".sbatch"))
    parts = [scripts, request["stages"], request.get("sbatch_args", [])]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def share(*folders):
    """Make the folders that all users of the cluster write into, as /tmp is; one that is there stays as it is."""
    for folder in folders:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # another user was quicker
                folder.chmod(0o1777)


def look_for(needs):
    """The code and the data must be there: their lack would show only when all nodes are up and cost."""
    for need in needs:
        if not Path(need["path"]).exists():
            message = "{what} is not on the cluster's shared storage: {path}".format(**need)
            raise Refused("missing", message[0].upper() + message[1:], need["remedy"])


def started_from(request):
    """The request whose run.json tells the checkpoint of another run that it starts from, if it does."""
    if not request.get("from_run"):
        return request
    runs, name = Path(request["folder"]).parent, safe(request["from_run"])
    ending = [folder for folder in listed(runs) if folder.name.endswith("-" + name)]
    other = ending[0] if len(ending) == 1 and not (runs / name).is_dir() else runs / name
    if not other.is_dir():
        raise Refused("no-run", "There is no run {from_run} to start from.".format(**request))
    checkpoint = newest_checkpoint(other)
    if not checkpoint:
        raise Refused("no-checkpoint", f"{other.name} has no whole checkpoint to start from.")
    files = [with_checkpoint(file, checkpoint) for file in request["files"]]
    wish = request.get("cache")
    if wish:
        wish = dict(wish, without=[with_checkpoint(file, checkpoint) for file in wish["without"]])
    return dict(request, files=files, cache=wish)


def with_checkpoint(file, checkpoint):
    """The file; run.json with the checkpoint that the run starts from."""
    if file["name"] != "run.json":
        return file
    manifest = dict(json.loads(file["text"]), from_checkpoint=checkpoint)
    return dict(file, text=json.dumps(manifest, indent=2, sort_keys=True) + "\n")


def newest_checkpoint(folder):
    """The path of a run's newest whole checkpoint, as its own script knows it; '' without one."""
    if not (folder / "results.py").is_file():
        return ""
    code, out, err = call([sys.executable, "-E", str(folder / "results.py"), "checkpoint"], 60)
    if code:
        raise Refused("no-checkpoint", f"The checkpoints of {folder.name} cannot be looked at.", err)
    return out.strip()


def without_needless_compile(request):
    """(the request as it is to be carried out, {"compile", "why", "freed"}).

    Before anything waits, locks in the cache that no living job can hold are removed: with one of them the compile job,
    or the training, would wait without end.
    """
    wish = request.get("cache")
    if not wish:
        return request, {"compile": "skipped", "why": "", "freed": []}
    whole, why = cache.verdict(wish["url"], wish["fingerprint"]) if wish["shared"] else (False, "each node has its own")
    freed = []
    if not whole and "://" not in wish["url"]:
        freed, held = free_locks(wish["url"], [Path(request["folder"]).parent])
        if freed:
            whole, why = cache.verdict(wish["url"], wish["fingerprint"])
        elif held:
            why += f"; {held[0][0].name} is compiled now, perhaps by {cache.named(held[0][1])}"
    told = [{"graph": module.name, "age_s": round(time.time() - module.locked_at)} for module in freed]
    if wish["mode"] != "auto":
        asked = {"force": ("scheduled", "asked for"), "skip": ("skipped", "asked for")}[wish["mode"]]
        return request, {"compile": asked[0], "why": asked[1], "freed": told}
    if not whole:
        return request, {"compile": "scheduled", "why": why, "freed": told}
    with suppress(OSError):  # its last use; another user's ledger is not ours to touch
        os.utime(str(Path(wish["url"]) / cache.LEDGER / (wish["fingerprint"] + ".json")))
    others = {file["name"]: file for file in wish["without"]}
    files = [others.get(file["name"], file) for file in request["files"] if file["name"] != "compile.sbatch"]
    stages = [stage for stage in request["stages"] if stage != "compile"]
    return dict(request, files=files, stages=stages), {"compile": "cached", "why": why, "freed": told}


def free_locks(cache_url, runs_folders):
    """Remove the locks of a cache that nobody can hold; see `cache.free`."""
    locked = [module for module in cache.walk(Path(cache_url)) if module.locks]
    return cache.free(locked, cache.users(living_jobs(), runs_folders, cache_url)) if locked else ([], [])


def living_jobs():
    """squeue's lines of all jobs that are not over, as `cache.users` reads them."""
    code, out, err = call(["squeue", "-h", "-a", "-o", cache.USERS_FORMAT])
    if code:
        raise Refused("slurm-down", "squeue failed on the head node.", err)
    return out


def write_files(folder, request):
    """Everything that the jobs need, and the folders that Slurm's --output does not make."""
    try:
        for file in request["files"]:
            # A batch script holds the user's variables, and a token may be among them.
            secret = file["name"].endswith(".sbatch")
            write(folder / file["name"], file["text"], 0o700 if secret else 0o755 if file.get("executable") else 0o644)
        for place in ["ended", "checkpoints"] + ["logs/" + stage for stage in request["stages"]]:
            (folder / place).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused("no-folder", f"The run's files cannot be written to {folder}.", error) from error


def submit_stages(folder, request):
    """{stage: job id}: the first job held, so that none starts before all are in; all or none."""
    jobs = {}
    before = None
    for stage in request["stages"]:
        argv = ["sbatch", *request.get("sbatch_args", [])]
        argv += ["--parsable", f"--chdir={folder}", "--comment=trnctl:{}:{}".format(request["run"], stage)]
        argv += [f"--dependency=afterok:{before}", "--kill-on-invalid-dep=yes"] if before else ["--hold"]
        code, out, err = call([*argv, str(folder / (stage + ".sbatch"))], 90)
        found = re.search(r"^(\d+)(;|$)", out, re.M)
        if code or not found:
            take_back(folder, request["run"], list(jobs.values()), f"Slurm refused the {stage} job.", err or out)
        before = jobs[stage] = found.group(1)
    return jobs


def take_back(folder, run, jobs, message, said):
    """Cancel what was submitted of a run that is refused, mark the folder, and say why."""
    with suppress(Refused):  # should the controller go away in between, the next try finds them by the comment
        # By the comment too: an sbatch that answered too late may have left a job that nobody was told of.
        jobs = sorted(set(jobs) | {job for job, _, _ in jobs_of(run)})
    if jobs:
        call(["scancel", *jobs])
    if (folder / "submitted.json").exists():
        (folder / "submitted.json").unlink()
    write_json(folder / "not-submitted.json", {"message": message, "said": said.strip(), "at": now()})
    raise Refused("refused", message, said)


def record(folder, request, jobs, found):
    """Write down the job ids, and what was found of the compile stage, before the first job may start."""
    done = dict(found, run=request["run"], jobs=jobs, at=now(), released=False)
    done["sbatch_args"] = request.get("sbatch_args", [])
    write_json(folder / "submitted.json", done)
    if (folder / "not-submitted.json").exists():
        (folder / "not-submitted.json").unlink()
    return done


def release(folder, done, request, again):
    """Let the first job go, unless the user wants it held; also one that a try that broke off has left held."""
    first = next((done["jobs"][stage] for stage in done.get("stages", STAGES) if stage in done["jobs"]), None)
    if first and not request.get("hold") and not done.get("released"):
        code, _, err = call(["scontrol", "release", first])
        if code and not again:
            take_back(folder, done["run"], list(done["jobs"].values()), "Slurm would not release the first job.", err)
        if code and is_held(first):
            raise Refused("refused", f"Slurm would not release job {first}, and it is held.", err)
        write_json(folder / "submitted.json", dict(done, released=True))
    answer = {name: done.get(name) for name in ("run", "jobs", "compile", "why", "freed")}
    return dict(answer, folder=str(folder), again=again)


def is_held(job):
    """Whether a job is in the queue and held; also when Slurm does not answer, since then nobody knows."""
    code, out, err = call(["squeue", "-h", "-a", "-j", job, "-o", "%r"])
    return "JobHeld" in out if not code else "Invalid job id" not in err


# -------------------------------------------------------------------------------------------------------- observe


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
    return answer


def runs_folders(request):
    """Where runs lie. Who has no cluster file cannot know the mount: then there are patterns, separated by colons."""
    places = []
    for pattern in request["runs_folder"].split(":"):
        places += sorted(Path("/").glob(pattern[1:])) if "*" in pattern else [Path(pattern)]
    return places


def run_folder(request):
    """The folder of the run that is asked for, whether or not it is there."""
    folders = [place / safe(request["run"]) for place in runs_folders(request)]
    return next((folder for folder in folders if folder.is_dir()), folders[0] if folders else Path("/nonexistent"))


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
            if known.get(stage) == fields[0] and not path.exists():
                remember(path, fields[0], fields[1], fields[2])
                close_attempt(folder, stage, ended_at(fields[7], fields[6]))
    return living


def remember(path, job, state, reason):
    """Note the end of a job that wrote none itself."""
    with suppress(OSError):  # another user's run is theirs to write down
        write_json(path, {"by": "slurm", "slurm_state": state, "reason": reason, "job": job, "at": now()})


def close_attempt(folder, stage, ended=None):
    """Let the run's own script count a job that is over and wrote no end: its nodes have cost until then."""
    script = folder / "results.py"
    if script.is_file() and (folder / "logs" / stage / "attempts.json").is_file():
        when = [] if ended is None else [str(ended)]
        with suppress(Refused):
            call([sys.executable, "-E", str(script), "close", stage, *when], 60)


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
    paths = log_paths(folder, whole) if tail_bytes else []
    tails = [(name, tail(path, tail_bytes)[0]) for name, path in paths]
    refused = read_json(folder / "not-submitted.json") or {}
    return {
        "run": folder.name,
        "folder": str(folder),
        "manifest": manifest or {},
        "jobs": (submitted or {}).get("jobs", {}),
        "results": read_json(folder / "results.json"),
        "refused": "" if submitted else refused.get("said") or refused.get("message", ""),
        "ended": {p.name[:-5]: read_json(p) or {} for p in listed(folder / "ended") if p.name.endswith(".json")},
        "logs": {name: text for name, text in tails if text is not None},
    }


def log_paths(folder, whole):
    """[(name, path)] of a run's logs: `train.log`, `train/node-0.log`; those of every node when `whole`."""
    found = [(stage + ".log", folder / (stage + ".log")) for stage in STAGES]
    for place in listed(folder / "logs"):
        nodes = [path for path in listed(place) if path.name.endswith(".log")] if whole else [place / "node-0.log"]
        found += [(f"{place.name}/{path.name}", path) for path in nodes]
    return found


def tail(path, size):
    """(text, offset of its start): the last `size` bytes of a log, from a line's start; (None, 0) without one."""
    try:
        with path.open("rb") as file:
            length = file.seek(0, os.SEEK_END)
            at = file.seek(max(0, length - size))
            data = file.read(size)
    except OSError:
        return None, 0
    cut = data.find(b"\n") + 1 if at else 0
    return data[cut:].decode("utf-8", "replace"), at + cut


# --------------------------------------------------------------------------------------------------------- cancel


def cancel(request):
    """Cancel all jobs of a run; the ids of those that were alive. A stage that never ran is noted as cancelled."""
    folder = run_folder(request)
    if not folder.is_dir():
        raise Refused("no-run", "There is no run {run} in {runs_folder}.".format(**request))
    require_slurm()
    alive = [job for job in jobs_of(request["run"]) if job[2] != "COMPLETING"]
    if alive:
        code, _, err = call(["scancel", *(job for job, _, _ in alive)])
        if code:
            raise Refused("refused", "Slurm would not cancel the run's jobs.", err)
    for job, stage, state in alive:
        if state == "PENDING":  # a running job's exit trap writes this itself
            remember(folder / "ended" / (stage + ".json"), job, "CANCELLED", "cancelled before it started")
            close_attempt(folder, stage)  # of a job that had lost its nodes and waited for others
    return {"cancelled": [job for job, _, _ in alive]}


# --------------------------------------------------------------------------------------------------------- resume


def resume(request):
    """Submit the stages again that a run has not done, in its own folder: it goes on from its newest whole checkpoint.

    Nodes of its that are down or drained are left out, as long as the partition has enough others.
    """
    folder = run_folder(request)
    if not folder.is_dir():
        raise Refused("no-run", "There is no run {run} in {runs_folder}.".format(**request))
    with lock(folder):
        require_slurm()
        manifest, before = read_json(folder / "run.json") or {}, read_json(folder / "submitted.json")
        may_resume(folder, before)
        cached = on_disk(manifest.get("cache"))
        freed = free_locks(manifest["cache"], [folder.parent])[0] if cached else []
        excluded, short = nodes_to_avoid(folder, manifest)
        checkpoint = newest_checkpoint(folder) or manifest.get("from_checkpoint", "")
        stages = stages_to_do(folder, manifest)
        options = before.get("sbatch_args", [])
        again = {"run": folder.name, "stages": stages, "sbatch_args": options + without(manifest, excluded)}
        try:
            jobs = submit_stages(folder, again)
        except Refused:
            write_json(folder / "submitted.json", before)  # what it was before stays known
            raise
        for stage in stages:
            with suppress(OSError):
                (folder / "ended" / (stage + ".json")).unlink()
        found = {name: before.get(name) for name in ("compile", "why", "digest")}
        found.update(stages=stages, resumed=before.get("resumed", 0) + 1)
        again["sbatch_args"] = options
        done = record(folder, again, dict(before["jobs"], **jobs), found)
        release(folder, done, request, again=False)
    told = [{"graph": module.name, "age_s": round(time.time() - module.locked_at)} for module in freed]
    answer = {"run": folder.name, "folder": str(folder), "jobs": jobs, "checkpoint": checkpoint, "freed": told}
    return dict(answer, excluded=excluded, short=short)


def may_resume(folder, before):
    """A run that lives, or has done all, or was never submitted, is not resumed."""
    if before is None:
        raise Refused("never", f"{folder.name} was never submitted.")
    living = jobs_of(folder.name)
    if living:
        job, stage, state = living[0]
        raise Refused("lives", f"{folder.name} goes on: its {stage} job {job} is {state}.")
    if (read_json(folder / "results.json") or {}).get("complete"):
        raise Refused("complete", f"{folder.name} has done all its steps.")


def without(manifest, nodes):
    """The option of sbatch that leaves nodes out, those that the run's own script leaves out among them."""
    names = [name for name in (manifest.get("exclude"), *nodes) if name]
    return ["--exclude=" + ",".join(names)] if nodes else []


def on_disk(cache_url):
    """Whether a cache is a folder here."""
    return bool(cache_url) and "://" not in cache_url


def stages_to_do(folder, manifest):
    """The stages of a run that did not end well; the compile stage also when its graphs are no longer whole."""
    stages = []
    for stage in manifest.get("stages") or [one for one in STAGES if (folder / (one + ".sbatch")).is_file()]:
        ended = read_json(folder / "ended" / (stage + ".json")) or {}
        well = ended.get("exit_code") == 0
        if stage == "compile" and well and on_disk(manifest.get("cache")) and manifest.get("cache_shared", True):
            well = cache.verdict(manifest["cache"], manifest.get("fingerprint", ""))[0]
        if not well or stage == "train":
            stages.append(stage)
    return stages


def nodes_to_avoid(folder, manifest):
    """(nodes that the run last had and that are down or drained now, whether they are needed all the same)."""
    ends = [read_json(folder / "ended" / (stage + ".json")) or {} for stage in ("train", "compile")]
    had = next((end["node_list"] for end in ends if end.get("node_list")), "") or last_nodes(folder)
    queue = manifest.get("queue", "")
    code, out, _ = call(["sinfo", "-h", "-N", "-n", had, "-t", "down,drain,fail", "-o", "%N"]) if had else (0, "", "")
    lost = sorted(set(out.split())) if not code else []
    if not lost:
        return [], False
    code, out, _ = call(["sinfo", "-h", "-N", "-p", queue, "-o", "%N"])
    others = set(out.split()) - set(lost)
    return ([], True) if len(others) < manifest.get("nodes", 1) else (lost, False)


def last_nodes(folder):
    """The nodes of the last attempt at training, as its own record has them; '' when it has none."""
    attempts = []
    with suppress(OSError, ValueError):
        attempts = json.loads((folder / "logs" / "train" / "attempts.json").read_text(encoding="utf-8"))
    return attempts[-1].get("node_list", "") if attempts else ""


# --------------------------------------------------------------------------------------------------------- follow


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
    jobs = {s: i for s, i in submitted["jobs"].items() if request.get("stage") in ("", None, s)}
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
        if not request.get("wait", True) or all(state in OVER for state, _ in states.values()):
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
        for name in names:
            path = folder / "logs" / name if "/" in name else folder / name
            start_at = 0 if request.get("from_start", True) else tail(path, 2000)[1]
            logs.append(Log(stage, name, path, request.get("offsets", {}).get(name, start_at)))
    return logs


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
    code, out, err = call(["squeue", "-h", "-a", "-t", "all", "-o", SEP.join(["%i", "%T", "%r"])], 70)
    rows = [line.split(SEP) for line in out.splitlines()]
    found = {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}
    states = {}
    for stage, job in jobs.items():
        if job in found:
            states[stage] = found[job]
        elif code:
            states[stage] = ("UNKNOWN", err.strip()[-200:])
        else:
            states[stage] = state_at_end(read_json(folder / "ended" / (stage + ".json")) or {})
    return states


def state_at_end(note):
    """A job that Slurm no longer knows is over; how it ended stands in its folder, if anywhere."""
    by_exit = {None: "UNKNOWN_END", 0: "COMPLETED"}.get(note.get("exit_code"), "FAILED")
    return note.get("slurm_state", by_exit), str(note.get("reason", ""))


# ----------------------------------------------------------------------------------------------------------- main


def emit(event):
    """One line of the protocol."""
    sys.stdout.write("trnctl " + json.dumps(event) + "\n")
    sys.stdout.flush()


def tended(verb):
    """A verb of `tend` on the compile caches, which lie beside the runs."""

    def carry_out(request):
        require_slurm()
        places = runs_folders(request)
        return getattr(tend, verb)(request, places, living_jobs())

    return carry_out


VERBS = {"submit": submit, "resume": resume, "observe": observe, "cancel": cancel, "follow": follow}
VERBS.update({verb: tended(verb) for verb in ("look", "unlock", "prune")})


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
