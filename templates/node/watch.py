"""What `trnctl top` does on the head node: one bounded `srun` into each run's job, and what its nodes report, together.

Travels with the head node's script. The job's own allocation is used (`--overlap`), never another one: looking costs
nothing. A round ends after ROUND_S seconds by itself, on the nodes too, should this script be killed meanwhile.
"""

import json
import os
import re
import select
import subprocess
import sys
import time

from folder import Refused, named_folder, runs_folders, safe
from follow import emit
from slurm import SEP, call, jobs_of, require_slurm, start

FORMAT = SEP.join(["%i", "%T", "%D", "%N", "%M", "%u", "%k"])
ROUND_S = 300
AGAIN_S = 5  # between two rounds, so that a job that refuses is not asked all the time
SLACK_S = 20  # what starting on all nodes may take, beyond the period
MINE = re.compile(r"trnctl:([^:]+):(compile|train)$")


def running(lines, run):
    """[(id, run, stage, node count, node list, elapsed, user)] of the jobs of ours that run, or of the one run."""
    found = []
    for line in lines.splitlines():
        row = line.split(SEP)
        ours = MINE.match(row[6]) if len(row) == 7 else None
        if ours and row[1] == "RUNNING" and run in ("", ours.group(1)):
            found.append((row[0], ours.group(1), ours.group(2), int(row[2]), row[3], row[4], row[5]))
    return found


class Look:
    """One job that is looked at: its `srun`, and the last report of each node."""

    def __init__(self, job, names, request):
        self.id, self.run, self.stage, _, _, self.elapsed, self.user = job
        self.names, self.request = names, request
        self.reports, self.rest, self.said, self.process, self.next = {}, b"", [], None, 0.0

    def begin(self):
        """Begin a round."""
        request, count = self.request, str(len(self.names))
        limit = str(request["period"] + SLACK_S if request["reports"] else ROUND_S)
        words = ["srun", "--overlap", "--jobid=" + self.id, "--nodes=" + count, "--ntasks=" + count]
        # Minutes are Slurm's smallest unit; a node that fails does not end the others.
        words += ["--ntasks-per-node=1", "--cpus-per-task=1", "--time=" + str(ROUND_S // 60 + 1)]
        words += ["--kill-on-bad-exit=0", "--wait=0", "--input=none", "--quiet"]
        words += ["python3", "-c", request["script"], str(request["period"]), str(request["reports"]), limit]
        self.process, self.rest, self.said = start(words, text=False), b"", []
        for pipe in (self.process.stdout, self.process.stderr):
            os.set_blocking(pipe.fileno(), False)

    def read(self):
        """Take what has come."""
        data = self.process.stdout.read() or b""
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            try:
                found = json.loads(line.decode("utf-8", "replace"))
                self.reports[found["node"]] = dict(found, at=time.time())
            except (ValueError, KeyError, TypeError):
                continue
        words = self.process.stderr.read() or b""
        self.said = (self.said + [one for one in words.decode("utf-8", "replace").splitlines() if one.strip()])[-5:]
        if self.process.poll() is not None and not data:
            self.end()

    def end(self):
        """The round is over; the next one begins after a pause."""
        process, self.process = self.process, None
        self.next = time.time() + AGAIN_S
        if process is None:
            return
        if process.poll() is None:
            process.terminate()  # srun ends its step on all nodes
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()
        process.stderr.close()

    def told(self):
        """What is known of this job now."""
        answer = {"job": self.id, "run": self.run, "stage": self.stage, "elapsed": self.elapsed, "user": self.user}
        return dict(answer, names=self.names, reports=list(self.reports.values()), said=self.said)


class Watch:
    """All jobs that are looked at."""

    def __init__(self, request):
        self.request = request
        self.looks, self.checked = {}, 0.0

    def check(self):
        """Which jobs run now; others than before are taken on or let go. False when Slurm does not answer."""
        self.checked = time.time()
        code, out, _ = call(["squeue", "-h", "-a", "-t", "R", "-o", FORMAT])
        if code:
            return False
        jobs = {job[0]: job for job in running(out, self.request["run"])}
        for name in set(self.looks) - set(jobs):
            self.looks.pop(name).end()
        for name, job in jobs.items():
            if name in self.looks:
                self.looks[name].elapsed = job[5]
                continue
            code, out, _ = call(["scontrol", "show", "hostnames", job[4]])
            if not code:
                self.looks[name] = Look(job, out.split(), self.request)
        return True

    def pump(self, until):
        """Read what the nodes report until that time; sooner when one look is all that is wanted, and it is there."""
        while time.time() < until:
            for look in self.looks.values():
                if look.process is None and time.time() >= look.next and not (self.request["reports"] and look.next):
                    look.begin()
            pipes = {}
            for look in self.looks.values():
                if look.process is not None:
                    pipes[look.process.stdout], pipes[look.process.stderr] = look, look
            ready, _, _ = select.select(list(pipes), [], [], min(0.5, max(0.0, until - time.time())))
            for look in {id(pipes[pipe]): pipes[pipe] for pipe in ready}.values():
                look.read()
            if hung_up() or (self.request["reports"] and self.complete()):
                return

    def complete(self):
        """Whether every node has reported once, or will not any more."""
        return all(
            len(look.reports) >= len(look.names) or (look.process is None and look.next) for look in self.looks.values()
        )

    def picture(self):
        """What is sent."""
        return {"at": time.time(), "jobs": [look.told() for look in self.looks.values()]}

    def end(self):
        """Leave nothing behind."""
        for look in self.looks.values():
            look.end()


def hung_up():
    """Whether whoever reads this has gone: sshd sends no signal."""
    reader = select.poll()
    reader.register(sys.stdout.fileno(), 0)
    return bool(reader.poll(0))


def top(request):
    """Write a picture of a run that runs, or of all that do, every period until no job is left; with `reports`, one."""
    require_slurm()
    if request["run"]:
        request = dict(request, run=running_run(request))
    watch, period = Watch(request), request["period"]
    try:
        watch.check()
        if request["reports"]:
            watch.pump(time.time() + period + SLACK_S)
            emit(watch.picture())
            return {"over": True}
        watch.pump(time.time() + min(period, 2.0))  # the first picture soon, be it a part
        while watch.looks or not request["run"]:
            if hung_up():
                return None
            emit(watch.picture())
            watch.pump(time.time() + period)
            if time.time() - watch.checked >= 5:
                watch.check()
        return {"over": True}
    finally:
        watch.end()


def running_run(request):
    """The whole name of the run that is asked for; it must run."""
    folder = named_folder(runs_folders(request), safe(request["run"]))
    if not folder.is_dir():
        raise Refused("no-run", "There is no run {run}.".format(**request))
    jobs = jobs_of(folder.name)
    if not any(state == "RUNNING" for _, _, state in jobs):
        waiting = ", ".join(f"{stage} job {job} is {state.lower()}" for job, stage, state in jobs)
        raise Refused("not-running", f"{folder.name} does not run now: {waiting or 'it has no living job'}.")
    return folder.name
