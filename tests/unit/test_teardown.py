"""A teardown refuses, asks, deletes and proves, on doors in memory."""

from __future__ import annotations

import pytest

from tests.fakes import World
from trnctl.actions.runs import OpenCluster
from trnctl.actions.stack import Progress
from trnctl.actions.teardown import Proof, check, check_storage, plan_teardown, teardown
from trnctl.errors import CloudError, NotFoundError, RefusedError, ToolError, UsageError
from trnctl.ports import FileSystem, Job, Resource

LUSTRE = FileSystem("fs-0aa11bb22cc33dd61", "fsx-lustre", 1200, "AVAILABLE")
OTHER = FileSystem("fs-0aa11bb22cc33dd99", "fsx-lustre", 2400, "AVAILABLE")
GROUP = Resource("security group", "sg-1", "ultra1-FSX")
RETAINING = {"Resources": {"HeadNode": {}, "FSX1": {"DeletionPolicy": "Retain"}}}


@pytest.fixture
def world() -> World:
    """A cluster with a file system that outlives it."""
    world = World()
    world.cloud.has_cluster("ultra1")
    world.cloud.templates["ultra1"] = RETAINING
    world.cloud.has_file_system("ultra1", LUSTRE)
    world.cloud.happens("ultra1", "FSX1", "AWS::FSx::FileSystem", "CREATE_COMPLETE", physical_id=LUSTRE.id)
    return world


def opened(world: World) -> OpenCluster:
    """The cluster with its doors."""
    return OpenCluster("ultra1", "us-west-2", world.services(), "/fsx/trnctl/runs")


def run(world: World, *, delete_storage: bool) -> Proof:
    """Tear down to the proof."""
    steps: list[Progress | Proof] = list(
        teardown(plan_teardown(opened(world)), opened(world), delete_storage=delete_storage)
    )
    assert isinstance(steps[-1], Proof)
    return steps[-1]


def test_the_plan_tells_what_goes_and_what_stays(world: World) -> None:
    plan = plan_teardown(opened(world))
    assert (plan.kept, plan.lost, plan.resources) == ((LUSTRE,), (), 2)
    assert plan.asks_about_storage


def test_a_file_system_that_goes_with_the_stack_is_not_asked_about(world: World) -> None:
    world.cloud.templates["ultra1"] = {"Resources": {"FSX1": {"DeletionPolicy": "Delete"}}}
    plan = plan_teardown(opened(world))
    assert (plan.kept, plan.lost, plan.asks_about_storage) == ((), (LUSTRE,), False)


def test_what_an_earlier_stack_of_that_name_left_behind_stays_too(world: World) -> None:
    earlier = FileSystem("fs-0aa11bb22cc33dd62", "fsx-lustre", 1200, "AVAILABLE")
    world.cloud.has_file_system("ultra1", earlier)
    plan = plan_teardown(opened(world))
    assert {one.id for one in plan.kept} == {LUSTRE.id, earlier.id}
    assert plan.lost == ()
    proof = run(world, delete_storage=True)
    assert proof.left == ()


def test_without_a_word_about_storage_nothing_happens(world: World) -> None:
    with pytest.raises(UsageError) as caught:
        check(plan_teardown(opened(world)), cancel_runs=False, delete_storage=None)
    assert "--keep-storage" in caught.value.remedy
    assert "--delete-storage" in caught.value.remedy


def test_live_runs_are_refused_unless_told(world: World) -> None:
    world.queue.others.append(Job("7", "", "", "running", "", 4, "ana"))
    plan = plan_teardown(opened(world))
    with pytest.raises(RefusedError, match="job 7 of ana"):
        check(plan, cancel_runs=False, delete_storage=True)
    check(plan, cancel_runs=True, delete_storage=True)


def without_a_way_in(world: World) -> OpenCluster:
    """The cluster, whose head node does not answer."""

    class Unreachable:
        def shell(self, head: object) -> object:
            raise ToolError("The head node does not answer.", remedy="Look at it.")

        queue = shell

    here = opened(world)
    services = here.services.__class__(**{**vars(here.services), "head": Unreachable()})
    return OpenCluster("ultra1", "us-west-2", services, here.runs_folder)


def test_a_queue_that_cannot_be_seen_is_not_taken_for_an_idle_one(world: World) -> None:
    plan = plan_teardown(without_a_way_in(world))
    with pytest.raises(RefusedError, match="cannot be seen: The head node does not answer"):
        check(plan, cancel_runs=False, delete_storage=True)


def test_a_teardown_that_is_taken_up_again_asks_no_head_node_that_is_going(world: World) -> None:
    world.cloud.move("ultra1", "deleting", "DELETE_IN_PROGRESS")
    plan = plan_teardown(without_a_way_in(world))
    assert (plan.runs, plan.unseen) == ((), "")
    check(plan, cancel_runs=False, delete_storage=True)


