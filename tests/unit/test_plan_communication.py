"""Bytes between nodes, computed by hand, and when hybrid sharding pays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.proposals import P4D, P5, proposal
from tests.recipes import TRN1, recipe
from trnctl.plan.communication import Communication, communication_of
from trnctl.plan.proposal import Proposal, propose
from trnctl.specs.model import PRESETS
from trnctl.specs.parallelism import Activation, Parallelism
from trnctl.specs.workload import Batch

P = PRESETS["llama3-8b"].parameters
FSDP, NXD = Parallelism(backend="fsdp"), Parallelism(backend="nxd", tensor=32)


def sent(p: Proposal) -> Communication:
    made = communication_of(p)
    assert made is not None
    return made


def one_step(words: Parallelism, nodes: int = 4, passes: int = 1) -> Proposal:
    """So many micro-steps on GPUs."""
    return proposal(words, nodes=nodes, instance_type=P4D, batch=Batch(nodes * 8 * passes, 1, passes, 8192))


def test_full_sharding_gathers_twice_and_scatters_once_in_every_micro_step() -> None:
    made = sent(one_step(FSDP, passes=3))
    assert made.between == pytest.approx({"all-gather": 3 * 2 * 2 * P * 3 / 4, "reduce-scatter": 3 * 4 * P * 3 / 4})
    assert made.dominant == "all-gather"
    assert made.seconds == pytest.approx(sum(made.between.values()) / 50e9)


def test_a_state_in_each_node_is_reduced_between_nodes_once_a_step() -> None:
    made = sent(one_step(replace(FSDP, shard=8), passes=3))
    assert made.between == pytest.approx({"replica all-reduce": 2 * 4 * P * 3 / 4})


@pytest.mark.parametrize("shard", [1, 2, 4, 8, 16, 32])
def test_with_one_micro_step_and_fp32_reduction_every_shard_degree_sends_the_same(shard: int) -> None:
    made = sent(one_step(replace(FSDP, shard="none" if shard == 1 else shard)))
    assert made.total == pytest.approx(8 * P * 3 / 4)


@pytest.mark.parametrize(
    ("words", "passes", "nodes", "told"),
    [
        (FSDP, 1, 4, "sends no less here"),
        (FSDP, 2, 4, "pays here: with a state in each node, 48 instead of 96 GB leave"),
        (FSDP, 2, 4, "each of 2 micro-steps gathers the weights again."),
        (replace(FSDP, reduce="bf16"), 1, 4, "gradients are summed in bf16"),
        (replace(FSDP, reshard_after_forward=False), 1, 4, "costs here"),
        (FSDP, 2, 1, "does not apply on one node"),
        (replace(FSDP, shard="none"), 2, 4, "nothing is sharded"),
    ],
)
def test_the_sentence_on_hybrid_sharding_says_when_it_pays(
    words: Parallelism, passes: int, nodes: int, told: str
) -> None:
    assert told in sent(one_step(words, nodes, passes)).hybrid


def test_ddp_reduces_the_gradients_in_its_own_precision() -> None:
    bert = PRESETS["bert-large"].parameters
    assert sent(propose(recipe(), TRN1, 16)).between == pytest.approx({"replica all-reduce": 2 * 2 * bert * 15 / 16})
    assert sent(propose(recipe(), TRN1, 1)).total == 0
    assert sent(propose(recipe(), TRN1, 1)).dominant == ""


def test_zero_1_scatters_gradients_and_gathers_weights_once() -> None:
    made = sent(proposal(NXD, nodes=4))
    assert made.between == pytest.approx({"reduce-scatter": 4 * P * 3 / 4, "all-gather": 2 * P * 3 / 4})
    assert "nxd shards the optimizer's state only" in made.hybrid


def test_a_pipeline_sends_activations_on_and_gradients_back() -> None:
    made = sent(proposal(replace(NXD, pipeline=4), nodes=4))
    # one group of 32 workers a node, 1,024 micro-batches of 8,192 tokens of 4,096 numbers in bf16, there and back
    assert made.between == {"pipeline": 2 * 1024 * 8192 * 4096 * 2}


def test_tensor_parallelism_speaks_inside_the_node_and_more_when_layers_are_recomputed() -> None:
    selective = replace(NXD, activation=Activation("selective"))
    once = 2 * 31 / 32 * 8192 * 4096 * 2 * 32 * 256
    assert sent(proposal(selective)).inside == pytest.approx({"tensor": 4 * once})
    assert sent(proposal(replace(NXD, activation=Activation("full")))).inside == pytest.approx({"tensor": 6 * once})
    assert sent(one_step(FSDP)).inside == {}


def test_the_network_of_each_type_is_its_own() -> None:
    slow, fast = sent(one_step(FSDP)), sent(replace(one_step(FSDP), instance_type=P5))
    assert slow.seconds is not None
    assert fast.seconds == pytest.approx(slow.seconds / 8)


def test_the_json_form_names_each_kind() -> None:
    told = sent(proposal(NXD, nodes=4)).as_json()
    assert told["dominant"] == "reduce-scatter"
    assert told["between_nodes_total_gb"] == pytest.approx(4.5 * P / 1e9, rel=1e-3)
