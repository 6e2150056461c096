"""What each training stack reads, and SageMaker's configuration on its way to our words and back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.proposals import P4D, proposal
from tests.recipes import TRN1, recipe
from trnctl.actions.export import ExportWishes, export_layout
from trnctl.errors import UsageError
from trnctl.plan.proposal import propose
from trnctl.plan.smp import KEYS, exported, imported, section
from trnctl.plan.targets import compiled
from trnctl.specs.parallelism import Activation, Parallelism, SmpWords
from trnctl.specs.parallelism_loading import load_parallelism

FSDP = Parallelism(backend="fsdp", tensor=2, shard=8, activation=Activation("full", True, 2), seed=7)


def test_ddp_starts_the_recipe_s_script_with_its_own_words() -> None:
    made = compiled(propose(recipe(), TRN1, 16))
    (train,) = made.steps
    assert train.argv[:5] == ("torchrun", "--nnodes", "16", "--nproc_per_node", "32")
    assert train.argv[-3:] == ("dp_bert_large_hf_pretrain_hdf5.py", "--batch_size=16", "--grad_accum_usteps=2")
    assert made.documents == {}


def test_nxd_gets_the_arguments_of_its_example_and_compiles_first() -> None:
    made = compiled(propose(recipe("llama2-7b"), TRN1, 4))
    assert [step.name for step in made.steps] == ["compile", "train"]
    assert made.steps[0].argv == ("neuron_parallel_compile", *made.steps[1].argv)
    line = " ".join(made.steps[1].argv)
    assert "tp_zero1_llama_hf_pretrain.py --tensor_parallel_size 8 --batch_size 1 --grad_accum_usteps 64" in line
    assert "--use_zero_1 --sequence_parallel_enabled --selective_checkpoint_enabled" in line
    pipelined = " ".join(compiled(propose(recipe("llama2-13b"), TRN1, 32)).steps[1].argv)
    assert "run_llama_nxd.py --tensor_parallel_size 8 --pipeline_parallel_size 4" in pipelined
    assert "--train_batch_size 32 --num_microbatches 32" in pipelined


def test_nxd_of_another_family_says_that_the_script_is_another() -> None:
    (told,) = compiled(propose(recipe("gpt-neox-20b"), TRN1, 4)).downgrades
    assert told.code == "target-script"


def test_nxdt_gets_an_overlay_and_a_compile_step() -> None:
    made = compiled(propose(recipe("llama3-70b-nxdt"), TRN1, 32))
    overlay = yaml.safe_load(made.documents["llama3-70b-nxdt_config.yaml"])
    assert overlay["trainer"] == {"devices": 32, "num_nodes": 32, "max_steps": 30000}
    assert overlay["distributed_strategy"] == {
        "tensor_model_parallel_size": 32, "pipeline_model_parallel_size": 8, "virtual_pipeline_model_parallel_size": 1,
        "zero1": True, "sequence_parallel": True, "kv_replicator": 4,
    }  # fmt: skip
    assert overlay["data"] == {"micro_batch_size": 1, "global_batch_size": 1024}
    assert overlay["model"]["activations_checkpoint_granularity"] == "selective"
    assert [(step.name, step.environment["COMPILE"]) for step in made.steps] == [("compile", "1"), ("train", "0")]


def test_nxdt_says_ring_attention_and_precision_in_its_own_words() -> None:
    words = Parallelism(backend="nxdt", tensor=32, context=2, ring_attention=True, master_weights="bf16", seed=3)
    overlay = yaml.safe_load(compiled(proposal(words)).documents["mine_config.yaml"])
    assert overlay["distributed_strategy"]["context_parallel_size"] == 2
    assert overlay["model"]["fusions"] == {"ring_attention": True}
    assert overlay["precision"] == {"type": "manual", "master_weights": False}
    assert overlay["seed"] == 3


def test_fsdp_gets_its_mesh_with_every_default_written_out() -> None:
    made = compiled(proposal(FSDP, nodes=4, instance_type=P4D))
    document = json.loads(made.documents["parallel.json"])
    shape = document.pop("model")
    assert (shape["name"], shape["family"], shape["layers"], shape["kv_heads"]) == ("llama3-8b", "llama", 32, 8)
    assert document == {
        "mesh": {"replicate": 2, "shard": 8, "tensor": 2},
        "reshard_after_forward": True,
        "sequence_parallel": True,
        "activation": {"checkpoint": "full", "offload": True, "horizon": 2},
        "deferred_init": True,
        "collectives": "nccl",
        "reduce": "fp32",
        "master_weights": "fp32",
        "seed": 7,
        "batch": {"micro": 1, "accumulation": 64, "global": 1024, "sequence": 8192},
    }
    (train,) = made.steps
    assert train.argv[-2:] == ("--parallel", "parallel.json")


def test_smp_gets_its_nine_keys_and_nobody_starts_it() -> None:
    words = Parallelism(backend="smp", shard=64, activation=Activation("full"))
    made = compiled(proposal(words, nodes=8, instance_type=P4D, platform="hyperpod", model="llama3-70b"))
    document = json.loads(made.documents["smp_config.json"])
    assert set(document) == set(KEYS)
    assert len(document) == 9
    assert document["hybrid_shard_degree"] == 64
    assert made.steps == ()
    assert [finding.path for finding in made.downgrades] == ["parallelism.checkpoint"]


def test_an_illegal_layout_is_not_compiled() -> None:
    with pytest.raises(UsageError, match="native PyTorch"):
        compiled(proposal(FSDP, nodes=4))


# --------------------------------------------------------------------------------- SageMaker's configuration

ARTICLE = [
    ('{"tensor_parallel_degree": 8, "tensor_parallel_seed": 0}', Parallelism(backend="smp", tensor=8, seed=0)),
    ('{"hybrid_shard_degree": 16}', Parallelism(backend="smp", shard=16)),
    (
        '{"sm_activation_offloading": true, "activation_loading_horizon": 2}',
        Parallelism(backend="smp", activation=Activation("full", True, 2)),
    ),
]


@pytest.mark.parametrize(("text", "words"), ARTICLE)
def test_the_article_s_snippets_import(text: str, words: Parallelism) -> None:
    assert imported(text, "smp_config.json").words == words


@pytest.mark.parametrize(("text", "words"), ARTICLE)
def test_a_configuration_is_found_inside_an_estimator_s(text: str, words: Parallelism) -> None:
    inner = json.loads(text)
    whole = {"smdistributed": {"modelparallel": {"enabled": True, "parameters": inner}}}
    assert imported(json.dumps({"distribution": whole}), "d.json").words == words
    assert imported(json.dumps(whole), "d.json").words == words


DOCUMENTS = st.fixed_dictionaries(
    {
        "hybrid_shard_degree": st.integers(0, 64),
        "tensor_parallel_degree": st.integers(1, 8),
        "context_parallel_degree": st.integers(1, 8),
        "expert_parallel_degree": st.integers(1, 8),
        "sm_activation_offloading": st.booleans(),
        "activation_loading_horizon": st.integers(1, 8),
        "fsdp_cache_flush_warnings": st.booleans(),
        "allow_empty_shards": st.booleans(),
        "random_seed": st.integers(0, 99_999),
    }
)


@given(document=DOCUMENTS, left_out=st.sets(st.sampled_from(KEYS)))
def test_every_key_survives_the_way_through_our_words(document: dict[str, object], left_out: set[str]) -> None:
    given_keys = {key: value for key, value in document.items() if key not in left_out}
    words = imported(json.dumps(given_keys), "smp_config.json").words
    back = exported(words)
    assert tuple(back) == KEYS
    if "sm_activation_offloading" in given_keys or "activation_loading_horizon" not in given_keys:
        assert {key: back[key] for key in given_keys} == given_keys
    else:  # the library's default, and the reason why a horizon is given at all
        assert back["sm_activation_offloading"] is True
    assert exported(imported(json.dumps(back), "again.json").words) == back


@given(document=DOCUMENTS)
def test_the_section_that_is_printed_is_the_section_that_is_read(document: dict[str, object]) -> None:
    words = imported(json.dumps(document), "smp_config.json").words
    assert load_parallelism(yaml.safe_dump(section(words)), "p.yaml") == words


def test_what_a_value_alone_does_not_say_is_told() -> None:
    told = imported('{"hybrid_shard_degree": 0, "activation_loading_horizon": 3}', "smp_config.json")
    assert told.words.shard == "full"
    assert told.words.activation == Activation("full", True, 3)
    assert [notice.path for notice in told.notices] == ["hybrid_shard_degree", "sm_activation_offloading"]
    off = imported('{"sm_activation_offloading": false, "activation_loading_horizon": 3}', "smp_config.json")
    assert off.words.activation == Activation(None, False, 3)
    assert off.notices == ()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"hybrid_shard_degre": 16}', "Did you mean hybrid_shard_degree?"),
        ('{"pipeline_parallel_degree": 2}', "none of version 2"),
        ('{"tensor_parallel_degree": 0}', "no whole number of 1 or more"),
        ('{"tensor_parallel_degree": true}', "no whole number"),
        ('{"hybrid_shard_degree": "16"}', "no whole number of 0 or more"),
        ('{"sm_activation_offloading": 1}', "not true or false"),
        ('{"random_seed": 1, "tensor_parallel_seed": 2}', "says again what random_seed says"),
        ("[1]", "no JSON object"),
        ("{", "is not JSON"),
    ],
)
def test_a_key_that_cannot_be_imported_is_named(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        imported(text, "smp_config.json")
    assert part in str(caught.value)


def test_all_wrong_keys_are_named_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        imported('{"a": 1, "random_seed": -1}', "smp_config.json")
    assert [finding.code for finding in caught.value.findings] == ["unknown-key", "wrong-type"]


# -------------------------------------------------------------------------------------------------- export


def test_smp_is_exported_from_words_alone_with_what_is_lost() -> None:
    words = replace(FSDP, backend=None, smp=SmpWords(allow_empty_shards=True))
    made = export_layout(words, None, ExportWishes())
    document = json.loads(made.documents["smp_config.json"])
    assert (document["tensor_parallel_degree"], document["hybrid_shard_degree"], document["random_seed"]) == (2, 8, 7)
    assert document["allow_empty_shards"] is True
    assert [finding.path for finding in made.downgrades] == ["parallelism.checkpoint"]


def test_what_smp_cannot_say_is_refused() -> None:
    with pytest.raises(UsageError, match="smp does not know pipeline: 8"):
        export_layout(recipe("llama3-70b"), None, ExportWishes())


def test_a_recipe_is_exported_to_its_own_stack_or_another() -> None:
    assert export_layout(recipe("llama3-8b"), None, ExportWishes("auto")).backend == "nxd"
    assert export_layout(recipe("llama3-8b-nxdt"), None, ExportWishes("auto")).backend == "nxdt"
    made = export_layout(recipe("llama3-8b"), None, ExportWishes("nxd", nodes=8))
    assert made.backend == "nxd"
    assert "--kv_replicator 4" in " ".join(made.steps[1].argv)
    with pytest.raises(UsageError) as caught:
        export_layout(recipe("llama3-8b"), None, ExportWishes("fsdp"))
    assert "fsdp-on-trn1" in {finding.code for finding in caught.value.findings}


@pytest.mark.parametrize(
    ("source", "backend", "part"),
    [(Parallelism(), "fsdp", "a parallelism section alone"), (Parallelism(), "deepspeed", "is not known")],
)
def test_an_export_that_cannot_be_is_refused(source: Parallelism, backend: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        export_layout(source, None, ExportWishes(backend))
