"""Submit a run: write its folder, ask Slurm for its jobs, let the first of them go. All or none, and never twice.

Travels with the head node's script.
"""

import hashlib
import json
import re
import sys
import time
from contextlib import suppress
from pathlib import Path

import cache
import preparing
from folder import Refused, lock, named_folder, now, own, read_json, safe, share, write, write_json
from needs import missing
from slurm import call, jobs_of, require_slurm

STAGES = ("prepare", "compile", "train")


def submit(request):
    """Write the folder and submit its jobs; the same run is never submitted twice. A compile stage whose graphs all lie
    in the cache is left out. Jobs that need what is not there yet stay held, and a preparer fetches it."""
    folder = Path(request["folder"])
    for file in request["files"]:
        safe(file["name"])
    digest = digest_of(request)
    try:
        share(folder.parent.parent, folder.parent)
        own(folder)
        held = lock(folder)
    except OSError as error:
        raise Refused("no-folder", f"The run's folder {folder} cannot be made on the head node.", error) from error
    with held:
        done = None if preparing.failed(folder) else read_json(folder / "submitted.json")
        if done and done.get("digest", digest) != digest:
            raise Refused("name-taken", "There is a run {run} already, and it is another one.".format(**request))
        if done:
            return go_on(folder, done, request, again=True)
        require_slurm()
        lacking = look_for(request.get("needs", []))
        request, found = without_needless_compile(started_from(request))
        found.update(digest=digest, hold=bool(request.get("hold")), preparing=[need["what"] for need in lacking])
        if lacking:
            request = to_be_prepared(request)
        alive = {stage: job for job, stage, _ in jobs_of(request["run"])}
        if alive and set(alive) == set(request["stages"]):
            # The jobs are there but their record is not: the first try broke off between the two.
            return go_on(folder, record(folder, request, alive, found), request, again=True)
        if alive:
            call(["scancel", *sorted(alive.values())])
        write_files(folder, request)
        jobs = submit_stages(folder, request)
        return go_on(folder, record(folder, request, jobs, found), request, again=False)


def go_on(folder, done, request, again):
    """Let the first job go; or start who fetches what it needs, and then lets it go."""
    if not done.get("preparing") or preparing.ended(folder):
        return dict(release(folder, done, request, again), prepare=None, preparing=[])
    return dict(answered(folder, done, again), prepare=preparing.begin(folder), preparing=done["preparing"])


def to_be_prepared(request):
    """The request whose run.json tells of the stage in which its needs are fetched."""

    def with_stage(file):
        if file["name"] != "run.json":
            return file
        manifest = with_preparing(json.loads(file["text"]))
        return dict(file, text=json.dumps(manifest, indent=2, sort_keys=True) + "\n")

    return dict(request, files=[with_stage(file) for file in request["files"]])


def with_preparing(manifest):
    """A run.json whose run begins with the stage in which its needs are fetched."""
    stages = [stage for stage in manifest.get("stages", ()) if stage != "prepare"]
    return dict(manifest, stages=["prepare", *stages])


def digest_of(request):
    """What makes two submissions the same: scripts, stages and options of sbatch; not when they were made."""
    scripts = sorted((file["name"], file["text"]) for file in request["files"] if file["name"].endswith(".sbatch"))
    parts = [scripts, request["stages"], request.get("sbatch_args", [])]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def look_for(needs):
    """Those of the needs that are to be fetched first: whoever had nodes without them would pay for nodes that cannot
    work. Refused when one is missing that nobody can fetch."""
    lacking = [need for need, _ in missing(needs)]
    for need in lacking:
        if not need.get("fetch"):
            message = "{what} is not on the cluster's shared storage: {path}".format(**need)
            raise Refused("missing", message[0].upper() + message[1:], need["remedy"])
    return lacking


def started_from(request):
    """The request whose run.json tells the checkpoint of another run that it starts from, if it does."""
    if not request.get("from_run"):
        return request
    other = named_folder([Path(request["folder"]).parent], safe(request["from_run"]))
    if not other.is_dir():
        raise Refused("no-run", "There is no run {from_run} to start from.".format(**request))
    checkpoint = newest_checkpoint(other)
    if not checkpoint:
        raise Refused("no-checkpoint", f"{other.name} has no whole checkpoint to start from.")
    check_start(request, other, checkpoint)
    files = [with_checkpoint(file, checkpoint) for file in request["files"]]
    wish = request.get("cache")
    if wish:
        wish = dict(wish, without=[with_checkpoint(file, checkpoint) for file in wish["without"]])
    return dict(request, files=files, cache=wish)


