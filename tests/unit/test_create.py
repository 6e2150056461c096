"""Creating, updating and stopping clusters, on doors in memory."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import World
from trnctl.actions.create import create, plan_create
from trnctl.actions.stack import (
    cause,
    cause_of_failure,
    progress,
    require_stack,
    retained,
    stack_events,
    standing_phase,
    watch,
)
from trnctl.actions.update import plan_update, set_fleet
from trnctl.cli.create_screens import first_submit
from trnctl.errors import CloudError, NotFoundError, RefusedError, ThrottledError, ToolError
from trnctl.ports import FileSystem, StackEvent
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.loading import load_cluster_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "trn1-16-nodes.yaml"


@pytest.fixture
def spec() -> ClusterSpec:
    """The walk-through's cluster."""
    return load_cluster_file(EXAMPLE.read_text(), str(EXAMPLE)).cluster


@pytest.fixture
def world() -> World:
    """An account with nothing but the bucket that the example names."""
    world = World()
    world.cloud.buckets["my-trnctl-bucket"] = {}
    return world


def test_a_cluster_is_created_and_watched_to_its_end(world: World, spec: ClusterSpec) -> None:
    plan = plan_create(spec)
    steps = list(create(plan, world.services()))
    assert plan.asks
    assert steps[0].phase == "creating"
    assert steps[-1].phase == "running"
    assert steps[-1].elapsed_s == pytest.approx(600, abs=5)
    assert world.provisioner.documents == {"ultra1": plan.document}


def test_the_node_scripts_are_in_the_bucket_before_pcluster_is_asked(world: World, spec: ClusterSpec) -> None:
    with_bucket = replace(spec, bucket="scripts")
    with pytest.raises(CloudError, match="no bucket scripts"):
        list(create(plan_create(with_bucket), world.services()))
    assert world.provisioner.documents == {}
    world.cloud.buckets["scripts"] = {}
    list(create(plan_create(with_bucket), world.services()))
    there = {f"s3://scripts/{key}" for key in world.cloud.buckets["scripts"]}
    named = set(re.findall(r"s3://scripts/[\w./-]+", world.provisioner.documents["ultra1"]))
    assert named == there
    assert len(there) == 3


def test_an_update_brings_new_scripts_and_leaves_the_old_for_nodes_that_boot_now(
    world: World, spec: ClusterSpec
) -> None:
    world.cloud.buckets["scripts"] = {}
    list(create(plan_create(replace(spec, bucket="scripts")), world.services()))
    old = set(world.cloud.buckets["scripts"])
    plan = plan_update(replace(spec, bucket="scripts", neuron_sdk="2.30.0"), world.services())
    new = set(world.cloud.buckets["scripts"])
    assert old < new
    assert all(f"s3://scripts/{key}" in plan.document for key in new - old)


def test_the_plan_tells_the_price_of_nothing_and_of_everything(spec: ClusterSpec) -> None:
    plan = plan_create(spec)
    assert plan.idle.usd == pytest.approx(0.68)
    assert plan.full.usd == pytest.approx(0.68 + 16 * 21.50)


def test_an_unknown_price_is_named_and_not_counted(spec: ClusterSpec) -> None:
    queue = spec.queues[0]
    trn2 = replace(queue, compute_resources=(replace(queue.compute_resources[0], instance_type="trn2.48xlarge"),))
    plan = plan_create(replace(spec, queues=(trn2,)))
    assert plan.full.unknown == ("trn2.48xlarge",)
    assert plan.full.usd == pytest.approx(0.68)


def test_a_creation_that_is_under_way_is_watched_and_not_begun_again(world: World, spec: ClusterSpec) -> None:
    services = world.services()
    first = create(plan_create(spec), services)
    next(first)
    world.provisioner.documents.clear()
    again = plan_create(spec, standing_phase(spec.name, services))
    assert not again.asks
    assert list(create(again, services))[-1].phase == "running"
    assert world.provisioner.documents == {}


