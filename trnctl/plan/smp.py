"""SageMaker's model parallel library, version 2: its nine-key configuration to our words, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from trnctl.errors import UsageError
from trnctl.findings import Finding
from trnctl.specs.parallelism import NATIVE_HORIZON, Activation, Parallelism, ShardWord, SmpWords

KEYS = (
    "hybrid_shard_degree", "tensor_parallel_degree", "context_parallel_degree", "expert_parallel_degree",
    "sm_activation_offloading", "activation_loading_horizon", "fsdp_cache_flush_warnings", "allow_empty_shards",
    "random_seed",
)  # fmt: skip
_FLAGS = {"sm_activation_offloading", "fsdp_cache_flush_warnings", "allow_empty_shards"}
_LEAST = {"hybrid_shard_degree": 0, "random_seed": 0}  # of the whole numbers; 1 for the others
_ALIASES = {"tensor_parallel_seed": "random_seed"}  # as AWS's article writes it
_WRAPPINGS = ("distribution", "smdistributed", "modelparallel", "parameters")  # of the Python SDK's estimator


@dataclass(frozen=True)
class Imported:
    """Our words, and one notice for each key that needs one."""

    words: Parallelism
    notices: tuple[Finding, ...]


def imported(text: str, path: str) -> Imported:
    """The words of a configuration, bare or as it stands in an estimator's `distribution`. UsageError names every key
    that is unknown or has a value that it cannot have."""
    values = _values(text, path)
    shard = values.get("hybrid_shard_degree")
    offload, horizon = _offloads(values), values.get("activation_loading_horizon")
    words = Parallelism(
        backend="smp",
        tensor=values.get("tensor_parallel_degree", 1),
        context=values.get("context_parallel_degree", 1),
        expert=values.get("expert_parallel_degree", 1),
        shard=_SHARD_WORDS.get(shard, shard) if shard is not None else None,
        activation=Activation(
            checkpoint="full" if offload else None,
            offload=offload,
            horizon=horizon,
        ),
        seed=values.get("random_seed"),
        smp=SmpWords(
            fsdp_cache_flush_warnings=_flag(values.get("fsdp_cache_flush_warnings")),
            allow_empty_shards=_flag(values.get("allow_empty_shards")),
        ),
    )
    return Imported(words, tuple(_notices(values, path)))


_SHARD_WORDS: Mapping[int, ShardWord] = {0: "full", 1: "none"}


def _offloads(values: Mapping[str, int]) -> bool | None:
    """Whether activations are offloaded. The library's default is true but takes effect only where the script wraps its
    layers; a file that names the horizon is of such a script."""
    said = values.get("sm_activation_offloading")
    return ("activation_loading_horizon" in values or None) if said is None else bool(said)


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _values(text: str, path: str) -> dict[str, int]:
    """The known keys with their values; flags as 0 and 1."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{path}:{error.lineno} is not JSON: {error.msg}", remedy="export the configuration again, or correct it"
        ) from error
    for wrapping in _WRAPPINGS:
        if isinstance(found, dict) and isinstance(found.get(wrapping), dict):
            found = found[wrapping]
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no JSON object", remedy=f"it should hold keys such as {', '.join(KEYS[:3])}")
    values: dict[str, int] = {}
    problems = []
    name: str
    for name, value in found.items():
        key = _ALIASES.get(name, name)
        problem = _problem(key, name, value, values)
        if problem is None:
            values[key] = int(value)
        else:
            problems.append(Finding(problem[0], "error", problem[1], problem[2], path=name, file=path))
    if problems:
        raise UsageError(
            f"{path} cannot be imported: " + "; ".join(str(one) for one in problems),
            remedy="correct the file and run the command again",
            findings=problems,
        )
    return values


def _problem(key: str, name: str, value: object, seen: Mapping[str, int]) -> tuple[str, str, str] | None:
    """Code, message and remedy of what is wrong with one key."""
    if key not in KEYS:
        near = get_close_matches(key, KEYS, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Its keys are {', '.join(KEYS)}."
        return "unknown-key", f"The key {name} is none of version 2", hint
    if key in seen:
        return "duplicate-key", f"The key {name} says again what {key} says", "Leave one of them out."
    if key in _FLAGS:
        return (
            None if isinstance(value, bool) else ("wrong-type", f"{value!r} is not true or false", "Write one of them.")
        )
    least = _LEAST.get(key, 1)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        return "wrong-type", f"{value!r} is no whole number of {least} or more", "Write one."
    return None


def _notices(values: Mapping[str, int], path: str) -> list[Finding]:
    """What a person should know of the keys whose meaning is not in their value alone."""
    told = []
    if values.get("hybrid_shard_degree") == 0:
        told.append(
            (
                "hybrid_shard_degree",
                "0 leaves the sharding to the script's own FSDP strategy; shard: full is what FULL_SHARD does.",
                "Write a number if the script says HYBRID_SHARD.",
            )
        )
    if _offloads(values):
        told.append(
            (
                "sm_activation_offloading",
                "Offloading moves what checkpointing keeps, so checkpoint: full was added.",
                "Write checkpoint: selective if the script wraps fewer layers.",
            )
        )
    return [Finding("smp-import", "info", what, way, path=key, file=path) for key, what, way in told]


def exported(words: Parallelism) -> dict[str, int | bool]:
    """The configuration of our words: all nine keys, so that nothing rests on a default."""
    shard = {"full": 0, "none": 1, None: 0}.get(words.shard, words.shard)  # type: ignore[arg-type]  # numbers are not in the table
    activation = words.activation
    return {
        "hybrid_shard_degree": shard if isinstance(shard, int) else 0,
        "tensor_parallel_degree": words.tensor,
        "context_parallel_degree": words.context,
        "expert_parallel_degree": words.expert,
        "sm_activation_offloading": bool(activation.offload),
        "activation_loading_horizon": activation.horizon or NATIVE_HORIZON,
        "fsdp_cache_flush_warnings": bool(words.smp.fsdp_cache_flush_warnings),
        "allow_empty_shards": bool(words.smp.allow_empty_shards),
        "random_seed": words.seed if words.seed is not None else _SEED,
    }


_SEED = 12345  # SMP's default


def section(words: Parallelism) -> dict[str, object]:
    """The `parallelism` section that says these words and nothing else, as plain values in the order of the reader's
    interest."""
    said: dict[str, object] = {"backend": words.backend or "auto"}
    said |= {
        name: getattr(words, name) for name in ("tensor", "pipeline", "context", "expert") if getattr(words, name) > 1
    }
    names = (
        "shard", "zero", "reshard_after_forward", "sequence_parallel", "ring_attention", "deferred_init", "collectives",
        "reduce", "master_weights", "seed",
    )  # fmt: skip
    said |= {name: getattr(words, name) for name in names if getattr(words, name) is not None}
    for name in ("activation", "smp"):
        inner = {key: value for key, value in vars(getattr(words, name)).items() if value is not None}
        said |= {name: inner} if inner else {}
    return {"parallelism": said}
