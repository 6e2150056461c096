"""An update in one command: what it takes, what it refuses, and how it goes on after every interruption."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.fakes import World
from tests.unit.test_submit import example
from trnctl.actions.stack import Progress
from trnctl.actions.update import MARK, UpdatePlan, check, plan_update, settle, update
from trnctl.errors import CloudError, RefusedError, ToolError, UsageError
from trnctl.findings import Finding
from trnctl.ports import Change, Fleet, Job
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.editing import read_counts, with_counts
from trnctl.specs.loading import load_cluster_file

EXAMPLES = Path(__file__).parents[2] / "examples"
SHRINK = Change("Scheduling.SlurmQueues[compute1].ComputeResources[i1].MaxCount", "16", "8")
STOP = Finding(
    "pcluster-needs-stopped-fleet", "error", "All compute nodes must be stopped", "Stop it.", path=SHRINK.path
)
RUNS = "/fsx/trnctl/runs"


@pytest.fixture
def spec() -> ClusterSpec:
    return replace(example(), bucket=None)


@pytest.fixture
def world() -> World:
    """A running cluster whose update needs a stopped fleet, as ParallelCluster says while the fleet runs."""
    world = World()
    world.cloud.has_cluster("ultra1")
    world.provisioner.changes = [SHRINK]
    world.provisioner.stopped_for = [STOP]
    return world


def marks(world: World) -> dict[str, str]:
    head = world.cloud.observe("ultra1").head
    assert head is not None
    return dict(head.marks)


def fleet(world: World) -> str:
    found = world.cloud.observe("ultra1").fleet
    assert found is not None
    return found.status


def finish(world: World, spec: ClusterSpec, accepted: list[str] | None = None) -> UpdatePlan:
    """The command once more, to its end."""
    list(settle("ultra1", world.services()))
    plan = plan_update(spec, world.services(), RUNS)
    check(plan, requeue=False)
    list(update(plan, world.services(), lambda: (accepted if accepted is not None else []).append("accepted")))
    return plan


def test_a_change_that_needs_no_stop_leaves_the_fleet_alone(world: World, spec: ClusterSpec) -> None:
    world.provisioner.stopped_for = []
    plan = plan_update(spec, world.services(), RUNS)
    steps = list(update(plan, world.services()))
    assert not [step for step in steps if isinstance(step, Fleet)]
    assert isinstance(steps[-1], Progress)
    assert steps[-1].phase == "running"


def test_stop_update_and_start_in_one_go(world: World, spec: ClusterSpec) -> None:
    plan = plan_update(spec, world.services(), RUNS)
    assert (plan.stops, plan.refused) == ((STOP,), ())
    seen: list[str] = []
    for step in update(plan, world.services(), lambda: seen.append(f"accepted, fleet {fleet(world)}")):
        seen.append(step.status if isinstance(step, Fleet) else str(step.phase))
    assert seen[-1] == "running"
    assert seen.index("stopped") < seen.index("accepted, fleet stopped") < seen.index("updating")
    assert (fleet(world), marks(world)) == ("running", {})


@pytest.mark.parametrize("after", range(1, 12))
def test_wherever_it_is_interrupted_the_same_command_finishes_and_starts_the_fleet(
    world: World, spec: ClusterSpec, after: int
) -> None:
    """`after` counts the looks before Ctrl-C; between two of them time passes on the cluster, whoever watches."""
    steps = update(plan_update(spec, world.services(), RUNS), world.services())
    for _ in range(after):
        if next(steps, None) is None:
            break
    cast("Generator[Any]", steps).close()
    world.clock.wind(3)
    finish(world, spec)
    assert (fleet(world), marks(world), world.provisioner.changes) == ("running", {}, [])
    assert finish(world, spec).nothing


def test_jobs_on_nodes_are_not_stopped_unless_told(world: World, spec: ClusterSpec) -> None:
    world.queue.others = [Job("9", "a3f", "train", "running", "", 4), Job("10", "", "", "pending", "", 1)]
    plan = plan_update(spec, world.services(), RUNS)
    with pytest.raises(RefusedError, match="a3f would lose its nodes") as caught:
        check(plan, requeue=False)
    assert "--requeue-runs" in caught.value.remedy
    check(plan, requeue=True)
    assert fleet(world) == "running", "nothing was stopped to find out"


@pytest.mark.parametrize("requeue", [False, True])
def test_a_job_that_comes_while_a_person_thinks_is_not_stopped(world: World, spec: ClusterSpec, requeue: bool) -> None:
    world.queue.others = [Job("9", "a3f", "train", "running", "", 4)] if requeue else []
    plan = plan_update(spec, world.services(), RUNS)
    check(plan, requeue=requeue)
    world.queue.others.append(Job("11", "", "", "configuring", "", 4, "ana"))
    with pytest.raises(RefusedError, match=r"^job 11 of ana would lose its nodes"):
        list(update(plan, world.services()))
    assert (fleet(world), marks(world), len(world.provisioner.changes)) == ("running", {}, 1)
    world.queue.others.pop()
    list(update(plan, world.services()))
    assert world.provisioner.changes == []


def test_what_pcluster_refuses_is_told_before_anything_is_stopped(world: World, spec: ClusterSpec) -> None:
    refused = Finding(
        "pcluster-update-refused", "error", "cannot be changed", "Leave it.", path="HeadNode.InstanceType"
    )
    world.provisioner.findings = [refused]
    plan = plan_update(spec, world.services(), RUNS)
    with pytest.raises(RefusedError) as caught:
        check(plan, requeue=True)
    assert caught.value.findings == (refused,)
    assert (fleet(world), marks(world)) == ("running", {})


@pytest.mark.parametrize(
    ("current", "blocked"),
    [
        ("{'Name': 'fsx', 'StorageType': 'FsxLustre', 'FsxLustreSettings': {'StorageCapacity': 1200}}", True),
        ("{'Name': 'fsx', 'FsxLustreSettings': {'StorageCapacity': 1200, 'DeletionPolicy': 'Retain'}}", False),
        ("{'Name': 'fsx', 'FsxLustreSettings': {'FileSystemId': 'fs-0aa11bb22cc33dd61'}}", False),
        ("-", False),
    ],
    ids=["goes with its data", "is kept", "is the user's own", "is new"],
)
def test_storage_that_an_update_would_lose_blocks_it(
    world: World, spec: ClusterSpec, current: str, blocked: bool
) -> None:
    world.provisioner.changes = [Change("SharedStorage", current, "-")]
    world.provisioner.stopped_for = []
    codes = [one.code for one in plan_update(spec, world.services(), RUNS).refused]
    assert codes == (["update-loses-storage"] if blocked else [])


def test_an_update_that_fails_starts_the_fleet_again(world: World, spec: ClusterSpec) -> None:
    world.provisioner.update_fails = "the head node was not ready"
    with pytest.raises(ToolError, match="could not be updated"):
        finish(world, spec)
    assert (fleet(world), marks(world)) == ("running", {})


def test_an_update_that_is_refused_at_the_last_moment_starts_the_fleet_and_writes_nothing(
    world: World, spec: ClusterSpec
) -> None:
    plan = plan_update(spec, world.services(), RUNS)
    world.provisioner.refuses_update = CloudError("AccessDenied", remedy="Ask for it.")
    written: list[str] = []
    with pytest.raises(CloudError):
        list(update(plan, world.services(), lambda: written.append("x")))
    assert (written, fleet(world), marks(world)) == ([], "running", {})


def test_the_mark_lies_on_the_head_node_while_the_fleet_is_stopped(world: World, spec: ClusterSpec) -> None:
    steps = update(plan_update(spec, world.services(), RUNS), world.services())
    for step in steps:
        if isinstance(step, Fleet) and step.status == "stopped":
            break
    assert MARK in marks(world)


# ------------------------------------------------------------------------------------------------ --set-count


def counts(text: str) -> dict[str, tuple[int, int]]:
    spec = load_cluster_file(text, "t.yaml").cluster
    return {f"{q.name}/{r.name}": (r.min_count, r.max_count) for q in spec.queues for r in q.compute_resources}


def test_counts_are_changed_and_nothing_else() -> None:
    text = (EXAMPLES / "two-queues.yaml").read_text()
    changed = with_counts(text, read_counts(["standard/i1=0:32", "wide/n1=2:3"]))
    assert counts(changed) == {"standard/i1": (0, 32), "wide/n1": (2, 3)}
    before, after = text.splitlines(), changed.splitlines()
    assert [line for line in before if "instance_type" not in line] == [
        line for line in after if "instance_type" not in line
    ]
    assert "# this queue's own, where trn1n is offered" in changed


BLOCK = """\
# ümlaut before the counts
cluster:
  name: a1
  region: us-west-2
  network: {head_subnet: subnet-0aa11bb22cc33dd41, compute_subnet: subnet-0aa11bb22cc33dd42}
  head_node: {key_name: k, ssh_from: [203.0.113.0/24]}
  queues:
    - name: q
      compute_resources:
        - name: i1                    # the first
          instance_type: trn1.32xlarge
          max_count: 4   # four

          # the end
    - {name: p, compute_resources: [{name: j1, instance_type: trn1.2xlarge, max_count: 1, efa: false}]}
