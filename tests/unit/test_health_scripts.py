"""node_health.py, judge_health.py and health.py as a job's nodes run them, with stand-ins for Slurm and Neuron."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trnctl.codes import CODES
from trnctl.render import templates
from trnctl.render.health import check_files, expected, health_job, limit_s, scripts

NAMES = ("node_health", "judge_health", "health")
NODES = ["n-1", "n-2", "n-3", "n-4"]
EXPECT: dict[str, Any] = expected("trn1.32xlarge", ["/"], sdk="2.31.1", efa=True, collectives=True)


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, Any]]:
    """The scripts as modules, by name."""
    folder = Path(__file__).parents[2] / "templates" / "job"
    for name in NAMES:
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    yield {name: sys.modules[name] for name in NAMES}
    for name in NAMES:
        del sys.modules[name]


def report(node: str, **other: object) -> dict[str, Any]:
    """What a node tells that is well."""
    return {
        "node": node,
        "delay_s": 0.4,
        "devices": {"count": 16, "cores": 32, "busy": [], "error": ""},
        "efa": {"count": 8, "error": ""},
        "collective": {"busbw": 52.8, "error": "", "seconds": 3.0},
        "disks": [{"path": "/", "bytes": 500 << 30, "free": 400 << 30, "error": ""}],
        "clock_s": 0.0001,
        "versions": {"kernel": "6.8", "driver": "2.29.0.0"},
        "errors": {},
        **other,
    }


def links(modules: dict[str, Any], bad: str = "", nodes: list[str] = NODES, **other: object) -> list[dict[str, Any]]:
    """What became of each pair; `other` of those that the node `bad` is in, or of `all`."""
    pairs = [pair for pairs in modules["judge_health"].rounds(nodes) for pair in pairs]
    well = {"busbw": 46.5, "error": "", "seconds": 120}
    return [{"nodes": list(pair), **well, **(other if bad in ("all", *pair) else {})} for pair in pairs]


def judged(
    modules: dict[str, Any], reports: dict[str, Any], found: list[dict[str, Any]] | None = None, **expect: object
) -> tuple[list[tuple[str, str, str]], list[str], bool]:
    """(code, level, node) of each finding, the nodes that fail, whether it is no matter of nodes."""
    nodes = [node for node in NODES if node in reports]
    findings, failed, systemic = modules["judge_health"].judge(nodes, reports, found or [], {**EXPECT, **expect})
    assert all(one["message"] for one in findings)
    return [(one["code"], one["level"], one["node"]) for one in findings], failed, systemic


def all_well(**of_second: object) -> dict[str, Any]:
    return {node: report(node, **(of_second if node == "n-2" else {})) for node in NODES}


def test_nodes_that_are_well_are_told_nothing_of(modules: dict[str, Any]) -> None:
    assert judged(modules, all_well(), links(modules)) == ([], [], False)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("node-devices", {"devices": {"count": 15, "cores": 30, "busy": [], "error": ""}}),
        ("node-devices", {"devices": {"count": 0, "error": "neuron-ls: not found"}}),
        ("node-memory-errors", {"errors": {"mem_ecc_uncorrected": 2}}),
        ("node-efa", {"efa": {"count": 7, "error": ""}}),
        ("node-efa", {"efa": {"count": 0, "error": "no data available"}}),
        ("node-disk", {"disks": [{"path": "/", "bytes": 500 << 30, "free": 1 << 30, "error": ""}]}),
        ("node-disk", {"disks": [{"path": "/scratch", "bytes": 0, "free": 0, "error": "No such file"}]}),
        ("node-clock", {"clock_s": -3.0}),
        ("node-clock", {"delay_s": 40.0}),
        ("node-software", {"versions": {"kernel": "6.8", "driver": "2.26.5.0"}}),
        ("node-software", {"versions": {"kernel": "6.8"}}),
        ("node-collective", {"collective": {"busbw": None, "error": "1 errors found", "seconds": 3.0}}),
        ("node-collective-hung", {"collective": {"busbw": None, "error": "hung", "seconds": 120}}),
        ("node-collective-slow", {"collective": {"busbw": 30.0, "error": "", "seconds": 3.0}}),
    ],
)
def test_what_is_wrong_with_a_node_is_told_of_it(modules: dict[str, Any], code: str, told: dict[str, object]) -> None:
    assert judged(modules, all_well(**told), links(modules)) == ([(code, "error", "n-2")], ["n-2"], False)


def test_what_is_doubtful_fails_no_node(modules: dict[str, Any]) -> None:
    low = {"disks": [{"path": "/", "bytes": 500 << 30, "free": 30 << 30, "error": ""}]}
    assert judged(modules, all_well(**low)) == ([("node-disk-low", "warning", "n-2")], [], False)
    busy = {"devices": {"count": 16, "cores": 32, "busy": [77], "error": ""}}
    assert judged(modules, all_well(**busy)) == ([("node-busy", "warning", "n-2")], [], False)


def test_a_node_without_a_report_fails(modules: dict[str, Any]) -> None:
    reports = {**all_well(), "n-3": None}
    findings, failed, _ = modules["judge_health"].judge(NODES, {k: v for k, v in reports.items() if v}, [], EXPECT)
    assert [(one["code"], one["node"]) for one in findings] == [("node-silent", "n-3")]
    assert failed == ["n-3"]


@pytest.mark.parametrize("count", [3, 4, 5, 16])
@pytest.mark.parametrize(
    ("code", "became"),
    [
        ("node-link", {"busbw": 18.7}),
        ("node-link", {"busbw": None, "error": "failed to register channel buffer"}),
        ("node-link-hung", {"busbw": None, "error": "hung"}),
    ],
)
def test_the_node_whose_pairs_are_all_bad_is_to_blame(
    modules: dict[str, Any], count: int, code: str, became: dict[str, object]
) -> None:
    nodes = [f"n-{number}" for number in range(1, count + 1)]
    found = links(modules, "n-2", nodes, **became)
    findings = list(modules["judge_health"].of_links(found, EXPECT))
    assert [(one["code"], one["node"]) for one in findings] == [(code, "n-2")]
    assert "the fastest pair reaches 46.5 GB/s" in findings[0]["message"]


def test_of_two_nodes_nobody_can_tell_which_is_to_blame(modules: dict[str, Any]) -> None:
    found = links(modules, "n-2", ["n-1", "n-2"], busbw=None, error="hung")
    (only,) = modules["judge_health"].of_links(found, EXPECT)
    assert (only["code"], only["level"], only["node"]) == ("link-doubtful", "warning", "")


def test_what_is_bad_between_all_nodes_is_told_once(modules: dict[str, Any]) -> None:
    everywhere = links(modules, "all", busbw=None, error="mpirun: not found")
    (only,) = modules["judge_health"].of_links(everywhere, EXPECT)
    assert (only["code"], only["level"], only["node"]) == ("links-all-bad", "warning", "")
    assert "mpirun: not found" in only["message"]


def test_what_is_slow_everywhere_is_told_against_the_published_figure(modules: dict[str, Any]) -> None:
    slow = links(modules, "all", busbw=20.0)
    assert [one["code"] for one in modules["judge_health"].of_links(slow, EXPECT)] == ["links-below-published"]
    assert list(modules["judge_health"].of_links(slow, {**EXPECT, "reference": None})) == []


def test_what_is_wrong_with_most_is_no_matter_of_nodes(modules: dict[str, Any]) -> None:
    none = {"devices": {"count": 0, "error": "neuron-ls: not found"}}
    reports = {node: report(node, **none) for node in NODES}
    _, failed, systemic = judged(modules, reports)
    assert (failed, systemic) == (NODES, True)
    half = {**reports, "n-3": report("n-3"), "n-4": report("n-4")}
    assert judged(modules, half)[1:] == (["n-1", "n-2"], False)


def test_of_two_versions_the_releases_own_is_right(modules: dict[str, Any]) -> None:
    two = {"n-1": report("n-1"), "n-2": report("n-2", versions={"kernel": "6.8", "driver": "2.26.5.0"})}
    assert judged(modules, two)[0] == [("node-software", "error", "n-2")]
    assert judged(modules, two, versions={})[0] == [("node-software", "warning", "")]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 16, 17])
def test_each_node_is_measured_with_two_others_and_in_no_round_twice(modules: dict[str, Any], count: int) -> None:
    nodes = [f"n-{number}" for number in range(count)]
    rounds = modules["judge_health"].rounds(nodes)
    assert len(rounds) <= 3, "as limit_s counts"
    for pairs in rounds:
        assert len({node for pair in pairs for node in pair}) == 2 * len(pairs)
    met = [sum(node in pair for pairs in rounds for pair in pairs) for node in nodes]
    assert set(met) == {min(2, count - 1)}


def test_every_code_that_the_script_gives_stands_in_the_table() -> None:
    tree = ast.parse(templates.read("job/judge_health.py"))
    codes = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(("node-", "link"))
    } - {"links"}
    assert len(codes) > 14
    assert codes <= set(CODES)


# ---------------------------------------------------------------------------------------------------- one node

LS_OLD = json.dumps([{"neuron_device": n, "bdf": "0", "nc_count": 2, "neuron_processes": []} for n in range(16)])
LS_NEW = json.dumps(
    {"instance_type": "trn1.32xlarge", "neuron_devices": [{"bdf": "0", "nc_count": 2, "neuron_processes": []}] * 16}
)
TOOLS = {
    "neuron-ls": f"[ \"$1\" = -j ] && echo '{LS_OLD}'",
    "fi_info": 'for n in 1 2 3 4 5 6 7 8; do echo "    domain: rdmap$n-rdm"; done',
    "nccom-test": """for word; do [ "$last" = --report-to-json-file ] && report=$word; last=$word; done
