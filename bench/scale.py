"""How trnctl looks at 1,875 nodes and 10,000 queued jobs: a real Slurm whose nodes have no daemons, on this machine.

    python bench/scale.py [JOBS]      exits 1 when a look takes more than 2 s or 150 MB

Submitting the jobs takes some minutes, as Slurm takes them one by one. It needs slurmctld and munge (make setup).
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.adapters.small_slurm import SmallSlurm

NODES, JOBS, LOOKS = 1875, 10_000, 5

# One look as `trnctl status` does it behind its ssh connection: the head node's script, what it says read, the screen.
LOOK = """
import resource, sys, time
from datetime import UTC, datetime
from rich.console import Console
from trnctl.actions.status import ClusterStatus, summarize
from trnctl.actions.alerts import node_alerts
from trnctl.adapters.local_shell import LocalShell
from trnctl.adapters.slurm import SlurmQueue
from trnctl.cli.status_screens import picture
from trnctl.plan.cost import spent
from trnctl.ports import Observed
from trnctl.render.agent import agent

begin = time.monotonic()
seen = SlurmQueue(LocalShell(), agent()).observe(sys.argv[1])
runs = tuple(summarize(seen, datetime.now(UTC)))
cluster = ClusterStatus("scale", "us-west-2", seen.at, Observed(None, None, ()), spent((), seen.at), seen.nodes, runs,
                        tuple(node_alerts(seen.nodes)))
with open("/dev/null", "w") as nowhere:
    Console(file=nowhere, width=100).print(picture(cluster))
peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(time.monotonic() - begin, peak / 1024, len(seen.jobs), sum(group.count for group in seen.nodes))
"""


def submit(slurm: SmallSlurm, jobs: int) -> float:
    """Queue so many jobs of four nodes each; the seconds that it took."""
    begin = time.monotonic()
    script = slurm.root / "job.sh"
    script.write_text("#!/bin/sh\nsleep 1\n")
    words = ["sbatch", "--parsable", "--hold", "-p", "scale", "-N", "4", "--output=/dev/null", str(script)]
    line = " ".join(words)
    command = f"seq {jobs} | xargs -P 8 -I@@ {line} >/dev/null"
    subprocess.run(["/bin/sh", "-c", command], env=slurm.environ, check=True, timeout=3600)
    return time.monotonic() - begin


def main() -> None:
    """Measure and print; exit 1 when a limit is broken."""
    jobs = int(sys.argv[1]) if sys.argv[1:] else JOBS
    with tempfile.TemporaryDirectory(prefix="trnctl-scale-") as folder:
        slurm = SmallSlurm(Path(folder), nodes=1, more=NODES)
        slurm.start()
        try:
            took = submit(slurm, jobs)
            print(f"{jobs:,} jobs queued in {took:.0f} s on {os.cpu_count()} cores")
            rows = []
            for _ in range(LOOKS):
                done = subprocess.run(
                    [sys.executable, "-c", LOOK, f"{folder}/shared/runs"],
                    env=slurm.environ, capture_output=True, text=True, timeout=120, check=True,
                )  # fmt: skip
                rows.append([float(word) for word in done.stdout.split()])
        finally:
            slurm.stop()
    seconds, mib = median(row[0] for row in rows), max(row[1] for row in rows)
    print(f"saw {rows[0][2]:,.0f} jobs and {rows[0][3]:,.0f} nodes: {seconds:.2f} s (<= 2), {mib:.0f} MB (<= 150)")
    print(f"of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    sys.exit(0 if seconds <= 2 and mib <= 150 else 1)


if __name__ == "__main__":
    main()
