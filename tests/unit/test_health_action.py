"""A check of nodes on doors in memory: what is asked, what it costs, what is said, and what is drained."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.fakes import World
from trnctl.actions.health import HealthPlan, HealthWishes, check, door, findings, plan_health, reasons, verdict
from trnctl.actions.runs import OpenCluster
from trnctl.errors import NotFoundError, RefusedError, RunFailed, ToolError, TrnctlError
from trnctl.ports import Drained, HealthReport, NodeFinding
from trnctl.render import templates
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.loading import load_cluster_file

WELL = HealthReport("7", ("n-1", "n-2", "n-3"), {}, seconds=9.0)
LOST = NodeFinding("node-devices", "error", "n-2", "neuron-ls sees 15 Neuron devices of 16")
LOW = NodeFinding("node-disk-low", "warning", "n-2", "/ has 9 GiB free of 100")
ONE_LOST = replace(WELL, findings=(LOW, LOST), failed=("n-2",), not_had={"n-4": "allocated"})
FILE = """\
cluster:
  name: ultra1
  region: us-west-2
  bucket: my-bucket
  network: {head_subnet: subnet-0aa11bb22cc33dd41, compute_subnet: subnet-0aa11bb22cc33dd42}
  head_node: {key_name: demo, ssh_from: [203.0.113.0/24]}
  queues:
    - {name: big, compute_resources: [{name: i1, instance_type: trn1.32xlarge, max_count: 4}]}
    - {name: bare, compute_resources: [{name: i2, instance_type: trn1.32xlarge, max_count: 1, efa: false}]}
    - {name: gpus, compute_resources: [{name: i3, instance_type: p4d.24xlarge, max_count: 4}]}
"""


@pytest.fixture
def world() -> World:
    made = World(mount_prefix="/prefix")
    made.cloud.has_cluster("ultra1")
    return made


def spec() -> ClusterSpec:
    return load_cluster_file(FILE, "trnctl.yaml").cluster


def opened(world: World) -> OpenCluster:
    return OpenCluster("ultra1", "us-west-2", world.services(), "/prefix/home/trnctl/runs")


def planned(world: World, **wishes: object) -> HealthPlan:
    return plan_health(opened(world), spec(), HealthWishes(**wishes))  # type: ignore[arg-type]  # a test's shorthand


def expectation(plan: HealthPlan) -> dict[str, object]:
    (text,) = [file.text for file in plan.wanted.files if file.name == "expect.json"]
    return dict(json.loads(text))


def test_all_that_are_idle_unless_a_number_is_asked_for(world: World) -> None:
    plan = planned(world)
    assert (plan.wanted.count, plan.wanted.queue, plan.wanted.wait_s, plan.most_usd) == (None, "big", 120, None)
    some = planned(world, nodes=4)
    assert (some.wanted.count, some.wanted.wait_s) == (4, 1200)
    assert some.most_usd == pytest.approx(4 * 21.50 * some.wanted.limit_s / 3600)
    assert some.wanted.folder.startswith("/prefix/home/trnctl/health/health-")
    names = {file.name for file in some.wanted.files}
    assert names == {"health.sbatch", "expect.json", "health.py", "judge_health.py", "node_health.py"}
    assert "47.09" in some.reference


def test_what_the_nodes_should_have_comes_from_the_file(world: World) -> None:
    told = expectation(planned(world, patience_s=30))
    assert (told["devices"], told["ranks"], told["efa"], told["links"], told["patience_s"]) == (16, 32, 8, True, 30)
    assert isinstance(told["disks"], list)
    assert told["disks"][2:] == ["/prefix" + spec().shared_mount, "/prefix/local_storage"]
    assert isinstance(told["versions"], dict)
    assert told["versions"]["driver"] == "2.29.0.0"
    bare = expectation(planned(world, queue="bare", collectives=False))
    assert (bare["efa"], bare["links"], bare["collectives"]) == (0, False, False)


@pytest.mark.parametrize(
    ("wishes", "code"), [({"queue": "nope"}, 2), ({"nodes": 5}, 3), ({"nodes": 0}, 2), ({"queue": "gpus"}, 2)]
)
def test_what_cannot_be_checked_is_refused_before_anything_is_asked(
    world: World, wishes: dict[str, object], code: int
) -> None:
    with pytest.raises(TrnctlError) as caught:
        planned(world, **wishes)
    assert caught.value.exit_code == code
    assert caught.value.remedy


def test_a_check_tells_how_far_it_is_and_ends_with_its_report(world: World) -> None:
    world.health.report = WELL
    *steps, last = check(planned(world), door(opened(world)))
    assert (len(steps), last) == (1, WELL)
    verdict(WELL, None)
    world.health.report = None
    with pytest.raises(RefusedError):
        list(check(planned(world), door(opened(world))))
    world.health.report = HealthReport("7", why="the nodes could not be had in 120 s (Resources)")
    with pytest.raises(ToolError, match="the nodes of big were not checked: the nodes could not be had"):
        list(check(planned(world), door(opened(world))))
    with pytest.raises(NotFoundError):
        door(OpenCluster("ghost", "us-west-2", world.services(), "/x"))


def test_what_is_found_is_told_with_the_way_out(world: World) -> None:
    told = {(one.code, one.node): one for one in findings(ONE_LOST)}
    assert set(told) == {("node-devices", "n-2"), ("node-disk-low", "n-2"), ("node-not-had", "n-4")}
    assert all(one.remedy for one in told.values())
    assert told["node-not-had", "n-4"].message == "it is allocated"


def test_a_node_is_drained_for_its_error(world: World) -> None:
    assert reasons(ONE_LOST) == {"n-2": f"trnctl health: node-devices: {LOST.message}"}
    world.health.undrainable = {"n-2": "no right"}
    assert world.health.drain(reasons(ONE_LOST)) == Drained((), {"n-2": "no right"})
    with pytest.raises(RunFailed, match="1 of 3 nodes failed the check: n-2") as caught:
        verdict(ONE_LOST, Drained((), {"n-2": "no right"}))
    assert "--drain -y" in caught.value.remedy
    with pytest.raises(RunFailed) as caught:
        verdict(ONE_LOST, Drained(("n-2",), {}))
    assert "no job starts on them any more" in caught.value.remedy


def test_what_is_no_matter_of_nodes_drains_none(world: World) -> None:
    alike = replace(ONE_LOST, failed=("n-1", "n-2"), systemic=True)
    assert reasons(alike) == {}
    assert "nodes-alike" in {one.code for one in findings(alike)}
    with pytest.raises(RunFailed) as caught:
        verdict(alike, None)
    assert "Nothing is drained" in caught.value.remedy


def test_the_scripts_travel_as_they_are(world: World) -> None:
    texts = {file.name: file.text for file in planned(world).wanted.files}
    assert texts["health.py"] == templates.read("job/health.py")
