"""The speed limits of trnctl, measured as ratios in one run; exits 1 when one is broken.

It brings up a sandbox of its own in a temporary folder, creates the cluster of an example in it, measures, and takes
everything down again. Runs that are compared alternate, and the medians are compared, so that a machine that is slow
or busy is so for both. Limits in seconds are held against the quickest run: what else a machine does makes any run
slower, and none quicker.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from trnctl.sandbox.aws.environment import pcluster_environment

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
TRNCTL = str(BIN / "trnctl")
EXAMPLE = ROOT / "examples" / "trn1-16-nodes.yaml"
RUNS = 7
UPS = 5

# An installed package has its byte code on disk; a checkout keeps none where this variable is set.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

# Two commands and nothing else, as typer makes them: with its own help, which trnctl leaves out for a quicker start.
BARE = """
import typer

app = typer.Typer()


@app.command()
def one() -> None:
    "The first."


@app.command()
def two() -> None:
    "The second."


app()
"""

# Stands before the real ssh on PATH and notes each start.
COUNTING_SSH = """#!/bin/sh
echo start >>'{log}'
exec '{ssh}' "$@"
"""


LOG_LINE = b"2026-10-01 09:12:01,%03d - [slurm_plugin.clustermgtd:main] - INFO - step %d, node trn1-dy-t32-%d\n"
LOG_NEEDLE = b"2026-10-01 09:12:02,001 - ERROR - An error occurred (VcpuLimitExceeded) when calling the RunInstances\n"
FILE_HEAD = """\
Region: us-west-2
Image: {Os: ubuntu2404}
HeadNode:
  InstanceType: c5.4xlarge
  Networking: {SubnetId: subnet-0aa11bb22cc33dd41}
  Ssh: {KeyName: demo-ed25519, AllowedIps: 203.0.113.0/24}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
"""
FILE_QUEUE = """\
  - Name: queue{0}
    ComputeSettings: {{LocalStorage: {{RootVolume: {{Size: 512}}}}}}
    ComputeResources:
    - {{Name: i{0}, InstanceType: trn1.32xlarge, MinCount: 0, MaxCount: 8, Efa: {{Enabled: true}}}}
    CustomActions: {{OnNodeConfigured: {{Script: "s3://demo-bkt/i.sh", Args: [a, b]}}}}
    Iam: {{S3Access: [{{BucketName: demo-bkt}}]}}
    JobExclusiveAllocation: true
    Networking: {{SubnetIds: [subnet-0aa11bb22cc33dd42], PlacementGroup: {{Enabled: true}}}}
"""


@dataclass(frozen=True)
class Row:
    """One line of the result: `figure` must not be above `limit`."""

    what: str
    detail: str
    figure: float
    limit: float
    unit: str = ""

    @property
    def kept(self) -> bool:
        return self.figure <= self.limit

    def __str__(self) -> str:
        figure, limit = f"{self.figure:.2f}{self.unit}", f"{self.limit:g}{self.unit}"
        return f"{self.what:38} {self.detail:54} {figure:>7}  ≤ {limit:6} {'kept' if self.kept else 'BROKEN'}"


def within(what: str, of: str, walls: Sequence[float], seconds: float) -> Row:
    """A limit in seconds of wall time, held against the quickest of the runs."""
    return Row(what, f"{of}, quickest of {len(walls)}, median {median(walls):.2f} s", min(walls), seconds, " s")


@dataclass(frozen=True)
class Used:
    """What one command took, in seconds; `cpu` is user and system time of the process and its children."""

    wall: float
    cpu: float


def used_by(argv: Sequence[str], environment: Mapping[str, str]) -> Used:
    """Run a command that must succeed."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        child = subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            output.seek(0)
            sys.exit(f"{' '.join(argv)} exited {child.returncode}:\n{output.read().decode(errors='replace')}")
    return Used(wall, usage.ru_utime + usage.ru_stime)


def alternate(
    one: Sequence[str], other: Sequence[str], of_one: Mapping[str, str], of_other: Mapping[str, str]
) -> tuple[list[Used], list[Used]]:
    """Run two commands by turns, once unmeasured (files come into memory, byte code is written), then RUNS times."""
    pairs = [(used_by(one, of_one), used_by(other, of_other)) for _ in range(RUNS + 1)]
    return [pair[0] for pair in pairs[1:]], [pair[1] for pair in pairs[1:]]


