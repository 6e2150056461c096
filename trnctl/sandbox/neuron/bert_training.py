"""The stand-in for the public BERT pre-training script: its arguments, console lines, checkpoints and manners.

It trains nothing: a step is a sleep of the published length, and the loss is made up (see `pace`). Like the
original it installs no signal handler, checkpoints at the ends of data shards and at its last step, and fails
without data. Each start does the few steps that emulation.json names, and says so.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from trnctl.sandbox.neuron import checkpoints
from trnctl.sandbox.neuron.bert_arguments import parse
from trnctl.sandbox.neuron.checkpoints import CheckpointError, CheckpointFolder
from trnctl.sandbox.neuron.collective import Collective, World, world
from trnctl.sandbox.neuron.compiler import tracing
from trnctl.sandbox.neuron.emulation import NOTICE, Emulation, read_emulation
from trnctl.sandbox.neuron.graphs import number_type
from trnctl.sandbox.neuron.pace import Pace, learning_rate, loss, published_rate
from trnctl.sandbox.neuron.training import (
    COMPILE_PATIENCE,
    ScriptError,
    cores_of,
    exit_code,
    meet_graphs,
    strike,
)

_SCRIPT_FLAGS = "--model-type=transformer"  # the script adds it to NEURON_CC_FLAGS


class Position(NamedTuple):
    """Where a training stands: steps done, epoch, that epoch's shard files, and how many of them are done."""

    step: int
    epoch: int
    files: list[str]
    shard: int


def shards(data_dir: str, epoch: int, workers: int) -> list[str]:
    """The shard files of an epoch in its order. Raises ScriptError without a folder or with too few files."""
    folder = Path(data_dir).expanduser()
    files = sorted(str(path) for path in folder.glob("*_training_*.hdf5"))
    if not folder.exists():
        raise ScriptError(f"AssertionError: ERROR: Data directory {data_dir} doesn't exist!")
    if not files:
        raise ScriptError(f"AssertionError: ERROR: There are no tokenized dataset shard files in {data_dir}")
    if workers > len(files):
        raise ScriptError(
            f"AssertionError: ERROR: Please ensure there are at least {workers} (world_size) tokenized dataset "
            f"shards in {data_dir} (currently I see only {len(files)})."
        )
    random.Random(epoch).shuffle(files)  # noqa: S311  no secret
    return files


def start(options: argparse.Namespace, whole: World) -> Position:
    """Where the training starts: at nothing, or at a checkpoint. Raises ScriptError and CheckpointError."""
    step, epoch, files, index = 0, 0, [], 0
    if options.resume_ckpt:
        newest = -1 if options.phase2 else options.resume_step
        path = checkpoints.find(Path(options.output_dir), newest, options.resume_ckpt_path)
        step = checkpoints.step_of(path)
        for rank in range(whole.first, whole.first + whole.local):
            print(f"Worker {rank} resuming from checkpoint {path} at step {step}")
        content = checkpoints.load(path)
        if options.phase2:  # it starts over with its own data
            step -= options.phase1_end_step
        else:
            epoch, (index, *files) = content["epoch"], content["files"]
    fresh = shards(options.data_dir, epoch, whole.size)
    return Position(step, epoch, files or fresh, index)


def graphs(options: argparse.Namespace, whole: World, emulation: Emulation) -> None:
    """Trace the training's graphs, or take them from the cache, or compile them. Raises ScriptError."""
    facts = {
        "micro batch": options.batch_size,
        "sequence": sequence(options),
        "workers": whole.size,
        "numbers": number_type(options.enable_pt_autocast),
        "optimizer": options.optimizer,
        "debug": options.debug,
        "gradient norm": options.print_grad_norm,
    }
    meet_graphs(options.grad_accum_usteps, facts, emulation, flags=_SCRIPT_FLAGS)


def sequence(options: argparse.Namespace) -> int:
    """Tokens in a sequence, as the name of the data set tells. Raises ScriptError when --seq_len says otherwise."""
    named = re.search(r"seqlen(\d+)", options.data_dir)
    found = int(named.group(1)) if named else options.seq_len or 128
    if options.seq_len not in (None, found):
        raise ScriptError(
            f"AssertionError: ERROR: User-specified sequence length ({options.seq_len}) does not match that of the "
            f"pre-tokenized dataset ({found})"
        )
    return int(found)


