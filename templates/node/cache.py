"""The compile cache as it lies on shared storage: which graphs are whole, which are locked, and by whom.

Travels with the head node's script, and lies in each run's folder for its jobs. Standard library only, Python 3.6.
A cache may lie in S3 as well (`at` opens either): there everything is judged from one listing. Whether a release of
Neuron locks graphs in S3 is not documented; an object whose name ends like a lock counts as one.

    ROOT/CHIP/SDK/                                a cache: what NEURON_COMPILE_CACHE_URL names
        neuronxcc-VERSION+BUILD/MODULE_GRAPH+FLAGS/
            model.hlo_module.pb                   what to compile (model.hlo.pb in old releases)
            model.neff  model.done                compiled
            model.log                             failed, and remembered as failed
            *.lock                                being compiled, or left by a compiler that was killed
        ledger/FINGERPRINT.json                   the graphs of a fingerprint, written when all were compiled; the time
                                                  of its last change is that of its last use
        users/NAME/                               a cache like this one, of a user who may not write into the others'
                                                  folders: a compiler makes its own as its user's umask has it

In a job:

    cache.py place CACHE   print where this user's graphs are compiled, and make that folder
    cache.py free CACHE    remove the locks that no running job can hold
"""

import calendar
import getpass
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

LEDGER = "ledger"
GRAPH = re.compile(r"MODULE_\w+\+\w+")
CLOCK_SLACK = 5.0  # seconds by which the clocks of a file server, of nodes and of Slurm may differ
SEP = "\x1f"
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED")
OVER = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED")
OVER += ("REVOKED", "TIMEOUT")
USERS_FORMAT = SEP.join(["%i", "%T", "%S", "%u", "%k"])
WORDS = {
    "locked": "is locked",
    "failed": "failed to compile",
    "todo": "is not compiled",
    "damaged": "is damaged: its model.neff or its model.done is missing, or empty",
    "gone": "is gone",
}


class Module:
    """One MODULE_ folder, read with one look at its names. `state` is done or a word of WORDS; times in seconds of
    the epoch, `locked_at` 0 without a lock."""

    def __init__(self, path):
        self.path, self.name, self.version = path, path.name, path.parent.name
        self.bytes, self.locked_at, self.locks = 0, 0.0, []
        names = {entry.name: entry for entry in scan(path)}
        for name, entry in names.items():
            if name.endswith(".lock"):
                self.locks.append(path / name)
                self.locked_at = max(self.locked_at, modified(entry))
        self.state = self._state(names)

    def _state(self, names):
        if self.locks:
            return "locked"
        if "model.neff" in names:
            self.bytes = size(names["model.neff"])
        if "model.neff" in names and "model.done" in names:
            return "done" if self.bytes else "damaged"
        if "model.log" in names:
            return "failed"
        if "model.neff" in names or "model.done" in names:
            return "damaged"
        return "todo" if names else "gone"


def modified(entry):
    """When a file was last written; now, when it is gone meanwhile."""
    try:
        return entry.stat().st_mtime
    except OSError:
        return time.time()


def size(entry):
    """Bytes of a file; 0 when it is gone meanwhile."""
    try:
        return entry.stat().st_size
    except OSError:
        return 0


def at(url):
    """A cache by its URL: a Path, or a place in S3 that is walked like one. ValueError for anything else."""
    if url.startswith("s3://"):
        import objects

        return objects.place(url)
    if "://" in url:
        raise ValueError(f"{url} is neither a folder nor in S3")
    return Path(url)


def reachable(url):
    """Whether it is a cache that is looked at: a folder, or S3."""
    return url.startswith("s3://") or "://" not in url


def scan(path):
    """The entries of a folder; [] when it cannot be read."""
    try:
        if not isinstance(path, Path):
            return path.scan()
        with os.scandir(str(path)) as entries:
            return list(entries)
    except OSError:
        return []


def folders(path, prefix):
    """The folders in a folder whose names begin so, by name; [] when it cannot be read."""
    return sorted(path / entry.name for entry in scan(path) if entry.name.startswith(prefix) and entry.is_dir())


def walk(cache):
    """Every module of a cache, of all compilers and, where nodes have their own, of all nodes."""
    for place in [cache, *folders(cache / "hosts", "")]:
        for version in folders(place, "neuronxcc-"):
            for path in folders(version, "MODULE_"):
                yield Module(path)


