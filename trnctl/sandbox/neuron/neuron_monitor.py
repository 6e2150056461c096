"""neuron-monitor: one JSON line a period about the runtimes, the system and the hardware of a node."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trnctl.sandbox.neuron.devices import Hardware, hardware
from trnctl.sandbox.neuron.emulation import NOTICE, Node, cluster_folder, read_emulation, this_node
from trnctl.sandbox.neuron.hardware_faults import broken_device
from trnctl.sandbox.neuron.program import start
from trnctl.sandbox.neuron.running import Training, trainings
from trnctl.sandbox.neuron.utilization import core_percent, device_bytes

_RUNTIME_METRICS = ("neuroncore_counters", "execution_stats", "memory_used", "neuron_runtime_vcpu_usage")
_SYSTEM_METRICS = ("neuron_hw_counters", "vcpu_usage", "memory_info")
_DEFAULT_PERIOD = "5s"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_ERRORS = ("generic", "numerical", "transient", "model", "runtime", "hardware")
_OUTCOMES = ("completed_with_err", "completed_with_num_err", "timed_out", "incorrect_input", "failed_to_queue")
_ECC = ("mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_corrected", "sram_ecc_uncorrected")


class Configuration:
    """What to report: a configuration file's content, or everything every five seconds."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.period = seconds(content.get("period", _DEFAULT_PERIOD))
        runtimes = content.get("neuron_runtimes", [{"metrics": [{"type": name} for name in _RUNTIME_METRICS]}])
        system = content.get("system_metrics", [{"type": name} for name in _SYSTEM_METRICS])
        self.runtime_metrics = [metric["type"] for each in runtimes for metric in each.get("metrics", [])]
        self.system_metrics = [metric["type"] for metric in system]


def seconds(text: str) -> float:
    """A period such as 5s, 500ms or 1m, in seconds. Raises ValueError."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :]
    if unit not in _UNITS or float(number) <= 0:
        raise ValueError(f"{text!r} is not a period such as 5s or 500ms")
    return float(number) * _UNITS[unit]


def report(
    configuration: Configuration, kit: Hardware, node: Node, running: Sequence[Training], done: Mapping[int, int]
) -> dict[str, Any]:
    """One report, with the groups that the configuration asks for; every group tells its period and error. `done` is
    how many executions each process has completed since the last report, as the real one counts them."""
    at = time.time()
    stamp = {"period": configuration.period, "error": ""}
    return {
        "neuron_runtime_data": [
            {
                "pid": each.pid,
                "address": "",
                "neuron_runtime_tag": each.tag or str(each.pid),
                "error": "",
                "report": {
                    name: {**stamp, **_runtime_group(name, each, at, done.get(each.pid, 0))}
                    for name in _RUNTIME_METRICS
                    if name in configuration.runtime_metrics
                },
            }
            for each in running
        ],
        "system_data": {
            name: {**stamp, **_system_group(name, kit, node, running)}
            for name in _SYSTEM_METRICS
            if name in configuration.system_metrics
        },
        "instance_info": {
            "instance_name": node.name,
            "instance_id": node.instance_id,
            "instance_type": node.instance_type,
            "instance_availability_zone": "",
            "instance_region": "",
            "ami_id": "",
            "subnet_id": "",
            "emulated_by": NOTICE,
            "error": "",
        },
        "neuron_hardware_info": {
            "neuron_device_type": kit.chip,
            "neuroncore_version": kit.core_version,
            "neuron_device_count": kit.chips,
            "neuron_device_memory_size": kit.chip_gib * 1024**3,
            "neuroncore_per_device_count": kit.cores,
            "logical_neuroncore_config": kit.logical,
            "error": "",
        },
    }


def _runtime_group(name: str, training: Training, at: float, done: int) -> dict[str, Any]:
    cores = range(training.cores)
    if name == "neuroncore_counters":
        use = {str(core): {"neuroncore_utilization": core_percent(core, training, at)} for core in cores}
        return {"neuroncores_in_use": use}
    if name == "execution_stats":
        return {
            "error_summary": dict.fromkeys(_ERRORS, 0),
            "execution_summary": {"completed": done, **dict.fromkeys(_OUTCOMES, 0)},
            "latency_stats": {"total_latency": None, "device_latency": None},
        }
    if name == "memory_used":
        per_core = device_bytes(training) // training.cores
        parts = {"constants": 0, "model_code": 0, "model_shared_scratchpad": 0, "runtime_memory": 0}
        usage = {str(core): {**parts, "tensors": per_core} for core in cores}
        used = {"host": training.cores * 1024**3, "neuron_device": device_bytes(training)}
        return {"neuron_runtime_used_bytes": {**used, "usage_breakdown": {"neuroncore_memory_usage": usage}}}
    busy = 20.0 if training.busy else 1.0
    return {"vcpu_usage": {"user": busy, "system": busy / 10}}


def _system_group(name: str, kit: Hardware, node: Node, running: Sequence[Training]) -> dict[str, Any]:
    if name == "neuron_hw_counters":
        counters = [{"neuron_device_index": index, **dict.fromkeys(_ECC, 0)} for index in range(kit.chips)]
        broken = broken_device(cluster_folder(), node.name)
        if broken is not None:
            counters[broken.device][broken.counter] += 1
        return {"neuron_devices": counters}
    if name == "memory_info":
        total = kit.host_gib * 1024**3
        used = sum(each.cores for each in running) * 1024**3 + 4 * 1024**3
        return {
            "memory_total_bytes": total,
            "memory_used_bytes": min(total, used),
            "swap_total_bytes": 0,
            "swap_used_bytes": 0,
        }
    busy = 20.0 if any(each.busy for each in running) else 1.0
    average = {"user": busy, "nice": 0, "system": busy / 10, "idle": 100 - 1.1 * busy, "io_wait": 0, "irq": 0}
    return {"average_usage": {**average, "soft_irq": 0}, "usage_data": {}}


def _configuration(path: str | None) -> Configuration:
    try:
        return Configuration(json.loads(Path(path).read_text(encoding="utf-8")) if path else {})
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as problem:
        raise SystemExit(f"neuron-monitor: the configuration file {path} cannot be used: {problem}") from problem


def main(argv: Sequence[str]) -> int:
    """Report until ended, by a signal or by the reader closing the pipe; 1 on a node without Neuron devices."""
    parser = argparse.ArgumentParser(prog="neuron-monitor", description=f"Neuron metrics as JSON lines ({NOTICE}).")
    parser.add_argument("-c", "--config-file")
    parser.add_argument("--verbose", type=int, default=0)
    configuration = _configuration(parser.parse_args(argv).config_file)
    emulation = read_emulation()
    node = this_node(emulation)
    kit = hardware(node.instance_type)
    if kit is None:
        print(f"neuron-monitor: no Neuron device found on {node.name} ({NOTICE})", file=sys.stderr)
        return 1
    steps: dict[int, int] | None = None
    while True:
        running = trainings(cluster_folder(), node.name)
        now = {each.pid: each.step for each in running}
        # What ran before the first report is not known to it.
        done = {pid: max(0, step - steps.get(pid, 0)) for pid, step in now.items()} if steps is not None else {}
        steps = now
        print(json.dumps(report(configuration, kit, node, running, done), separators=(",", ":")), flush=True)
        time.sleep(configuration.period)


if __name__ == "__main__":
    start(main)
