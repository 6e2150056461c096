"""The stand-in for the public Llama and GPT-NeoX scripts: their console lines, checkpoints and manners.

It trains nothing: a step is a sleep of a second at most, the throughput that is told is a rule of thumb for the real
one (see `pace.modelled_rate`), the loss is made up. Like the originals it installs no signal handler, saves after every
so many steps as a folder that gets its file `done` last, and fails without its data and its model's configuration. Each
start does the few steps that emulation.json names, and says so.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from trnctl.sandbox.neuron.checkpoints import CheckpointError, write_archive
from trnctl.sandbox.neuron.collective import Collective, World, world
from trnctl.sandbox.neuron.compiler import tracing
from trnctl.sandbox.neuron.emulation import NOTICE, Emulation, read_emulation
from trnctl.sandbox.neuron.graphs import number_type
from trnctl.sandbox.neuron.llm_scripts import SCRIPTS, Training
from trnctl.sandbox.neuron.pace import Pace, loss, modelled_rate
from trnctl.sandbox.neuron.training import (
    COMPILE_PATIENCE,
    ScriptError,
    Tell,
    cores_of,
    exit_code,
    meet_graphs,
    strike,
)

_USUAL_BILLIONS = 20.0  # of a model whose name tells no size
_SEED = 12349
_LONGEST_STEP_SECONDS = 1.0  # the real ones take minutes, for which nobody waits in a sandbox
_WRITING_SECONDS = 0.05  # long enough that a kill can hit it


def billions(config: str) -> float:
    """A model's parameters in thousands of millions, from the name of its configuration: 70B_config_llama3."""
    found = re.search(r"(\d+(?:\.\d+)?)[bB]_", Path(config).name)
    return float(found[1]) if found else _USUAL_BILLIONS


def check_inputs(training: Training) -> None:
    """The data set and the model's configuration must be there. Raises ScriptError in the originals' words."""
    if not training.data or not Path(training.data).expanduser().is_dir():
        raise ScriptError(f"FileNotFoundError: Directory {training.data} not found")
    if training.config and not Path(training.config).exists():
        raise ScriptError(
            f"OSError: Can't load the configuration of '{training.config}'. Make sure that it is the path to a "
            "directory containing a config.json file"
        )


def graphs(training: Training, whole: World, emulation: Emulation) -> None:
    """Trace, load or compile the training's graphs. Raises ScriptError."""
    facts = {
        "model": Path(training.config).name,
        "split": [training.tensor, training.pipeline],
        "batch": training.batch,
        "sequence": training.sequence,
        "workers": whole.size,
        "numbers": number_type(False),
    }
    meet_graphs(training.accumulation, facts, emulation)


def newest(folder: Path) -> tuple[int, str]:
    """The step of the newest whole checkpoint and its name; (0, '') without one."""
    whole = [path for path in folder.glob("*step*") if (path / "done").is_file()] if folder.is_dir() else []
    steps = {int(found[1]): path.name for path in whole if (found := re.search(r"step[_=](\d+)", path.name))}
    return max(steps.items(), default=(0, ""))


def save(training: Training, step: int) -> None:
    """Write a checkpoint as its script does: a folder with a part and, last, `done`; or one file at the end."""
    if training.saves == "at the end":
        path = Path(training.saves_to) / "tp_rank_00_pp_rank_00" / "checkpoint.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_archive(path, {"global_step": step, "note": NOTICE})
        return
    folder = Path(training.saves_to) / training.tag.format(step=step, samples=f"{step * training.batch:.1f}")
    (folder / "model").mkdir(parents=True, exist_ok=True)
    (folder / "checkpoint").write_text("1", encoding="utf-8")
    part = folder / "model" / "dp_rank_00_tp_rank_00_pp_rank_00.pt"
    part.write_text(json.dumps({"step": step, "note": NOTICE}), encoding="utf-8")
    time.sleep(_WRITING_SECONDS)
    (folder / "done").write_text("1", encoding="utf-8")


class Loop:
    """The training loop of one process, which stands for all workers of its node."""

    def __init__(self, training: Training, whole: World, emulation: Emulation, begin: int) -> None:
        self._training, self._world, self._emulation = training, whole, emulation
        self._begin = begin
        self._end = max(begin + 1, min(training.steps, begin + emulation.steps))
        self._fault_step = begin + max(1, (self._end - begin) // 2)
        self._collective = Collective(whole)
        rate = modelled_rate(billions(training.config), training.sequence, whole.nodes)
        self._true_seconds = training.batch / rate
        self._seconds = emulation.step_seconds
        if self._seconds is None and self._true_seconds > _LONGEST_STEP_SECONDS:
            self._seconds = _LONGEST_STEP_SECONDS
        self._pace = Pace(training.batch, rate, self._seconds)

    def run(self, tell: Tell) -> None:
        """Train to the end of this start. Raises ScriptError and RuntimeFailure."""
        self._announce("will stop")
        graphs(self._training, self._world, self._emulation)
        self._collective.meet("graphs", COMPILE_PATIENCE)
        step = self._begin
        while step < self._end:
            self._pace.sleep()
            step += 1
            strike(step, self._fault_step, self._world, self._emulation, tell)
            self._collective.meet(f"step-{step}")
            rate = self._pace.throughput()
            tell(step, True)
            if self._training.prints(self._world) and step % self._training.interval == 0:
                print(self._training.line(step, loss(step, _SEED), rate), flush=True)
            if self._saves(step):
                if self._emulation.has("full-disk"):
                    raise CheckpointError(f"OSError: [Errno 28] No space left on device: '{self._training.saves_to}'")
                save(self._training, step)
        self._collective.meet("finished")
        self._announce("stopped")

    def _saves(self, step: int) -> bool:
        training = self._training
        due = (
            step == training.steps if training.saves == "at the end" else training.every and step % training.every == 0
        )
        return bool(due and training.saves_to and self._world.is_root)

    def _announce(self, verb: str) -> None:
        if self._world.is_root:
            steps, total = self._end - self._begin, self._training.steps
            text = f"{NOTICE}: nothing is trained; this start {verb} after {steps} steps, at {self._end} of {total}"
            short = f"; a step of {self._true_seconds:.0f} s takes {self._seconds:g} s" if self._seconds else ""
            print(text + short, flush=True)


def train(script: str, argv: Sequence[str]) -> None:
    """Run the script of that name. Raises ScriptError, CheckpointError and RuntimeFailure."""
    emulation, whole = read_emulation(), world()
    training = SCRIPTS[script](argv, whole)
    check_inputs(training)
    if tracing():
        graphs(training, whole, emulation)
        return
    begin, name = newest(Path(training.saves_to)) if training.resumes else (0, "")
    if name and whole.is_root:
        print(f"loading checkpoint from {name}", flush=True)
    with cores_of(whole, emulation) as tell:
        Loop(training, whole, emulation, begin).run(tell)


def main(argv: Sequence[str]) -> int:
    """Run the script that `argv` begins with; the exit code is Python's for a script that raised: 1."""
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    return exit_code(lambda: train(Path(argv[0]).name, argv[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