# --------------------------------------------------------------------------------------------------------- ledgers


def read_ledger(cache, fingerprint):
    """What is written of a fingerprint, with `last_used`; None when nothing is, or nothing that can be read."""
    path = cache / LEDGER / (fingerprint + ".json")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        found["last_used"] = path.stat().st_mtime
        found["graphs"] = [str(graph) for graph in found["graphs"]]
        return found
    except (OSError, ValueError, KeyError, TypeError):
        return None


def ledgers(cache):
    """Every ledger of a cache that can be read, by its fingerprint."""
    names = sorted(entry.name[: -len(".json")] for entry in scan(cache / LEDGER) if entry.name.endswith(".json"))
    found = ((name, read_ledger(cache, name)) for name in names)
    return {name: ledger for name, ledger in found if ledger is not None}


def write_ledger(cache, fingerprint, content):
    """Write a ledger so that nobody ever reads half of it."""
    folder, text = cache / LEDGER, json.dumps(content, indent=1, sort_keys=True) + "\n"
    if not isinstance(folder, Path):
        (folder / (fingerprint + ".json")).write_text(text)
        return
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{fingerprint}.{os.getpid()}"
    part.write_text(text, encoding="utf-8")
    part.replace(folder / (fingerprint + ".json"))


def used_now(cache, fingerprint):
    """Let the time of a fingerprint's last use be now. OSError when its ledger may not be written."""
    path = cache / LEDGER / (fingerprint + ".json")
    if isinstance(path, Path):
        os.utime(str(path))
    else:
        path.write_text(path.read_text())


def unwhole(cache, ledger):
    """The graphs of a ledger that are not whole: [(VERSION/MODULE, module)]."""
    modules = [(graph, Module(cache / graph)) for graph in ledger["graphs"]]
    return [(graph, module) for graph, module in modules if module.state != "done"]


def verdict(cache_url, fingerprint):
    """(whole, why): whether all graphs of a fingerprint lie compiled in a cache."""
    try:
        cache = at(cache_url)
        if not isinstance(cache, Path):
            cache.scan()  # whether it can be asked at all
    except FileNotFoundError:
        pass  # nothing lies there yet
    except (OSError, ValueError) as error:
        return False, f"the cache cannot be looked at: {error}"
    ledger = read_ledger(cache, fingerprint)
    if ledger is None:
        return False, f"no graphs of fingerprint {fingerprint} are known"
    count = len(ledger["graphs"])
    if ledger.get("state") != "complete" or not count:
        return False, f"the last compilation of fingerprint {fingerprint} was not complete"
    broken = unwhole(cache, ledger)
    if broken:
        graph, module = broken[0]
        return False, "{} of {} graphs are not whole: {} {}".format(
            len(broken), count, graph.split("/")[-1], WORDS[module.state]
        )
    return True, "{} graphs of fingerprint {}, compiled by {}".format(count, fingerprint, ledger.get("run", "?"))


# ---------------------------------------------------------------------------------------------------------- places


def own(cache_url):
    """This user's own cache in a cache."""
    return cache_url.rstrip("/") + "/users/" + user()


