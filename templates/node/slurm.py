"""Slurm's commands on the head node. Travels with the head node's script."""

import os
import re
import shutil
import subprocess

from folder import Refused

SEP = "\x1f"  # no name, reason or comment holds it


def environment():
    """Times in UTC and formats of our own, whatever the user has set; Slurm's folder for shells that are no login."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SQUEUE_", "SINFO_", "SLURM_TIME_FORMAT"))}
    kept.update(TZ="UTC", PATH=os.environ.get("PATH", "/usr/bin:/bin") + ":/opt/slurm/bin")
    return kept


def start(argv, text=True):
    """Start a command of Slurm's, looked up where `environment` says; its pipes carry bytes without `text`."""
    text = dict({"encoding": "utf-8", "errors": "replace"} if text else {}, env=environment())
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
