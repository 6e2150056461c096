"""How trnctl looks at 1,875 nodes and 10,000 queued jobs: a sandbox whose Slurm has them, 16 nodes with an instance.

    python bench/scale.py [JOBS] [--seconds S]     exits 1 when `trnctl status` takes more than 2 s (S) or 150 MB

The jobs are real ones in squeue, a tenth of them of runs whose folders lie on the shared storage. To queue 10,000 takes
one to three minutes, as Slurm takes them one by one; `make bench` takes 2,000. Other looks are timed as well, and told.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NODES, JOBS, UP, RUNS_OF_TEN, LOOKS = 1875, 10_000, 16, 1, 5
MIB = 150
CLUSTER = f"""\
cluster:
  name: scale
  region: us-west-2
  os: ubuntu2404
  neuron_sdk: "2.31.1"
  network: {{head_subnet: subnet-0aa11bb22cc33dd41, compute_subnet: subnet-0aa11bb22cc33dd42}}
  head_node: {{instance_type: c5.4xlarge, key_name: demo-ed25519, ssh_from: [203.0.113.0/24]}}
  queues:
    - name: compute1
      compute_resources: [{{name: i1, instance_type: trn1.32xlarge, max_count: {NODES}}}]
  storage: [{{fsx: {{mount: /fsx, capacity_gib: 1200, deployment: SCRATCH_2}}}}]
  extra: {{Scheduling: {{SlurmSettings: {{CustomSlurmSettings: [{{MaxJobCount: 20000}}]}}}}}}
"""


@dataclass(frozen=True)
class Look:
    """One command: its wall time and CPU time in seconds, and the most memory that its process had, in MB."""

    wall: float
    cpu: float
    mib: float
    out: str


class World:
    """A sandbox of this benchmark's own, below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.config = folder / "trnctl.yaml"
        self.config.write_text(CLUSTER)
        mine = {"TRNCTL_TARGET": "sandbox", "TRNCTL_SANDBOX_HOME": str(self.home)}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TRNCTL_"))}
        self.environment = {**kept, **mine, "XDG_STATE_HOME": str(folder / "state")}

    def trnctl(self, *words: str) -> Look:
        """Run one command of trnctl's, which must succeed."""
        argv = [sys.executable, "-P", "-m", "trnctl", "-c", str(self.config), *words]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
            began = time.monotonic()
            child = subprocess.Popen(argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=said)
            _, status, used = os.wait4(child.pid, 0)
            wall = time.monotonic() - began
            child.returncode = os.waitstatus_to_exitcode(status)
            for file in (out, said):
                file.seek(0)
            if child.returncode != 0:
                sys.exit(f"trnctl {' '.join(words)} exited {child.returncode}:\n{said.read().decode()}")
            return Look(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, out.read().decode())

    def slurm(self, *words: str) -> str:
        """A command of Slurm's; its stdout."""
        conf = {"SLURM_CONF": str(self.home / "clusters/scale/etc/slurm.conf")}
        done = subprocess.run(
            words, env={**self.environment, **conf}, capture_output=True, text=True, timeout=3600, check=True
        )
        return done.stdout

    def queue(self, jobs: int) -> float:
        """Power 16 nodes up with a job on them, queue so many jobs of four nodes each; the seconds that it took."""
        began = time.monotonic()
        script = self.folder / "job.sh"
        script.write_text("#!/bin/sh\nsleep 86400\n")
        common = f"-p compute1 --exclusive --output=/dev/null {script}"
        self.slurm("sh", "-c", f"sbatch -N {UP} {common}")
        line = f"sbatch --parsable --hold -N 4 --comment=trnctl:run-@@:train {common}"
        ids = self.slurm("sh", "-c", f"seq {jobs} | xargs -P 4 -I@@ sh -c 'echo @@ $({line})'")
        numbers = [row.split() for row in ids.splitlines()]
        for run, job in [row for row in numbers if len(row) == 2][: jobs * RUNS_OF_TEN // 10]:
            self._run(f"run-{run}", job)
        while f"{UP} allocated" not in self.slurm("sinfo", "-h", "-o", "%D %T"):
            time.sleep(0.5)
        return time.monotonic() - began

    def _run(self, name: str, job: str) -> None:
        """The folder of a run whose training job waits."""
        folder = self.home / "clusters/scale/root/fsx/trnctl/runs" / name
        folder.mkdir(parents=True)
        manifest = {"run": name, "workload": "bert-large", "nodes": 4, "stages": ["train"], "steps": 28125}
        (folder / "run.json").write_text(json.dumps(manifest))
        record = {"run": name, "jobs": {"train": job}, "at": "2026-10-01T09:12:01Z", "released": True}
        (folder / "submitted.json").write_text(json.dumps(record))


def told(name: str, looks: Sequence[Look]) -> Look:
    """Print the quickest of some looks, and the most memory."""
    best = min(looks, key=lambda look: look.wall)
    mib = max(look.mib for look in looks)
    print(f"{name:24} {best.wall:6.2f} s, CPU {best.cpu:5.2f} s, {mib:4.0f} MB    quickest of {len(looks)}")
    return Look(best.wall, best.cpu, mib, best.out)


def measure(world: World, jobs: int, seconds: float) -> bool:
    """Queue the jobs, look with every command; whether `status` saw them all within its limits."""
    took = world.queue(jobs)
    print(f"{jobs:,} jobs queued in {took:.0f} s on {os.cpu_count()} cores\n")
    first = f"run-{max(1, jobs * RUNS_OF_TEN // 10 // 2)}"
    found = told("status", [world.trnctl("-o", "json", "status") for _ in range(LOOKS)])
    for words in (("runs",), ("top", "--once"), ("why", first), ("why",), ("logs", first), ("cost",)):
        told(" ".join(words), [world.trnctl(*words) for _ in range(2)])
    told("cluster validate", [world.trnctl("cluster", "validate") for _ in range(2)])
    seen = json.loads(found.out)
    queued = len(world.slurm("squeue", "-h", "-o", "%i").split())
    print(f"\nsqueue has {queued:,} jobs; status saw {sum(seen['nodes'].values()):,} nodes and the newest of the runs")
    whole = queued == jobs + 1 and seen["nodes"].get("allocated") == UP and sum(seen["nodes"].values()) == NODES
    kept = found.wall <= seconds and found.mib <= MIB
    print(f"status {'within' if kept else 'BEYOND'} {seconds:g} s and {MIB} MB")
    return whole and kept


def main() -> None:
    """Measure and print; exit 1 when a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="?", type=int, default=JOBS)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trnctl-scale-") as folder:
        world = World(Path(folder))
        try:
            world.trnctl("sandbox", "up")
            world.trnctl("cluster", "create", "-y", "--suppress", "quota-short")
            good = measure(world, given.jobs, given.seconds)
        finally:
            world.trnctl("sandbox", "down")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