def user():
    """This user's name; the number where nobody knows a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def place(cache_url, fingerprint):
    """(where this user's jobs have their graphs, the reason in words where that is not the cache itself): where they
    lie whole, else where they can be compiled."""
    if "://" in cache_url:
        return cache_url, ""
    for url in (cache_url, own(cache_url)):
        if verdict(url, fingerprint)[0]:
            return url, "" if url == cache_url else "this user's own graphs are used"
    if may_write(Path(cache_url)):
        return cache_url, ""
    return own(cache_url), "the other one is another user's to change, and has not all graphs of this run"


def may_write(folder):
    """Whether this user may compile into a cache: make a compiler's folder, or graphs in those that are there, and take
    up graphs that are not whole."""
    if not folder.is_dir():
        return folder == folder.parent or may_write(folder.parent)
    if not os.access(str(folder), os.W_OK | os.X_OK):
        return False
    versions = folders(folder, "neuronxcc-")
    unwhole_ones = (module.path for module in walk(folder) if module.state != "done")
    return all(os.access(str(path), os.W_OK | os.X_OK) for path in [*versions, *unwhole_ones])


def best_verdict(cache_url, fingerprint):
    """As `verdict`, also of this user's own cache in it."""
    found = verdict(cache_url, fingerprint)
    if found[0] or "://" in cache_url or not Path(own(cache_url)).is_dir():
        return found
    return verdict(own(cache_url), fingerprint)


def make(url):
    """Make the folders of a cache, as /tmp is, so that all users of the cluster may compile into it."""
    path = Path(url)
    missing = [one for one in (path, *path.parents) if not one.is_dir()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        if one.name != user():
            one.chmod(0o1777)


# ----------------------------------------------------------------------------------------------------------- locks


def users(lines, runs_folders, cache):
    """The jobs that live and may use a cache, from squeue's lines in USERS_FORMAT, with times in UTC: those of runs
    whose run.json names it, and those that are not ours, of which nobody knows."""
    found = []
    for line in lines.splitlines():
        row = line.split(SEP)
        if len(row) != 5 or row[1] in OVER:
            continue
        named = re.match(r"trnctl:([^:/]+):(\w+)$", row[4])
        if named:
            manifest = manifest_of(runs_folders, named.group(1))
            if manifest is not None and not within(cache, manifest.get("cache", "")):
                continue
        found.append({
            "job": row[0],
            "run": named.group(1) if named else "",
            "user": row[3],
            "started": None if row[1] in WAITING else seconds(row[2]),
            "fingerprint": (manifest.get("fingerprint") or "") if named and manifest else "",
        })  # fmt: skip
    return found


def manifest_of(runs_folders, run):
    """A run's run.json; None when it cannot be read."""
    for folder in runs_folders:
        try:
            return json.loads((folder / run / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
    return None


def within(cache, named):
    """Whether a cache is the one that a run names, or a user's own in it."""
    cache, named = str(cache).rstrip("/"), str(named).rstrip("/")
    return cache == named or cache.startswith(named + "/users/")


def seconds(text):
    """A time of Slurm's in UTC as seconds of the epoch; 0 for one that cannot be read."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return 0.0


def holder(module, jobs):
    """A running job that may hold a module's lock: it began before the lock was made. None: nobody can."""
    for job in jobs:
        if job["started"] is not None and job["started"] <= module.locked_at + CLOCK_SLACK:
            return job
    return None


def named(job):
    """A job in words."""
    return "run {run} (job {job})".format(**job) if job["run"] else "job {job} of {user}".format(**job)


def free(modules, jobs):
    """Remove the locks that nobody can hold: ([freed modules], [(module, holder)])."""
    freed, held = [], []
    for module in modules:
        job = holder(module, jobs)
        if job is not None:
            held.append((module, job))
            continue
        for lock in module.locks:
            try:
                lock.unlink()
            except OSError:  # its holder, or somebody else, has removed it; or it is another user's
                continue
            freed.append(module)
            break
    return freed, held


def main(words):
    """`place CACHE`; or `free CACHE`, in a job, whose own compilers do not run yet or any more."""
    if words[0] == "place":
        manifest = manifest_of([Path(__file__).resolve().parent.parent], Path(__file__).resolve().parent.name) or {}
        url, why = place(words[1], manifest.get("fingerprint", ""))
        if "://" not in url:
            make(url)
        if why:
            print(f"trnctl: the compile cache is {url}: {why}", file=sys.stderr)
        print(url)
        return 0
    cache = at(words[1])
    locked = [module for module in walk(cache) if module.locks]
    if not locked:
        return 0
    environment = dict(os.environ, TZ="UTC")
    try:
        out = subprocess.check_output(
            ["squeue", "-h", "-a", "-o", USERS_FORMAT], env=environment, universal_newlines=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        print(f"trnctl: locks in the cache, and Slurm does not say who may hold them: {len(locked)}")
        return 0
    runs = Path(__file__).resolve().parent.parent
    jobs = [job for job in users(out, [runs], str(cache)) if job["job"] != os.environ.get("SLURM_JOB_ID")]
    freed, held = free(locked, jobs)
    for module in freed:
        print(f"trnctl: {module.name} had the lock of a compiler that no longer runs; it is removed")
    for module, job in held:
        print(f"trnctl: {module.name} is locked, perhaps by {named(job)}; it is waited for")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
