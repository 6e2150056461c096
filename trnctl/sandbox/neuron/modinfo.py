"""modinfo: the version of the neuron module on an emulated node; of other modules this machine tells."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from trnctl.sandbox.neuron.emulation import NOTICE, read_emulation, this_node
from trnctl.sandbox.neuron.packages import DRIVER, packages
from trnctl.sandbox.neuron.program import start

_REAL = "/sbin/modinfo"
_OLDER = "2.28"  # whose driver a node has that was struck


def main(argv: Sequence[str]) -> int:
    """`-F version neuron`; 1 on a node without Neuron devices."""
    if "-h" in argv:
        print(f"modinfo: what it tells of Neuron is {NOTICE}; the rest is {_REAL}'s.")
        return 0
    if "neuron" not in argv:
        os.execv(_REAL, [_REAL, *argv])  # noqa: S606  the program that this one stands before
    emulation = read_emulation()
    node = this_node(emulation)
    if not node.instance_type:
        print("modinfo: ERROR: Module neuron not found.", file=sys.stderr)
        return 1
    sdk = _OLDER if emulation.strikes("old-driver", node.name) else emulation.neuron_sdk
    version = packages(sdk)[DRIVER]
    print(version if "-F" in argv else f"version:        {version}")
    return 0


if __name__ == "__main__":
    start(main)