class World:
    """A sandbox of this benchmark's own, below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "sandbox"
        self.ssh_log = folder / "ssh.log"
        counting = folder / "bin"
        counting.mkdir()
        script = COUNTING_SSH.format(log=self.ssh_log, ssh=shutil.which("ssh"))
        (counting / "ssh").write_text(script)
        (counting / "ssh").chmod(0o755)
        self.environment = {
            **ENVIRONMENT,
            "PATH": os.pathsep.join([str(counting), str(BIN), os.environ["PATH"]]),
            "TRNCTL_SANDBOX_HOME": str(self.home),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def trnctl(self, *argv: str) -> Used:
        """Run one command of trnctl against this world."""
        return used_by(self.line(*argv), self.environment)

    def line(self, *argv: str) -> list[str]:
        """The argv of one command of trnctl against this world."""
        return [TRNCTL, "--sandbox", "-c", str(EXAMPLE), *argv]

    def pcluster_environment(self) -> dict[str, str]:
        """What pcluster needs to speak to this world."""
        facts = json.loads((self.home / "sandbox.json").read_text())
        return pcluster_environment(facts["endpoint"], facts["region"], self.home, base=self.environment)

    def ssh_starts(self) -> int:
        """How often ssh was started on this side, by whomever."""
        return self.ssh_log.read_text().count("start") if self.ssh_log.exists() else 0

    def connections(self) -> int:
        """How many connections the head node's sshd let in."""
        return sum(log.read_text().count("Accepted publickey") for log in self.home.glob("clusters/*/log/sshd.out"))


@contextmanager
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="trnctl-bench-") as folder:
        it = World(Path(folder))
        try:
            yield it
        finally:
            subprocess.run(
                [TRNCTL, "sandbox", "down"], env=it.environment, capture_output=True, timeout=60, check=False
            )


def start_of_help(folder: Path) -> Row:
    bare = folder / "bare.py"
    bare.write_text(BARE)
    ours, theirs = alternate([TRNCTL, "--help"], [sys.executable, str(bare), "--help"], ENVIRONMENT, ENVIRONMENT)
    mine, base = median(run.cpu for run in ours), median(run.cpu for run in theirs)
    return Row("trnctl --help", f"CPU {mine:.3f} s, bare typer application {base:.3f} s", mine / base, 1.25)


def sandbox_up(it: World) -> Row:
    """The last start stays up."""
    walls = []
    for turn in range(UPS):
        if turn:
            it.trnctl("sandbox", "down")
        walls.append(it.trnctl("sandbox", "up").wall)
    return Row("trnctl sandbox up", f"wall, median of {UPS}, longest {max(walls):.2f} s", median(walls), 4, " s")


def submit(it: World) -> Row:
    """The first command that goes to the head node, and one more while its connection may still stand."""
    counts = []
    for _ in range(2):
        starts, connections = it.ssh_starts(), it.connections()
        it.trnctl("submit", "bert-large", "-N", "16", "--hold")
        counts.append((it.ssh_starts() - starts, it.connections() - connections))
    (first, made), (second, more) = counts
    if first == 0 or made == 0:
        sys.exit("the submit went past the ssh on PATH or past sshd's log: nothing was counted")
    detail = f"ssh started {first} and {second} times, connected {made} and {more}"
    return Row("trnctl submit, cold and again", detail, max(first, made, second, more), 1)


def graphs(cache: Path, count: int) -> None:
    """Put so many whole graphs into a cache, and into the ledger of its one fingerprint."""
    (ledger,) = (cache / "ledger").glob("*.json")
    (compiler,) = cache.glob("neuronxcc-*")
    told = json.loads(ledger.read_text())
    for number in range(count):
        graph = compiler / f"MODULE_{number}+d41d8cd9"
        graph.mkdir()
        for name in ("model.hlo_module.pb", "model.neff", "model.done"):
            (graph / name).write_text("x")
        told["graphs"].append(f"{compiler.name}/{graph.name}")
    ledger.write_text(json.dumps(told))


