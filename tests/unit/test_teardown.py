"""A teardown refuses, asks, deletes and proves, on doors in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import World
from tests.fakes.queue import InMemoryQueue
from tests.unit.test_submit import example
from trnctl.actions.adopt import adopt
from trnctl.actions.create import create, plan_create
from trnctl.actions.removal import Waiting
from trnctl.actions.runs import OpenCluster
from trnctl.actions.stack import Progress
from trnctl.actions.teardown import Proof, check, check_export, check_storage, plan_teardown, teardown
from trnctl.errors import CloudError, NotFoundError, RefusedError, ToolError, UsageError
from trnctl.ports import ExportStep, FileSystem, Job, QueuePicture, Resource

LUSTRE = FileSystem("fs-0aa11bb22cc33dd61", "fsx-lustre", 1200, "available", "SCRATCH_2")
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
    steps = list(teardown(plan_teardown(opened(world)), opened(world), delete_storage=delete_storage))
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


def test_a_job_that_comes_while_a_person_thinks_is_not_deleted_under(world: World) -> None:
    plan = plan_teardown(opened(world))
    check(plan, cancel_runs=False, delete_storage=True)
    world.queue.others.append(Job("7", "", "", "running", "", 4, "ana"))
    with pytest.raises(RefusedError, match="job 7 of ana"):
        list(teardown(plan, opened(world), delete_storage=True))
    assert world.cloud.observe("ultra1").stack is not None
    assert isinstance(list(teardown(plan_teardown(opened(world)), opened(world), delete_storage=True))[-1], Proof)


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


def test_a_placement_group_in_use_is_waited_for_and_the_deletion_tried_again(world: World) -> None:
    """Instances of the cluster terminate slowly, as trn1 was seen to: ParallelCluster's clean-up gives up before."""
    world.provisioner.delete_fails = "The placement group 'ultra1' is in use and may not be deleted"
    world.cloud.has_leftover("ultra1", Resource("instance", "i-9", "trn1.32xlarge, shutting-down"))
    world.clock.after(1500, lambda: world.cloud.loses_leftover("ultra1", "i-9"))
    steps = list(teardown(plan_teardown(opened(world)), opened(world), delete_storage=True))
    told = [words for step in steps if isinstance(step, Progress) for words, _ in step.current]
    assert any("1 instance to terminate" in words for words in told)
    proof = steps[-1]
    assert isinstance(proof, Proof)
    assert (proof.left, world.cloud.observe("ultra1").stack) == ((), None)


def test_an_interface_that_holds_a_group_is_deleted_and_the_deletion_tried_again(world: World) -> None:
    world.provisioner.delete_fails = "resource sg-1 has a dependent object (Service: Ec2, Status Code: 400)"
    world.cloud.has_leftover("ultra1", Resource("network interface", "eni-9", "available"))
    assert run(world, delete_storage=True).left == ()


def test_what_is_not_known_to_pass_names_the_cause_and_can_be_run_again(world: World) -> None:
    world.provisioner.delete_fails = "Cannot delete entity, must detach all policies first."
    with pytest.raises(ToolError, match="could not be deleted"):
        run(world, delete_storage=True)
    assert run(world, delete_storage=True).left == ()


def test_a_hindrance_that_stays_is_told_in_the_end(world: World) -> None:
    class Stuck:
        """A provisioner whose deletions always fail for the same reason."""

        def __getattr__(self, name: str) -> object:
            return getattr(world.provisioner, name)

        def delete(self, name: str) -> None:
            """Fails again."""
            world.provisioner.delete_fails = "Rate exceeded"
            world.provisioner.delete(name)

    here = opened(world)
    services = here.services.__class__(**{**vars(here.services), "provisioner": Stuck()})
    stuck = OpenCluster("ultra1", "us-west-2", services, here.runs_folder)
    with pytest.raises(ToolError, match="could not be deleted"):
        list(teardown(plan_teardown(stuck), stuck, delete_storage=True))


