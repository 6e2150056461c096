"""The reference trainer's costs as ratios on a CPU: two of them, as JSON on stdout. `bench.py` runs this.

Both sides of a ratio take their steps by turns in one process with one thread, and CPU time counts. A CPU has no
second memory and no stream beside the first, so the second ratio tells what hooks and copies cost, and nothing of the
time that prefetching hides on an accelerator.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "fsdp_trainer"))

import torch
from data import Tokens
from model import Shape, Transformer, loss_of
from parallel import initialise, start
from train import Trainer, read_arguments

STEPS = 12  # of each side, after two that warm up
MODEL = {
    "name": "bench", "family": "llama", "layers": 4, "hidden": 192, "heads": 6, "kv_heads": 3, "ffn": 512,
    "vocab": 1024,
}  # fmt: skip
BATCH = {"micro": 4, "accumulation": 2, "global": 8, "sequence": 96}
CPU = torch.device("cpu")
Step = Callable[[], object]


def layout(**activation: object) -> dict[str, Any]:
    """One rank, sharded over itself."""
    return {
        "model": MODEL, "mesh": {"replicate": 1, "shard": 1, "tensor": 1}, "reshard_after_forward": True,
        "sequence_parallel": False, "activation": activation, "deferred_init": True, "collectives": "gloo",
        "reduce": "fp32", "master_weights": "fp32", "seed": 1, "batch": BATCH,
    }  # fmt: skip


def ours(**activation: object) -> Trainer:
    """The trainer."""
    return Trainer(layout(**activation), read_arguments(["--steps", "1000"]), CPU)


def blocking() -> Step:
    """A step of the trainer with PyTorch's own wrapper around each forward, which waits for every copy."""
    trainer = ours(checkpoint="full", offload=False, horizon=None)
    wrapper = torch.autograd.graph.save_on_cpu()
    trainer.model.register_forward_pre_hook(lambda *_: wrapper.__enter__(), prepend=True)
    trainer.model.register_forward_hook(lambda *_: wrapper.__exit__())
    step: Step = trainer.step
    return step


class Plain:
    """The same training in a loop of one's own: no sharding, no mesh."""

    def __init__(self) -> None:
        self.seen = 0
        shape = Shape(**{name: value for name, value in MODEL.items() if name != "name"})
        self.model = Transformer(shape)
        initialise(self.model, 1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
        self.data = Tokens("synthetic", shape, BATCH["sequence"], 1)

    def step(self) -> float:
        """The loss, after the parameters have moved."""
        total = 0.0
        for _ in range(BATCH["accumulation"]):
            inputs, labels = self.data.batch(self.seen, BATCH["micro"])
            self.seen += BATCH["micro"]
            loss = loss_of(self.model(inputs), labels) / BATCH["accumulation"]
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total


def by_turns(one: Step, other: Step) -> tuple[float, float]:
    """The medians of CPU seconds a step."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(STEPS + 2):
        for took, step in zip(times, (one, other), strict=True):
            began = time.process_time()
            step()
            if turn >= 2:
                took.append(time.process_time() - began)
    return median(times[0]), median(times[1])


def main() -> None:
    """Measure, and print {name: [ours, theirs]} in seconds."""
    argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0]).parse_args()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    start(CPU, "gloo", lambda _: None)
    found = {
        "plain": by_turns(ours(checkpoint="none", offload=False, horizon=None).step, Plain().step),
        "offload": by_turns(ours(checkpoint="full", offload=True, horizon=2).step, blocking()),
    }
    print(json.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
