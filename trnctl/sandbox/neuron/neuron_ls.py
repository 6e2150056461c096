"""neuron-ls: the Neuron devices of a node and what runs on them, as a table or as JSON.

-j/--json-output is that of Neuron up to 2.33. From 2.34 it is gone and `--output-format json` takes its place; its
shape is announced (fields of the instance at the top) but not published, so the keys printed here are a guess.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from trnctl.sandbox.neuron.devices import (
    Hardware,
    connected,
    cpu_affinity,
    hardware,
    pci_address,
    runtime_version,
    sdk_at_least,
)
from trnctl.sandbox.neuron.emulation import NOTICE, Node, cluster_folder, read_emulation, this_node
from trnctl.sandbox.neuron.program import start
from trnctl.sandbox.neuron.running import Training, trainings

_NEW_JSON = "2.34"
_COMMAND_WIDTH, _WIDE = 40, 120


def devices(kit: Hardware, node: Node, running: Sequence[Training], sdk: str) -> list[dict[str, object]]:
    """Every Neuron device of a node with the keys of neuron-ls; memory in bytes, cores by number of the node."""
    return [_device(index, kit, node, running, sdk) for index in range(kit.chips)]


def _device(index: int, kit: Hardware, node: Node, running: Sequence[Training], sdk: str) -> dict[str, object]:
    cpus, numa = cpu_affinity(index, kit)
    cores = list(range(index * kit.cores, (index + 1) * kit.cores))
    return {
        "instance_type": node.instance_type,
        "instance_id": node.instance_id,
        "neuron_device": index,
        "bdf": pci_address(index, kit),
        "cpu_affinity": cpus,
        "numa_node": numa,
        "connected_to": connected(index, kit.chips),
        "nc_count": kit.cores,
        "logical_neuroncore_config": kit.logical,
        "memory_size": kit.chip_gib * 1024**3,
        "neuroncore_ids": cores,
        "neuron_processes": [
            {"pid": each.pid, "command": each.command, "neuron_runtime_version": runtime_version(sdk)}
            for each in running
            if cores[0] < each.cores
        ],
        "emulated_by": NOTICE,
    }


def table(found: Sequence[dict[str, object]], width: int) -> str:
    """The devices as neuron-ls draws them; columns of processes only when there are any."""
    head = [
        ("NEURON", "DEVICE"), ("NEURON", "CORES"), ("NEURON", "CORE IDS"), ("NEURON", "MEMORY"),
        ("CONNECTED", "DEVICES"), ("PCI", "BDF"), ("CPU", "AFFINITY"), ("NUMA", "NODE"),
    ]  # fmt: skip
    busy = any(each["neuron_processes"] for each in found)
    if busy:
        head += [("PID", ""), ("COMMAND", ""), ("RUNTIME", "VERSION")]
    rows = [_cells(each, busy, width) for each in found]
    lines = [[upper for upper, _ in head], [lower for _, lower in head], *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rule = "+".join(["", *("-" * (wide + 2) for wide in widths), ""])
    drawn = [
        "|".join(["", *(f" {cell:<{wide}} " for cell, wide in zip(line, widths, strict=True)), ""]) for line in lines
    ]
    return "\n".join([rule, *drawn[:2], rule, *drawn[2:], rule])


def _cells(device: dict[str, object], busy: bool, width: int) -> list[str]:
    cores, links = device["neuroncore_ids"], device["connected_to"]
    assert isinstance(cores, list)  # noqa: S101  written above
    cells = [
        str(device["neuron_device"]),
        str(device["nc_count"]),
        f"{cores[0]}-{cores[-1]}",
        f"{int(str(device['memory_size'])) // 1024**3} GB",
        ", ".join(str(link) for link in links) if isinstance(links, list) else "",
        str(device["bdf"]),
        str(device["cpu_affinity"]),
        str(device["numa_node"]),
    ]
    processes = device["neuron_processes"]
    if busy and isinstance(processes, list):
        first = processes[0] if processes else {"pid": "", "command": "", "neuron_runtime_version": ""}
        command = str(first["command"])
        short = command if len(command) <= width else f"{command[: width - 3]}..."
        cells += [str(first["pid"]), short, str(first["neuron_runtime_version"])]
    return cells


def topology(chips: int) -> str:
    """The links between the chips: a 4 x 4 torus, or a chip alone."""
    if chips == 1:
        return "[ 0 ]"
    rows = ["*--" + "--".join(f"[{row * 4 + column:^4}]" for column in range(4)) + "--*" for row in range(4)]
    return "\n".join([*rows, "Legend: *-- = link around to the other end; each column is closed in the same way"])


def _parse(argv: Sequence[str], sdk: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="neuron-ls", description=f"The Neuron devices of this node ({NOTICE}).")
    parser.add_argument("-w", "--wide", action="store_true")
    parser.add_argument("-a", "--show-all-procs", action="store_true")
    parser.add_argument("-t", "--topology", action="store_true")
    if sdk_at_least(sdk, _NEW_JSON):
        parser.add_argument("--output-format", choices=["json", "table"], default="table")
    else:
        parser.add_argument("-j", "--json-output", action="store_true")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Show the devices; 1 on a node that has none."""
    emulation = read_emulation()
    options = _parse(argv, emulation.neuron_sdk)
    node = this_node(emulation)
    kit = hardware(node.instance_type)
    if kit is None:
        print(f"neuron-ls: no Neuron device found on {node.name} ({NOTICE})", file=sys.stderr)
        return 1
    found = devices(kit, node, trainings(cluster_folder(), node.name), emulation.neuron_sdk)
    found = found[:-1] if emulation.strikes("missing-device", node.name) else found
    if getattr(options, "json_output", False):
        print(json.dumps(found, indent=4))
        return 0
    if getattr(options, "output_format", "") == "json":
        top = {key: found[0].pop(key) for key in ("instance_type", "instance_id", "emulated_by")}
        print(json.dumps({**top, "neuron_devices": [_without(device, top) for device in found]}, indent=4))
        return 0
    print(f"neuron-ls: {NOTICE}", file=sys.stderr)
    print(f"instance-type: {node.instance_type}\ninstance-id: {node.instance_id or 'unknown'}")
    if kit.logical > 1:
        print(f"logical-neuroncore-config: {kit.logical}")
    print(table(found, _WIDE if options.wide else _COMMAND_WIDTH))
    if options.topology:
        print(f"\nNeuron Device Topology\n{topology(kit.chips)}")
    return 0


def _without(device: dict[str, object], keys: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in device.items() if key not in keys}


if __name__ == "__main__":
    start(main)
