"""How lines of Neuron's Python libraries and of its runtime read: time, process, level, tag, message."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

Say = Callable[[str], None]

_writing = threading.Lock()


def show(line: str) -> None:
    """Print a line at once and whole, whichever thread it comes from."""
    with _writing:
        print(line, flush=True)


def library_line(tag: str, message: str, *, level: str = "INFO") -> str:
    """A line of libneuronxla or torch_neuronx, such as `… INFO ||NEURON_CACHE||: …`; the tags are those of releases
    up to 2.33's published samples, the odd six-digit fraction holds milliseconds there too."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return f"{stamp}.{int(now % 1 * 1000):06d}:  {os.getpid()}  {level} ||{tag}||: {message}"


def runtime_line(function: str, message: str) -> str:
    """An error line of the Neuron runtime, such as `… ERROR  NRT:nrt_load_collectives  …`."""
    now = time.time()
    stamp = time.strftime("%Y-%b-%d %H:%M:%S", time.localtime(now))
    process = f"{os.getpid()}:{threading.get_native_id()}"
    return f"{stamp}.{int(now % 1 * 1_000_000):06d} {process:>13}   ERROR  {function:<40} {message}"