def test_node_scripts_go_from_the_bucket_and_records_stay(world: World) -> None:
    world.cloud.buckets["b"] = {
        "trnctl/ultra1/head.sh": "1", "trnctl/ultra1/0123456789abcdef/compute.sh": "2",
        "trnctl/ultra1/runs/a3f/run.json": "3", "trnctl/ultra12/head.sh": "another cluster's", "mine/head.sh": "4",
    }  # fmt: skip
    here = opened(world)
    here = OpenCluster(here.cluster, here.region, here.services, here.runs_folder, "b")
    *_, proof = teardown(plan_teardown(here), here, delete_storage=True)
    assert isinstance(proof, Proof)
    assert sorted(world.cloud.buckets["b"]) == [
        "mine/head.sh",
        "trnctl/ultra1/runs/a3f/run.json",
        "trnctl/ultra12/head.sh",
    ]
    assert any("2 node scripts in s3://b/trnctl/ultra1/" in one for one in proof.deleted)
    assert "trnctl/ultra1/ in s3://b" in proof.looked_for
    assert any(one.endswith("s3://b/trnctl/ultra1/") for one in proof.kept)


def test_a_file_system_that_is_kept_keeps_the_network_and_says_so(world: World) -> None:
    spec = example()
    world.account.create_network("net1", "", {})
    world.clock.wind(600)
    here = opened(world)
    here = OpenCluster(here.cluster, here.region, here.services, here.runs_folder, None, spec)
    *_, proof = teardown(plan_teardown(here), here, delete_storage=False)
    assert isinstance(proof, Proof)
    [network] = [one for one in proof.kept if one.startswith("network stack")]
    assert network == f"network stack net1 ({LUSTRE.id} stands in it)"
    assert any(LUSTRE.id in one and "not priced" in one for one in proof.kept)


def test_an_export_comes_first_and_is_told(world: World) -> None:
    steps = list(teardown(plan_teardown(opened(world)), opened(world), delete_storage=True, export="s3://b/x"))
    assert isinstance(steps[0], ExportStep)
    assert world.export.asked == ["s3://b/x"]
    proof = steps[-1]
    assert isinstance(proof, Proof)
    assert "2 files of runs in s3://b/x (2 copied now)" in proof.kept


def test_what_an_export_left_out_is_told(world: World) -> None:
    world.export.left_out = tuple(f"a3f/checkpoints/{number} (a link that leads out of the run)" for number in range(7))
    proof = list(teardown(plan_teardown(opened(world)), opened(world), delete_storage=True, export="s3://b/x"))[-1]
    assert isinstance(proof, Proof)
    [words] = [one for one in proof.kept if "files of runs" in one]
    assert "not exported: a3f/checkpoints/0 (a link that leads out of the run), " in words
    assert words.endswith("and 2 more")


def slow_to_end(world: World, job: Job) -> None:
    """A queue with a job that goes on when it is cancelled."""

    class SlowToEnd(InMemoryQueue):
        def cancel(self, run: str, runs_folder: str) -> list[str]:
            """It is told, and no more."""
            return [job.id]

    world.queue = world.head.queue_behind = SlowToEnd(world.clock)
    world.queue.others.append(job)


@pytest.mark.parametrize(("seconds", "ends"), [(60, True), (3600, False)])
def test_a_cancelled_run_that_still_saves_is_not_exported_half(world: World, seconds: float, ends: bool) -> None:
    job = Job("7", "a3f", "train", "completing", "", 4, "ana")
    slow_to_end(world, job)
    world.clock.after(seconds, lambda: world.queue.others.remove(job))
    steps = teardown(plan_teardown(opened(world)), opened(world), delete_storage=True, export="s3://b/x")
    if ends:
        told = list(steps)
        waits, proof = [step for step in told if isinstance(step, Waiting)], told[-1]
        assert "the cancelled runs save and end (90 s at most): a3f" in [step.what for step in waits]
        assert max(step.elapsed_s for step in waits) >= 59
        assert isinstance(proof, Proof)
        assert (world.export.asked, proof.deleted[0]) == (["s3://b/x"], "run a3f (cancelled)")
        return
    with pytest.raises(RefusedError, match="still at work after 90 s: a3f") as caught:
        list(steps)
    assert "leave --export out" in caught.value.remedy
    assert (world.export.asked, world.cloud.deleted_file_systems) == ([], [])
    assert world.cloud.observe("ultra1").stack is not None


def test_without_an_export_a_run_that_does_not_end_is_named_and_holds_nothing_up(world: World) -> None:
    slow_to_end(world, Job("7", "a3f", "train", "completing", "", 4, "ana"))
    proof = run(world, delete_storage=True)
    assert proof.deleted[0] == "run a3f (cancelled, still at work after 90 s)"


def test_an_export_that_breaks_off_deletes_nothing(world: World) -> None:
    world.export.fails = "AccessDenied"
    with pytest.raises(ToolError, match="broke off"):
        list(teardown(plan_teardown(opened(world)), opened(world), delete_storage=True, export="s3://b/x"))
    stack = world.cloud.observe("ultra1").stack
    assert stack is not None
    assert (stack.phase, world.cloud.deleted_file_systems) == ("running", [])