def compile_cache(it: World) -> list[Row]:
    """What 200 compiled graphs cost a submit more than --compile skip, and what 10,000 cost `cache verify`."""
    it.trnctl("submit", "bert-large", "-N", "2", "--name", "compiles", "-f")
    (cache,) = it.home.glob("clusters/*/root/fsx/trnctl/cache/trn1/*")
    graphs(cache, 200)
    words = ("submit", "bert-large", "-N", "2", "--hold")
    cached, skipped = alternate(it.line(*words), it.line(*words, "--compile", "skip"), it.environment, it.environment)
    mine, base = min(run.wall for run in cached), min(run.wall for run in skipped)
    rows = [Row("cached submit, 200 graphs", f"{mine:.2f} s, --compile skip {base:.2f} s", mine - base, 1, " s")]
    program = (
        "import sys, time, pathlib; sys.path.insert(0, sys.argv[1]); import tend; began = time.perf_counter(); "
        "tend.look({}, [pathlib.Path(sys.argv[2])], ''); print(time.perf_counter() - began)"
    )
    with tempfile.TemporaryDirectory() as folder:
        many = Path(folder) / "cache/trn1/2.31.1"
        (many / "ledger").mkdir(parents=True)
        (many / "neuronxcc-1+a").mkdir()
        (many / "ledger" / "abc.json").write_text('{"graphs": [], "state": "complete"}')
        graphs(many, 10_000)
        argv = [sys.executable, "-c", program, str(ROOT / "templates" / "node"), str(Path(folder) / "runs")]
        walls = [float(subprocess.run(argv, capture_output=True, check=True).stdout) for _ in range(RUNS)]
    rows.append(within("cache verify, 10,000 graphs", "on the head node", walls, 2))
    return rows


def status(it: World) -> Row:
    facts = it.pcluster_environment()
    describe = [str(BIN / "pcluster"), "describe-cluster", "-n", cluster_name(), "-r", facts["AWS_REGION"]]
    ours, theirs = alternate(it.line("status"), describe, it.environment, facts)
    mine, base = median(run.wall for run in ours), median(run.wall for run in theirs)
    return Row(
        "trnctl --sandbox status", f"wall {mine:.2f} s, pcluster describe-cluster {base:.2f} s", mine / base, 0.6
    )


def trainer() -> list[Row]:
    """The reference trainer on one rank of a CPU: mechanisms, not the speed of an accelerator."""
    argv = [sys.executable, str(Path(__file__).with_name("trainer.py"))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode != 0:
        sys.exit(f"bench/trainer.py exited {done.returncode}:\n{done.stderr}")
    rows = []
    for name, what, other, limit in (
        ("plain", "trainer, a step", "a plain loop", 1.4),
        ("offload", "trainer, offload H = 2", "save_on_cpu", 1.2),
    ):
        mine, base = json.loads(done.stdout)[name]
        rows.append(Row(what, f"CPU {mine * 1000:.0f} ms, {other} {base * 1000:.0f} ms; no GPU", mine / base, limit))
    return rows


def why_file(folder: Path) -> Row:
    """100 MB of a daemon's log with one line that matters, from a file."""
    block = b"".join(LOG_LINE % (number % 1000, number, number % 16) for number in range(10_000))
    with (folder / "big.log").open("wb") as log:
        for _ in range(100_000_000 // len(block)):
            log.write(block)
        log.write(LOG_NEEDLE)
    walls = [used_by([TRNCTL, "why", str(folder / "big.log")], ENVIRONMENT).wall for _ in range(3)]
    return within("trnctl why FILE", "100 MB", walls, 4)


def validate(folder: Path) -> Row:
    """A ParallelCluster file of fifty queues, from a file."""
    path = folder / "fifty.yaml"
    path.write_text(FILE_HEAD + "".join(FILE_QUEUE.format(number) for number in range(50)))
    walls = [used_by([TRNCTL, "cluster", "validate", str(path)], ENVIRONMENT).wall for _ in range(RUNS + 1)][1:]
    return within("trnctl cluster validate FILE", "50 queues", walls, 0.5)


def cluster_name() -> str:
    from trnctl.specs.loading import load_cluster_file

    return load_cluster_file(EXAMPLE.read_text(), str(EXAMPLE)).cluster.name


def main() -> None:
    """Measure everything, print the table, and exit 1 when a limit is broken."""
    with world() as it:
        rows = [start_of_help(it.folder), validate(it.folder), why_file(it.folder), sandbox_up(it)]
        it.trnctl("cluster", "create", "-y")
        rows += [submit(it), status(it), *compile_cache(it)]
    rows += trainer()
    print(f"medians of {RUNS} alternating runs, {os.cpu_count()} cores\n")
    print(*rows, sep="\n")
    sys.exit(0 if all(row.kept for row in rows) else 1)


if __name__ == "__main__":
    main()
