"""Which node counts are legal, what each makes of the batch, and what does not fit into a queue."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recipes import TRN1, layout, recipe
from trnctl.errors import RefusedError, UsageError
from trnctl.plan.layout import check_queue, legal_nodes, resolve
from trnctl.specs.cluster import ComputeResource, Queue
from trnctl.specs.workload import Batch, Scaling


@pytest.mark.parametrize(
    ("nodes", "scaling", "world", "accumulation", "global_batch"),
    [
        (1, "strong", 32, 32, 16_384),
        (4, "strong", 128, 8, 16_384),
        (16, "strong", 512, 2, 16_384),
        (32, "strong", 1024, 1, 16_384),
        (16, "weak", 512, 32, 262_144),
        (3, "weak", 96, 32, 49_152),
    ],
)
def test_scaling_decides_the_batch(
    nodes: int, scaling: Scaling, world: int, accumulation: int, global_batch: int
) -> None:
    made = layout(nodes, scaling)
    assert (made.world, made.accumulation, made.global_batch) == (world, accumulation, global_batch)
    assert (made.data, made.replicas, made.tensor, made.pipeline, made.shard) == (world, world, 1, 1, 1)
    assert made.scaling == scaling


def test_three_nodes_are_refused_with_the_counts_that_work() -> None:
    with pytest.raises(UsageError) as caught:
        layout(3)
    assert caught.value.exit_code == 2
    assert "15,360 sequences a step instead of 16,384" in caught.value.message
    assert "1, 2, 4, 8, 16, 32;" in caught.value.remedy
    assert "global batch 49,152" in caught.value.remedy


def test_sixty_four_nodes_would_leave_nothing_to_accumulate() -> None:
    with pytest.raises(UsageError, match="become zero on 64") as caught:
        layout(64)
    assert "1, 2, 4, 8, 16, 32;" in caught.value.remedy


@pytest.mark.parametrize("nodes", [0, -1])
def test_less_than_a_node_is_refused(nodes: int) -> None:
    with pytest.raises(UsageError, match="at least one"):
        layout(nodes, "weak")


def test_a_type_that_the_recipe_does_not_name_is_refused_with_those_it_does() -> None:
    with pytest.raises(UsageError, match=r"cannot run on p5\.48xlarge") as caught:
        resolve(recipe(), "p5.48xlarge", 16)
    assert "trn1.32xlarge, trn1n.32xlarge" in caught.value.remedy


def test_legal_counts() -> None:
    assert legal_nodes(recipe(), TRN1, 100) == (1, 2, 4, 8, 16, 32)
    assert legal_nodes(recipe(), TRN1, 9) == (1, 2, 4, 8)
    assert legal_nodes(recipe(), TRN1, 3, "weak") == (1, 2, 3)


@given(
    micro=st.integers(1, 16), accumulation=st.integers(1, 64), ranks=st.sampled_from([1, 2, 8, 32]),
    nodes=st.integers(1, 70),
)  # fmt: skip
def test_no_batch_is_ever_truncated(micro: int, accumulation: int, ranks: int, nodes: int) -> None:
    batch = Batch(micro * accumulation * ranks, micro, accumulation, 128)
    workload = replace(recipe(), batch=batch, ranks_per_node={TRN1: ranks})
    legal = nodes in legal_nodes(workload, TRN1, nodes)
    try:
        made = resolve(workload, TRN1, nodes)
    except UsageError:
        assert not legal
    else:
        assert legal
        assert made.micro_batch * made.accumulation * made.data == made.global_batch == batch.global_size


def queue(*resources: ComputeResource) -> Queue:
    return Queue("compute1", resources)


def test_a_queue_that_is_too_small_refuses_and_names_its_limit() -> None:
    with pytest.raises(RefusedError) as caught:
        check_queue(layout(32), queue(ComputeResource("i1", TRN1, max_count=16)))
    assert caught.value.exit_code == 3
    assert "at most 16 nodes" in caught.value.message
    assert "i1: 16" in caught.value.message
    assert "--nodes 16" in caught.value.remedy


def test_a_queue_counts_all_its_resources_or_those_of_the_type() -> None:
    mixed = queue(ComputeResource("i1", TRN1, max_count=16), ComputeResource("i2", "trn1n.32xlarge", max_count=16))
    check_queue(layout(32), mixed)
    check_queue(layout(16), mixed, TRN1)
    with pytest.raises(RefusedError, match=r"16 nodes of trn1\.32xlarge"):
        check_queue(layout(32), mixed, TRN1)
    with pytest.raises(RefusedError, match="0 nodes of trn2") as caught:
        check_queue(layout(1), mixed, "trn2.48xlarge")
    assert "add such nodes" in caught.value.remedy