def test_storage_that_is_kept_is_no_leftover(world: World) -> None:
    world.cloud.has_leftover("ultra1", GROUP)
    proof = run(world, delete_storage=False)
    assert proof.left == ()
    assert any(LUSTRE.id in words for words in proof.kept)
    assert any(GROUP.id in words for words in proof.kept)
    assert world.cloud.deleted_file_systems == []


def test_storage_is_deleted_with_what_it_kept_alive(world: World) -> None:
    world.cloud.has_leftover("ultra1", GROUP)
    proof = run(world, delete_storage=True)
    assert (proof.left, proof.kept) == ((), ())
    assert world.cloud.deleted_file_systems == [LUSTRE.id]
    assert any(GROUP.id in words for words in proof.deleted)


def test_anything_else_is_left_and_named(world: World) -> None:
    world.cloud.has_leftover("ultra1", Resource("volume", "vol-9", "200 GiB"))
    world.cloud.has_leftover("ultra1", Resource("log group", "/aws/parallelcluster/ultra1-1", "kept for 30 days"))
    world.cloud.unseen = ("roles",)
    proof = run(world, delete_storage=True)
    assert proof.left == ("volume vol-9 (200 GiB)", "could not look for roles: denied")
    assert proof.kept == ("log group /aws/parallelcluster/ultra1-1 (kept for 30 days)",)


def test_a_second_teardown_takes_the_storage_that_the_first_kept(world: World) -> None:
    run(world, delete_storage=False)
    plan = plan_teardown(opened(world))
    assert (plan.stack, plan.kept) == (None, (LUSTRE,))
    assert run(world, delete_storage=True).left == ()


def test_a_file_system_that_is_only_mounted_is_never_deleted(world: World) -> None:
    world.cloud.templates["ultra1"] = {
        "Resources": {"HeadNode": {"dna": f"shared: {OTHER.id}"}, "FSX1": {"DeletionPolicy": "Retain"}}
    }
    world.cloud.has_file_system("ultra1", OTHER)
    plan = plan_teardown(opened(world))
    assert plan.yours == (OTHER,)
    proof = run(world, delete_storage=True)
    assert OTHER.id not in world.cloud.deleted_file_systems
    assert any(OTHER.id in words for words in proof.kept)
    assert proof.left == ()


def test_a_file_system_that_another_cluster_mounts_is_not_deleted(world: World) -> None:
    world.cloud.has_cluster("other2")
    world.cloud.templates["other2"] = {"Resources": {"HeadNode": {"dna": f"shared: {LUSTRE.id}"}}}
    with pytest.raises(RefusedError, match="mounted by the cluster other2"):
        check_storage(plan_teardown(opened(world)), world.services())
    world.cloud.templates["other2"] = {"Resources": {}}
    check_storage(plan_teardown(opened(world)), world.services())


def test_a_group_that_an_earlier_teardown_could_not_delete_goes_with_the_next(world: World) -> None:
    run(world, delete_storage=True)
    world.cloud.has_leftover("ultra1", GROUP)
    assert run(world, delete_storage=False).left == ()


def test_where_nothing_is_there_is_nothing_to_tear_down(world: World) -> None:
    run(world, delete_storage=True)
    with pytest.raises(NotFoundError, match="nothing there carries its tag"):
        plan_teardown(opened(world))


def test_logs_that_wait_for_their_end_are_nothing_to_tear_down(world: World) -> None:
    run(world, delete_storage=True)
    world.cloud.has_leftover("ultra1", Resource("log group", "/aws/parallelcluster/ultra1-1", "kept for 30 days"))
    with pytest.raises(NotFoundError):
        plan_teardown(opened(world))


def test_a_deletion_that_fails_names_the_cause_and_can_be_run_again(world: World) -> None:
    world.provisioner.delete_fails = "The placement group 'ultra1' is in use and may not be deleted"
    with pytest.raises(ToolError, match="placement group ultra1 could not be deleted: instances in it"):
        run(world, delete_storage=True)
    assert run(world, delete_storage=True).left == ()


def test_a_file_system_that_does_not_go_away_is_not_waited_for_without_end(world: World) -> None:
    class Stubborn:
        """A cloud whose file systems are always there."""

        def __getattr__(self, name: str) -> object:
            return getattr(world.cloud, name)

        def delete_file_system(self, file_system: FileSystem) -> None:
            """Accepted, and never done."""

    here = opened(world)
    services = here.services.__class__(**{**vars(here.services), "cloud": Stubborn()})
    stubborn = OpenCluster("ultra1", "us-west-2", services, here.runs_folder)
    with pytest.raises(CloudError, match="still there after 20 minutes"):
        list(teardown(plan_teardown(stubborn), stubborn, delete_storage=True))
