"""The LoadMonitor: in memory, and over a real Slurm with a stand-in for neuron-monitor on its nodes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.small_slurm import SmallSlurm
from tests.adapters.small_sshd import SmallSshd
from tests.contracts.job_queue import new_run
from tests.contracts.load_monitor import LoadMonitorContract, MonitorBench
from tests.fakes import HandWoundClock
from tests.fakes.monitor import InMemoryMonitor
from trnctl.adapters.load_monitor import AgentMonitor, parse_picture
from trnctl.adapters.local_shell import LocalShell
from trnctl.adapters.ssh_shell import SshShell
from trnctl.ports import JobLoad, LoadMonitor, NodeLoad, Shell
from trnctl.render.agent import agent, node_monitor

# In the shape of neuron-monitor's own reports, as its guide and saved outputs show them: one process for each core, and
# each lists all cores.
REPORT: dict[str, Any] = {
    "neuron_runtime_data": [
        {
            "pid": 100 + own,
            "neuron_runtime_tag": str(own),
            "error": "",
            "report": {
                "execution_stats": {
                    "period": 5.0,
                    "error_summary": {"generic": 0, "numerical": 0, "transient": 0, "model": 0, "hardware": own},
                    "execution_summary": {"completed": 43, "timed_out": 0},
                    "latency_stats": {"device_latency": {"p0": 0.1, "p50": 0.25 + own / 4, "p100": 1.0}},
                    "error": "",
                },
                "memory_used": {
                    "period": 5.0,
                    "neuron_runtime_used_bytes": {"host": 2605992, "neuron_device": 2 * 1024**3},
                    "error": "",
                },
                "neuroncore_counters": {
                    "period": 5.0,
                    "neuroncores_in_use": {
                        str(core): {"neuroncore_utilization": 90.04 if core == own else 0} for core in range(2)
                    },
                    "error": "",
                },
            },
        }
        for own in range(2)
    ],
    "system_data": {
        "memory_info": {"period": 5.0, "memory_total_bytes": 8033386496, "memory_used_bytes": 7403925504, "error": ""},
        "neuron_hw_counters": {
            "period": 5.0,
            "neuron_devices": [
                {"neuron_device_index": 0, "mem_ecc_corrected": 7, "mem_ecc_uncorrected": 0, "sram_ecc_uncorrected": 2}
            ],
            "error": "",
        },
        "vcpu_usage": {"period": 5.0, "average_usage": {"user": 23.91, "system": 4.64, "idle": 71.1}, "error": ""},
    },
    "instance_info": {"instance_id": "i-0", "instance_type": "trn1.2xlarge", "error": ""},
    "neuron_hardware_info": {
        "neuron_device_count": 1,
        "neuron_device_memory_size": 32 * 1024**3,
        "neuroncore_per_device_count": 2,
        "error": "",
    },
}


class MemoryBench:
    """The monitor in memory."""

    runs_folder, running, idle = "/fsx/trnctl/runs", "runs", "waits"

    def __init__(self) -> None:
        memory = InMemoryMonitor(HandWoundClock())
        load = NodeLoad("c-1", memory.clock.now(), "trn1.2xlarge", 1, (90.0, 90.0), 4 * 1024**3, 32 * 1024**3)
        loads = (load, NodeLoad("c-2", load.at, devices=1, cores=(50.0, 50.0)))
        memory.jobs = [JobLoad("runs", "train", "7", 60, ("c-1", "c-2"), loads)]
        memory.idle = {"waits"}
        self.monitor: LoadMonitor = memory


class SlurmBench:
    """Two runs by their comments in a real Slurm: one on two nodes, one held."""

    def __init__(self, slurm: SmallSlurm, tools: Path, program: str) -> None:
        self.slurm = slurm
        path = tools / "neuron-monitor"
        path.write_text(program)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.environ = {**slurm.environ, "PATH": f"{tools}:{slurm.environ['PATH']}"}
        self.monitor: LoadMonitor = AgentMonitor(LocalShell(self.environ), agent(), node_monitor())
        self.runs_folder = tempfile.mkdtemp(prefix="runs-", dir=slurm.root / "shared")
        self.running, self.idle = new_run(), new_run()
        self._submit(self.running, "--nodes=2")
        self._submit(self.idle, "--hold")
        deadline = time.monotonic() + 20
        while "RUNNING" not in slurm.call("squeue", "-h", "-o", "%T") and time.monotonic() < deadline:
            time.sleep(0.1)

    def _submit(self, run: str, *words: str) -> None:
        Path(self.runs_folder, run).mkdir()
        ours = [f"--comment=trnctl:{run}:train", "--exclusive", "--output=/dev/null", "--wrap=sleep 60"]
        self.slurm.call("sbatch", "--parsable", *ours, *words)

    def steps(self) -> list[str]:
        """The steps of the run besides its batch script."""
        return [one for one in self.slurm.call("squeue", "-h", "-s", "-o", "%i").split() if "batch" not in one]

    def close(self) -> None:
        """Leave an empty queue."""
        for job, comment in (line.split() for line in self.slurm.call("squeue", "-h", "-o", "%i %k").splitlines()):
            if comment in {f"trnctl:{run}:train" for run in (self.running, self.idle)}:
                self.slurm.call("scancel", job)


def reporting(report: dict[str, Any]) -> str:
    """A neuron-monitor that says the same every half second, after a word that is no report."""
    text = json.dumps(json.dumps(report))
    loop = f"while True:\n    print({text}, flush=True)\n    time.sleep(0.5)\n"
    return f"#!{sys.executable}\nimport sys, time\nprint('warming up', flush=True)\n{loop}"


class TestInMemory(LoadMonitorContract):
    """The fake keeps its promises."""

    @pytest.fixture
    def bench(self) -> MonitorBench:
        return MemoryBench()


@pytest.fixture(scope="module")
def beside(slurm: SmallSlurm) -> Iterator[SlurmBench]:
    with tempfile.TemporaryDirectory(prefix="trnctl-tools-") as tools:
        bench = SlurmBench(slurm, Path(tools), reporting(REPORT))
        yield bench
        bench.close()


class TestSlurm(LoadMonitorContract):
    """A real srun into a real job."""

    @pytest.fixture
    def bench(self, beside: SlurmBench) -> MonitorBench:
        return beside


def test_processes_of_a_node_are_told_together(beside: SlurmBench) -> None:
    [picture] = beside.monitor.watch(beside.runs_folder, run=beside.running, period=1, once=True)
    load = picture.jobs[0].loads[0]
    assert load.cores == (90.0, 90.0)
    assert (load.device_used, load.device_total) == (4 * 1024**3, 32 * 1024**3)
    assert (load.errors, load.outcomes) == ({"hardware": 1}, {"completed": 86})
    assert load.ecc == {"0 mem_ecc_corrected": 7, "0 sram_ecc_uncorrected": 2}
    assert (load.latency_s, load.processes, load.cpu) == (0.5, 2, 28.9)


def test_nothing_is_left_in_the_job_when_nobody_looks_any_more(beside: SlurmBench) -> None:
    """Over ssh, whose server sends no signal when the client goes."""
    variables = {name: beside.environ[name] for name in ("PATH", "SLURM_CONF")}
    with tempfile.TemporaryDirectory(prefix="trnctl-sshd-") as folder:
        server = SmallSshd(Path(folder), variables)
        server.start()
        try:
            assert_nothing_stays(beside, SshShell(LocalShell(), "127.0.0.1", server.options()))
        finally:
            server.stop()


def assert_nothing_stays(beside: SlurmBench, shell: Shell) -> None:
    others = beside.steps()
    pictures = AgentMonitor(shell, agent(), node_monitor()).watch(beside.runs_folder, run=beside.running, period=1)
    assert not next(pictures).jobs[0].said
    assert set(beside.steps()) - set(others)
    pictures.close()  # type: ignore[attr-defined]  # a generator
    deadline = time.monotonic() + 20
    while set(beside.steps()) - set(others) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not set(beside.steps()) - set(others)


def on_a_node(path: str, *words: str, seconds: float = 30) -> list[dict[str, Any]]:
    """What the node's script prints."""
    environ = {**os.environ, "PATH": path, "SLURMD_NODENAME": "c-dy-i1-7"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", node_monitor(), *words],
        env=environ, capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_node_without_the_tool_says_so() -> None:
    [said] = on_a_node("/nonexistent", "1", "1", "5")
    assert said == {"node": "c-dy-i1-7", "problem": "neuron-monitor is not installed on this node"}


def test_a_tool_that_ends_tells_its_last_words(tmp_path: Path) -> None:
    tool = tmp_path / "neuron-monitor"
    tool.write_text("#!/bin/sh\necho 'no driver here' >&2\nexit 1\n")
    tool.chmod(0o755)
    [said] = on_a_node(f"{tmp_path}:{os.environ['PATH']}", "1", "0", "5")
    assert said["problem"] == "no driver here"


def test_a_node_stops_looking_at_its_limit(tmp_path: Path) -> None:
    tool = tmp_path / "neuron-monitor"
    tool.write_text(reporting(REPORT))
    tool.chmod(0o755)
    assert on_a_node(f"{tmp_path}:{os.environ['PATH']}", "1", "0", "1.5")


def test_what_slurm_says_comes_along_without_its_prefixes() -> None:
    job = {"job": "7", "run": "r", "stage": "train", "elapsed": "1-02:00:00", "names": ["b", "a"], "reports": []}
    said = ["srun: error: Unable to create step for job 7: Access/permission denied"] * 2
    [found] = parse_picture({"at": 0, "jobs": [{**job, "said": said}]}).jobs
    assert found.said == "Unable to create step for job 7: Access/permission denied"
    assert found.elapsed_s == 93600