@pytest.mark.parametrize("place", ["b/x", "s3://", "s3://A B", "https://b", "s3://b/x y"])
def test_an_export_to_no_place_is_refused(world: World, place: str) -> None:
    with pytest.raises(UsageError, match="no place in S3"):
        check_export(plan_teardown(opened(world)), place)
    check_export(plan_teardown(opened(world)), "s3://my-bucket")


def test_nothing_can_be_exported_without_a_head_node(world: World) -> None:
    free(world)
    with pytest.raises(RefusedError, match="no head node that runs"):
        check_export(plan_teardown(opened(world)), "s3://my-bucket/x")


# ----------------------------------------------------------------------------------------------- adopting


def free(world: World) -> None:
    """The cluster is gone, and its file system stands."""
    run(world, delete_storage=False)


def test_a_file_system_that_an_earlier_cluster_left_is_adopted(world: World) -> None:
    assert adopt(example(), world.services()) == (example(), ()), "the cluster's own is no one's to adopt"
    free(world)
    spec, adopted = adopt(example(), world.services())
    assert adopted == (LUSTRE,)
    assert spec.storage[0].file_system_id == LUSTRE.id
    list(create(plan_create(replace(spec, bucket=None), adopted=adopted), world.services()))
    assert world.cloud.opened == [LUSTRE.id]


@pytest.mark.parametrize(
    "other",
    [
        replace(LUSTRE, gib=2400),
        replace(LUSTRE, deployment="PERSISTENT_2"),
        replace(LUSTRE, kind="efs", gib=0),
        replace(LUSTRE, state="deleting"),
    ],
    ids=["size", "deployment", "kind", "on its way out"],
)
def test_another_file_system_is_not_adopted(world: World, other: FileSystem) -> None:
    free(world)
    world.cloud.delete_file_system(LUSTRE)
    world.cloud.has_file_system("ultra1", other)
    assert adopt(example(), world.services())[1] == ()


def test_of_two_that_fit_none_is_adopted(world: World) -> None:
    free(world)
    world.cloud.has_file_system("ultra1", replace(LUSTRE, id="fs-0aa11bb22cc33dd77"))
    assert adopt(example(), world.services())[1] == ()


def test_what_was_adopted_stays_so_and_is_the_clusters_own_at_its_teardown() -> None:
    world = World()
    world.cloud.has_file_system("ultra1", LUSTRE)
    world.cloud.has_cluster("ultra1")
    world.cloud.templates["ultra1"] = {"Resources": {"HeadNode": {"mounts": LUSTRE.id}}}
    assert adopt(example(), world.services())[1] == (LUSTRE,), "an update must see no difference"
    here = opened(world)
    assert plan_teardown(here).yours == (LUSTRE,), "without the cluster file nobody knows whose it is"
    here = OpenCluster(here.cluster, here.region, here.services, here.runs_folder, None, example())
    assert (plan_teardown(here).kept, plan_teardown(here).yours) == ((LUSTRE,), ())
    named = replace(example(), storage=(replace(example().storage[0], file_system_id=LUSTRE.id),))
    here = OpenCluster(here.cluster, here.region, here.services, here.runs_folder, None, named)
    assert plan_teardown(here).yours == (LUSTRE,), "the file names it: it is the user's"


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


def test_a_job_that_comes_while_the_records_are_copied_is_not_deleted_with_the_cluster(world: World) -> None:
    plan, job = plan_teardown(opened(world)), Job("7", "a3f", "train", "pending", "", 4, "ana")

    class Late(InMemoryQueue):
        def observe(self, *words: Any, **named: Any) -> QueuePicture:
            """Somebody submits right after the first look."""
            seen = super().observe(*words, **named)
            self.others = [job]
            return seen

    world.queue = world.head.queue_behind = Late(world.clock)
    with pytest.raises(RefusedError, match="has come to work since you were asked: a3f"):
        list(teardown(plan, opened(world), delete_storage=True))
    assert world.cloud.observe("ultra1").stack is not None


def test_a_cluster_that_is_being_deleted_takes_no_work(world: World) -> None:
    world.cloud.move("ultra1", "deleting", "DELETE_IN_PROGRESS")
    assert opened(world).queue() is world.queue
    with pytest.raises(RefusedError, match="is being deleted, and takes no more work"):
        opened(world).queue(work=True)