echo '{"results": [{"size(B)": 1, "busbw(GB/s)": 52.83}]}' >"$report" """,
    "chronyc": "echo 'System time     : 0.000250000 seconds slow of NTP time'",
    "dpkg-query": "printf 'aws-neuronx-dkms 2.29.0.0\\naws-neuronx-tools 2.31.15.0\\n'; exit 1",
    "modinfo": "echo 2.29.0.0",
    "scontrol": """case $* in
*hostnames*) printf 'n-1\\nn-2\\n' ;;
*"show node n-1") echo 'NodeName=n-1 NodeAddr=10.0.0.1 X=1' ;;
update*) echo "$*" >>"$TOLD"; [ -z "$NO_RIGHT" ] ;;
esac""",
    "sudo": 'echo "sudo $*" >>"$TOLD"; [ -z "$NO_RIGHT_AT_ALL" ]',
    # All nodes at once, or the first of a pair: one after the other is as good.
    "srun": """for word; do case $word in --nodelist=*) names=${word#*=} ;; esac; done
while [ "${1#--}" != "$1" ]; do shift; done
for name in ${names:-n-1 n-2}; do [ "$name" = "$SILENT" ] || SLURMD_NODENAME=$name "$@" || code=$?; done
exit "${code:-0}" """,
}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job's folder, with the scripts, what the nodes should have, and tools on which all is well."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in TOOLS.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    for file in (*scripts(), *check_files({**EXPECT, "patience_s": 2}, "check")):
        path = tmp_path / file.name
        path.parent.mkdir(exist_ok=True)
        path.write_text(file.text)
    return tmp_path


def tool(job: Path, name: str, text: str) -> None:
    (job / "tools" / name).write_text(f"#!/bin/sh\n{text}\n")


def environment(job: Path, **other: str) -> dict[str, str]:
    told = {"SLURM_JOB_NODELIST": "n-[1-2]", "SLURM_JOB_ID": "7", "TOLD": str(job / "told"), **other}
    return {"PATH": f"{job / 'tools'}:/usr/bin:/bin", **told}


def run(job: Path, *words: str, **other: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-E", "-s", str(job / "health.py"), str(job / "check"), *words],
        capture_output=True, text=True, timeout=60, check=False, env=environment(job, **other),
    )  # fmt: skip


def found(job: Path) -> dict[str, Any]:
    return dict(json.loads((job / "check" / "health.json").read_text()))


@pytest.mark.parametrize("shape", [LS_OLD, LS_NEW], ids=["up to 2.33", "from 2.34"])
def test_a_node_tells_of_itself_whichever_shape_neuron_ls_has(job: Path, shape: str) -> None:
    wanted = "$1 = -j" if shape == LS_OLD else '"$*" = "--output-format json"'
    tool(job, "neuron-ls", f"[ {wanted} ] && echo '{shape}'")
    done = run(job)
    assert (done.returncode, done.stdout.splitlines()[-1][:31]) == (0, "trnctl: 2 of 2 nodes are well, ")
    told = found(job)["reports"]["n-2"]
    assert told["devices"] == {"count": 16, "cores": 32, "busy": [], "error": ""}
    assert (told["efa"]["count"], told["collective"]["busbw"], told["clock_s"]) == (8, 52.83, -0.00025)
    versions = {name: told["versions"].get(name) for name in ("driver package", "driver", "tools", "kernel")}
    assert versions == {
        "driver package": "2.29.0.0", "driver": "2.29.0.0", "tools": "2.31.15.0", "kernel": os.uname().release,
    }  # fmt: skip
    assert found(job)["links"] == [{"nodes": ["n-1", "n-2"], "busbw": 52.83, "error": "", "seconds": 2}]


def test_a_tool_that_hangs_is_killed_with_all_that_it_started_and_is_told_of(job: Path) -> None:
    tool(job, "nccom-test", 'case $* in *" -N "*) exit 0 ;; esac; [ "$SLURMD_NODENAME" = n-1 ] || sleep 321')
    began = time.monotonic()
    done = run(job)
    assert done.returncode == 7, "one of two failed and the other said nothing that can be read"
    assert "node n-2 fails the check: node-collective-hung: the all-reduce among its workers did not end" in done.stdout
    assert time.monotonic() - began < 30
    alive = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, timeout=10, check=True).stdout
    assert "sleep 321" not in alive


def test_an_all_reduce_between_nodes_that_hangs_is_ended_too(job: Path) -> None:
    text = TOOLS["nccom-test"]
    tool(job, "nccom-test", f'case $* in *" -N "*) exec sleep 322 ;; esac\n{text}')
    done = run(job)
    assert done.returncode == 0, done.stdout
    assert "link-doubtful: the all-reduce of n-1 and n-2 did not end in 2 s; which of the two" in done.stdout


def test_a_node_that_fails_is_drained_with_the_reason(job: Path) -> None:
    tool(job, "fi_info", f'[ "$SLURMD_NODENAME" = n-2 ] && exit 61\n{TOOLS["fi_info"]}')
    done = run(job, "drain")
    assert done.returncode == 6
    words = "update NodeName=n-2 State=DRAIN Reason=trnctl health: node-efa: libfabric sees 0 EFA devices of 8"
    assert (job / "told").read_text().startswith(words)
    assert found(job)["failed"] == ["n-2"]
    assert found(job)["links"] == [], "a node that fails by itself is measured with nobody"


def test_who_may_not_drain_tries_as_root_and_then_says_so(job: Path) -> None:
    tool(job, "fi_info", f'[ "$SLURMD_NODENAME" = n-2 ] && exit 61\n{TOOLS["fi_info"]}')
    assert run(job, "drain", NO_RIGHT="yes").returncode == 6
    assert "sudo -n env PATH=" in (job / "told").read_text()
    done = run(job, "drain", NO_RIGHT="yes", NO_RIGHT_AT_ALL="yes")
    assert (done.returncode, "n-2 could not be drained" in done.stdout) == (7, True)


def test_what_all_nodes_lack_drains_none(job: Path) -> None:
    tool(job, "neuron-ls", "exit 1")
    done = run(job, "drain")
    assert (done.returncode, (job / "told").exists()) == (7, False)
    assert "most nodes fail, which points at the image" in done.stdout


def test_a_node_on_which_nothing_starts_is_silent(job: Path) -> None:
    done = run(job, SILENT="n-2")
    assert done.returncode == 6
    assert "node n-2 fails the check: node-silent: gave no report" in done.stdout


def test_reports_of_an_earlier_start_are_not_taken_for_new_ones(job: Path) -> None:
    assert run(job).returncode == 0
    assert run(job, SILENT="n-2").returncode == 6


def test_memory_errors_are_counted_where_the_driver_counts_them(modules: dict[str, Any], tmp_path: Path) -> None:
    for device, count in ((0, 0), (3, 2)):
        folder = tmp_path / f"neuron{device}" / "stats" / "hardware"
        folder.mkdir(parents=True)
        (folder / "mem_ecc_uncorrected").write_text(f"{count}\n")
        (folder / "sram_ecc_uncorrected").write_text("0\n")
    assert modules["node_health"].hardware_errors(tmp_path) == {"mem_ecc_uncorrected": 2}
    assert modules["node_health"].hardware_errors(tmp_path / "none") == {}


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": 1}', '"x"', '{"neuron_devices": [1]}'])
def test_what_is_neither_shape_is_no_list_of_devices(modules: dict[str, Any], text: str) -> None:
    assert modules["node_health"].listed(text) is None


def test_the_oldest_checks_are_removed_also_in_a_new_year(tmp_path: Path) -> None:
    """Their names tell no year: by name, the new one would be the oldest, and be removed before it starts."""
    for number in range(22):
        old = tmp_path / f"health-123123{number:02d}00-ab"
        old.mkdir()
        os.utime(old, (1000 + number, 1000 + number))
    new = tmp_path / "health-0101000000-ab"
    request = json.dumps({"folder": str(new), "files": [{"name": "health.sbatch", "text": "x"}]})
    words = "import json, sys; import check; check.prepare(json.loads(sys.argv[1]))"
    node = Path(__file__).parents[2] / "templates/node"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(node), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", words, request], env=environment, check=True, timeout=60)
    assert (new / "health.sbatch").is_file()
    left = sorted(one.name for one in tmp_path.iterdir())
    assert left == [new.name, *(f"health-123123{number:02d}00-ab" for number in range(3, 22))]


@pytest.mark.parametrize("name", [f"job/{name}.py" for name in NAMES] + ["node/check.py"])
def test_old_pythons_can_read_the_scripts(name: str) -> None:
    tree = ast.parse(templates.read(name), feature_version=(3, 6))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {one.partition(".")[0] for one in imported} <= {
        *sys.stdlib_module_names,
        *NAMES,
        "folder",
        "follow",
        "slurm",
    }


# ----------------------------------------------------------------------------------------------------- the job


def test_the_job_has_an_end_and_is_judged_by_shellcheck() -> None:
    (script, *_) = health_job("health-1", "/fsx/it's/health-1", "compute1", EXPECT, "trn1.32xlarge")
    for argv in (["bash", "-n"], ["shellcheck", "-s", "bash", "-"]):
        done = subprocess.run(argv, input=script.text, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    assert limit_s(EXPECT) == 120 + 95 + 3 * (120 + 95)
    assert "#SBATCH --time=16\n" in script.text
    assert limit_s({**EXPECT, "collectives": False}) == 95


def test_a_type_without_neuron_devices_cannot_be_checked() -> None:
    from trnctl.errors import UsageError

    for kind in ("c5.4xlarge", "p4d.24xlarge", "nothing"):
        with pytest.raises(UsageError, match="no Neuron device"):
            expected(kind, [], sdk="2.31.1", efa=True, collectives=True)
    small = expected("trn1.2xlarge", [], sdk="2.31.1", efa=True, collectives=True)
    assert (small["efa"], small["links"], small["reference"]) == (0, False, None)


def test_a_tool_that_nothing_ends_is_not_waited_for(modules: dict[str, Any]) -> None:
    """What a tool leaves behind holds its output, as one that hangs in a driver does."""
    began = time.monotonic()
    done = modules["node_health"].run(["sh", "-c", "setsid sleep 50 & exec sleep 50"], 1)
    assert (done.code, done.words) == (124, "it said nothing")
    assert time.monotonic() - began < 45
