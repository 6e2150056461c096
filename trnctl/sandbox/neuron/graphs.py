"""The graphs that a training traces, and the names that the compile cache gives them.

A key depends on what changes a graph (micro batch, sequence, data-parallel degree, number type, optimizer, whether
there is accumulation at all) and on nothing else: learning rate, steps and an accumulation above 1 leave it alone,
as Neuron's caching page says.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from typing import NamedTuple

# Options of NEURON_CC_FLAGS that the wrapper around the compiler takes and does not pass on.
_WRAPPER_FLAGS = ("--cache_dir", "--retry_failed_compilation", "--no_cache", "--log_level", "--dump")

_INITIALISATION = ("model-initialisation", "optimizer-initialisation")
_ACCUMULATING = ("first-micro-step", "micro-step", "optimizer-step")
_PLAIN = ("single-step",)
STEP_GRAPHS = frozenset({"optimizer-step", "single-step"})  # the large ones; the compile faults strike them


class Graph(NamedTuple):
    """A traced graph: `name` in our words, `facts` what it depends on, `key` the number in MODULE_<key>."""

    name: str
    facts: Mapping[str, object]
    key: str


class CompilerFlags(NamedTuple):
    """NEURON_CC_FLAGS taken apart: what goes to the compiler, and what the wrapper around it keeps."""

    compiler: tuple[str, ...]
    cache_dir: str
    retry_failed: bool

    @property
    def key(self) -> str:
        """The second half of a MODULE_ name: eight hex digits; d41d8cd9 when there is no flag."""
        text = "".join(self.compiler)
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8]


def read_flags(text: str) -> CompilerFlags:
    """Take a value of NEURON_CC_FLAGS apart; options of the wrapper may be written with = or a space."""
    words = iter(shlex.split(text))
    compiler: list[str] = []
    cache_dir, retry = "", False
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _WRAPPER_FLAGS:
            compiler.append(word)
            continue
        if name == "--cache_dir":
            cache_dir = value if equals else next(words, "")
        elif name in ("--log_level", "--dump") and not equals:
            next(words, None)
        retry = retry or name == "--retry_failed_compilation"
    return CompilerFlags(tuple(compiler), cache_dir, retry)


def number_type(autocast: bool) -> str:
    """The number type that a training computes in, from the environment, as the public script decides it."""
    if os.environ.get("XLA_USE_BF16") or os.environ.get("XLA_DOWNCAST_BF16"):
        return "bfloat16"
    return "autocast-bfloat16" if autocast else "float32"


def training_graphs(accumulation: int, facts: Mapping[str, object]) -> list[Graph]:
    """The graphs of one training, in the order it meets them; `facts` is all that shapes them but accumulation."""
    names = _INITIALISATION + (_ACCUMULATING if accumulation > 1 else _PLAIN)
    return [Graph(name, facts, _key(name, facts)) for name in names]


def _key(name: str, facts: Mapping[str, object]) -> str:
    text = json.dumps([name, facts], sort_keys=True)
    return str(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))