def test_a_cluster_that_is_there_is_a_success(world: World, spec: ClusterSpec) -> None:
    world.cloud.has_cluster("ultra1")
    plan = plan_create(spec, standing_phase("ultra1", world.services()))
    assert [step.phase for step in create(plan, world.services())] == ["running"]
    assert world.provisioner.documents == {}


def test_a_stack_that_failed_is_deleted_first(world: World, spec: ClusterSpec) -> None:
    world.cloud.has_cluster("ultra1", "create-failed")
    plan = plan_create(spec, "create-failed")
    phases = [step.phase for step in create(plan, world.services())]
    assert plan.asks
    assert phases.index(None) < phases.index("creating") < phases.index("running")


def test_a_failure_names_the_cause_and_not_its_victims(world: World, spec: ClusterSpec) -> None:
    world.provisioner.create_fails = "Limit exceeded for Elastic IPs"
    with pytest.raises(ToolError, match=r"HeadNode \(AWS::EC2::Instance\) failed: Limit exceeded") as caught:
        list(create(plan_create(spec), world.services()))
    assert "cluster events" in caught.value.remedy


def test_only_parallelcluster_is_created(spec: ClusterSpec) -> None:
    with pytest.raises(RefusedError, match="hyperpod"):
        plan_create(replace(spec, platform="hyperpod"))


@pytest.mark.parametrize("phase", ["deleting", "delete-failed"])
def test_a_cluster_on_its_way_out_forbids_a_new_one(spec: ClusterSpec, phase: str) -> None:
    with pytest.raises(RefusedError, match=phase) as caught:
        plan_create(spec, phase)  # type: ignore[arg-type]  # the parameter is one of the phases
    assert "teardown" in caught.value.remedy


def test_a_cluster_that_must_exist_is_missed_by_name(world: World) -> None:
    with pytest.raises(NotFoundError, match="no cluster ghost in us-west-2"):
        require_stack("ghost", "us-west-2", world.services())
    with pytest.raises(NotFoundError):
        stack_events("ghost", "us-west-2", world.services())


def test_the_fleet_stops_and_starts_and_is_asked_only_when_needed(world: World) -> None:
    world.cloud.has_cluster("ultra1")
    services = world.services()
    assert [fleet.status for fleet in set_fleet("ultra1", services, running=True)] == ["running"]
    assert [fleet.status for fleet in set_fleet("ultra1", services, running=False)][-1] == "stopped"
    assert [fleet.status for fleet in set_fleet("ultra1", services, running=True)][-1] == "running"


def event(world: World, logical_id: str, status: str, reason: str = "", kind: str = "AWS::EC2::Instance") -> StackEvent:
    """One stack event, now."""
    return StackEvent(world.clock.now(), logical_id, kind, status, reason, f"physical-{logical_id}")


def test_the_cause_is_the_first_failure_that_is_no_victim(world: World) -> None:
    victims = [event(world, f"R{i}", "CREATE_FAILED", "Resource creation cancelled") for i in range(5)]
    culprit = event(world, "Address", "CREATE_FAILED", "The maximum number of addresses has been reached.")
    stack = event(world, "ultra1", "CREATE_FAILED", "The following resource(s) failed", "AWS::CloudFormation::Stack")
    assert cause([*victims, stack, culprit], "ultra1") == culprit
    assert cause(victims) == victims[0]
    assert cause([event(world, "HeadNode", "CREATE_COMPLETE")]) is None


def test_progress_counts_the_newest_operation_only(world: World) -> None:
    old = [event(world, "ultra1", "CREATE_IN_PROGRESS"), event(world, "Role", "CREATE_COMPLETE")]
    world.clock.wind(60)
    new = [
        event(world, "ultra1", "DELETE_IN_PROGRESS"),
        event(world, "Role", "DELETE_COMPLETE"),
        event(world, "HeadNode", "DELETE_IN_PROGRESS"),
    ]
    world.clock.wind(30)
    seen = progress("ultra1", "deleting", [*old, *new], 3, world.clock.now())
    assert (seen.done, seen.total, seen.elapsed_s) == (1, 3, 30)
    assert seen.current == (("HeadNode", 30.0),)


