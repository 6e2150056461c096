"""A run's folder on this machine, and stand-ins for what its job scripts start, so that they run without Slurm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.recipes import layout, recipe, request
from trnctl.plan.cap import Cap
from trnctl.render.job import documents
from trnctl.render.places import code_folder
from trnctl.specs.workload import WorkloadSpec

# srun: only node 0, with the output where Slurm would put it; of any node it tells whether it answers. A signal goes to
# the whole process group, as Slurm sends it; therefore each step is a group of its own.
_SRUN = """\
import os, signal, subprocess, sys
words = sys.argv[1:]
with open(os.environ["SEEN"] + ".steps", "a") as steps:
    print("all nodes" if "bash" in words else " ".join(w for w in words if w.startswith("--nodelist")), file=steps)
if "bash" not in words:
    sys.exit(any(f"--nodelist={node}" in words for node in os.environ.get("SILENT", "").split()))
options = [words.pop(0) for _ in range(words.index("bash"))]
pattern = next(o for o in options if o.startswith("--output=")).removeprefix("--output=")
name = pattern.replace("%%", "\\0").replace("%n", "0").replace("\\0", "%")
with open(name, "ab") as log:
    step = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, "SLURM_NODEID": "0"}, process_group=0)
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.killpg(step.pid, number))
code = step.wait()
sys.exit(code if code >= 0 else 128 - code)
"""
_TORCHRUN = """\
import json, os, sys
with open(os.environ["SEEN"], "w") as seen:
    json.dump({"argv": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}, seen)
exec(os.environ.get("STAND_IN", ""))
"""
_SCONTROL = """\
case $* in
requeue*) echo "$*" >>"$SEEN.requeued" ;;
update*) echo "$*" >>"$SEEN.updated"; [ -z "$NO_UPDATE" ] ;;
"show config") [ "$SLURMD_TIMEOUT" = none ] || echo "SlurmdTimeout           = ${SLURMD_TIMEOUT-180} sec" ;;
*hostnames*) printf 'n-1\\nn-2\\n' ;;
*) [ -n "$NO_ADDRESS" ] || printf 'NodeName=n-1 Arch=x86_64 NodeAddr=%s NodeHostName=n-1\\n' "${ADDRESS-10.0.1.12}" ;;
esac
"""
_SYSCTL = """\
echo "$*" >>"$SEEN.sysctl"
[ "$1" != -n ] || echo 44000
[ "$1" = -n ] || [ -z "$NO_RIGHT" ]
"""
# The jobs that live, in the form that cache.py asks for, or this job's own state; the job's nodes that are down, as
# Slurm has noticed by then.
_SQUEUE = 'case "$*" in *"-o %T"*) printf "%s" "$OWN_STATE" ;; *) printf "%s" "$JOBS" ;; esac'
_SINFO = """\
echo "$*" >>"$SEEN.sinfo"
[ "$(wc -l <"$SEEN.sinfo")" -le "${UNNOTICED:-0}" ] || printf "%s" "$LOST"
"""
_COMPILER = """\
echo "$*" >>"$SEEN.compiler"
case $1 in --*) shift ;; esac
"$@" || exit 1
sh -c "$COMPILER"
"""


@dataclass(frozen=True)
class JobFolder:
    """The files of one run, rendered for a shared file system at `mount`, and the tools that its jobs find."""

    mount: Path
    folder: Path
    tools: Path

    def start(self, stage: str, **environment: str) -> subprocess.Popen[str]:
        """Start a stage's batch script, as slurmd would; what it says goes to a pipe."""
        slurm = {
            "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n-[1-2]", "SLURM_JOB_NUM_NODES": "2", "SLURMD_NODENAME": "n-1",
        }  # fmt: skip
        base = {"PATH": f"{self.tools}:/usr/bin:/bin", "SEEN": str(self.mount / "seen.json"), "LC_ALL": "C.UTF-8"}
        return subprocess.Popen(
            ["bash", str(self.folder / f"{stage}.sbatch")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**base, **slurm, **environment},
        )  # fmt: skip

    def run(self, stage: str, **environment: str) -> tuple[int, str]:
        """Run a stage's batch script to its end: its exit code and what it said."""
        return end(self.start(stage, **environment))

    def seen(self) -> dict[str, Any]:
        """What torchrun was started with: argv, environment, folder."""
        return dict(json.loads((self.mount / "seen.json").read_text()))

    def record(self, name: str) -> dict[str, Any]:
        """A JSON file of the run's folder."""
        return dict(json.loads((self.folder / name).read_text()))

    def log(self, stage: str) -> str:
        """The log of node 0."""
        return (self.folder / "logs" / stage / "node-0.log").read_text()


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a batch script's end: its exit code and what it said. One that hangs is killed, with all it started."""
    try:
        said, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        for number in descendants(process.pid):
            os.kill(number, signal.SIGKILL)
        raise
    return process.returncode, said


def descendants(root: int) -> list[int]:
    """A process and all that it started, as ps tells."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, timeout=10, check=True)
    parents = {int(pid): int(parent) for pid, parent in map(str.split, listed.stdout.splitlines())}
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def make_job_folder(
    mount: Path,
    *,
    workload: WorkloadSpec | None = None,
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, str] | None = None,
    notice: str = "",
    sdk: str = "2.31.1",
    mirror: str = "",
    cap: Cap | None = None,
    check: bool = False,
    time_limit: str | None = None,
) -> JobFolder:
    """Render bert-large, or another workload, for two nodes below `mount`, with its code and its tools in place."""
    spec = workload or recipe()
    folder = mount / "trnctl/runs/bert-large-1129-a3f"
    folder.mkdir(parents=True)
    asked = request(
        folder=str(folder), mount=str(mount), environment=dict(environment or {}), arguments=dict(arguments or {}),
        notice=notice,
    )  # fmt: skip
    asked = replace(asked, sdk=sdk, cap=cap, mirror=mirror, check=check, time_limit=time_limit or asked.time_limit)
    for file in documents(spec, layout(2, workload=spec), asked):
        (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_text(file.text)
    code = Path(code_folder(str(mount), spec.source))
    code.mkdir(parents=True)
    (code / spec.script).touch()
    tools = mount / "tools"
    tools.mkdir()
    for name, text in (("srun", _SRUN), ("torchrun", _TORCHRUN)):
        (tools / name).write_text(f"#!{sys.executable}\n{text}")
    shells = (
        ("scontrol", _SCONTROL),
        ("sysctl", _SYSCTL),
        ("neuron_parallel_compile", _COMPILER),
        ("squeue", _SQUEUE),
        ("sinfo", _SINFO),
    )
    for name, text in shells:
        (tools / name).write_text(f"#!/bin/sh\n{text}")
    (tools / "sudo").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    return JobFolder(mount, folder, tools)
