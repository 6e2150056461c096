"""The fingerprint of a run's graphs: all that makes the compiler's work another, and nothing that does not.

What Neuron's caching page says: another compiler, flag, number of workers, batch or sequence makes other graphs;
steps, learning rate and an accumulation above 1 do not. What is not known to be harmless counts, since the two mistakes
do not cost the same: a compile stage that finds everything compiled takes the minutes of one short trial run, while a
training that was thought to be compiled compiles on all its nodes, as they bill.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from trnctl.plan.layout import Layout
from trnctl.specs import sdk as sdks
from trnctl.specs.workload import Value, WorkloadSpec

FLAGS = "NEURON_CC_FLAGS"
RETRY = "--retry_failed_compilation"
_SCHEMA = 1  # in every fingerprint: when it rises, everything is compiled anew
_DIGITS = 12
# Options of NEURON_CC_FLAGS that the wrapper around the compiler keeps for itself (Neuron's caching page); True for
# those that take a value.
_WRAPPER_OPTIONS = {"--cache_dir": True, RETRY: False, "--no_cache": False, "--log_level": True, "--dump": True}
# Variables of the runtime, of the network, of data sets and of loggers. The two of the runtime that shape a graph are
# the way of rounding and the number of physical cores behind a logical one.
_SHAPING = frozenset({"NEURON_RT_STOCHASTIC_ROUNDING_EN", "NEURON_RT_VIRTUAL_CORE_SIZE"})
_HARMLESS = re.compile(
    r"(NEURON_RT|NEURON_COMPILE_CACHE|NEURON_PARALLEL_COMPILE|NEURON_PROCESS|FI|CCOM|NCCL|OFI|HF|TF_GRPC|MALLOC|OMP|"
    r"WANDB|TQDM|PYTHON|AWS|LD)_.*|NEURON_CC_FLAGS|XLA_TRANSFER_SEED_ASYNC"
)
# What a recipe's argument may hold that says where files lie or when a run stops: no value of it changes a graph.
_PLACES = re.compile(r"\{(checkpoints|output|run|steps|every_steps)\}")
_NUMBERS = re.compile(
    r"\{(nodes|ranks|world|micro_batch|accumulation|global_batch|replica_batch|tensor|pipeline|context)\}"
)


@dataclass(frozen=True)
class Fingerprint:
    """`key` names it in the cache; `facts` are what it was made of, without the values of the user's variables, which
    may be secrets."""

    key: str
    facts: Mapping[str, object]


def fingerprint(
    workload: WorkloadSpec,
    layout: Layout,
    *,
    sdk: str,
    instance_type: str,
    arguments: Mapping[str, Value],
    environment: Mapping[str, str],
) -> Fingerprint:
    """The fingerprint of a workload laid out on instances of a type; `arguments` and `environment` are the user's."""
    row = sdks.row(sdk)
    facts: dict[str, object] = {
        "schema": _SCHEMA,
        "sdk": sdk,
        "compiler": row.compiler if row else None,
        "chip": chip(instance_type),
        "source": [workload.source.repository, workload.source.commit, workload.source.path, workload.script],
        "nodes": layout.nodes,
        "ranks_per_node": layout.ranks_per_node,
        "split": [layout.tensor, layout.pipeline, layout.context, layout.expert, layout.zero, layout.shard],
        "micro_batch": layout.micro_batch,
        "accumulation": _accumulation(layout),
        "sequence": workload.batch.sequence,
        "arguments": _arguments(workload, layout, {**workload.arguments, **workload.overrides}, arguments),
        "trial": _arguments(workload, layout, {**workload.compile_arguments, **workload.compile_overrides}, {}),
    }
    variables = {**workload.environment, **(workload.multi_node_environment if layout.nodes > 1 else {}), **environment}
    if workload.compile_environment:
        facts["trial_environment"] = dict(sorted(workload.compile_environment.items()))
    shaping = {name: value for name, value in sorted(variables.items()) if _shapes(name)}
    flags = compiler_flags(variables.get(FLAGS, ""))
    hashed = json.dumps([facts, shaping, flags], sort_keys=True, default=str)
    key = hashlib.sha256(hashed.encode()).hexdigest()[:_DIGITS]
    return Fingerprint(key, {**facts, "environment_names": sorted(shaping), "flags": flags})


def chip(instance_type: str) -> str:
    """The family whose chips an instance has: trn1 for trn1n, trn2 for trn2u. A compiled graph runs on one only."""
    return instance_type.partition(".")[0].rstrip("nu")


def compiler_flags(text: str) -> list[str]:
    """What NEURON_CC_FLAGS hands to the compiler. A text that no shell could split counts as one flag."""
    kept: list[str] = []
    words = iter(_split(text))
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in _WRAPPER_OPTIONS:
            kept.append(word)
        elif _WRAPPER_OPTIONS[name] and not equals:
            next(words, None)
    return kept


def cache_dir(text: str) -> str:
    """The cache that NEURON_CC_FLAGS names, which overrides NEURON_COMPILE_CACHE_URL; '' when it names none."""
    words = _split(text)
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == "--cache_dir":
            return value if equals else "".join(words[place + 1 : place + 2])
    return ""


def retrying(text: str) -> str:
    """The flags, with the word that lets a graph that once failed be compiled again. It changes no key of the cache."""
    return text if RETRY in _split(text) else f"{text} {RETRY}".strip()


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quotation mark
        return [text]


def _accumulation(layout: Layout) -> str:
    return "one" if layout.accumulation == 1 else "several"


def _arguments(
    workload: WorkloadSpec, layout: Layout, given: Mapping[str, Value], wanted: Mapping[str, Value]
) -> dict[str, str]:
    """Those that may change a graph, with the layout's numbers filled in; folders stay the words that they are."""
    own = ("nodes", "world", "micro_batch", "global_batch", "tensor", "pipeline", "context")
    words = {name: str(getattr(layout, name)) for name in own}
    words.update(ranks=str(layout.ranks_per_node), accumulation=_accumulation(layout))
    words["replica_batch"] = str(layout.micro_batch * layout.accumulation)
    free = {name for name, value in given.items() if _PLACES.search(str(value))} | set(workload.graph_neutral)
    return {
        name: _NUMBERS.sub(lambda match: words[match[1]], str(value))
        for name, value in sorted({**given, **wanted}.items())
        if name not in free
    }


def _shapes(name: str) -> bool:
    return name in _SHAPING or _HARMLESS.fullmatch(name) is None
