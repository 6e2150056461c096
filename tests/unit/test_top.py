"""What is noted of the nodes of a run: idle cores, stragglers, memory errors, nodes that nobody hears of."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from tests.fakes import World
from tests.fakes.clock import START
from trnctl.actions.runs import OpenCluster
from trnctl.actions.top import LostSight, RunLoad, TopPicture, judged, top
from trnctl.cli.top_screens import blocks, drawn
from trnctl.errors import ConnectionLost, NotFoundError
from trnctl.ports import JobLoad, LoadPicture, NodeLoad

GIB = 1024**3
WELL = NodeLoad(
    "n1", START, "trn1.32xlarge", 16, (94.0,) * 32, 288 * GIB, 512 * GIB, 36 * GIB, 512 * GIB, 22.0, latency_s=0.5
)


def run_of(*loads: NodeLoad, stage: str = "train", said: str = "", silent: int = 0) -> RunLoad:
    names = tuple(load.node for load in loads) + tuple(f"s{number}" for number in range(silent))
    job = JobLoad("bert", stage, "7", 3840, names, tuple(loads), said)
    [run] = judged(LoadPicture(START, (job,)), 5.0).runs
    return run


def nodes(count: int, **of_the_last: Any) -> list[NodeLoad]:
    loads = [replace(WELL, node=f"n{number}") for number in range(1, count + 1)]
    return [*loads[:-1], replace(loads[-1], **of_the_last)]


def codes(run: RunLoad) -> list[tuple[str, str]]:
    return [(finding.code, finding.node) for finding in run.findings]


def test_nodes_that_work_alike_are_nothing_to_note() -> None:
    assert run_of(*nodes(4)).findings == ()
    assert run_of(*nodes(4, ecc={"3 mem_ecc_corrected": 12}, errors={"transient": 3})).findings == ()


@pytest.mark.parametrize(
    ("other", "code", "words"),
    [
        ({"cores": (0.0,) * 32}, "cores-idle", "n4: none of its 32 cores works"),
        ({"cores": (0.0,) * 2 + (94.0,) * 30}, "cores-idle", "n4: 2 of its 32 cores do nothing"),
        ({"cores": (60.0,) * 32}, "straggler", "n4: its cores are 60 % busy, those of the others 94 %"),
        ({"latency_s": 0.7}, "straggler", "an execution takes 0.7 s there, 0.5 s on the others"),
        ({"ecc": {"3 sram_ecc_uncorrected": 1}}, "ecc-uncorrected", "device 3 has 1 uncorrected error of its SRAM"),
        ({"errors": {"hardware": 2}}, "execution-errors", "2 execution errors of kind hardware"),
        ({"outcomes": {"timed_out": 1}}, "execution-errors", "1 execution ran into the runtime's time limit"),
        ({"device_used": 510 * GIB}, "device-memory-full", "100 % of the device memory is used"),
        ({"at": START - timedelta(seconds=60)}, "load-stale", "has not reported for 60 s"),
        ({"problem": "neuron-monitor is not installed on this node"}, "load-unknown", "not installed"),
    ],
)
def test_the_odd_node_is_marked_and_no_other(other: dict[str, Any], code: str, words: str) -> None:
    run = run_of(*nodes(4, **other))
    assert codes(run) == [(code, "n4")]
    assert words in run.findings[0].message
    assert run.findings[0].remedy


def test_of_two_nodes_nobody_can_say_which_is_the_odd_one() -> None:
    assert codes(run_of(*nodes(2, cores=(60.0,) * 32))) == []


def test_a_run_that_does_nothing_at_all_is_told_once() -> None:
    run = run_of(*(replace(load, cores=(0.0,) * 32) for load in nodes(4)))
    assert codes(run) == [("run-idle", "")]
    assert "it compiles, loads data, or hangs" in run.findings[0].message
    assert run_of(*(replace(load, cores=(0.0,) * 32) for load in nodes(4)), stage="compile").findings == ()


def test_a_job_of_somebody_else_is_told() -> None:
    run = run_of(said="Access/permission denied", silent=2)
    assert codes(run) == [("load-refused", "")]
    assert run.silent == ("s0", "s1")


def shown(picture: TopPicture, rows: int = 32) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(drawn(picture, rows))
    return out.getvalue()


def test_the_screen_fits_and_tells_the_nodes_the_bars_and_the_notes() -> None:
    text = shown(TopPicture(START, (run_of(*nodes(16, cores=(0.0,) * 2 + (94.0,) * 30), silent=1),), "emulated"))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert "16 of 17 nodes   512 cores 94 % busy, 2 idle" in lines[1]
    row = next(line for line in lines if line.startswith("n16"))
    assert " " + BAR * 15 in row
    assert row.rstrip().endswith("idle")
    assert any(line.startswith("! n16: 2 of its 32 cores do nothing") for line in lines)
    assert "1 node not heard of yet: s0" in text


BAR = blocks([94.0])


def test_many_hundred_nodes_are_folded_and_those_to_note_stay() -> None:
    text = shown(TopPicture(START, (run_of(*nodes(1875, cores=(40.0,) * 32)),)), rows=8)
    rows = [line for line in text.splitlines() if line.startswith("n")]
    assert len(rows) == 8
    assert rows[0].startswith("n1875")
    assert "1,867 more nodes: 94 to 94 % busy" in text


def test_no_run_is_told_with_the_next_command() -> None:
    assert "trnctl status shows what waits" in shown(TopPicture(START, ()))


@pytest.fixture
def world() -> World:
    made = World(notice="emulated")
    made.cloud.has_cluster("ultra1", "running")
    made.monitor.jobs = [JobLoad("bert", "train", "7", 60, ("n1",), (WELL,))]
    return made


def opened(world: World) -> OpenCluster:
    return OpenCluster("ultra1", "us-west-2", world.services(), "/fsx/trnctl/runs")


def lost() -> ConnectionLost:
    return ConnectionLost("The connection broke.", remedy="Again.")


def test_a_connection_that_breaks_is_taken_up_again_after_a_pause(world: World) -> None:
    world.monitor.breaks = [lost(), lost()]
    steps = list(top(opened(world), "bert", period=5.0))
    kinds = [type(step).__name__ for step in steps]
    assert kinds == ["TopPicture", "LostSight", "TopPicture", "LostSight", "TopPicture", "TopPicture", "TopPicture"]
    assert all(0 < step.pause_s <= 1 for step in steps if isinstance(step, LostSight))


def test_one_look_at_what_is_not_there_is_an_error(world: World) -> None:
    with pytest.raises(NotFoundError):
        list(top(opened(world), "nobody", once=True))


def test_the_json_of_a_picture_has_its_keys(world: World) -> None:
    [picture] = top(opened(world), once=True)
    assert isinstance(picture, TopPicture)
    told: dict[str, Any] = picture.as_json()
    assert set(told) == {"at", "runs", "notice"}
    [run] = told["runs"]
    assert set(run) == {"run", "stage", "job", "elapsed_s", "busy_percent", "nodes", "silent", "findings"}
    [node] = run["nodes"]
    assert (node["node"], node["busy_percent"], node["idle_cores"]) == ("n1", 94.0, 0)
    assert node["device_memory"] == {"used": 288 * GIB, "total": 512 * GIB}
