"""Judgements as a whole: the known cases, what time and cost rest on, and what is suggested instead."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.proposals import P4D, P4DE, P5, TRN2, proposal, workload
from tests.recipes import TRN1, recipe
from trnctl.actions.plan import PlanWishes, own_row, plan_layouts
from trnctl.errors import RefusedError, UsageError
from trnctl.findings import errors_among
from trnctl.plan.layout import laid_out
from trnctl.plan.memory import GIB
from trnctl.plan.outlook import Assumptions, Outlook, admit, layout_words, outlook
from trnctl.plan.proposal import propose
from trnctl.plan.rules import check
from trnctl.plan.suggest import legal_proposals, reconsidered, suggest
from trnctl.specs.model import PRESETS
from trnctl.specs.parallelism import CHECKPOINTING, Activation, Parallelism
from trnctl.specs.workload import Batch

# The model's parts are tiny, so that everything fits and only the rules decide.
TINY = replace(PRESETS["llama3-8b"], name="tiny", layers=4, hidden=256, heads=8, kv_heads=4, ffn=512, vocab=1000)


def of_recipe(name: str, nodes: int) -> Outlook:
    return reconsidered(outlook(propose(recipe(name), TRN1, nodes)))


@pytest.mark.parametrize(
    ("name", "nodes", "layout"),
    [
        ("llama2-7b", 4, "tp8 dp16"),
        ("llama3-8b", 4, "tp32 dp4"),
        ("llama3-70b", 8, "tp32 pp8"),
        ("llama3-70b", 32, "tp32 pp8 dp4"),
        ("llama3.1-405b", 64, "tp32 pp32 dp2"),
        ("bert-large", 16, "dp512"),
    ],
)
def test_what_is_known_to_run_is_feasible(name: str, nodes: int, layout: str) -> None:
    one = of_recipe(name, nodes)
    assert (one.status, layout_words(one.proposal)) == ("ok", layout)
    assert one.memory is not None
    assert one.memory.verdict == "fits"


def test_smp_on_hyperpod_is_feasible_and_nowhere_else() -> None:
    words = Parallelism(backend="smp", shard=64, activation=Activation("full"))
    p = proposal(words, nodes=8, instance_type=P4DE, model="llama3-70b", platform="hyperpod")
    assert outlook(p).status == "ok"
    assert outlook(replace(p, platform="parallelcluster")).status == "illegal"


def test_70b_does_not_fit_on_two_nodes_whatever_the_layout() -> None:
    one = of_recipe("llama3-70b", 2)
    assert one.status == "does-not-fit"
    assert layout_words(one.proposal) == "tp32 pp2"
    assert one.memory is not None
    assert one.memory.total / GIB == pytest.approx(19, abs=0.5)
    (finding,) = errors_among(one.findings)
    assert "in any legal layout: tp32 pp2 needs least, and that is 19.1 GiB a worker" in finding.message
    assert finding.remedy.startswith("On 4 nodes, tp32 pp4 would fit.")


def test_where_another_layout_would_fit_the_division_stays_the_complaint() -> None:
    one = of_recipe("llama3-70b", 4)
    assert one.status == "illegal"
    (finding,) = errors_among(one.findings)
    assert finding.code == "world-indivisible"
    assert "As tp32 pp4 it would fit on 4 nodes." in finding.remedy


def test_a_legal_layout_that_does_not_fit_is_told_how_it_would() -> None:
    p = proposal(Parallelism(backend="nxd", tensor=8), nodes=2, model="llama2-70b", batch=Batch(1024, 1, 128, 4096))
    one = reconsidered(outlook(p))
    assert one.status == "does-not-fit"
    (finding,) = errors_among(one.findings)
    assert "as tp8 dp8 needs" in finding.message
    assert "a tensor degree above 8" in finding.remedy
    assert "nodes, tp" in finding.remedy


def test_bert_on_sixteen_nodes_is_predicted_with_the_strong_rate_and_held_against_the_article() -> None:
    one = of_recipe("bert-large", 16)
    assert one.pace is not None
    assert (one.pace.rate, one.pace.ground, one.pace.spread) == (24_518.47, "published", 0)
    assert one.hours == pytest.approx(5.22, abs=0.01)
    assert one.notes == ("AWS's article on Trn1 UltraClusters says under 8 h on 16 nodes: 5.2 h agrees.",)
    weak = outlook(propose(recipe(), TRN1, 16, "weak"))
    assert weak.pace is not None
    assert weak.pace.rate == 57_407.92
    assert "upper bound" in weak.pace.basis
    assert weak.hours == pytest.approx(2.2, abs=0.05)  # the same tokens in sixteenth as many steps
    assert weak.steps == 1758
    assert weak.notes == ()


@pytest.mark.parametrize(("name", "mfu"), [("llama3-8b", 0.2466), ("llama3-70b", 0.3261), ("bert-large", 0.1326)])
def test_one_definition_of_mfu_holds_for_every_published_row(name: str, mfu: float) -> None:
    nodes = 16 if name == "bert-large" else 32
    one = of_recipe(name, nodes)
    assert one.pace is not None
    assert one.pace.ground == "published"
    assert one.pace.mfu == pytest.approx(mfu, abs=1e-4)


def test_other_node_counts_take_the_utilisation_of_the_nearest_row_and_say_so() -> None:
    one = of_recipe("llama3-8b", 4)
    assert one.pace is not None
    assert one.pace.step_seconds == pytest.approx(170.8, abs=0.1)
    assert (one.pace.ground, one.pace.spread) == ("assumed", 0.2)
    assert "as published for 32 nodes, strong scaling" in one.pace.basis


def test_a_shorter_pipeline_bubble_is_counted_against_the_published_one() -> None:
    eight, row = of_recipe("llama3-70b", 8).pace, of_recipe("llama3-70b", 32).pace
    assert eight is not None
    assert row is not None
    assert eight.mfu == pytest.approx((row.mfu or 0) * (1 + 7 / 256) / (1 + 7 / 1024))


def test_recomputing_everything_costs_a_third_beside_the_recipe_s_own_layout() -> None:
    p = propose(recipe("llama3-8b"), TRN1, 32)
    full = outlook(replace(p, words=replace(p.words, activation=Activation("full"))))
    own = outlook(p)
    assert full.pace is not None
    assert own.pace is not None
    assert full.pace.step_seconds == pytest.approx((own.pace.step_seconds or 0) * 4 / 3)
    assert full.pace.ground == "assumed"
    assert "0.75 × that for another layout" in full.pace.basis


@pytest.mark.parametrize(("instance_type", "mfu", "tensor"), [(TRN1, 0.25, 32), (TRN2, 0.25, 32), (P5, 0.40, 8)])
def test_without_a_row_a_utilisation_is_assumed_by_kind(instance_type: str, mfu: float, tensor: int) -> None:
    one = outlook(proposal(Parallelism(tensor=tensor), instance_type=instance_type))
    assert one.pace is not None
    assert one.pace.mfu == pytest.approx(mfu)
    assert one.pace.ground == "assumed"
    assert "no run of this is published" in one.pace.basis


def test_a_row_of_trainium_says_nothing_of_gpus_and_is_scaled_by_the_peak_of_trainium2() -> None:
    spec = replace(recipe("llama3-8b"), parallelism=Parallelism(tensor=8))
    gpu = outlook(propose(spec, P5, 32))
    assert gpu.pace is not None
    assert gpu.pace.mfu == pytest.approx(0.40)
    trn2 = outlook(propose(recipe("llama3-8b"), TRN2, 32))
    assert trn2.pace is not None
    assert trn2.pace.rate == pytest.approx(47.95 * 10_700 / 3_040)
    assert "on trn1.32xlarge" in trn2.pace.basis


def test_the_network_is_the_limit_where_it_is_slower_than_the_devices() -> None:
    batch = Batch(128, 1, 1, 128)
    one = outlook(proposal(Parallelism(backend="fsdp"), nodes=16, instance_type=P4D, batch=batch))
    assert one.pace is not None
    assert one.communication is not None
    assert one.pace.step_seconds == one.communication.seconds
    assert "the network is the limit" in one.pace.basis


def test_price_utilisation_and_tokens_are_the_user_s_where_given() -> None:
    p = propose(recipe("llama3-8b"), TRN1, 4)
    one = outlook(p, Assumptions(price=8.6, mfu=0.3, tokens=1e11))
    work = PRESETS["llama3-8b"].flops_per_token(8192) * 1e11
    assert one.hours == pytest.approx(work / (0.3 * 4 * 3.04e15) / 3600)
    assert one.cost_usd == pytest.approx(4 * 8.6 * (one.hours or 0))
    assert one.pace is not None
    assert one.pace.ground == "yours"
    assert "your price" in one.basis
    with_head = outlook(p, Assumptions(tokens=1e11, head_usd=0.68))
    assert with_head.cost_usd == pytest.approx((4 * 21.5 + 0.68) * (with_head.hours or 0))
    assert "the head node" in with_head.basis


def test_a_missing_price_is_no_failure() -> None:
    one = outlook(propose(recipe("llama3-8b"), TRN2, 4))
    assert one.cost_usd is None
    assert one.hours is not None
    assert "--price gives one" in one.basis


def test_a_run_of_one_s_own_is_a_row_like_any_other() -> None:
    results = {
        "run": "mine-1129-a3f", "model": "llama3-8b", "sequence": 8192, "unit": "seq/s", "nodes": 4,
        "instance_type": TRN1, "scaling": "strong", "average_throughput": 5.0, "emulated": None,
    }  # fmt: skip
    row = own_row(results, recipe("llama3-8b"))
    one = outlook(propose(recipe("llama3-8b"), TRN1, 8), Assumptions(own_run=row))
    assert one.pace is not None
    assert one.pace.rate == pytest.approx(10.0)
    assert (one.pace.ground, one.pace.spread) == ("yours", 0.2)
    assert "mine-1129-a3f: 5.0 seq/s on 4 nodes" in one.pace.basis
    assert "EMULATED" in own_row({**results, "emulated": "AWS is emulated"}, recipe("llama3-8b")).source


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("average_throughput", None, "has no throughput"),
        ("model", "llama2-7b", "was of model llama2-7b"),
        ("sequence", 4096, "was of sequence 4096"),
        ("unit", "tokens/s", "counts tokens/s"),
    ],
)
def test_a_run_of_something_else_is_refused(key: str, value: object, part: str) -> None:
    results = {
        "run": "r", "model": "llama3-8b", "sequence": 8192, "unit": "seq/s", "nodes": 4, "average_throughput": 5.0,
        key: value,
    }  # fmt: skip
    with pytest.raises(UsageError, match=part):
        own_row(results, recipe("llama3-8b"))


def test_memory_that_is_close_is_a_warning() -> None:
    p = proposal(Parallelism(backend="nxd", tensor=32, pipeline=2, activation=Activation("selective")), nodes=8,
                 model="llama3-70b")  # fmt: skip
    one = outlook(p)
    assert one.status == "ok"
    assert [finding.code for finding in one.findings] == ["memory-tight"]


def test_a_recipe_without_a_shape_is_judged_by_the_rules_alone() -> None:
    one = outlook(propose(replace(recipe(), shape=None), TRN1, 16))
    assert (one.status, one.memory, one.communication) == ("ok", None, None)
    assert one.hours == pytest.approx(5.22, abs=0.01)
    assert [finding.code for finding in one.findings] == ["model-shape-unknown"]


# ----------------------------------------------------------------------------------------------- to submit


def test_a_submit_is_refused_what_the_plan_refuses_and_force_is_told() -> None:
    spec = replace(recipe(), environment={"NEURON_RT_NUM_CORES": "16"})
    p = propose(spec, TRN1, 2)
    with pytest.raises(UsageError, match="torchrun starts 32 workers"):
        admit(p)
    admitted = admit(p, force=True)
    assert (admitted.layout.accumulation, admitted.overruled) == (16, ("worker-count-differs",))
    assert admit(propose(recipe(), TRN1, 2)).overruled == ()


def test_what_does_not_fit_is_refused_unless_forced() -> None:
    spec = replace(recipe(), shape=PRESETS["llama2-7b"])
    with pytest.raises(RefusedError, match="GiB a worker, more than"):
        admit(propose(spec, TRN1, 2))
    assert admit(propose(spec, TRN1, 2), force=True).overruled == ("memory-exceeded",)


def test_no_force_overrules_a_division() -> None:
    with pytest.raises(UsageError, match="15,360"):
        admit(propose(recipe(), TRN1, 3), force=True)


# -------------------------------------------------------------------------------------------- suggestions


def choice(words: Parallelism) -> tuple[object, ...]:
    return words.tensor, words.pipeline, words.shard or "none", words.activation.checkpoint


@pytest.mark.parametrize(
    ("instance_type", "nodes", "ranks"), [(TRN1, 1, 8), (TRN1, 2, 8), (P4D, 1, 8), (P4D, 2, 8), (TRN1, 3, 2)]
)
def test_suggestions_are_all_that_brute_force_finds_legal(instance_type: str, nodes: int, ranks: int) -> None:
    spec = workload(shape=TINY, ranks_per_node={TRN1: ranks, P4D: ranks}, batch=Batch(96, 1, 0, 256))
    p = propose(spec, instance_type, nodes)
    degrees = range(1, p.world + 1)
    brute = set()
    for tensor, pipeline, shard, checkpoint in product(degrees, degrees, degrees, CHECKPOINTING):
        sharded: int | None = shard if p.backend == "fsdp" else None
        if sharded is None and shard > 1:
            continue
        words = Parallelism(
            tensor=tensor, pipeline=pipeline, shard="none" if sharded == 1 else sharded,
            activation=Activation(checkpoint),
        )  # fmt: skip
        if not errors_among(check(replace(p, words=words))):
            brute.add(choice(words))
    legal = [choice(candidate.words) for candidate in legal_proposals(p)]
    assert brute
    assert set(legal) == brute
    assert len(legal) == len(brute)
    assert {choice(one.outlook.proposal.words) for one in suggest(p)} == brute


@settings(max_examples=25)
@given(
    nodes=st.sampled_from([1, 2, 3, 4, 6, 8, 16, 64]), name=st.sampled_from(["llama2-7b", "llama3-70b", "bert-large"])
)
def test_no_suggestion_is_refused_and_costs_only_rise(nodes: int, name: str) -> None:
    found = suggest(propose(recipe(name), TRN1, nodes))
    for one in found:
        assert not errors_among(check(one.outlook.proposal))
        assert one.outlook.status == "ok"
        assert one.reason
        made = laid_out(one.outlook.proposal)
        assert made.micro_batch * made.accumulation * made.data == made.global_batch
        assert made.tensor * made.pipeline * made.context * made.data == made.world
    costs = [float(f"{one.outlook.cost_usd:.3g}") for one in found if one.outlook.cost_usd is not None]
    assert costs == sorted(costs)


@given(
    tensor=st.sampled_from([1, 2, 4, 8, 32]), pipeline=st.sampled_from([1, 2, 4, 8]), nodes=st.integers(1, 40),
    batch=st.integers(1, 2048),
)  # fmt: skip
def test_no_accepted_layout_loses_a_sequence_or_a_worker(tensor: int, pipeline: int, nodes: int, batch: int) -> None:
    words = Parallelism(backend="nxd", tensor=tensor, pipeline=pipeline)
    p = proposal(words, nodes=nodes, batch=Batch(batch, 1, 1, 8192))
    try:
        made = laid_out(p)
    except UsageError:
        assert errors_among(check(p))
    else:
        assert made.micro_batch * made.accumulation * made.data == made.global_batch == batch
        assert made.tensor * made.pipeline * made.data == made.world == nodes * 32


# --------------------------------------------------------------------------------------- the whole answer


def test_the_answer_has_one_plan_a_node_count_with_the_stable_keys() -> None:
    answer = plan_layouts(recipe(), None, PlanWishes(nodes=(16, 16, 3)))
    told = answer.as_json()
    plans = told["plans"]
    assert isinstance(plans, list)
    assert [plan["nodes"] for plan in plans] == [16, 3]
    assert {"nodes", "layout", "memory", "time_hours", "cost_usd", "basis"} <= plans[0].keys()
    assert plans[0]["layout"] == {
        "world": 512, "tensor": 1, "pipeline": 1, "context": 1, "data": 512, "shard": 1, "replicas": 512,
        "micro_batch": 16, "accumulation": 2, "global_batch": 16_384, "expert": 1, "zero": 0,
        "backend": "torchrun-ddp",
    }  # fmt: skip
    assert plans[0]["memory"]["verdict"] == "fits"
    assert plans[0]["weak"]["layout"]["global_batch"] == 262_144
    assert plans[0]["target"]["steps"][0]["name"] == "train"
    assert (plans[1]["status"], plans[1]["memory"], plans[1]["target"]) == ("illegal", None, None)
    assert [finding["code"] for finding in told["findings"]] == ["accumulation-indivisible"]  # type: ignore[attr-defined]  # it is a list


@pytest.mark.parametrize(
    ("name", "nodes", "kind"),
    [("bert-large", (64,), UsageError), ("llama3-70b", (2,), RefusedError), ("llama3-70b", (2, 3), UsageError)],
)
def test_the_answer_ends_with_legality_before_capacity(
    name: str, nodes: tuple[int, ...], kind: type[Exception]
) -> None:
    refused = plan_layouts(recipe(name), None, PlanWishes(nodes=nodes)).refusal()
    assert type(refused) is kind
    assert plan_layouts(recipe("llama3-70b"), None, PlanWishes(nodes=(8,))).refusal() is None


def test_the_type_is_assumed_and_said_where_there_is_no_cluster() -> None:
    answer = plan_layouts(recipe("llama3-8b"), None, PlanWishes())
    assert (answer.instance_type, answer.place) == (TRN1, "the recipe's own type: there is no cluster file")
    plain = plan_layouts(workload(), None, PlanWishes(nodes=(4,), scaling="strong"))
    assert (plain.instance_type, plain.weak) == (TRN1, ())
    with pytest.raises(UsageError, match="not in the table"):
        plan_layouts(workload(), None, PlanWishes(instance_type="trn9.huge"))
    with pytest.raises(UsageError, match="a queue of a cluster file"):
        plan_layouts(workload(), None, PlanWishes(queue="compute1"))