def test_what_outlives_a_stack_is_read_from_its_template(world: World) -> None:
    template = {"Resources": {"FSX1": {"DeletionPolicy": "Retain"}, "HeadNode": {"DeletionPolicy": "Delete"}}}
    resources = {"FSX1": "fs-1", "HeadNode": "i-1"}
    assert retained(template, resources) == {"fs-1"}
    assert retained(None, resources) == frozenset()


def test_the_cause_is_looked_for_in_the_nested_stack_of_the_queues(world: World) -> None:
    inner = "arn:aws:cloudformation:us-west-2:123456789012:stack/ultra1-QueueBatch0/1"
    kind = "AWS::CloudFormation::Stack"
    reason = "Embedded stack was not successfully created: The following resource(s) failed to create: [Group]."
    world.cloud.happens("ultra1", "QueueBatch0", kind, "CREATE_FAILED", reason, physical_id=inner)
    world.cloud.happens("ultra1", "ultra1", kind, "ROLLBACK_IN_PROGRESS", "failed: [QueueBatch0]")
    world.cloud.happens(inner, "Group", "AWS::EC2::PlacementGroup", "CREATE_FAILED", "You have reached the limit.")
    world.cloud.happens(inner, "queues", kind, "CREATE_FAILED", "failed: [Group]", physical_id=inner)
    found = cause_of_failure("ultra1", world.services())
    assert found is not None
    assert (found.logical_id, found.reason) == ("Group", "You have reached the limit.")


class Throttled:
    """A cloud that asks to be asked less often, so many times."""

    def __init__(self, world: World, times: int) -> None:
        self.world, self.times = world, times

    def __getattr__(self, name: str) -> object:
        return getattr(self.world.cloud, name)

    def observe(self, cluster: str) -> object:
        """Refuse, then answer."""
        self.times -= 1
        if self.times >= 0:
            raise ThrottledError("Rate exceeded", remedy="Wait.")
        return self.world.cloud.observe(cluster)


@pytest.mark.parametrize(("times", "survives"), [(20, True), (1000, False)])
def test_a_wait_survives_throttling_for_some_minutes(world: World, times: int, survives: bool) -> None:
    world.cloud.has_cluster("ultra1")
    services = replace(world.services(), cloud=Throttled(world, times))  # type: ignore[arg-type]  # as far as it is asked
    steps = watch("ultra1", services, until=frozenset({"running"}), limit_s=3600)
    if survives:
        assert [step.phase for step in steps] == ["running"]
    else:
        with pytest.raises(ThrottledError):
            list(steps)


def test_a_failure_names_what_it_left_that_costs(world: World, spec: ClusterSpec) -> None:
    world.provisioner.create_fails = "Limit exceeded for Elastic IPs"
    world.cloud.has_file_system("ultra1", FileSystem("fs-1", "fsx-lustre", 1200, "AVAILABLE"))
    with pytest.raises(ToolError) as caught:
        list(create(plan_create(spec), world.services()))
    assert "fs-1" in caught.value.remedy
    assert "--delete-storage" in caught.value.remedy


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("trn1-16-nodes.yaml", "trnctl submit bert-large -N 16"),
        ("cpu-and-gpu.yaml", "trnctl workloads list"),
        ("trn2.yaml", "trnctl workloads list"),
    ],
)
def test_what_is_named_as_a_first_run_can_run_there(file: str, words: str) -> None:
    path = EXAMPLE.with_name(file)
    assert first_submit(load_cluster_file(path.read_text(encoding="utf-8"), str(path)).cluster) == words


def test_a_first_run_has_a_number_of_nodes_that_there_are_and_that_is_legal(spec: ClusterSpec) -> None:
    [queue] = spec.queues
    few = replace(queue, compute_resources=(replace(queue.compute_resources[0], max_count=11),))
    assert first_submit(replace(spec, queues=(few,))) == "trnctl submit bert-large -N 8"
