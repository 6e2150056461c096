"""nccom-test: a table of collective bandwidths; nothing is measured, the figures follow published samples.

A latency and a bus bandwidth, one pair inside a node and one between nodes, give the time of every size.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from trnctl.sandbox.neuron.devices import hardware
from trnctl.sandbox.neuron.emulation import NOTICE, read_emulation, this_node
from trnctl.sandbox.neuron.program import start
from trnctl.sandbox.neuron.torchrun import check_workers

_OPERATIONS = {
    "allr": 2.0, "all_reduce": 2.0, "allg": 1.0, "all_gather": 1.0, "redsct": 1.0, "reduce_scatter": 1.0,
    "alltoall": 1.0,
}  # fmt: skip  # the factor f of bus bandwidth = f (r - 1) / r x algorithm bandwidth
_POINT_TO_POINT = ("sendrecv", "permute")
_TYPES = {"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "fp16": 2, "bf16": 2, "int32": 4, "uint32": 4, "fp32": 4}
_UNITS = {"kb": 1024, "mb": 1024**2, "gb": 1024**3, "k": 1024, "m": 1024**2, "g": 1024**3, "b": 1}
_ROW = "{:>13}    {:>12}    {:>6}    {:>12}    {:>11}    {:>11}"
# The guide's samples: 2 ranks of one node, 58 µs and 52.83 GB/s at 1 GiB; 64 ranks of two trn1, 520 µs, 47.09 GB/s.
_INSIDE, _BETWEEN = (58.0, 52.83), (520.0, 47.09)
_SLOW = 0.4  # the share of its bandwidth that a slow link has left


def size(text: str) -> int:
    """A number of bytes, with a unit or without (32M, 1gb, 1024). Raises ValueError."""
    lower = text.lower()
    unit = next((each for each in _UNITS if lower.endswith(each)), "")
    return int(float(lower.removesuffix(unit)) * _UNITS.get(unit, 1))


def sizes(smallest: int, largest: int, factor: float | None, step: int | None) -> Iterator[int]:
    """The sizes to run, from the smallest to the largest, multiplied by a factor or increased by a step."""
    current = smallest
    while current <= largest:
        yield current
        following = int(current * factor) if factor else current + (step or max(1, (largest - smallest) // 10))
        if following <= current:
            return
        current = following


def result(bytes_: int, options: argparse.Namespace, share_left: float = 1.0) -> dict[str, float | int | str]:
    """One line of the table, with the keys of the tool's JSON report; bandwidths in GiB/s."""
    latency, bandwidth = _BETWEEN if options.nnodes > 1 else _INSIDE
    bandwidth *= share_left
    ranks = options.nworkers
    share = 1.0 if options.operation in _POINT_TO_POINT else _OPERATIONS[options.operation] * (ranks - 1) / ranks
    microseconds = round(latency + bytes_ * share / (bandwidth * 1024**3) * 1e6, 2)
    algorithm = bytes_ / 1024**3 / (microseconds / 1e6)
    return {
        "size(B)": bytes_,
        "count(elems)": bytes_ // _TYPES[options.datatype],
        "type": options.datatype,
        "algbw(GB/s)": algorithm,
        "busbw(GB/s)": algorithm * share,
        "time:avg(us)": microseconds,
    }


def table(results: Sequence[dict[str, float | int | str]]) -> str:
    """The results as the tool prints them."""
    head = ("size(B)", "count(elems)", "type", "time:avg(us)", "algbw(GB/s)", "busbw(GB/s)")
    lines = [_ROW.format(*head)]
    for each in results:
        lines.append(_ROW.format(*(f"{each[name]:.2f}" if "bw" in name else str(each[name]) for name in head)))
    average = sum(float(each["busbw(GB/s)"]) for each in results) / len(results)
    return "\n".join([*lines, f"Avg bus bandwidth:\t{average:.4f}GB/s"])


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nccom-test", description=f"Collective bandwidths ({NOTICE}).")
    parser.add_argument("operation", choices=[*_OPERATIONS, *_POINT_TO_POINT])
    parser.add_argument("-r", "--nworkers", type=int, required=True)
    parser.add_argument("-N", "--nnodes", type=int, default=1)
    parser.add_argument("-b", "--minbytes", type=size, default=size("32M"))
    parser.add_argument("-e", "--maxbytes", type=size, default=None)
    parser.add_argument("-i", "--stepbytes", type=size, default=None)
    parser.add_argument("-f", "--stepfactor", type=float, default=None)
    parser.add_argument("-n", "--iters", type=int, default=20)
    parser.add_argument("-w", "--warmup_iters", type=int, default=5)
    parser.add_argument("-d", "--datatype", choices=sorted(_TYPES), default="uint8")
    parser.add_argument("-c", "--check", nargs="?", const="random", choices=["random", "all_ones"])
    parser.add_argument("-s", "--hosts", nargs="+", default=[])
    parser.add_argument("--non-interactive", action="store_true")
    parser.add_argument("--report-to-json-file")
    options = parser.parse_args(argv)
    if options.maxbytes is None:
        options.maxbytes = max(options.minbytes, size("32M"))
    if options.nnodes > 1 and len(options.hosts) != options.nnodes:
        parser.error(f"--nnodes {options.nnodes} needs as many --hosts; the Slurm mode is not {NOTICE}")
    if options.nworkers < 2 or options.nworkers % options.nnodes:
        parser.error("--nworkers must be 2 or more, and divide by the nodes")
    return options


def main(argv: Sequence[str]) -> int:
    """Print the table; 1 when this node could not run so many workers."""
    options = _parse(argv)
    emulation = read_emulation()
    node = this_node(emulation)
    print(f"nccom-test: {NOTICE}: no figure here is measured", file=sys.stderr)
    kit = hardware(node.instance_type)
    if kit is None or (problem := check_workers(options.nworkers // options.nnodes, node.instance_type)):
        print(problem if kit else "Neuron DKMS Driver is not running!", file=sys.stderr)
        print("1 errors found - test failed")
        return 1
    while emulation.strikes("hung-link", *options.hosts):
        time.sleep(1)  # the peer takes no part, and nobody says so
    left = _SLOW if emulation.strikes("slow-link", *options.hosts) else 1.0
    results = [
        result(each, options, left)
        for each in sizes(options.minbytes, options.maxbytes, options.stepfactor, options.stepbytes)
    ]
    print(table(results))
    if options.report_to_json_file:
        content = json.dumps({"results": results, "emulated_by": NOTICE}, indent=4)
        Path(options.report_to_json_file).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    start(main)
