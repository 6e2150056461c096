"""fi_info: the EFA devices of a node, one block of lines each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from trnctl.sandbox.neuron.devices import hardware
from trnctl.sandbox.neuron.emulation import NOTICE, read_emulation, this_node
from trnctl.sandbox.neuron.program import start

_NO_DATA = 61  # ENODATA, what libfabric answers when there is no such provider
_ENDPOINTS = {"FI_EP_RDM": "rdm", "FI_EP_DGRAM": "dgrm"}  # type of endpoint -> the ending of its domains' names


def block(index: int, endpoint: str) -> str:
    """The lines about one device."""
    domain = f"rdmap{16 + index * 2}s27-{_ENDPOINTS[endpoint]}"
    return (
        f"provider: efa\n    fabric: efa\n    domain: {domain}\n    version: 121.0\n"
        f"    type: {endpoint}\n    protocol: FI_PROTO_EFA"
    )


def main(argv: Sequence[str]) -> int:
    """Show the devices; 61 when the node has none, or when another provider than efa is asked for."""
    parser = argparse.ArgumentParser(prog="fi_info", description=f"The fabric interfaces of this node ({NOTICE}).")
    parser.add_argument("-p", "--provider", default="efa")
    parser.add_argument("-t", "--ep_type", choices=sorted(_ENDPOINTS), default="FI_EP_RDM")
    options = parser.parse_args(argv)
    print(f"fi_info: {NOTICE}", file=sys.stderr)
    kit = hardware(this_node(read_emulation()).instance_type)
    if kit is None or not kit.efa or options.provider != "efa":
        print(f"fi_getinfo: -{_NO_DATA} (No data available)", file=sys.stderr)
        return _NO_DATA
    print("\n".join(block(index, options.ep_type) for index in range(kit.efa)))
    return 0


if __name__ == "__main__":
    start(main)