def check_start(request, other, checkpoint):
    """The run to start from must be of a recipe that comes before this one, and have done all of its steps."""
    workload = (read_json(other / "run.json") or {}).get("workload")
    wanted = request.get("from_recipes")
    if wanted and workload not in wanted:
        raise Refused(
            "no-start",
            f"{other.name} is a run of {workload}, and this one starts from {' or '.join(wanted)}.",
            "trnctl runs lists the runs of this cluster; name another with --from.",
        )
    step, numbers = request.get("from_step"), re.findall(r"\d+", Path(checkpoint).name)
    reached = int(numbers[-1]) if numbers else None
    if step is not None and reached != step:
        raise Refused(
            "no-start",
            f"The newest whole checkpoint of {other.name} is {Path(checkpoint).name}, and this one starts from step "
            f"{step}.",
            f"Let it go on to its end with trnctl resume {other.name}; or, to start from there, set the argument that "
            f"says where it ended to {reached}.",
        )


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
    whole, why = (False, "each node has its own")
    if wish["shared"]:
        whole, why = cache.best_verdict(wish["url"], wish["fingerprint"])
    freed = []
    if not whole and cache.reachable(wish["url"]):
        freed, held = free_locks(wish["url"], [Path(request["folder"]).parent])
        if freed:
            whole, why = cache.best_verdict(wish["url"], wish["fingerprint"])
        elif held:
            why += f"; {held[0][0].name} is compiled now, perhaps by {cache.named(held[0][1])}"
    told = [{"graph": module.name, "age_s": round(time.time() - module.locked_at)} for module in freed]
    if wish["mode"] != "auto":
        asked = {"force": ("scheduled", "asked for"), "skip": ("skipped", "asked for")}[wish["mode"]]
        return request, {"compile": asked[0], "why": asked[1], "freed": told}
    if not whole:
        return request, {"compile": "scheduled", "why": why, "freed": told}
    with suppress(OSError):  # its last use; another user's ledger is not ours to touch
        cache.used_now(cache.at(wish["url"]), wish["fingerprint"])
    others = {file["name"]: file for file in wish["without"]}
    files = [others.get(file["name"], file) for file in request["files"] if file["name"] != "compile.sbatch"]
    stages = [stage for stage in request["stages"] if stage != "compile"]
    return dict(request, files=files, stages=stages), {"compile": "cached", "why": why, "freed": told}


def free_locks(cache_url, runs_folders):
    """Remove the locks of a cache that nobody can hold; see `cache.free`."""
    locked = [module for module in cache.walk(cache.at(cache_url)) if module.locks]
    return cache.free(locked, cache.users(living_jobs(), runs_folders, cache_url)) if locked else ([], [])


def living_jobs():
    """squeue's lines of all jobs that are not over, as `cache.users` reads them."""
    code, out, err = call(["squeue", "-h", "-a", "-o", cache.USERS_FORMAT])
    if code:
        raise Refused("slurm-down", "squeue failed on the head node.", err)
    return out


def write_files(folder, request):
    """Everything that the jobs need, and the folders that Slurm's --output does not make."""
    for stage in STAGES:  # of an earlier try of that name, which could not be prepared
        with suppress(OSError):
            (folder / "ended" / (stage + ".json")).unlink()
    try:
        for file in request["files"]:
            # A batch script holds the user's variables, and a token may be among them.
            script = file["name"].endswith(".sbatch")
            open_mode = 0o755 if file.get("executable") else 0o644
            write(folder / file["name"], file["text"], 0o700 if script else 0o600 if file.get("secret") else open_mode)
        write_json(folder / "prepare" / "needs.json", {"needs": request.get("needs", [])})
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
    return answered(folder, done, again)


def answered(folder, done, again):
    """What a submission is answered."""
    answer = {name: done.get(name) for name in ("run", "jobs", "compile", "why", "freed")}
    return dict(answer, folder=str(folder), again=again)


def is_held(job):
    """Whether a job is in the queue and held; also when Slurm does not answer, since then nobody knows."""
    code, out, err = call(["squeue", "-h", "-a", "-j", job, "-o", "%r"])
    return "JobHeld" in out if not code else "Invalid job id" not in err
