"""Models and the words of parallelism: counts that follow from shapes, and every mistake told with its line."""

from __future__ import annotations

import pytest

from tests.recipes import recipe, recipe_text
from tests.unit.test_workload_loading import SMALLEST, findings
from trnctl.specs.model import PRESETS
from trnctl.specs.parallelism import Activation, Parallelism, SmpWords
from trnctl.specs.parallelism_loading import load_parallelism
from trnctl.specs.workload_loading import load_workload

# As their publishers count them: the config and checkpoint pages of each model (BERT with its pre-training heads).
PUBLISHED = {
    "bert-large": 336_226_108,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "gpt-neox-6.9b": 6_857_302_016,
    "gpt-neox-20b": 20_554_567_680,
}


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_follow_from_the_shape_and_match_the_published_count(name: str) -> None:
    assert PRESETS[name].parameters == PUBLISHED[name]


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_has_a_recipe_that_plans_it(name: str) -> None:
    spec = recipe(name)
    assert spec.shape == PRESETS[name]
    assert bool(spec.script) == (not spec.plan_only)


def test_the_parts_add_up_over_any_number_of_stages() -> None:
    model = PRESETS["llama3-70b"]
    assert model.stage_parameters(1) == model.parameters
    # ten layers and one end: embedding and output layer are of one size but for the norm
    assert model.stage_parameters(8) == 10 * model.layer_parameters + model.head_parameters
    # 126 layers in 32 stages: four in the longest, without an end
    large = PRESETS["llama3.1-405b"]
    assert large.stage_parameters(32) == 4 * large.layer_parameters


def test_the_work_of_a_token_is_six_a_parameter_and_the_attention_term() -> None:
    assert PRESETS["llama3-8b"].flops_per_token(8192) == 6 * 8_030_261_248 + 12 * 32 * 4096 * 8192


def with_section(text: str) -> str:
    return SMALLEST + text


def test_a_model_is_a_name_a_preset_or_a_shape() -> None:
    named = load_workload(with_section("model: my-model\n"), "mine.yaml")
    assert (named.model, named.shape) == ("my-model", None)
    preset = load_workload(with_section("model: {preset: llama3-8b, layers: 4}\n"), "mine.yaml")
    assert preset.shape is not None
    assert (preset.model, preset.shape.layers, preset.shape.hidden) == ("llama3-8b", 4, 4096)
    shape = "model: {name: tiny, layers: 2, hidden: 64, heads: 4, ffn: 256, vocab: 1000}\n"
    own = load_workload(with_section(shape), "mine.yaml").shape
    assert own is not None
    assert (own.name, own.family, own.kv_heads, own.tied, own.flash_attention) == ("tiny", "llama", 4, False, True)


def test_every_word_of_parallelism_is_read() -> None:
    text = """\
parallelism:
  backend: smp
  tensor: 8
  context: 2
  expert: 2
  shard: 16
  zero: 3
  reshard_after_forward: false
  sequence_parallel: true
  ring_attention: true
  activation: {checkpoint: full, offload: true, horizon: 3}
  deferred_init: true
  collectives: smddp
  reduce: bf16
  master_weights: fp32
  seed: 7
  smp: {fsdp_cache_flush_warnings: true, allow_empty_shards: false}
"""
    assert load_parallelism(text, "p.yaml") == Parallelism(
        backend="smp", tensor=8, context=2, expert=2, shard=16, zero=3, reshard_after_forward=False,
        sequence_parallel=True, ring_attention=True, activation=Activation("full", True, 3), deferred_init=True,
        collectives="smddp", reduce="bf16", master_weights="fp32", seed=7, smp=SmpWords(True, False),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("shard: full", Parallelism(shard="full")),
        ("shard: none", Parallelism(shard="none")),
        ("shard: 1", Parallelism(shard="none")),
        ("backend: auto", Parallelism()),
        ("collectives: auto", Parallelism()),
    ],
)
def test_words_that_mean_the_same_are_the_same(word: str, meant: Parallelism) -> None:
    assert load_parallelism(f"parallelism: {{{word}}}\n", "p.yaml") == meant


@pytest.mark.parametrize(
    ("section", "code", "part"),
    [
        ("model: {preset: llama3-9b}", "unknown-preset", "Did you mean llama3-8b?"),
        ("model: {preset: llama3-8b, layer: 3}", "unknown-key", "Did you mean `layers`?"),
        ("model: {name: a, layers: 2, hidden: 65, heads: 4, ffn: 8, vocab: 9}", "model-shape", "4 heads do not divide"),
        ("model: {preset: llama3-8b, kv_heads: 5}", "model-shape", "5 key-value heads do not divide 32"),
        ("parallelism: {tensr: 8}", "unknown-key", "Did you mean `tensor`?"),
        ("parallelism: {tensor: 0}", "out-of-range", "at least 1"),
        ("parallelism: {shard: all}", "unknown-value", "full, none"),
        ("parallelism: {zero: 2}", "unknown-value", "Write 0, 1 or 3"),
        ("parallelism: {backend: deepspeed}", "unknown-value", "nxdt"),
        ("parallelism: {activation: {checkpoint: some}}", "unknown-value", "selective"),
        ("stack: smp", "unknown-value", "torchrun-ddp, nxd, nxdt, fsdp"),
    ],
)
def test_a_mistake_is_told_with_the_way_out(section: str, code: str, part: str) -> None:
    (only,) = findings(with_section(section + "\n"))
    assert only.code == code
    assert only.line == SMALLEST.count("\n") + 1
    assert part in str(only)


def test_all_mistakes_of_the_sections_come_at_once() -> None:
    text = with_section("model: {preset: bert-lage}\nparallelism: {tensor: x, zero: 2}\n")
    assert {finding.code for finding in findings(text)} == {"unknown-preset", "wrong-type", "unknown-value"}


def test_a_recipe_that_is_only_planned_needs_no_command() -> None:
    text = recipe_text("llama3-8b")
    spec = load_workload(text, "llama3-8b.yaml")
    assert spec.batch.accumulation == 256  # 1,024 sequences on four nodes, of which each is one model
    (only,) = findings(text.replace("global: 1024", "global: 1023"))
    assert (only.code, only.line) == ("batch-product", text.splitlines().index("  global: 1024") + 1)


def test_the_batch_of_a_model_that_workers_share_counts_models() -> None:
    shared = SMALLEST.replace("accumulation: 1,", "accumulation: 8,") + "parallelism: {tensor: 8}\n"
    assert load_workload(shared, "mine.yaml").batch.accumulation == 8
    (only,) = findings(SMALLEST + "parallelism: {tensor: 8}\n")
    assert "4 workers with different data" in only.message
