"""What is asked for by hand: its price first, and nothing that cannot be."""

from __future__ import annotations

import pytest

from tests.cli.trnctl_runner import SIXTEEN
from tests.fakes import World
from trnctl.actions.alloc import alloc, plan_alloc
from trnctl.actions.runs import OpenCluster
from trnctl.errors import NotFoundError, RefusedError, UsageError
from trnctl.ports import Allocation
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.loading import load_cluster_file

SPEC: ClusterSpec = load_cluster_file(SIXTEEN.read_text(), "trnctl.yaml").cluster


def test_the_plan_has_the_price_of_all_nodes() -> None:
    plan = plan_alloc(SPEC, nodes=2, queue=None, time_limit="1:00:00")
    assert plan.allocation == Allocation(2, "1:00:00", "compute1")
    assert plan.instance_type == "trn1.32xlarge"
    assert plan.price is not None
    assert plan.price.usd == pytest.approx(43.0)


def test_without_a_file_slurm_decides_and_no_price_is_made_up() -> None:
    plan = plan_alloc(None, nodes=1, queue="gpu", time_limit="30")
    assert (plan.allocation.queue, plan.price, plan.instance_type) == ("gpu", None, None)


@pytest.mark.parametrize(
    ("nodes", "queue", "time", "kind", "words"),
    [
        (0, None, "1:00:00", UsageError, "at least one"),
        (1, "nope", "1:00:00", UsageError, "choose one of compute1"),
        (1, None, "soon", UsageError, "--time 2:00:00"),
        (17, None, "1:00:00", RefusedError, "raise max_count"),
    ],
)
def test_what_cannot_be_is_refused(nodes: int, queue: str | None, time: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        plan_alloc(SPEC, nodes=nodes, queue=queue, time_limit=time)
    assert words in caught.value.remedy  # type: ignore[attr-defined]  # all of ours have one


def test_the_terminal_goes_to_the_head_node() -> None:
    world = World()
    opened = OpenCluster("ultra1", "us-west-2", world.services(), "/fsx/trnctl/runs")
    plan = plan_alloc(SPEC, nodes=2, queue=None, time_limit="1:00:00")
    with pytest.raises(NotFoundError):
        alloc(plan, opened)
    world.cloud.has_cluster("ultra1", "running")
    world.allocator.code = 7
    assert alloc(plan, opened) == 7
    assert world.allocator.asked == [plan.allocation]
