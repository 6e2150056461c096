"""A cluster's whole life through the command line: from no sandbox to 16 trained nodes, and back to nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cli.trnctl_runner import NOTICE, Ended, Trnctl, empty_folder, left
from tests.cli.trnctl_runner import SIXTEEN as CONFIG

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

RUN = "the-run"
LAST_NODE = "compute1-dy-i1-16"


@dataclass(frozen=True)
class Life:
    """Every command of one cluster's life, in order, with what it printed."""

    up: Ended
    create: Ended
    again: Ended
    idle: Any
    submit: Ended
    busy: Any
    screen: Ended
    results: Ended
    runs: Ended
    logs: Ended
    compile_log: Ended
    head: Ended
    node: Ended
    events: Any
    describe: Any
    clusters: Any
    teardown: Ended
    after: Ended
    events_after: Ended
    down: Ended
    left: list[str]


@pytest.fixture(scope="module")
def life() -> Iterator[Life]:
    """One life, lived once; the tests look at it from all sides."""
    with empty_folder() as folder:
        trnctl = Trnctl(folder, CONFIG)
        try:
            yield _live(trnctl)
        finally:
            trnctl("sandbox", "down")


def _live(trnctl: Trnctl) -> Life:
    said = trnctl("sandbox", "up", "--steps", "6")
    create = trnctl("cluster", "create", "-y", "-o", "json", timeout=120)
    again = trnctl("cluster", "create", "-o", "json")
    idle = trnctl.json("status")
    submit = trnctl("submit", "bert-large", "-N", "16", "--name", RUN, "-f", "-o", "json", timeout=180)
    return Life(
        up=said,
        create=create,
        again=again,
        idle=idle,
        submit=submit,
        busy=trnctl.json("status"),
        screen=trnctl("status"),
        results=trnctl("results", RUN, "-o", "json"),
        runs=trnctl("runs", "-o", "json"),
        logs=trnctl("logs", RUN, "--stage", "train"),
        compile_log=trnctl("logs", "run", "--stage", "compile", "--node", "3"),
        head=trnctl("ssh", "--", "echo one two | wc -w"),
        node=trnctl("ssh", LAST_NODE, "--", "hostname | tr a-z A-Z; echo $((6 * 7)) 'a  b'"),
        events=trnctl.json("cluster", "events"),
        describe=trnctl.json("cluster", "describe"),
        clusters=trnctl.json("cluster", "list"),
        teardown=trnctl("teardown", "--delete-storage", "-y", "-o", "json", timeout=120),
        after=trnctl("status", code=None),
        events_after=trnctl("cluster", "events", code=None),
        down=trnctl("sandbox", "down"),
        left=left(trnctl),
    )


def test_up_says_what_is_real_and_what_is_emulated(life: Life) -> None:
    assert "pcluster, Slurm and ssh are real; AWS's answers and the Neuron tools are emulated" in life.up.talk


def test_create_shows_the_price_before_and_progress_and_answers_with_json_alone(life: Life) -> None:
    assert life.create.json == {"cluster": "ultra1", "region": "us-west-2", "phase": "running"}
    for words in (NOTICE, "0…16 × trn1.32xlarge", "/h full $344"):
        assert words in life.create.talk
    assert re.search(r" (\d\d)/\1 ", life.create.talk), "all resources were never made"


def test_creating_again_makes_nothing_new(life: Life) -> None:
    assert life.again.json["phase"] == "running"
    assert "ultra1 is already running: nothing new is made" in life.again.talk


def test_status_of_an_idle_cluster_has_every_stable_key(life: Life) -> None:
    assert set(life.idle) >= {"cluster", "nodes", "cost", "runs", "alerts"}
    assert set(life.idle["cluster"]) >= {"name", "phase", "fleet", "head_node"}
    assert set(life.idle["cost"]) >= {"per_hour_usd", "so_far_usd", "basis", "known_from"}
    assert life.idle["cluster"]["name"] == "ultra1"
    assert life.idle["cluster"]["phase"] == "running"
    assert life.idle["cluster"]["fleet"] == "running"
    assert life.idle["cluster"]["head_node"]["type"] == "c5.4xlarge"
    assert life.idle["cluster"]["head_node"]["state"] == "running"
    assert life.idle["nodes"] == {"powered-down": 16}
    assert life.idle["runs"] == []
    assert life.idle["alerts"] == []
    assert NOTICE in life.idle["notice"]


def test_the_cost_an_hour_is_that_of_the_nodes_that_are_up(life: Life) -> None:
    idle, busy = life.idle["cost"], life.busy["cost"]
    assert idle["per_hour_usd"] == pytest.approx(0.68)  # the head node alone
    assert busy["per_hour_usd"] == pytest.approx(0.68 + 16 * 21.50)
    assert busy["so_far_usd"] > idle["so_far_usd"] > 0
    assert "2026" in busy["basis"]  # the date of the prices
    assert busy["known_from"].startswith("20")


