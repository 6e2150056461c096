"""How busy the NeuronCores of a node are: a training that runs keeps its cores busy, one that compiles or hangs not.

The figures are made up, near those of a training that keeps its cores fed; they move a little, as real ones do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trnctl.sandbox.neuron.running import Training

_BUSY_PERCENT, _SWING = 94.0, 3.0
_USED_BYTES_PER_CORE = 9 * 1024**3  # of device memory: parameters, optimizer state and activations of BERT-Large


def core_percent(core: int, training: Training, at: float) -> float:
    """Utilisation of one core in percent, at a time in seconds of the epoch."""
    if not training.busy:
        return 0.0
    own = training.pid % 17  # no two nodes move alike
    return round(_BUSY_PERCENT + _SWING * math.sin(core * 2.4 + own + at / 7), 2)


def percents(running: Sequence[Training], cores: int, at: float) -> list[float]:
    """Utilisation of all cores of a node in percent; 0 for one that nobody holds."""
    busy = [0.0] * cores
    for training in running:
        for core in range(min(cores, training.cores)):
            busy[core] = core_percent(core, training, at)
    return busy


def device_bytes(training: Training) -> int:
    """Device memory that a training holds on its cores, in bytes."""
    return training.cores * _USED_BYTES_PER_CORE
