"""dpkg-query: of Neuron's packages those that the SDK's release has; whatever else is asked, this machine answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from trnctl.sandbox.neuron.emulation import NOTICE, read_emulation, this_node
from trnctl.sandbox.neuron.packages import packages
from trnctl.sandbox.neuron.program import start

_REAL = "/usr/bin/dpkg-query"


def main(argv: Sequence[str]) -> int:
    """`-W -f FORMAT PACKAGE…` with ${Package} and ${Version}; 1 when one is not installed, as on a head node."""
    if "-h" in argv:
        print(f"dpkg-query: what it tells of Neuron is {NOTICE}; the rest is {_REAL}'s.")
        return 0
    names = [word for word in argv if word.startswith("aws-neuronx-")]
    if not names or "-W" not in argv or "-f" not in argv:
        os.execv(_REAL, [_REAL, *argv])  # noqa: S606  the program that this one stands before
    form = argv[argv.index("-f") + 1].replace("\\n", "\n")
    emulation = read_emulation()
    known = packages(emulation.neuron_sdk) if this_node(emulation).instance_type else {}
    for name in names:
        if name in known:
            sys.stdout.write(form.replace("${Package}", name).replace("${Version}", known[name]))
        else:
            print(f"dpkg-query: no packages found matching {name}", file=sys.stderr)
    return 0 if set(names) <= set(known) else 1


if __name__ == "__main__":
    start(main)
