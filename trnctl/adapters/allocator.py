"""Nodes for a person at a terminal: `salloc` on the head node, through a script that goes along."""

from __future__ import annotations

import json

from trnctl.adapters.slurm_states import REASONS
from trnctl.ports import Allocation, Shell


class SlurmAllocator:
    """The Allocator behind a Shell. `script` is the text of `templates/node/alloc.py`."""

    def __init__(self, shell: Shell, script: str) -> None:
        self._shell = shell
        self._script = script

    def shell(self, wish: Allocation) -> int:
        """One connection with a terminal; see `ports.Allocator.shell`."""
        asked = {"nodes": wish.nodes, "time": wish.time_limit, "queue": wish.queue}
        request = json.dumps({**asked, "reasons": {reason: words for reason, words in REASONS.items() if words}})
        return self._shell.interact(["python3", "-I", "-c", self._script, request])
