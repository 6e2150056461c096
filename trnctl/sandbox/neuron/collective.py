"""One worker process's view of the job: its ranks, and staying in step with the other nodes."""

from __future__ import annotations

import os
from typing import NamedTuple

from trnctl.sandbox.neuron.log_lines import runtime_line
from trnctl.sandbox.neuron.rendezvous import Endpoint, Member, join
from trnctl.sandbox.neuron.torchrun import STORE_VARIABLE

_EXEC_TIMEOUT = 30.0  # the runtime's default of NEURON_RT_EXEC_TIMEOUT, in seconds
_COLLECTIVES = 90  # how many a step is said to have; only named in the error


class RuntimeFailure(Exception):
    """The Neuron runtime gave up; the text is its line."""


class World(NamedTuple):
    """Who this process stands for: `local` workers from rank `first` on, of `size` in all; `node` of `nodes`."""

    first: int
    local: int
    size: int
    node: int
    nodes: int

    @property
    def is_root(self) -> bool:
        """Whether rank 0 is among the workers of this process."""
        return self.first == 0

    @property
    def is_last_node(self) -> bool:
        """Whether this is the node that faults strike."""
        return self.node == self.nodes - 1


def world() -> World:
    """The world that torchrun told this process about; without torchrun a world of one."""
    names = ("RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
    first, local, size, node, nodes = (
        int(os.environ.get(name) or default) for name, default in zip(names, (0, 1, 1, 0, 1), strict=True)
    )
    return World(first, local, size, node, nodes)


class Collective:
    """The meeting of all nodes at each step; a node that is gone or hangs keeps the others waiting."""

    def __init__(self, whole: World) -> None:
        self._member = _connect(whole)
        self._seconds = float(os.environ.get("NEURON_RT_EXEC_TIMEOUT") or _EXEC_TIMEOUT)

    def meet(self, point: str, seconds: float | None = None) -> None:
        """Wait until all nodes are here. Raises RuntimeFailure after `seconds`, or NEURON_RT_EXEC_TIMEOUT of them."""
        if self._member and not self._member.reach(point, self._seconds if seconds is None else seconds):
            text = (
                "(FATAL-RT-UNDEFINED-STATE) missing collectives status on Neuron Device 0 NC 0, model model.neff - "
                f"suspected hang in collectives operation 0 out of {_COLLECTIVES}"
            )
            raise RuntimeFailure(runtime_line("TDRV:exec_consume_infer_status_notifications", text))


def _connect(whole: World) -> Member | None:
    store = os.environ.get(STORE_VARIABLE)
    if not store or whole.nodes == 1:
        return None
    address, _, port = store.rpartition(":")
    return join(Endpoint(address, int(port), address), whole.node, _EXEC_TIMEOUT)