def test_the_run_is_compiled_trained_and_followed_to_its_end(life: Life) -> None:
    lines = life.submit.lines
    first, last = lines[0], lines[-1]
    assert first["run"] == RUN
    assert first["jobs"] == {"prepare": first["jobs"]["prepare"], "compile": "1", "train": "2"}
    assert isinstance(first["jobs"]["prepare"], int)
    assert "the training code" in first["preparing"]
    assert first["compile"] == "scheduled"
    assert first["folder"].endswith(f"/fsx/trnctl/runs/{RUN}")
    assert last == {"run": RUN, "states": dict.fromkeys(("prepare", "compile", "train"), "completed")}
    states = [(line["stage"], line["state"]) for line in lines if "state" in line]
    assert states[-1] == ("train", "completed")
    assert states.index(("compile", "completed")) < states.index(("train", "running"))
    log = [line["line"] for line in lines if "line" in line]
    assert any("Total successful compilations" in line for line in log)
    assert any("step_loss" in line for line in log)


def test_before_money_is_spent_the_plan_says_what_it_will_cost(life: Life) -> None:
    for words in ("16 × trn1.32xlarge", "512 workers", "16 × 2 × 512 = 16,384 global", "about 5.2 h", "about $1,870"):
        assert words in life.submit.talk


def test_status_of_the_run_has_every_stable_key(life: Life) -> None:
    (run,) = life.busy["runs"]
    keys = {"run", "workload", "stage", "state", "reason", "nodes", "elapsed_s", "step", "steps", "throughput", "eta_s"}
    assert set(run) >= {*keys, "jobs"}
    assert run["run"] == RUN
    assert run["workload"] == "bert-large"
    assert (run["stage"], run["state"], run["nodes"]) == ("train", "completed", 16)
    assert (run["step"], run["steps"]) == (6, 28125)
    assert 20_000 < run["throughput"] < 30_000
    assert run["elapsed_s"] > 0
    assert run["jobs"] == {"compile": "1", "train": "2"}
    assert sum(life.busy["nodes"].values()) == 16
    assert "powered-down" not in life.busy["nodes"]


def test_the_screen_says_the_same_within_100_columns(life: Life) -> None:
    for words in ("ultra1 running", "fleet running", "$344.68/h now", RUN, "completed", "6/28,125", NOTICE):
        assert words in " ".join(life.screen.out.split())
    assert max(len(line) for line in life.screen.out.splitlines()) <= 100


def test_results_tell_what_the_walk_through_asks_for(life: Life) -> None:
    found = life.results.json
    assert found["model"] == "bert-large-uncased"
    assert found["dataset"].startswith("wikicorpus")
    assert (found["nodes"], found["world_size"]) == (16, 512)
    assert (found["micro_batch"], found["accumulation"], found["global_batch"]) == (16, 2, 16384)
    assert (found["steps_done"], found["total_steps"]) == (6, 28125)
    assert found["checkpoints"][0]["name"] == "ckpt_6.pt"
    assert found["checkpoints"][0]["complete"] is True
    assert 20_000 < found["average_throughput"] < 30_000
    assert found["time_to_train_s"] > 0
    assert NOTICE in found["emulated"]


def test_runs_lists_it(life: Life) -> None:
    assert [run["run"] for run in life.runs.json["runs"]] == [RUN]


def test_logs_are_chosen_by_stage_and_by_node(life: Life) -> None:
    assert "step_loss" in life.logs.out
    assert "Total successful compilations" not in life.logs.out
    assert "Total successful compilations" in life.compile_log.out
    assert "node 3 of 16" in life.compile_log.out
    assert "node 0 of 16" not in life.compile_log.out


def test_ssh_leads_to_the_head_node_and_hops_to_a_compute_node(life: Life) -> None:
    assert life.head.out.split() == ["2"]
    assert life.node.out.splitlines() == [LAST_NODE.upper(), "42 a  b"]


def test_pcluster_and_cloudformation_know_the_cluster(life: Life) -> None:
    assert life.describe["clusterStatus"] == "CREATE_COMPLETE"
    assert [(one["name"], one["status"]) for one in life.clusters["clusters"]] == [("ultra1", "CREATE_COMPLETE")]
    events = life.events["events"]
    assert events[0]["logical_id"] == "ultra1"
    assert events[0]["status"] == "CREATE_IN_PROGRESS"
    assert (events[-1]["logical_id"], events[-1]["status"]) == ("ultra1", "CREATE_COMPLETE")


def test_teardown_proves_that_nothing_is_left(life: Life) -> None:
    proof = life.teardown.json
    assert proof["left"] == []
    assert any("ultra1" in one for one in proof["deleted"])
    assert any("fs-" in one for one in proof["deleted"])
    assert not any("fs-" in one for one in proof["kept"])
    assert "deletes fs-" in life.teardown.talk
    assert "keep" not in life.teardown.talk


def test_after_the_teardown_there_is_no_such_cluster(life: Life) -> None:
    assert life.after.code == 8
    assert "there is no cluster ultra1" in life.after.talk.lower()
    assert life.events_after.code == 0  # what happened is still known
    assert "DELETE_COMPLETE" in life.events_after.out


def test_down_leaves_no_process_and_no_file(life: Life) -> None:
    assert "The sandbox is down" in life.down.out
    assert life.left == []
