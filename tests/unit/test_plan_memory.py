"""Memory of one device: bytes that are exact, known points that are matched, and what can only fall."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proposals import P4DE, P5, TRN2, proposal
from tests.recipes import TRN1, recipe
from trnctl.plan.memory import GIB, Memory, memory_of
from trnctl.plan.proposal import Proposal, propose
from trnctl.specs.model import PRESETS
from trnctl.specs.parallelism import Activation, Parallelism
from trnctl.specs.workload import Batch

FSDP, NXD = Parallelism(backend="fsdp"), Parallelism(backend="nxd")
LLAMA = PRESETS["llama3-8b"]


def memory(p: Proposal) -> Memory:
    made = memory_of(p)
    assert made is not None
    return made


def test_full_sharding_holds_sixteen_bytes_a_parameter_over_all_workers() -> None:
    made = memory(proposal(FSDP, nodes=2, instance_type=P5))
    assert (made.parameters, made.gradients, made.optimizer) == pytest.approx(
        (4 * LLAMA.parameters / 16, 4 * LLAMA.parameters / 16, 8 * LLAMA.parameters / 16)
    )
    assert made.gathered == 4 * LLAMA.layer_parameters  # two layers in bf16


def test_parameters_that_stay_after_forward_cost_two_bytes_each() -> None:
    kept = memory(proposal(replace(FSDP, reshard_after_forward=False), nodes=2, instance_type=P5))
    dropped = memory(proposal(FSDP, nodes=2, instance_type=P5))
    assert kept.gathered - dropped.gathered == pytest.approx(2 * LLAMA.parameters)


def test_zero_1_shards_the_optimizer_alone() -> None:
    made = memory(proposal(replace(NXD, tensor=8), nodes=4))
    share = LLAMA.parameters / 8
    assert (made.parameters, made.gradients, made.optimizer) == pytest.approx((2 * share, 4 * share, 12 * share / 16))
    half = memory(proposal(replace(NXD, tensor=8, master_weights="bf16"), nodes=4))
    assert half.optimizer == pytest.approx(10 * share / 16)


@pytest.mark.parametrize(("words", "instance_type"), [(FSDP, P5), (replace(NXD, zero=0), TRN1)])
def test_without_sharding_a_parameter_takes_sixteen_bytes(words: Parallelism, instance_type: str) -> None:
    made = memory(proposal(replace(words, shard="none"), nodes=1, instance_type=instance_type))
    assert made.parameters + made.gradients + made.optimizer == pytest.approx(16 * LLAMA.parameters)
    assert made.gathered == 0


@pytest.mark.parametrize(("nodes", "reported"), [(1, 82.4), (16, 67.0)])
def test_torchtitan_s_reports_of_8b_are_met(nodes: int, reported: float) -> None:
    """8 and 128 H100, fully sharded, two sequences of 8,192 on each, selective checkpointing, no compile."""
    words = replace(FSDP, activation=Activation("selective"))
    made = memory(proposal(words, nodes=nodes, instance_type=P5, batch=Batch(nodes * 16, 2, 1, 8192)))
    assert made.total / GIB == pytest.approx(reported, rel=0.05)
    assert made.low < reported * GIB < made.high


def test_checkpointing_keeps_the_input_of_each_layer_and_works_on_one() -> None:
    made = memory(proposal(replace(NXD, tensor=32, activation=Activation("full"))))
    volume = 8192 * 4096 / 32
    assert made.activations == pytest.approx(32 * 2 * volume + 34 * volume)
    assert made.low == made.high == made.total


def test_without_sequence_parallelism_a_part_of_each_layer_is_whole_on_every_worker() -> None:
    words = replace(NXD, tensor=32, activation=Activation("selective"))
    split, whole = memory(proposal(words)), memory(proposal(replace(words, sequence_parallel=False)))
    volume = 8192 * 4096
    assert split.activations == pytest.approx(32 * 24 * volume / 32)
    assert whole.activations == pytest.approx(32 * (10 + 14 / 32) * volume)


def test_scores_of_attention_count_where_nothing_spares_them() -> None:
    bert = memory(propose(recipe(), TRN1, 1))
    assert bert.activations == pytest.approx(24 * (34 * 16 * 128 * 1024 + 5 * 16 * 16 * 128 * 128))
    assert bert.logits == 16 * 128 * 30522 * 8


def test_a_pipeline_s_first_stage_holds_a_micro_batch_for_each_stage() -> None:
    words = replace(NXD, tensor=32, activation=Activation("selective"))
    one, eight = memory(proposal(words, nodes=8)), memory(proposal(replace(words, pipeline=8), nodes=8))
    assert eight.activations == pytest.approx(one.activations)  # an eighth of the layers, eight at a time


def test_offloading_leaves_the_horizon_on_the_device_and_moves_the_rest() -> None:
    words = replace(FSDP, activation=Activation("full", True, 3))
    made, kept = memory(proposal(words, instance_type=P4DE)), 2 * 8192 * 4096
    assert made.activations == pytest.approx(3 * kept + 34 * 8192 * 4096)
    assert made.host == pytest.approx(8 * 29 * kept)


def test_a_host_that_is_too_small_is_no_fit() -> None:
    words = replace(FSDP, activation=Activation("full", True, 1))
    made = memory(proposal(words, nodes=8, instance_type=P4DE, model="llama3-70b", batch=Batch(1024, 1, 16, 131_072)))
    assert made.host > made.host_capacity
    assert made.verdict == "no"


def test_devices_are_a_core_s_part_of_the_chip_and_a_reserve_is_kept() -> None:
    trn1, trn2 = (
        memory(proposal(replace(NXD, tensor=32))),
        memory(proposal(replace(NXD, tensor=32), instance_type=TRN2)),
    )
    assert (trn1.device, trn2.device) == (16 * GIB, 24 * GIB)
    assert trn1.usable == pytest.approx(13.6 * GIB)


@pytest.mark.parametrize(
    ("part", "verdict"), [(0.5, "fits"), (0.84, "fits"), (0.86, "tight"), (0.99, "tight"), (1.01, "no")]
)
def test_the_verdict_follows_what_is_usable(part: float, verdict: str) -> None:
    usable = 0.85 * 16 * GIB
    made = Memory(part * usable, 0, 0, 0, 0, 0, host=0, low=0, high=0, device=16 * GIB, host_capacity=GIB)
    assert made.verdict == verdict


def test_the_json_form_is_in_gib_and_names_every_row() -> None:
    told = memory(proposal(replace(NXD, tensor=32))).as_json()
    rows = ("parameters", "gradients", "optimizer", "gathered", "activations", "logits")
    assert {f"{row}_gib" for row in rows} < told.keys()
    assert told["usable_gib"] == 13.6
    assert told["verdict"] == "fits"


def test_without_a_shape_nothing_is_computed() -> None:
    assert memory_of(proposal(NXD, shape=None)) is None


SHARDS = st.sampled_from([1, 2, 4, 8, 16, 32, 64])


@given(
    first=SHARDS, second=SHARDS, checkpoint=st.sampled_from(["none", "selective", "full"]), reshards=st.booleans(),
    model=st.sampled_from(["llama2-7b", "llama3-70b", "bert-large"]),
)  # fmt: skip
def test_more_shards_never_take_more_memory(
    first: int, second: int, checkpoint: str, reshards: bool, model: str
) -> None:
    few, many = sorted((first, second))

    def total(shard: int) -> float:
        words = replace(
            FSDP,
            shard="none" if shard == 1 else shard,
            reshard_after_forward=reshards,
            activation=Activation(checkpoint),  # type: ignore[arg-type]  # one of the three words
        )
        return memory(proposal(words, nodes=8, instance_type=P5, model=model)).total

    assert total(many) <= total(few) * (1 + 1e-12)


@given(first=st.sampled_from([1, 2, 4, 8, 16, 32]), second=st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_a_larger_tensor_degree_never_takes_more_memory(first: int, second: int) -> None:
    few, many = sorted((first, second))
    totals = [memory(proposal(replace(NXD, tensor=tensor), nodes=8)).total for tensor in (few, many)]
    assert totals[1] <= totals[0]
