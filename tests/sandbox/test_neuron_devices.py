"""What people look at nodes with: neuron-ls, neuron-top, neuron-monitor, fi_info, nccom-test."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.neuron_cluster import SECONDS, NeuronCluster
from trnctl.sandbox.neuron.devices import connected
from trnctl.sandbox.neuron.packages import packages
from trnctl.sandbox.neuron.running import Training, holding_cores
from trnctl.specs.sdk_rows import ROWS

# The torus of trn1.32xlarge as Neuron's documentation prints it.
DOCUMENTED_LINKS = {
    0: [12, 3, 4, 1], 1: [13, 0, 5, 2], 2: [14, 1, 6, 3], 3: [15, 2, 7, 0], 4: [0, 7, 8, 5], 5: [1, 4, 9, 6],
    6: [2, 5, 10, 7], 7: [3, 6, 11, 4], 8: [4, 11, 12, 9], 9: [5, 8, 13, 10], 10: [6, 9, 14, 11], 11: [7, 10, 15, 8],
}  # fmt: skip
DEVICE_KEYS = {
    "neuron_device", "bdf", "cpu_affinity", "numa_node", "connected_to", "nc_count", "logical_neuroncore_config",
    "memory_size", "neuroncore_ids", "neuron_processes",
}  # fmt: skip
TRAINING = Training(pid=os.getpid(), command="python3 train.py", cores=32, tag="run-7", busy=True, step=3)


@pytest.fixture
def cluster(tmp_path: Path) -> NeuronCluster:
    return NeuronCluster(tmp_path)


@pytest.mark.parametrize(
    ("node", "devices", "cores", "gib"),
    [("q-dy-i1-16", 16, 2, 32), ("n-dy-i1-1", 16, 2, 32), ("small-dy-i1-3", 1, 2, 32), ("two-dy-i1-1", 16, 4, 96)],
)
def test_neuron_ls_lists_the_devices_of_the_type(
    cluster: NeuronCluster, node: str, devices: int, cores: int, gib: int
) -> None:
    found = cluster.json("neuron-ls", "-j", node=node)
    assert [each["neuron_device"] for each in found] == list(range(devices))
    assert all(set(each) >= DEVICE_KEYS for each in found)
    assert {each["nc_count"] for each in found} == {cores}
    assert {each["memory_size"] for each in found} == {gib * 1024**3}
    assert [core for each in found for core in each["neuroncore_ids"]] == list(range(devices * cores))


def test_logical_cores_of_trainium2_split(cluster: NeuronCluster) -> None:
    (first, *_) = cluster.json("neuron-ls", "-j", node="two-dy-i1-1", NEURON_LOGICAL_NC_CONFIG="1")
    assert (first["nc_count"], first["logical_neuroncore_config"]) == (8, 1)


def test_links_are_the_documented_torus() -> None:
    assert {index: connected(index, 16) for index in DOCUMENTED_LINKS} == DOCUMENTED_LINKS
    assert connected(0, 1) is None


def test_neuron_ls_draws_a_table(cluster: NeuronCluster) -> None:
    done = cluster.run("neuron-ls", "--wide", "--show-all-procs", "--topology")
    lines = done.stdout.splitlines()
    assert lines[0] == "instance-type: trn1.32xlarge"
    assert re.match(r"\| NEURON \| NEURON \| NEURON +\| NEURON \| CONNECTED +\| PCI +\| CPU +\| NUMA \|", lines[3])
    assert re.match(r"\| 4 +\| 2 +\| 8-9 +\| 32 GB +\| 0, 7, 8, 5 +\| 0000:20:1b\.0 \|", lines[10])
    assert "emulated by the trnctl sandbox" in done.stderr


def test_neuron_ls_knows_the_flags_of_its_release(cluster: NeuronCluster) -> None:
    assert cluster.run("neuron-ls", "--output-format", "json").returncode == 2
    cluster.emulate(neuron_sdk="2.34.0")
    assert cluster.run("neuron-ls", "-j").returncode == 2
    found = cluster.json("neuron-ls", "--output-format", "json")
    assert found["instance_type"] == "trn1.32xlarge"
    assert len(found["neuron_devices"]) == 16


@pytest.mark.parametrize("tool", ["neuron-ls", "neuron-top", "neuron-monitor"])
def test_a_head_node_has_no_devices(cluster: NeuronCluster, tool: str) -> None:
    done = cluster.run(tool, node="ip-10-0-0-10")
    assert done.returncode == 1
    assert "no Neuron device" in done.stderr


def test_neuron_ls_shows_the_training_of_its_node_only(cluster: NeuronCluster) -> None:
    with holding_cores(cluster.folder, "q-dy-i1-1", TRAINING._replace(cores=2)):
        first, second, *_ = cluster.json("neuron-ls", "-j")
        assert [process["pid"] for process in first["neuron_processes"]] == [os.getpid()]
        assert first["neuron_processes"][0]["neuron_runtime_version"] == "2.33.10.0"
        assert second["neuron_processes"] == []
        assert "python3 train.py" in cluster.run("neuron-ls").stdout
        assert all(each["neuron_processes"] == [] for each in cluster.json("neuron-ls", "-j", node="q-dy-i1-2"))
    assert all(each["neuron_processes"] == [] for each in cluster.json("neuron-ls", "-j"))


def test_a_killed_training_gives_its_cores_back(cluster: NeuronCluster) -> None:
    cluster.emulate(steps=1000, step_seconds=0.1)
    with cluster.start(*cluster.bert()) as torchrun:
        assert torchrun.stdout
        assert any("LOG" in line for line in torchrun.stdout)
        (process,) = cluster.json("neuron-ls", "-j")[0]["neuron_processes"]
        os.kill(process["pid"], signal.SIGKILL)
        torchrun.communicate(timeout=SECONDS)
    assert cluster.json("neuron-ls", "-j")[0]["neuron_processes"] == []


@pytest.mark.parametrize(("node", "devices"), [("q-dy-i1-1", 8), ("n-dy-i1-1", 16), ("two-dy-i1-1", 16)])
def test_fi_info_shows_the_efa_devices(cluster: NeuronCluster, node: str, devices: int) -> None:
    done = cluster.run("fi_info", "-p", "efa", "-t", "FI_EP_RDM", node=node)
    assert done.returncode == 0
    assert done.stdout.count("provider: efa\n") == devices
    assert done.stdout.count("type: FI_EP_RDM\n") == devices
    assert len(set(re.findall(r"domain: (\S+-rdm)", done.stdout))) == devices


@pytest.mark.parametrize("node", ["small-dy-i1-1", "head"])
def test_fi_info_fails_where_there_is_no_efa(cluster: NeuronCluster, node: str) -> None:
    done = cluster.run("fi_info", "-p", "efa", "-t", "FI_EP_RDM", node=node)
    assert (done.returncode, done.stdout) == (61, "")
    assert "fi_getinfo: -61" in done.stderr


def test_nccom_test_prints_and_writes_what_the_guide_shows(cluster: NeuronCluster) -> None:
    report = cluster.folder / "report.json"
    words = ["nccom-test", "-r", "32", "-b", "1kb", "-e", "1mb", "-f", "8", "-d", "fp32", "allg"]
    done = cluster.run(*words, "--non-interactive", "--report-to-json-file", str(report))
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:5]] == ["1024", "8192", "65536", "524288"]
    assert re.search(r"^Avg bus bandwidth:\s+[\d.]+GB/s$", done.stdout, re.MULTILINE)
    first = json.loads(report.read_text(encoding="utf-8"))["results"][0]
    assert set(first) == {"size(B)", "count(elems)", "type", "algbw(GB/s)", "busbw(GB/s)", "time:avg(us)"}
    assert first["count(elems)"] == 256
    assert "no figure here is measured" in done.stderr


def test_nccom_test_refuses_what_the_node_cannot_run(cluster: NeuronCluster) -> None:
    done = cluster.run("nccom-test", "-r", "24", "allr")
    assert done.returncode == 1
    assert "Unsupported topology" in done.stderr
    assert "1 errors found - test failed" in done.stdout


@contextmanager
def monitor(cluster: NeuronCluster, **configuration: object) -> Iterator[subprocess.Popen[str]]:
    """neuron-monitor with a configuration file; ended at the end of the block."""
    path = cluster.folder / "monitor.json"
    path.write_text(json.dumps(configuration), encoding="utf-8")
    with cluster.start("neuron-monitor", "-c", str(path)) as tool:
        try:
            yield tool
        finally:
            tool.kill()


def next_report(tool: subprocess.Popen[str]) -> dict[str, Any]:
    assert tool.stdout
    content: dict[str, Any] = json.loads(tool.stdout.readline())
    return content


def test_neuron_monitor_reports_what_runs(cluster: NeuronCluster) -> None:
    with monitor(cluster, period="100ms") as tool:
        idle = next_report(tool)
        assert set(idle) == {"neuron_runtime_data", "system_data", "instance_info", "neuron_hardware_info"}
        assert idle["neuron_runtime_data"] == []
        assert idle["neuron_hardware_info"]["neuron_device_count"] == 16
        assert idle["instance_info"]["instance_type"] == "trn1.32xlarge"
        with holding_cores(cluster.folder, "q-dy-i1-1", TRAINING) as tell:
            busy = _until(tool, lambda report: bool(report["neuron_runtime_data"]))["neuron_runtime_data"][0]
            assert (busy["pid"], busy["neuron_runtime_tag"]) == (os.getpid(), "run-7")
            use = busy["report"]["neuroncore_counters"]["neuroncores_in_use"]
            assert list(use) == [str(core) for core in range(32)]
            assert all(80 < core["neuroncore_utilization"] <= 100 for core in use.values())
            assert busy["report"]["execution_stats"]["execution_summary"]["completed"] == 3
            assert all({"period", "error"} <= set(group) for group in busy["report"].values())
            tell(TRAINING._replace(busy=False))
            _until(tool, lambda report: _utilization(report) == 0)


def _until(tool: subprocess.Popen[str], wanted: Any) -> dict[str, Any]:
    for _ in range(50):
        report = next_report(tool)
        if wanted(report):
            return report
    raise AssertionError("the report that was waited for did not come")


def _utilization(report: dict[str, Any]) -> float:
    cores = report["neuron_runtime_data"][0]["report"]["neuroncore_counters"]["neuroncores_in_use"]
    return max(float(core["neuroncore_utilization"]) for core in cores.values())


def test_neuron_monitor_reports_only_the_groups_that_it_is_asked_for(cluster: NeuronCluster) -> None:
    asked = [{"tag_filter": ".*", "metrics": [{"type": "neuroncore_counters"}]}]
    system = [{"type": "memory_info"}]
    with (
        holding_cores(cluster.folder, "q-dy-i1-1", TRAINING),
        monitor(cluster, period="1s", neuron_runtimes=asked, system_metrics=system) as tool,
    ):
        report = next_report(tool)
    assert list(report["neuron_runtime_data"][0]["report"]) == ["neuroncore_counters"]
    assert list(report["system_data"]) == ["memory_info"]


def test_neuron_monitor_ends_on_sigterm(cluster: NeuronCluster) -> None:
    with monitor(cluster, period="1h") as tool:
        next_report(tool)
        tool.terminate()
        assert tool.wait(SECONDS) == -signal.SIGTERM


def test_neuron_monitor_ends_when_nobody_reads(cluster: NeuronCluster) -> None:
    with monitor(cluster, period="20ms") as tool:
        next_report(tool)
        assert tool.stdout
        tool.stdout.close()
        assert tool.wait(SECONDS) == -signal.SIGPIPE


def test_neuron_monitor_refuses_a_bad_configuration(cluster: NeuronCluster) -> None:
    (cluster.folder / "bad.json").write_text('{"period": "often"}', encoding="utf-8")
    done = cluster.run("neuron-monitor", "-c", "bad.json")
    assert done.returncode == 1
    assert "'often' is not a period" in done.stderr


def test_neuron_top_without_a_terminal_shows_one_screen(cluster: NeuronCluster) -> None:
    with holding_cores(cluster.folder, "q-dy-i1-1", TRAINING):
        done = cluster.run("neuron-top")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    percents = re.findall(r"NC\d+ +\[.*?\] +([\d.]+)%", done.stdout)
    assert len(percents) == 32
    assert all(float(percent) > 80 for percent in percents)
    assert f"[{os.getpid()}] step 3  python3 train.py" in done.stdout


def test_the_packages_of_a_node_are_those_that_nodes_are_given() -> None:
    for release in ROWS:
        newest = release.version in {"2.28.0", "2.29.1", "2.30.0", "2.31.1", "2.32.0", "2.33.0"}
        if newest:
            given = (release.driver, release.runtime, release.collectives, release.tools)
            assert tuple(packages(release.version).values()) == given, release.version


def test_packages_and_driver_are_told_as_the_real_tools_do(cluster: NeuronCluster) -> None:
    asked = ("dpkg-query", "-W", "-f", r"${Package} ${Version}\n", "aws-neuronx-dkms", "aws-neuronx-tools")
    assert cluster.run(*asked).stdout == "aws-neuronx-dkms 2.29.0.0\naws-neuronx-tools 2.31.15.0\n"
    assert cluster.run("modinfo", "-F", "version", "neuron").stdout == "2.29.0.0\n"
    head = cluster.run(*asked, node="head")
    assert (head.returncode, head.stdout) == (1, "")
    assert cluster.run("modinfo", "-F", "version", "neuron", node="head").returncode == 1
    assert cluster.run("dpkg-query", "-W", "-f", "${Package}", "coreutils").stdout == "coreutils"


def test_faults_of_one_node_strike_that_node_alone(cluster: NeuronCluster) -> None:
    def bandwidth(*hosts: str) -> float:
        done = cluster.run(
            "nccom-test", "-r", "64", "-N", "2", "-b", "1gb", "-e", "1gb", "-d", "fp32", "allr", "--hosts", *hosts
        )
        return float(done.stdout.rpartition("Avg bus bandwidth:")[2].removesuffix("GB/s\n"))

    cluster.emulate(faults=["missing-device", "slow-link", "old-driver"], struck="q-dy-i1-2")
    counts = [len(json.loads(cluster.run("neuron-ls", "-j", node=f"q-dy-i1-{n}").stdout)) for n in (1, 2)]
    assert counts == [16, 15]
    drivers = [cluster.run("modinfo", "-F", "version", "neuron", node=f"q-dy-i1-{n}").stdout for n in (1, 2)]
    assert drivers == ["2.29.0.0\n", "2.26.5.0\n"]
    assert bandwidth("q-dy-i1-1", "q-dy-i1-2") < 0.5 * bandwidth("q-dy-i1-1", "q-dy-i1-3")
    cluster.emulate(faults=["hung-link"], struck="q-dy-i1-2")
    with cluster.start("nccom-test", "-r", "64", "-N", "2", "allr", "--hosts", "q-dy-i1-1", "q-dy-i1-2") as hung:
        with pytest.raises(subprocess.TimeoutExpired):
            hung.wait(2)
        hung.kill()