class Loop:
    """The training loop of one process, which stands for all workers of its node."""

    def __init__(self, options: argparse.Namespace, whole: World, emulation: Emulation, begin: Position) -> None:
        self._options = options
        self._world = whole
        self._emulation = emulation
        self._begin = begin
        self._end = max(begin.step + 1, min(options.steps_this_run, begin.step + emulation.steps))
        self._fault_step = begin.step + max(1, (self._end - begin.step) // 2)
        self._collective = Collective(whole)
        self._saved = CheckpointFolder(Path(options.output_dir), options.num_ckpts_to_keep)
        share = options.batch_size * options.grad_accum_usteps
        rate = published_rate(whole.nodes, share, sequence(options), workers=whole.local)
        self._pace = Pace(share * whole.size, rate, emulation.step_seconds)
        self._rate = 0.0
        self._started = time.time()

    def run(self, tell: Callable[[int, bool], None]) -> None:
        """Train to the end; `tell` learns the step and whether the cores are busy. Raises RuntimeFailure."""
        self._announce("will stop")
        position = self._begin
        while position.step < self._end:
            self.show_shard(position)
            if position is self._begin:
                graphs(self._options, self._world, self._emulation)
                self._collective.meet("graphs", COMPILE_PATIENCE)
            step = self._train_shard(position, tell)
            position = position._replace(step=step, shard=position.shard + 1)
            if self._world.is_root:
                self._end_shard(position)
            if position.shard + 1 >= len(position.files):
                epoch = position.epoch + 1
                files = shards(self._options.data_dir, epoch, self._world.size)
                position = Position(step, epoch, files, 0)
        self._collective.meet("finished")
        self._announce("stopped")

    def show_shard(self, position: Position) -> None:
        """The lines at the start of a shard: each worker reads another file."""
        if self._world.is_root:
            print(f"Epoch {position.epoch} file index {position.shard + 1} begin {time.asctime()}", flush=True)
        for rank in range(self._world.first, self._world.first + self._world.local):
            name = position.files[(position.shard * self._world.size + rank) % len(position.files)]
            print(f"Rank {rank} working on shard {name}")
        sys.stdout.flush()

    def _announce(self, verb: str) -> None:
        if self._world.is_root:
            steps, total = self._end - self._begin.step, self._options.steps_this_run
            text = f"{NOTICE}: nothing is trained; this start {verb} after {steps} steps, at {self._end} of {total}"
            print(text, flush=True)

    def _train_shard(self, position: Position, tell: Callable[[int, bool], None]) -> int:
        step = position.step
        tell(step, True)
        while step < min(self._end, position.step + self._emulation.steps_per_shard):
            self._pace.sleep()
            step += 1
            strike(step, self._fault_step, self._world, self._emulation, tell)
            self._collective.meet(f"step-{step}")
            self._rate = self._pace.throughput()
            tell(step, True)
            if self._world.is_root:
                self._log(position.epoch, step)
        return step

    def _log(self, epoch: int, step: int) -> None:
        options = self._options
        rate = learning_rate(step, options.lr, options.warmup_steps, options.max_steps)
        norm = f"grad-norm : {14 * 0.98**step + 0.4}" if options.print_grad_norm else ""
        print(
            f"LOG {time.asctime()} - ({epoch}, {step}) step_loss : {loss(step, options.seed):.4f} "
            f"learning_rate : {rate:.2e} throughput : {self._rate:.2f} {norm}",
            flush=True,
        )

    def _end_shard(self, position: Position) -> None:
        options = self._options
        micro_step = (position.step - self._begin.step) * options.grad_accum_usteps
        print(
            f"Epoch {position.epoch} step {position.step} file index {position.shard} end {time.asctime()} "
            f"loss {loss(position.step, options.seed)} perf {self._rate} seq/sec (at train microstep {micro_step} "
            f"time {time.time()} from beginning time {self._started})",
            flush=True,
        )
        if position.shard % options.shards_per_ckpt and position.step < self._end:
            return
        print("Checkpointing...", flush=True)
        if read_emulation().has("full-disk"):
            raise CheckpointError(f"OSError: [Errno 28] No space left on device: '{options.output_dir}'")
        step = position.step + (options.phase1_end_step if options.phase2 else 0)
        content = {"epoch": position.epoch, "files": [position.shard, *position.files]}
        for line in self._saved.save(step, content):
            print(line, flush=True)


def train(options: argparse.Namespace) -> None:
    """Run the script. Raises ScriptError, CheckpointError and RuntimeFailure."""
    emulation, whole = read_emulation(), world()
    if whole.is_root:
        Path(options.output_dir).mkdir(parents=True, exist_ok=True)
        print(f"--------TRAINING CONFIG----------\n{options}\n---------------------------------", flush=True)
    loop = Loop(options, whole, emulation, begin := start(options, whole))
    if tracing():
        loop.show_shard(begin)
        graphs(options, whole, emulation)
        return
    with cores_of(whole, emulation) as tell:
        loop.run(tell)


def main(argv: Sequence[str]) -> int:
    """Run the script; the exit code is Python's for a script that raised: 1."""
    options = parse(argv)
    return exit_code(lambda: train(options))
