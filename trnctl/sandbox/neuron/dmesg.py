"""dmesg on an emulated node: what its kernel would say of a broken Neuron device, and nothing else."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from trnctl.sandbox.neuron.emulation import NOTICE, cluster_folder, read_emulation, this_node
from trnctl.sandbox.neuron.hardware_faults import broken_device
from trnctl.sandbox.neuron.program import start


def main(argv: Sequence[str]) -> int:
    """Print the kernel's line of each broken device; the log of this machine's own kernel is no business of a node."""
    parser = argparse.ArgumentParser(prog="dmesg", description=f"The kernel's log, as far as it is {NOTICE}.")
    parser.parse_known_args(argv)
    broken = broken_device(cluster_folder(), this_node(read_emulation()).name)
    if broken is not None:
        print(f"[298850.512345] {broken.kernel_line}")
    return 0


if __name__ == "__main__":
    start(main)
