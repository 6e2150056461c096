"""Runs' records in the cluster's bucket: written before a teardown, read when the cluster cannot tell."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.fakes import World
from trnctl.actions.mirror import find_record, list_runs, read, save
from trnctl.actions.runs import OpenCluster
from trnctl.actions.teardown import Proof, plan_teardown, teardown
from trnctl.errors import CloudError, NotFoundError, RefusedError, ToolError, UsageError
from trnctl.ports import File, FileSystem, Submission

FOLDER = "/fsx/trnctl/runs"
PREFIX = "trnctl/ultra1/runs/"


@pytest.fixture
def world() -> World:
    """A running cluster with a bucket and two runs, the second of which came later."""
    world = World()
    world.cloud.has_cluster("ultra1")
    world.cloud.buckets["records"] = {}
    for number, run in enumerate(("bert-large-1129-a3f", "llama-1130-b07")):
        world.queue.manifests[run] = {
            "workload": "w",
            "nodes": 4,
            "stages": ["train"],
            "submitted_at": f"2026-11-{number}",
        }
        world.queue.results[run] = {"run": run, "steps_done": 10 + number, "updated_at": "one"}
        world.queue.submit(Submission(run, f"{FOLDER}/{run}", (File("train.sbatch", ""),), ("train",)))
    world.clock.sleep(600)
    return world


def opened(world: World, bucket: str | None = "records") -> OpenCluster:
    return OpenCluster("ultra1", "us-west-2", world.services(), FOLDER, bucket)


def gone(world: World) -> OpenCluster:
    """The cluster after its teardown."""
    list(teardown(plan_teardown(opened(world)), opened(world), delete_storage=False))
    assert world.cloud.observe("ultra1").stack is None
    return opened(world)


def test_a_teardown_copies_the_records_and_says_where_they_are(world: World) -> None:
    steps = list(teardown(plan_teardown(opened(world)), opened(world), delete_storage=False))
    assert isinstance(steps[-1], Proof)
    assert steps[-1].records == "2 runs in s3://records/trnctl/ultra1/runs/"
    assert steps[-1].as_json()["records"] == steps[-1].records
    names = {key.removeprefix(PREFIX) for key in world.cloud.buckets["records"]}
    files = ("run.json", "submitted.json", "results.json", "ended/train.json")
    assert names == {f"{run}/{file}" for run in ("bert-large-1129-a3f", "llama-1130-b07") for file in files}


def test_runs_and_results_are_told_after_the_teardown(world: World) -> None:
    here = gone(world)
    found = list_runs(here, newest=20)
    assert [(run.run, run.state, run.step) for run in found.runs] == [
        ("llama-1130-b07", "completed", 11),
        ("bert-large-1129-a3f", "completed", 10),
    ]
    assert found.mirror is not None
    assert "there is no cluster ultra1" in found.mirror.why
    assert found.mirror.at is not None
    assert [run.run for run in list_runs(here, newest=1).runs] == ["llama-1130-b07"]
    record, mirror = find_record(here, "a3f")
    assert record.results is not None
    assert record.results["steps_done"] == 10
    assert record.folder == "s3://records/trnctl/ultra1/runs/bert-large-1129-a3f"
    assert mirror is not None


def test_the_cluster_itself_is_asked_while_it_answers(world: World) -> None:
    save(opened(world))
    assert list_runs(opened(world), newest=20).mirror is None
    assert find_record(opened(world), "a3f")[1] is None


def test_a_head_node_that_does_not_answer_leaves_the_word_to_the_bucket(world: World) -> None:
    save(opened(world))

    class Mute:
        def queue(self, head: object) -> object:
            raise ToolError("The head node does not answer.", remedy="Look at it.")

    services = world.services().__class__(**{**vars(world.services()), "head": Mute()})
    here = OpenCluster("ultra1", "us-west-2", services, FOLDER, "records")
    found = list_runs(here, newest=20)
    assert found.mirror is not None
    assert found.mirror.why == "The head node does not answer."
    assert len(found.runs) == 2
    assert find_record(here, "b07")[0].run == "llama-1130-b07"
    without = OpenCluster("ultra1", "us-west-2", services, FOLDER)
    assert [alert.code for alert in list_runs(without, newest=20).alerts] == ["head-node-unreachable"]


def test_what_nobody_knows_is_the_first_error(world: World) -> None:
    here = gone(world)
    with pytest.raises(NotFoundError, match="there is no cluster ultra1, and s3://records holds no run zzz"):
        find_record(here, "zzz")
    with pytest.raises(NotFoundError):
        find_record(opened(world, bucket=None), "a3f")
    with pytest.raises(NotFoundError):
        list_runs(opened(world, bucket="elsewhere"), newest=20)
    world.cloud.buckets["records"].clear()
    with pytest.raises(NotFoundError):
        list_runs(here, newest=20)


def test_an_ending_that_two_runs_have_is_asked_about(world: World) -> None:
    for run in ("x-1129-c", "y-1129-c"):
        world.queue.submit(Submission(run, f"{FOLDER}/{run}", (File("train.sbatch", ""),), ("train",)))
    here = gone(world)
    with pytest.raises(UsageError, match=r"could be (x-1129-c or y|y-1129-c or x)-1129-c"):
        find_record(here, "c")


def test_what_a_job_has_copied_stays_unless_its_results_are_older(world: World) -> None:
    key = f"{PREFIX}bert-large-1129-a3f/results.json"
    mine = json.dumps({"by": "the job", "updated_at": "one"})
    world.cloud.put_objects("records", {key: mine})
    save(opened(world))
    assert world.cloud.buckets["records"][key] == mine
    world.queue.results["bert-large-1129-a3f"] = {"updated_at": "two"}
    save(opened(world))
    assert json.loads(world.cloud.buckets["records"][key]) == {"updated_at": "two"}


def test_an_end_that_the_head_node_wrote_down_raw_is_told_in_our_words(world: World) -> None:
    texts = {
        "run.json": {"stages": ["train"]},
        "ended/train.json": {"by": "slurm", "slurm_state": "NODE_FAIL", "reason": "NodeDown"},
        "results.json": {"steps_done": 3},
        "odd": {},
    }
    world.cloud.put_objects("records", {f"{PREFIX}r/{name}": json.dumps(text) for name, text in texts.items()})
    world.cloud.put_objects("records", {f"{PREFIX}broken/run.json": "{", f"{PREFIX}stray": "?"})
    found = read(opened(world))
    assert {record.run: record.ended.get("train", {}).get("state") for record in found.records} == {
        "r": "node-fail",
        "broken": None,
    }


def test_a_teardown_that_cannot_copy_deletes_no_storage(world: World) -> None:
    world.cloud.buckets.clear()
    plan = plan_teardown(opened(world))
    with pytest.raises(CloudError, match="no bucket records"):
        list(teardown(plan, opened(world), delete_storage=True))
    assert world.cloud.observe("ultra1").stack is not None
    plan = replace(plan, kept=(FileSystem("fs-1", "fsx-lustre", 1200, "available"),))
    steps = list(teardown(plan, opened(world), delete_storage=False))
    assert isinstance(steps[-1], Proof)
    assert "not copied, and still on the file system that is kept" in steps[-1].records


def test_runs_on_the_head_nodes_own_disk_are_copied_before_it_goes(world: World) -> None:
    world.cloud.buckets.clear()
    plan = replace(plan_teardown(opened(world)), kept=(), lost=(), yours=())
    with pytest.raises(CloudError, match="no bucket records"):
        list(teardown(plan, opened(world), delete_storage=False))
    assert world.cloud.observe("ultra1").stack is not None


def test_without_a_bucket_nothing_is_copied(world: World) -> None:
    assert save(opened(world, bucket=None)) == 0
    steps = list(teardown(plan_teardown(opened(world, None)), opened(world, None), delete_storage=False))
    assert isinstance(steps[-1], Proof)
    assert steps[-1].records == ""


def test_a_cluster_whose_head_node_is_stopped_cannot_be_copied_from(world: World) -> None:
    world.cloud._instances["ultra1"].clear()
    with pytest.raises(RefusedError):
        save(opened(world))
    assert list_runs(opened(world, None), newest=20).runs == ()
    assert list_runs(opened(world), newest=20).runs == (), "nothing is known, which is no failure"
    world.cloud.buckets.clear()
    assert list_runs(opened(world), newest=20).mirror is None
