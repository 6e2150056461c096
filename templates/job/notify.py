"""Tell that a run has ended: run a command, or call a webhook, as notify.json in the run's folder says.

    notify.py trap STAGE CODE    from a stage's exit trap: the run is over when this stage failed, or was the last
    notify.py timer              from the head node's timer: the run is over when Slurm has none of its jobs any more

The target may hold a token: notify.json can be read by its owner alone, and the target is in no argument and no log. It
is told once: notified.json says when, and whether it worked. Who is killed before it could write that is followed by a
second one, the last. A command gets the same JSON on its standard input, and TRNCTL_RUN and TRNCTL_STATE in its
environment. Three tries, each with a limit; a command that did not end in time may have worked, and is not repeated.
Needs only Python 3.6.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

TRIES = 3
SECONDS = 10  # for each try of a webhook
COMMAND_SECONDS = 20  # for each try of a command
ALL_SECONDS = 25  # Slurm gives a job that it ends 30 (KillWait)
LONGEST = 120  # seconds after which one that has written nothing has been killed
LATE = f"it did not end within {COMMAND_SECONDS} s"
WORDS = {"COMPLETED": "completed", "CANCELLED": "cancelled", "TIMEOUT": "timeout", "NODE_FAIL": "node-fail"}
REASONED = ("TIMEOUT", "NODE_FAIL")
PLAIN = ("", "None", "TimeLimit", "NodeDown")  # reasons of Slurm's that say no more than the state
REASONS = {"timeout": "it ran into its time limit", "node-fail": "a node that it ran on was lost"}
TEXTS = {"timeout": "ran out of time", "node-fail": "lost a node", "unknown": "ended, nobody knows how,"}


def read_json(path):
    """What a JSON file holds; {} when it is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def states_of(jobs):
    """{job: Slurm's word for its state} of those of these that Slurm knows; None when it does not answer."""
    if not jobs:
        return {}
    words = ["squeue", "-h", "-a", "-t", "all", "-o", "%i|%T"]
    path = os.environ.get("PATH", "/usr/bin:/bin") + ":/opt/slurm/bin"
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(words, stdout=pipe, stderr=pipe, env=dict(os.environ, PATH=path))
        out, _ = process.communicate(timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if process.returncode:
        return None
    states = dict(line.split("|", 1) for line in out.decode("utf-8", "replace").splitlines() if "|" in line)
    return {job: states[job].split(" ")[0] for job in jobs if job in states}


def living(states):
    """Whether a job of these is not over; also when nobody knows."""
    over = set(WORDS) | {"FAILED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED", "REVOKED"}
    return states is None or any(state not in over for state in states.values())


def remember(folder, jobs, states):
    """Write down Slurm's word for jobs that wrote no end, or knew only that they were ended: Slurm forgets it soon."""
    for stage, word in states.items():
        path = folder / "ended" / (stage + ".json")
        known = read_json(path)
        told = dict(known, slurm_state=word)
        if not known:
            told.update(by="slurm", job=jobs[stage], reason="", at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        elif known.get("exit_code") != 143 or known.get("slurm_state") or known.get("reason") or word == "COMPLETED":
            continue
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps(told))
        part.replace(path)
        if not known:
            close(folder, stage)


def started(folder, stage):
    """Whether a stage's job has begun."""
    return (folder / "logs" / stage / "attempts.json").is_file()


def close(folder, stage):
    """What a job that wrote no end would have done: let the run's own script count it, and copy the records; nobody
    waits for that."""
    if started(folder, stage) and (folder / "results.py").is_file():
        subprocess.call([sys.executable, "-E", str(folder / "results.py"), "close", stage], timeout=20)
    if (folder / "mirror.py").is_file():
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        subprocess.Popen([sys.executable, "-E", str(folder / "mirror.py")], start_new_session=True, **quiet)


def how_it_ended(folder, stages, states):
    """(stage, state, exit code, reason): of the first stage that did not end well, else of the last. `states` are
    Slurm's words by stage, as far as it remembers."""
    found = (stages[-1] if stages else "", "completed", 0, "")
    # The preparer is no job; one that gave up has cancelled them all.
    gave_up = read_json(folder / "ended" / "prepare.json").get("exit_code")
    for stage in ["prepare", *stages] if gave_up else stages:
        note = read_json(folder / "ended" / (stage + ".json"))
        code = note.get("exit_code")
        if code == 0:
            continue
        word = note.get("slurm_state") or states.get(stage, "")
        state = WORDS.get(word, "failed")
        reason = str(note.get("reason") or "")
        if not note and word in ("", "COMPLETED"):
            state = "unknown"
        elif code is None and word == "CANCELLED" and not started(folder, stage):
            reason = "before it started"
        elif code == 143 and word not in REASONED:
            state = "cancelled"
        return (stage, state, code, reason if reason not in PLAIN else REASONS.get(state, ""))
    return found


def message(folder, told):
    """What is sent."""
    manifest, results = read_json(folder / "run.json"), read_json(folder / "results.json")
    stage, state, code, reason = told
    steps, total = results.get("steps_done"), results.get("total_steps") or manifest.get("steps")
    text = f"{folder.name} {TEXTS.get(state, state)}"
    text += "" if state == "completed" else f" in its {stage} stage"
    if steps is not None and total:
        text += f" at step {steps} of {total}"
    text += f": {reason}" if reason and reason not in REASONS.values() else ""
    return {
        "schema": 1,
        "run": folder.name,
        "workload": manifest.get("workload"),
        "cluster": manifest.get("cluster"),
        "state": state,
        "stage": stage,
        "exit_code": code,
        "reason": reason,
        "nodes": manifest.get("nodes"),
        "steps_done": steps,
        "total_steps": total,
        "throughput": results.get("average_throughput"),
        "unit": manifest.get("unit"),
        "node_seconds": results.get("node_seconds"),
        "folder": str(folder),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "emulated": manifest.get("notice") or "",
        "text": text,
    }


def call(url, body):
    """Call a webhook; '' when it took it, else why not, without its address."""
    from urllib import error, request

    headers = {"Content-Type": "application/json", "User-Agent": "trnctl"}
    asked = request.Request(url, body, headers)  # noqa: S310  `tell` lets only http and https through
    try:
        with request.urlopen(asked, timeout=SECONDS) as answer:  # noqa: S310
            return "" if answer.status < 300 else f"it answered {answer.status}"
    except error.HTTPError as refused:
        return f"it answered {refused.code}"
    except (OSError, ValueError) as problem:
        return f"no answer ({type(problem).__name__})"


def command(line, body, told):
    """Run a command; '' when it worked, else why not."""
    environment = dict(os.environ, TRNCTL_RUN=told["run"], TRNCTL_STATE=told["state"])
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    # The shell reads the line from its environment, where only this user can see it.
    words = ["/bin/sh", "-c", 'eval "$TRNCTL_NOTIFY"']
    environment["TRNCTL_NOTIFY"] = line
    process = subprocess.Popen(words, stdin=pipe, stdout=null, stderr=null, env=environment)
    try:
        process.communicate(body, timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return LATE
    return f"it ended with {process.returncode}" if process.returncode else ""


def tell(target, told):
    """(why it did not work, '' when it did; how many tries it took)."""
    body, until, said = json.dumps(told).encode(), time.time() + ALL_SECONDS, ""
    for number in range(1, TRIES + 1):
        webhook = target.startswith(("http://", "https://"))
        said = call(target, body) if webhook else command(target, body, told)
        pause = 2**number * random.uniform(0.5, 1)  # noqa: S311  no secret
        if said in ("", LATE) or number == TRIES or time.time() + pause > until:
            break
        time.sleep(pause)
    return said, number


def begin(folder):
    """The number of this attempt, 1 or 2; 0 when it is told already, another one is at it, or two have been killed."""
    if (folder / "notified.json").exists():
        return 0
    for attempt in (1, 2):
        mark = folder / f".notify-{attempt}"
        try:
            os.close(os.open(str(mark), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            return attempt
        except FileExistsError:
            if time.time() - mark.stat().st_mtime < LONGEST:
                return 0
    note(folder, "two attempts were killed, and may have worked", 0, 2)
    return 0


def note(folder, said, tries, attempt):
    """Write down what became of it, so that nobody reads half of it."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    part = folder / f".notified.{os.getpid()}.part"
    part.write_text(json.dumps({"at": at, "ok": not said, "said": said, "tries": tries, "attempt": attempt}))
    part.replace(folder / "notified.json")


def main(folder, words):
    """0, or 1 when it was told to nobody; nothing when the run goes on, or it has been told already."""
    target = read_json(folder / "notify.json").get("target", "")
    submitted = read_json(folder / "submitted.json")
    stages = [stage for stage in ("prepare", "compile", "train") if stage in submitted.get("jobs", {})]
    if not target or not stages:
        return 0
    states = {}
    if words[0] == "trap":
        if words[2] == "0" and words[1] != stages[-1]:
            return 0
    else:
        known = states_of(list(submitted["jobs"].values()))
        if living(known):
            return 0
        states = {stage: known[job] for stage, job in submitted["jobs"].items() if job in known}
        remember(folder, submitted["jobs"], states)
    attempt = begin(folder)
    if not attempt:
        return 0
    said, tries = tell(target, message(folder, how_it_ended(folder, stages, states)))
    note(folder, said, tries, attempt)
    if said:
        print(f"nobody could be told that the run has ended: {said}")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent, sys.argv[1:]))
