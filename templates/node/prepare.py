"""The preparer of one run: fetches what the run needs to shared storage, then lets its first job go; see `preparing`.

    python3 -E -s RUN/prepare/prepare.py

It runs on the head node, detached from whoever submitted, and never asks for a node. It may be killed at any time: the
next one goes on where it was. Two that need the same thing do not fetch it twice: the second waits for the first. When
something cannot be had, it cancels the run's jobs and writes down why. Standard library only, Python 3.6 and newer.
"""

import os
import re
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

import bucket
import clone
import download
import environment
import hub
from folder import Refused, lock, locked, now, read_json, share, write_json
from needs import Failed, lack, missing
from slurm import call, jobs_of

FETCH = {
    "git": clone.fetch,
    "archive": download.fetch_archive,
    "file": download.fetch_file,
    "folder": bucket.fetch,
    "environment": environment.fetch,
    "hub": hub.fetch,
}
SLURM_PATIENCE = 600  # seconds that Slurm's controller may be down when everything is there
NO_JOBS, SUBMIT_AGAIN = "the run's jobs are no longer in the queue", "Submit it again: trnctl submit."
LOG_EVERY = 15  # seconds between two lines of the log about the same thing


class Teller:
    """Says what is being done: in the log now and then, in prepare/now.json every second."""

    def __init__(self, folder):
        self._path, self._written, self._logged, self._words = folder / "prepare" / "now.json", 0.0, 0.0, ""

    def say(self, text):
        """A line of the log; without one, where the disk that it lies on is full: what is done matters more."""
        with suppress(OSError):
            os.write(1, f"{now()} {text}\n".encode("utf-8", "replace"))

    def __call__(self, words, done=None, total=None):
        """What is done now; `done` of `total` bytes."""
        moment, fresh = time.time(), words != self._words
        if fresh or moment - self._written >= 1:
            self._written = moment
            write_json(self._path, {"words": words, "done": done, "total": total, "at": now()})
        if fresh or moment - self._logged >= LOG_EVERY:
            self._words, self._logged = words, moment
            self.say(words + of_total(done, total))


def of_total(done, total):
    """`, 3.2 of 24.0 GiB`; `, 3.2 GiB` when nobody knows of how many; '' without numbers."""
    if done is None:
        return ""
    scales = (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10))
    unit, size = next((one for one in scales if max(done, total or 0) >= one[1]), scales[-1])
    whole = f" of {total / size:,.1f}" if total else ""
    return f", {done / size:,.1f}{whole} {unit}"


def main(folder):
    """Prepare the run; 0 when its jobs were let go, 1 when they were cancelled."""
    os.umask(0o022)
    held = locked(folder / ".prepare.lock", 0)
    if held is None:
        print("another preparer of this run lives")
        return 0
    began, tell = time.time(), Teller(folder)
    try:
        prepare(folder, tell)
        let_go(folder, tell)
    except Failed as failed:
        return give_up(folder, tell, failed, began)
    except Exception as error:  # noqa: BLE001  whatever it is, held jobs must not wait for ever
        tell.say(traceback.format_exc().rstrip())
        failed = no_space(error) or Failed("fault", f"{type(error).__name__}: {error}")
        return give_up(folder, tell, failed, began)
    note(folder, {"exit_code": 0, "seconds": round(time.time() - began, 1)})
    return 0


def prepare(folder, tell):
    """Fetch what is missing, one after the other."""
    needs = read_json(folder / "prepare" / "needs.json")["needs"]
    for need, why in missing(needs):
        tell.say("{} {}: {}".format(need["what"], why, need["path"]))
        if living(folder.name) == []:
            raise Failed("slurm", NO_JOBS, SUBMIT_AGAIN)
        fetch = need["fetch"]
        target = Path(fetch["target"])
        share(target.parent.parent, target.parent)
        with alone(target, folder.name, need["what"], tell):
            if lack(need):  # else it has been fetched while this one waited
                FETCH[fetch["kind"]](need, tell)
        still = lack(need)
        if still:
            raise Failed("incomplete", "{} was fetched, and {path} {}".format(need["what"], still, path=need["path"]))
        tell.say("{} is there: {}".format(need["what"], need["path"]))


def alone(target, run, what, tell):
    """The lock of a thing that is fetched, with the run's name in it."""
    handle = locked(
        target.with_name(f".{target.name}.lock"),
        30 * 86400,
        lambda holder: tell(f"waits for the preparer of {holder or 'another run'}, which fetches {what}"),
    )
    if handle.writable():
        handle.truncate(0)
        handle.write(run)
        handle.flush()
    return handle


def let_go(folder, tell):
    """Release the run's first job, unless it was submitted to be held."""
    done = read_json(folder / "submitted.json") or {}
    # A run that was resumed has done some stages, and submitted.json still tells their jobs.
    stages = done.get("stages") or ("compile", "train")
    first = next((done["jobs"][one] for one in stages if one in done.get("jobs", {})), None)
    if first is None or done.get("hold"):
        tell("everything is there; the jobs stay held, as asked for")
        return
    until = time.time() + SLURM_PATIENCE
    while True:
        code, _, err = call(["scontrol", "release", first])
        if not code:
            break
        if "Invalid job id" in err:
            raise Failed("slurm", NO_JOBS, SUBMIT_AGAIN)
        if time.time() > until:
            raise Failed("slurm", f"Slurm did not release job {first}: {err.strip()}")
        tell("everything is there; waits for Slurm's controller")
        time.sleep(5)
    with lock(folder):
        write_json(folder / "submitted.json", dict(read_json(folder / "submitted.json") or done, released=True))
    tell(f"everything is there; job {first} may start")


def living(run):
    """The ids of the run's jobs in the queue; None while Slurm does not say."""
    try:
        return [job for job, _, _ in jobs_of(run)]
    except Refused:
        return None


def give_up(folder, tell, failed, began):
    """Cancel the run's jobs, and write down why."""
    remedy = failed.remedy.replace("RUN", folder.name)
    tell.say(f"failed: {failed.kind}: {failed.message}")
    tell.say(f"remedy: {remedy}")
    jobs = living(folder.name)
    if jobs:
        code, _, err = call(["scancel", *jobs])
        tell.say(err.strip() if code else "cancelled job {}".format(", ".join(jobs)))
    end = {"exit_code": 1, "kind": failed.kind, "reason": failed.message, "remedy": remedy}
    note(folder, dict(end, seconds=round(time.time() - began, 1)))
    return 1


def note(folder, end):
    """Write down how it ended, and what is known of the run now."""
    write_json(folder / "ended" / "prepare.json", dict(end, stage="prepare", at=now()))
    if end["exit_code"] and (folder / "results.py").is_file():
        call([sys.executable, "-E", str(folder / "results.py")], 60)


def no_space(error):
    """The failure that a full disk is; None for another error."""
    full = isinstance(error, OSError) and error.errno in download.NO_SPACE
    return Failed("space", f"no space is left: {error.filename or error}") if full else None


if __name__ == "__main__":
    try:
        code = main(Path(re.sub(r"/prepare/prepare\.py$", "", str(Path(__file__).resolve()))))
    except Refused as refused:  # Slurm's commands are gone, or its controller is
        print(refused.answer["message"], refused.answer["said"])
        code = 1
    sys.exit(code)
