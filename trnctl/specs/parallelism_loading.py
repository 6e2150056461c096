"""The `model` and `parallelism` sections of a recipe: every problem at once, each with its line."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import TypeVar

from trnctl.specs.model import FAMILIES, PRESETS, Family, Model
from trnctl.specs.parallelism import (
    BACKENDS,
    CHECKPOINTING,
    COLLECTIVES,
    PRECISIONS,
    SHARD_WORDS,
    Activation,
    Parallelism,
    ShardWord,
    SmpWords,
)
from trnctl.specs.reading import Section, read

Word = TypeVar("Word", bound=str)


def load_parallelism(text: str | bytes, path: str) -> Parallelism:
    """The `parallelism` section of a file that may hold nothing else. UsageError holds every problem at once."""
    root = read(text, path, to_start="Begin it with `parallelism:`.")
    made = read_parallelism(root.section("parallelism"))
    root.finish()
    return made


def read_model(root: Section) -> tuple[str, Model | None]:
    """The model's name, and its shape where the recipe gives one. `model: some-name` is a name alone; a mapping has a
    `preset`, or the shape itself, or a preset of which some numbers are changed."""
    if root.shape("model") in {"absent", "scalar"}:
        return root.text("model", ""), None
    section = root.section("model")
    wanted = section.text("preset", None)
    if wanted is not None and wanted not in PRESETS:
        near = get_close_matches(wanted, PRESETS, n=1)
        section.problem(
            "unknown-preset",
            f"There is no preset {wanted}",
            (f"Did you mean {near[0]}? " if near else "") + f"Known are {', '.join(PRESETS)}.",
            key="preset",
        )
        _changed(section, next(iter(PRESETS.values())))  # so that this is the only complaint
        return section.text("name", ""), None
    model = _changed(section, PRESETS[wanted]) if wanted is not None else _own_shape(section)
    name = section.text("name", model.name) if wanted is not None else section.text("name")
    _check_shape(section, model)
    return name, replace(model, name=wanted or name)


def _changed(section: Section, preset: Model) -> Model:
    return Model(
        name=preset.name,
        family=section.choice("family", FAMILIES, preset.family),
        layers=section.integer("layers", preset.layers, minimum=1),
        hidden=section.integer("hidden", preset.hidden, minimum=1),
        heads=section.integer("heads", preset.heads, minimum=1),
        kv_heads=section.integer("kv_heads", preset.kv_heads, minimum=1),
        ffn=section.integer("ffn", preset.ffn, minimum=1),
        vocab=section.integer("vocab", preset.vocab, minimum=1),
        positions=section.integer("positions", preset.positions, minimum=0),
        tied=section.flag("tied", preset.tied),
        flash_attention=section.flag("flash_attention", preset.flash_attention),
    )


def _own_shape(section: Section) -> Model:
    heads = section.integer("heads", minimum=1)
    hidden = section.integer("hidden", minimum=1)
    family: Family = section.choice("family", FAMILIES, "llama")
    return Model(
        name="",
        family=family,
        layers=section.integer("layers", minimum=1),
        hidden=hidden,
        heads=heads,
        kv_heads=section.integer("kv_heads", heads, minimum=1),
        ffn=section.integer("ffn", minimum=1),
        vocab=section.integer("vocab", minimum=1),
        positions=section.integer("positions", 0, minimum=0),
        tied=section.flag("tied", family == "bert"),
        flash_attention=section.flag("flash_attention", family == "llama"),
    )


def _check_shape(section: Section, model: Model) -> None:
    if model.heads and model.hidden % model.heads:
        section.problem(
            "model-shape",
            f"{model.heads} heads do not divide a hidden size of {model.hidden:,}",
            "Correct one of them.",
            key="heads",
        )
    if model.kv_heads and model.heads % model.kv_heads:
        section.problem(
            "model-shape",
            f"{model.kv_heads} key-value heads do not divide {model.heads} heads",
            "Correct one of them.",
            key="kv_heads",
        )


def read_parallelism(section: Section) -> Parallelism:
    """The section as it stands; what does not fit together is for the rules of `plan` to say."""
    activation, smp = section.section("activation"), section.section("smp")
    return Parallelism(
        backend=_unless_auto(section, "backend", BACKENDS),
        tensor=section.integer("tensor", 1, minimum=1),
        pipeline=section.integer("pipeline", 1, minimum=1),
        context=section.integer("context", 1, minimum=1),
        expert=section.integer("expert", 1, minimum=1),
        shard=_shard(section),
        zero=_zero(section),
        reshard_after_forward=section.flag("reshard_after_forward", None),
        sequence_parallel=section.flag("sequence_parallel", None),
        ring_attention=section.flag("ring_attention", None),
        activation=Activation(
            checkpoint=activation.choice("checkpoint", CHECKPOINTING, None),
            offload=activation.flag("offload", None),
            horizon=activation.integer("horizon", None, minimum=1),
        ),
        deferred_init=section.flag("deferred_init", None),
        collectives=_unless_auto(section, "collectives", COLLECTIVES),
        reduce=section.choice("reduce", PRECISIONS, None),
        master_weights=section.choice("master_weights", PRECISIONS, None),
        seed=section.integer("seed", None, minimum=0),
        smp=SmpWords(
            fsdp_cache_flush_warnings=smp.flag("fsdp_cache_flush_warnings", None),
            allow_empty_shards=smp.flag("allow_empty_shards", None),
        ),
    )


def _unless_auto(section: Section, key: str, words: tuple[Word, ...]) -> Word | None:
    known: tuple[str, ...] = ("auto", *words)
    chosen = section.choice(key, known, "auto")
    return next((word for word in words if word == chosen), None)


def _shard(section: Section) -> int | ShardWord | None:
    """`full`, `none` or a number; 1 is none."""
    shard = section.integer_or_choice("shard", SHARD_WORDS, minimum=1)
    return "none" if shard == 1 else shard


def _zero(section: Section) -> int | None:
    stage = section.integer("zero", None, minimum=0, maximum=3)
    if stage == 2:
        section.problem(
            "unknown-value", "ZeRO stage 2 is not known here", "Write 0, 1 or 3; 3 holds the least.", key="zero"
        )
    return stage
