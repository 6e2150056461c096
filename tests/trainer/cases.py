"""What the worker is asked to run: every layout of the table, and the runs around checkpoints and weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Told = Callable[[str], dict[str, Any]]

LLAMA = {
    "name": "llama", "family": "llama", "layers": 4, "hidden": 32, "heads": 4, "kv_heads": 2, "ffn": 64, "vocab": 96,
}  # fmt: skip
BERT = {
    "name": "bert", "family": "bert", "layers": 3, "hidden": 32, "heads": 4, "kv_heads": 4, "ffn": 64, "vocab": 96,
    "positions": 16, "tied": True,
}  # fmt: skip
FILE = [number % 90 for number in range(400)]  # the tokens of the files that are read
# A model that Hugging Face's library made, with the scores that it gives.
RECORDED = Path(__file__).parents[1] / "recorded" / "llama"
TOKENS = json.loads((RECORDED / "scores.json").read_text())["tokens"]
OTHERS = {
    "name": "others", "family": "llama", "layers": 2, "hidden": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "vocab": 24,
}  # fmt: skip
STEPS, GLOBAL = 4, 24


def layout(
    model: dict[str, Any], replicate: int = 1, shard: int = 1, tensor: int = 1, accumulation: int = 1, **words: Any
) -> dict[str, Any]:
    """A parallel.json as `trnctl plan` compiles it, with the same global batch for all."""
    activation = {"checkpoint": "none", "offload": False, "horizon": None} | words.pop("activation", {})
    return {
        "model": model,
        "mesh": {"replicate": replicate, "shard": shard, "tensor": tensor},
        "reshard_after_forward": True,
        "sequence_parallel": tensor > 1,
        "activation": activation,
        "deferred_init": True,
        "collectives": "gloo",
        "reduce": "fp32",
        "master_weights": "fp32",
        "seed": 7,
        "batch": {
            "micro": GLOBAL // (replicate * shard * accumulation),
            "accumulation": accumulation,
            "global": GLOBAL,
            "sequence": 16,
        },
    } | words


def case(name: str, laid: dict[str, Any], *words: str, **more: Any) -> dict[str, Any]:
    """One case; its world follows from the mesh."""
    degrees = laid["mesh"].values()
    world = 1
    for degree in degrees:
        world *= degree
    wishes = ["--steps", str(STEPS), "--lr", "0.003", "--clip", "0.5", *words]
    return {"name": name, "world": world, "layout": laid, "wishes": wishes} | more


def same(name: str, laid: dict[str, Any], *words: str, **more: Any) -> dict[str, Any]:
    """A case that must train as one process without the trainer does."""
    return case(name, laid, *words, parity=True, **more)


def full(horizon: int | None = None) -> dict[str, Any]:
    """Whole layers are recomputed, and offloaded when there is a horizon."""
    return {"checkpoint": "full", "offload": horizon is not None, "horizon": horizon}


ODD = LLAMA | {"name": "odd", "vocab": 97}  # a vocabulary that no degree divides
CHECKPOINTS = ("--checkpoints", "{folder}/saved", "--every", "2")

# Worlds of as many ranks stand together: each costs a start.
CASES = [
    same("saved", layout(LLAMA, shard=2, tensor=2), *CHECKPOINTS, "--export", "{folder}/weights"),
    same("tensor-2-shard-2-offload", layout(LLAMA, shard=2, tensor=2, accumulation=2, activation=full(2))),
    same("replicate-2-shard-2", layout(LLAMA, replicate=2, shard=2)),
    same("shard-4", layout(LLAMA, shard=4)),
    same("shard-4-bert", layout(BERT, shard=4, accumulation=2)),
    same("replicate-2-shard-2-tensor-2", layout(LLAMA, replicate=2, shard=2, tensor=2)),
    same("replicate-2-shard-3", layout(LLAMA, replicate=2, shard=3, collectives="smddp")),
    # A rank dies while it writes its second checkpoint; the next run goes on from the first.
    case("killed", layout(LLAMA, shard=2), "--checkpoints", "{folder}/killed", "--every", "2", dies_in_save=2),
    same("after-killed", layout(LLAMA, replicate=2), "--checkpoints", "{folder}/killed", "--resume", "newest"),
    same("resumed-by-2", layout(LLAMA, shard=2), "--resume", "{folder}/saved/step-00000002"),
    same("tensor-2", layout(LLAMA, tensor=2)),
    same("tensor-2-bert", layout(BERT, tensor=2, activation=full(2))),
    same("tensor-2-odd-vocabulary", layout(ODD, tensor=2)),
    same("tensor-2-whole-sequences", layout(LLAMA, tensor=2, sequence_parallel=False)),
    same("tensor-2-bert-whole-sequences", layout(BERT, tensor=2, sequence_parallel=False)),
    same("tensor-2-eager-init", layout(LLAMA, tensor=2, deferred_init=False)),
    same("shard-2-kept", layout(LLAMA, shard=2, reshard_after_forward=False)),
    case("scores-2", layout(OTHERS, tensor=2), operation="scores", weights=str(RECORDED), tokens=TOKENS),
    case("given", layout(LLAMA, tensor=2), "--weights", "{folder}/weights"),
    case("signalled", layout(LLAMA, shard=2), "--checkpoints", "{folder}/signalled", signal_at=2),
    # That rank has told the others how this step went, and that nobody asked it to leave.
    case("signalled-late", layout(LLAMA, shard=2), "--checkpoints", "{folder}/late", signal_at=2, signal_in="update"),
    *(case(f"plain-{model['name']}", layout(model), operation="plain") for model in (LLAMA, BERT, ODD)),
    case("rows", layout(LLAMA), "--data", "{folder}/tokens.u16", operation="rows"),
    case("rows-wide", layout(LLAMA | {"vocab": 100_000}), "--data", "{folder}/tokens.i32", operation="rows"),
    case("rows-masked", layout(BERT), "--data", "{folder}/tokens.u16", operation="rows"),
    case("from-file", layout(LLAMA, accumulation=2), "--data", "{folder}/tokens.u16"),
    case("plain-given", layout(LLAMA), "--weights", "{folder}/weights", operation="plain"),
    same("one", layout(LLAMA)),
    same("one-bert", layout(BERT)),
    same("eager-init", layout(LLAMA, deferred_init=False)),
    same("accumulation", layout(LLAMA, accumulation=4)),
    same("checkpoint-full", layout(LLAMA, activation=full())),
    same("checkpoint-selective", layout(LLAMA, activation={"checkpoint": "selective"})),
    *(same(f"offload-{horizon}", layout(LLAMA, activation=full(horizon))) for horizon in (1, 2, 3)),
    same("resumed-by-1", layout(LLAMA, accumulation=2), "--resume", "{folder}/saved/step-00000002"),
    same("after-signalled", layout(LLAMA), "--checkpoints", "{folder}/signalled", "--resume", "newest"),
    case("scores-1", layout(OTHERS), operation="scores", weights=str(RECORDED), tokens=TOKENS),
    case("nothing-to-resume", layout(LLAMA), "--checkpoints", "{folder}/empty", "--resume", "newest"),
    case("unchanged", layout(LLAMA), "--weights", "{folder}/weights", "--export", "{folder}/unchanged", "--steps", "0"),
]