"""


@pytest.mark.parametrize(
    ("word", "expected"),
    [("q/i1=0:9", (0, 9)), ("q/i1=3:4", (3, 4)), ("q/i1=16", (0, 16)), ("p/j1=1:2", (1, 2))],
)
def test_counts_in_every_form_of_yaml(word: str, expected: tuple[int, int]) -> None:
    changed = with_counts(BLOCK, read_counts([word]))
    assert counts(changed)[word.partition("=")[0]] == expected
    for comment in ("# ümlaut before the counts", "# the first", "# four", "# the end"):
        assert comment in changed


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("q=0:3", "QUEUE/RESOURCE"),
        ("q/i1=a", "QUEUE"),
        ("x/i1=1:2", "no queue called x"),
        ("q/x=1:2", "no compute resource"),
    ],
)
def test_counts_of_nothing_are_refused(word: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        with_counts(BLOCK, read_counts([word]))


def test_a_file_without_queues_says_so() -> None:
    smallest: Any = BLOCK.partition("  queues:")[0]
    with pytest.raises(UsageError, match="writes no queues"):
        with_counts(smallest, read_counts(["compute1/i1=0:3"]))


def test_an_update_that_another_one_is_ahead_of_does_not_start_the_fleet_under_it(
    world: World, spec: ClusterSpec
) -> None:
    plan = plan_update(spec, world.services(), RUNS)
    world.provisioner.refuses_update = RefusedError("is in UPDATE_IN_PROGRESS state", remedy="Wait for it.")

    def another() -> None:
        world.cloud.move("ultra1", "updating", "UPDATE_IN_PROGRESS")

    world.clock.after(1, another)
    with pytest.raises(RefusedError, match="UPDATE_IN_PROGRESS"):
        list(update(plan, world.services()))
    assert fleet(world) == "stopped", "whoever updates starts it at its end"
    assert MARK in marks(world)
