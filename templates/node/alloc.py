"""Takes nodes for a person who sits at a terminal, opens a shell on the first of them, and gives them back at its end.

Runs on the head node under `ssh -t`; its one argument is the wish, JSON. Standard library only, Python 3.6 and newer.
While Slurm lets it wait, it says for what. However it ends, the shell left, Ctrl-C or a lost connection, the nodes are
given back: they cost by the second.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

POLL_S = 2
WAITING = ("PENDING", "CONFIGURING")


def say(text):
    """A line to the person; the terminal may be in raw mode."""
    sys.stderr.write(text + "\r\n")
    sys.stderr.flush()


def environment():
    """Slurm's folder for shells that are no login."""
    return dict(os.environ, PATH=os.environ.get("PATH", "/usr/bin:/bin") + ":/opt/slurm/bin")


def answer(argv, seconds=10):
    """What a command of Slurm's prints; '' when it fails or does not answer in time."""
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        process = subprocess.Popen(argv, stdin=null, stdout=pipe, stderr=null, env=environment())
    except OSError:
        return ""
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return ""
    return out.decode("utf-8", "replace") if process.returncode == 0 else ""


def explained(state, reason, reasons):
    """Why it waits, in words where there are any."""
    if state == "CONFIGURING":
        return "its nodes are starting: a Trn node takes four to five minutes"
    known = re.match(r"\w+", reason)
    return reasons.get(reason) or reasons.get(known.group(0) if known else "") or reason or "Slurm gives no reason"


def tell_waits(name, reasons, over):
    """Say for what the allocation waits, whenever that changes, until it has its nodes."""
    told, began = "", time.time()
    while not over.wait(POLL_S):
        line = answer(["squeue", "-h", "--name=" + name, "-o", "%T|%r|%N"]).strip()
        state, _, rest = line.partition("|")
        if line and state not in WAITING:
            return
        words = explained(state, rest.partition("|")[0], reasons) if line else ""
        if words and words != told:
            told = words
            say(f"  {int(time.time() - began)} s   {words}")


def command(wish, name):
    """salloc, which runs the shell on the first node and gives everything back when that ends."""
    words = ["salloc", "--quiet", "--exclusive", f"--nodes={wish['nodes']}", f"--time={wish['time']}"]
    words += [f"--job-name={name}", "--comment=trnctl-alloc", "--kill-command=TERM"]
    words += ["--partition=" + wish["queue"]] if wish["queue"] else []
    # --overlap: an srun in that shell must not wait for the shell itself.
    return [*words, "srun", "--quiet", "--nodes=1", "--ntasks=1", "--overlap", "--pty", *shell()]


def shell():
    """The person's login shell."""
    return [os.environ.get("SHELL") or "/bin/bash", "-l"]


def end(number, frame):
    """A signal ends this script by way of its `finally`."""
    sys.exit(128 + number)


def main(wish):
    """The shell's exit code; 4 when Slurm does not answer, 130 after Ctrl-C."""
    if not re.search(r"\bis UP\b", answer(["scontrol", "ping"], 8)):
        say("error: Slurm's controller does not answer on the head node.")
        say("remedy: start it again: trnctl ssh -- sudo systemctl restart slurmctld")
        return 4
    name, over, began = f"trnctl-alloc-{os.getpid()}", threading.Event(), time.time()
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, end)
    stopped = []
    # Ctrl-C is for salloc, which then takes its request back; a handler, unlike SIG_IGN, is not inherited.
    signal.signal(signal.SIGINT, lambda number, frame: stopped.append(number))
    teller = threading.Thread(target=tell_waits, args=(name, wish["reasons"], over))
    teller.daemon = True
    teller.start()
    words = command(wish, name)
    program = shutil.which(words[0], path=environment()["PATH"])
    if program is None:
        say("error: salloc is not installed on the head node, or not on PATH.")
        return 4
    try:
        code = subprocess.call([program] + words[1:], env=environment())  # noqa: RUF005  3.6 style
    finally:
        over.set()
        answer(["scancel", "--quiet", "--name=" + name], 30)
    left = answer(["squeue", "-h", "--name=" + name, "-t", "PENDING,CONFIGURING,RUNNING", "-o", "%i"]).split()
    if left:
        say(f"! job {left[0]} is still there: trnctl ssh -- scancel {left[0]}")
    say(f"The nodes are given back after {int(time.time() - began)} s.")
    return 130 if stopped and code else code


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
