"""How fast the emulated training goes, and what it learns: published rates, a falling loss, the real schedule."""

from __future__ import annotations

import math
import random
import time
from collections import deque

# Sequences per second of BERT-Large on trn1.32xlarge, bf16, from AWS's benchmark pages: one node (Neuron 2.28.0);
# 16 nodes with the global batch of one (strong, 2.14.0); 16 nodes with 16 times that batch (weak, LAMB, 2.28.0).
_ONE_NODE, _STRONG_16, _WEAK_16 = 3826.61, 24518.47, 57407.92
_ONE_NODE_PHASE_2 = 495.5  # sequences of 512; AWS's tutorial of 2022
_WORKERS = 32  # a node's, in all of these
_ONE_NODE_SEQUENCES = 512  # a worker's share of a global batch at one node: 16 x 32
_NODE_FLOPS, _UTILISATION = 3.04e15, 0.25  # of a trn1.32xlarge, dense bf16; about what AWS's benchmark pages imply
_LOSS_START, _LOSS_END = 11.2, 1.4  # AWS's tutorial: 11.2 at the start, about 1.4 after 28,125 steps


def published_rate(nodes: int, sequences_per_worker: int, sequence: int, *, workers: int = _WORKERS) -> float:
    """Sequences per second that the published rates imply, at `sequences_per_worker` in one optimizer step.

    A power law in the nodes runs through the published points. Ours, and not published: between strong and weak
    scaling its exponent is interpolated, fewer `workers` a node are as much slower, and every instance type is taken
    for a trn1.32xlarge.
    """
    rate = (_ONE_NODE_PHASE_2 if sequence == 512 else _ONE_NODE) * workers / _WORKERS
    if nodes == 1:
        return rate
    strong, weak = (math.log(at_16 / _ONE_NODE) / math.log(16) for at_16 in (_STRONG_16, _WEAK_16))
    share = math.log(sequences_per_worker * nodes / _ONE_NODE_SEQUENCES) / math.log(nodes)
    share = min(1.0, max(0.0, share))  # 0 = the batch of one node, divided; 1 = a whole one on each node
    return float(rate * nodes ** (strong + share * (weak - strong)))


def modelled_rate(billions: float, sequence: int, nodes: int) -> float:
    """Sequences a second of a language model: a quarter of the nodes' bf16 peak at six operations a parameter and
    token. A rule of thumb, ours and not published; every instance type is taken for a trn1.32xlarge."""
    return _UTILISATION * _NODE_FLOPS * nodes / (6 * billions * 1e9 * sequence)


class Pace:
    """The clock of a training: sleeps a step's time and tells the moving average that the public script prints.

    With `step_seconds` time is compressed: steps are short, and the throughput is that of the uncompressed clock,
    with a made-up swing of 1 %.
    """

    def __init__(self, global_batch: int, rate: float, step_seconds: float | None) -> None:
        self._batch = global_batch
        self._true_seconds = global_batch / rate
        self._seconds = self._true_seconds if step_seconds is None else step_seconds
        self._compressed = step_seconds is not None
        self._window: deque[float] = deque(maxlen=10)
        self._last = time.monotonic()

    def sleep(self) -> None:
        """Let one step pass, counted from the end of the one before it."""
        time.sleep(max(0.0, self._last + self._seconds - time.monotonic()))

    def throughput(self) -> float:
        """Close a step; sequences per second over the last ten."""
        now = time.monotonic()
        self._window.append(self._true_seconds * _swing(now) if self._compressed else now - self._last)
        self._last = now
        return float(self._batch * len(self._window) / sum(self._window))


def _swing(at: float) -> float:
    return 1 + 0.01 * math.sin(at * 50)


def loss(step: int, seed: int) -> float:
    """A plausible loss: the same for the same step and seed."""
    noise = random.Random(seed * 1_000_003 + step).uniform(-0.05, 0.05)  # noqa: S311  no secret
    return float(_LOSS_END + (_LOSS_START - _LOSS_END) * (1 + step / 400) ** -1.2 + noise)


def learning_rate(step: int, peak: float, warmup: int, total: int) -> float:
    """The public script's schedule: a straight line up during the warm-up, then one down to 0 at the last step."""
    if step < warmup:
        return peak * step / warmup
    return peak * max(0.0, (total - step) / max(1, total - warmup))
