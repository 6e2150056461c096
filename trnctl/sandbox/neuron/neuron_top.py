"""neuron-top: how busy the NeuronCores of a node are, again every second on a terminal, once without one."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from trnctl.sandbox.neuron.devices import Hardware, hardware
from trnctl.sandbox.neuron.emulation import NOTICE, Node, cluster_folder, read_emulation, this_node
from trnctl.sandbox.neuron.program import start
from trnctl.sandbox.neuron.running import Training, trainings
from trnctl.sandbox.neuron.utilization import device_bytes, percents

_CLEAR = "\x1b[H\x1b[2J"
_BAR = 20
_COLUMNS = 2


def frame(kit: Hardware, node: Node, running: Sequence[Training], at: float) -> str:
    """One screen of text."""
    busy = percents(running, kit.all_cores, at)
    lines = [f"neuron-top ({NOTICE})   {node.instance_type}   {node.instance_id}   {node.name}", ""]
    lines.append(f"NeuronCore {kit.core_version} Utilization")
    for first in range(0, kit.all_cores, kit.cores * _COLUMNS):
        row = range(first, min(first + kit.cores * _COLUMNS, kit.all_cores))
        lines.append("  ".join(f"NC{core:<3} {_bar(busy[core])} {busy[core]:5.1f}%" for core in row))
    used = sum(device_bytes(each) for each in running) / 1024**3
    lines += ["", f"Memory   device {used:.1f} of {kit.chips * kit.chip_gib} GiB", "", "Neuron Apps"]
    lines += [f"  [{each.pid}] step {each.step}  {each.command[:70]}" for each in running] or ["  none"]
    return "\n".join(lines)


def _bar(percent: float) -> str:
    full = round(percent / 100 * _BAR)
    return f"[{'|' * full}{' ' * (_BAR - full)}]"


def main(argv: Sequence[str]) -> int:
    """Show the screen until Ctrl-C; 1 on a node without Neuron devices, 2 for an argument, as it takes none."""
    if argv:
        print("usage: neuron-top", file=sys.stderr)
        return 2
    emulation = read_emulation()
    node = this_node(emulation)
    kit = hardware(node.instance_type)
    if kit is None:
        print(f"neuron-top: no Neuron device found on {node.name} ({NOTICE})", file=sys.stderr)
        return 1
    live = sys.stdout.isatty()
    try:
        while True:
            screen = frame(kit, node, trainings(cluster_folder(), node.name), time.time())
            print(f"{_CLEAR if live else ''}{screen}", flush=True)
            if not live:
                return 0
            time.sleep(1.0)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    start(main)
