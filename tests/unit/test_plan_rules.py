"""Each rule of a layout, where it holds and where it is broken; each refusal names the way out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.proposals import P4D, P4DE, P5, TRN2, proposal
from tests.recipes import TRN1, recipe
from trnctl.findings import Finding
from trnctl.plan.proposal import Proposal, propose
from trnctl.plan.rules import RULES, check
from trnctl.specs.model import PRESETS
from trnctl.specs.parallelism import Activation, Parallelism, SmpWords
from trnctl.specs.workload import Batch

NXD, NXDT = Parallelism(backend="nxd", tensor=32), Parallelism(backend="nxdt", tensor=32)
FSDP, SMP = Parallelism(backend="fsdp"), Parallelism(backend="smp")
FULL = Activation(checkpoint="full")
TIED = replace(PRESETS["llama3-8b"], name="tied", tied=True)


def found(p: Proposal) -> dict[str, Finding]:
    return {finding.code: finding for finding in check(p)}


# (rule, code, where it is broken, words of the message or the remedy, the nearest where it is not)
BROKEN: list[tuple[str, str, Proposal, str, Proposal]] = [
    (
        "P01", "world-indivisible",
        proposal(replace(NXD, pipeline=8), nodes=4), "Use --nodes 8 or a multiple",
        proposal(replace(NXD, pipeline=8), nodes=8),
    ),
    (
        "P02", "shard-indivisible",
        proposal(replace(FSDP, shard=6), nodes=4, instance_type=P4D), "one of 2, 4, 8, 16, 32",
        proposal(replace(FSDP, shard=8), nodes=4, instance_type=P4D),
    ),
    (
        "P03", "shard-context",
        proposal(replace(SMP, shard=8, context=16), nodes=4, instance_type=P4D, platform="hyperpod"), "multiple of 16",
        proposal(replace(SMP, shard=16, context=8), nodes=4, instance_type=P4D, platform="hyperpod"),
    ),
    (
        "P04", "expert-indivisible",
        proposal(replace(NXD, expert=3), nodes=4), "tensor × pipeline × expert on nxd",
        proposal(replace(NXD, expert=2), nodes=4),
    ),
    (
        "P04", "expert-indivisible",
        proposal(replace(SMP, expert=3, shard=8), instance_type=P4D, platform="hyperpod"), "shard × tensor × expert",
        proposal(replace(SMP, expert=2, shard=8), instance_type=P4D, platform="hyperpod"),
    ),
    (
        "P04", "expert-indivisible",
        proposal(replace(FSDP, expert=3), instance_type=P4D), "data × context × tensor",
        proposal(replace(FSDP, expert=2), instance_type=P4D),
    ),
    (
        "P05", "tensor-across-nodes",
        proposal(replace(NXD, tensor=64), nodes=8), "tensor degree of 1, 2, 4, 8, 16, 32",
        proposal(NXD, nodes=8),
    ),
    (
        "P06", "heads-indivisible",
        proposal(replace(NXD, tensor=16), model="llama2-13b"), "40 heads of llama2-13b",
        proposal(replace(NXD, tensor=8), model="llama2-13b"),
    ),
    (
        "P06", "kv-heads-indivisible",
        proposal(replace(FSDP, tensor=16), instance_type=P4D), "one of 1, 2, 4, 8",
        proposal(replace(FSDP, tensor=8), instance_type=P4D),
    ),
    (
        "P07", "sequence-indivisible",
        proposal(NXD, batch=Batch(1024, 1, 256, 8200)), "multiple of 32",
        proposal(replace(NXD, sequence_parallel=False), batch=Batch(1024, 1, 256, 8200)),
    ),
    (
        "P07", "sequence-indivisible",
        proposal(
            replace(NXD, context=2, ring_attention=True, sequence_parallel=False), batch=Batch(1024, 1, 256, 8190)
        ),
        "multiple of 4",
        proposal(replace(NXD, context=2, ring_attention=True)),
    ),
    (
        "P08", "pipeline-uneven",
        proposal(replace(NXD, pipeline=5), nodes=5), "the longest has 7 layers",
        proposal(replace(NXD, pipeline=4), nodes=4),
    ),
    (
        "P08", "pipeline-starved",
        proposal(replace(NXD, pipeline=8), nodes=16, batch=Batch(8, 1, 4, 8192)), "Use 8 nodes or fewer",
        proposal(replace(NXD, pipeline=8), nodes=8, batch=Batch(8, 1, 4, 8192)),
    ),
    (
        "P08", "pipeline-empty-stage",
        proposal(replace(NXD, pipeline=64), nodes=64), "degree of 32 or less",
        proposal(replace(NXD, pipeline=32), nodes=32),
    ),
    (
        "P09", "tied-pipeline",
        proposal(replace(NXDT, pipeline=2), shape=TIED), "pipeline: 1",
        proposal(replace(NXD, pipeline=2), shape=TIED),
    ),
    (
        "P10", "batch-indivisible",
        proposal(NXD, nodes=3), "would train with 1,023",
        proposal(NXD, nodes=4),
    ),
    (
        "P11", "accumulation-indivisible",
        propose(recipe(), TRN1, 3), "15,360 sequences a step instead of 16,384",
        propose(recipe(), TRN1, 2),
    ),
    (
        "P12", "offload-without-checkpoint",
        proposal(replace(FSDP, activation=Activation("none", True)), instance_type=P4D), "Write checkpoint: full",
        proposal(replace(FSDP, activation=Activation("full", True)), instance_type=P4D),
    ),
    (
        "P12", "offload-without-checkpoint",
        proposal(replace(FSDP, activation=Activation("none", None, 2)), instance_type=P4D), "leave horizon out",
        proposal(replace(FSDP, activation=Activation("full", False, 2)), instance_type=P4D),
    ),
    (
        "P13", "smp-platform",
        proposal(replace(SMP, tensor=2, shard=8, seed=3), instance_type=P4D),
        "{backend: fsdp, tensor: 2, shard: 8, seed: 3}",
        proposal(replace(SMP, tensor=2, shard=8), instance_type=P4D, platform="sagemaker"),
    ),
    (
        "P13", "smp-instance-type",
        proposal(SMP, instance_type=TRN2, platform="hyperpod"), "documented for p4d, p4de and p5",
        proposal(SMP, instance_type=P5, platform="hyperpod"),
    ),
    (
        "P14", "smddp-unsupported",
        proposal(replace(FSDP, collectives="smddp"), instance_type=P5), "not p5.48xlarge",
        proposal(replace(FSDP, collectives="smddp"), instance_type=P4DE),
    ),
    (
        "P14", "smddp-unsupported",
        proposal(replace(FSDP, collectives="smddp"), instance_type=P4D, nodes=1), "two nodes",
        proposal(replace(FSDP, collectives="smddp"), instance_type=P4D, nodes=2),
    ),
    (
        "P14", "smddp-unsupported",
        proposal(replace(FSDP, collectives="smddp", tensor=8, shard="none"), instance_type=P4D), "sharded state",
        proposal(replace(FSDP, collectives="smddp", tensor=8, shard=4), instance_type=P4D),
    ),
    (
        "P14", "collectives-device",
        proposal(replace(NXD, collectives="nccl")), "no nccl collectives",
        proposal(replace(NXD, collectives="neuron")),
    ),
    (
        "P15", "nxd-word",
        proposal(replace(NXD, activation=Activation("full", True))), "no activation offloading",
        proposal(replace(NXD, activation=FULL)),
    ),
    (
        "P15", "nxd-word",
        proposal(replace(NXDT, shard="full")), "zero: 1 shards the optimizer",
        proposal(replace(NXDT, zero=1)),
    ),
    ("P15", "nxd-word", proposal(replace(NXDT, zero=3)), "no ZeRO stage 3", proposal(replace(NXDT, zero=0))),
    (
        "P15", "nxd-word",
        proposal(replace(NXDT, context=2)), "ring_attention: true",
        proposal(replace(NXDT, context=2, ring_attention=True)),
    ),
    (
        "P15", "nxd-word",
        proposal(replace(NXDT, master_weights="bf16", zero=0)), "zero: 1",
        proposal(replace(NXDT, master_weights="bf16")),
    ),
    (
        "P15", "word-refused",
        proposal(replace(FSDP, pipeline=2), instance_type=P4D), "fsdp does not know pipeline: 2",
        proposal(FSDP, instance_type=P4D),
    ),
    (
        "P15", "word-refused",
        proposal(replace(SMP, pipeline=2), instance_type=P4D, platform="hyperpod"), "smp does not know pipeline: 2",
        proposal(SMP, instance_type=P4D, platform="hyperpod"),
    ),
    (
        "P15", "word-refused",
        propose(recipe(), TRN1, 1, words=Parallelism(tensor=2)), "torchrun-ddp does not know tensor: 2",
        propose(recipe(), TRN1, 1),
    ),
    (
        "P16", "trn2-tensor",
        proposal(replace(NXDT, tensor=8), instance_type=TRN2), "1, 4, 16, 32, 64",
        proposal(replace(NXDT, tensor=16), instance_type=TRN2),
    ),
    (
        "P17", "fsdp-on-trn1",
        proposal(FSDP), "backend: nxd",
        proposal(FSDP, instance_type=TRN2),
    ),
    (
        "P17", "nxd-on-gpu",
        proposal(replace(NXD, tensor=8), instance_type=P5), "backend: fsdp",
        proposal(replace(NXD, tensor=8)),
    ),
    (
        "P18", "worker-count",
        proposal(replace(NXD, tensor=4), ranks_per_node={TRN1: 4}), "one of 1, 2, 8, 32",
        proposal(replace(NXD, tensor=8), ranks_per_node={TRN1: 8}),
    ),
    (
        "P18", "worker-count-differs",
        proposal(NXD, environment={"NEURON_RT_NUM_CORES": "16"}), "torchrun starts 32 workers",
        proposal(NXD, environment={"NEURON_RT_NUM_CORES": "32", "TPU_NUM_DEVICES": "{ranks}"}),
    ),
    (
        "P18", "port-taken-twice",
        proposal(NXD, multi_node_environment={"NEURON_RT_ROOT_COMM_ID": "10.0.0.1:2022"}), "another master_port",
        proposal(NXD, multi_node_environment={"NEURON_RT_ROOT_COMM_ID": "10.0.0.1:46820"}),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "code", "broken", "part", "sound"), BROKEN, ids=[f"{row[0]}-{row[1]}-{i}" for i, row in enumerate(BROKEN)]
)
def test_a_rule_is_broken_and_kept(rule: str, code: str, broken: Proposal, part: str, sound: Proposal) -> None:
    finding = found(broken)[code]
    assert part in f"{finding.message} {finding.remedy}"
    assert finding.remedy
    assert finding.evidence == f"rule {rule}"
    assert code not in found(sound)


def test_every_rule_is_shown_broken() -> None:
    shown = {function for function in RULES for _, _, broken, _, _ in BROKEN if list(function(broken))}
    assert shown == set(RULES)
    assert {f"P{n:02d}" for n in range(1, 19)} == {row[0] for row in BROKEN}


@pytest.mark.parametrize(
    ("p", "code"),
    [
        (proposal(replace(FSDP, tensor=16, shard="none"), nodes=4, instance_type=P4D), "tensor-across-nodes"),
        (proposal(replace(NXD, pipeline=5), nodes=5), "pipeline-uneven"),
        (proposal(replace(NXD, tensor=16), ranks_per_node={TRN1: 16}), "worker-count"),
        (proposal(replace(FSDP, smp=SmpWords(True)), instance_type=P4D), "word-downgraded"),
        (proposal(replace(SMP, deferred_init=True), instance_type=P4D, platform="hyperpod"), "word-downgraded"),
        (propose(recipe(), TRN1, 1, words=Parallelism(reshard_after_forward=False)), "word-downgraded"),
    ],
)
def test_what_only_costs_is_a_warning(p: Proposal, code: str) -> None:
    assert found(p)[code].level == "warning"


def test_an_uneven_pipeline_is_an_error_where_the_stack_has_one_and_cannot() -> None:
    p = proposal(replace(SMP, pipeline=5), nodes=5, instance_type=P4D, platform="hyperpod")
    assert found(p)["pipeline-uneven"].level == "error"


@pytest.mark.parametrize("tensor", [1, 2, 4, 8, 16, 32])
def test_nxd_repeats_key_value_heads_until_they_divide(tensor: int) -> None:
    p = proposal(replace(NXD, tensor=tensor))
    assert p.kv_multiplier == max(1, tensor // 8)
    assert not {"heads-indivisible", "kv-heads-indivisible"} & found(p).keys()


def test_the_back_end_follows_the_device_and_the_stack_and_is_never_smp() -> None:
    assert proposal(Parallelism()).backend == "nxdt"
    assert proposal(Parallelism(), instance_type=P4D, platform="hyperpod").backend == "fsdp"
    assert propose(recipe(), TRN1, 1).backend == "torchrun-ddp"


def test_weak_scaling_without_an_accumulation_is_refused() -> None:
    p = proposal(NXD, scaling="weak", batch=Batch(1024, 1, 0, 8192))
    assert "batch.accumulation" in found(p)["accumulation-unknown"].remedy


@pytest.mark.parametrize("name", ["llama2-7b", "llama2-13b", "llama2-70b", "llama3-8b", "llama3-70b", "gpt-neox-20b"])
def test_the_shipped_recipes_are_legal_on_their_own_nodes_without_a_word(name: str) -> None:
    spec = recipe(name)
    assert check(propose(spec, TRN1, spec.nodes)) == []
