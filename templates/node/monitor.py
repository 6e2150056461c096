"""Runs neuron-monitor on a compute node and prints one short line a report: what `trnctl top` needs of it.

It is handed to `srun` on its command line, and leaves nothing installed. Standard library only, Python 3.6 and newer.

    python3 -c THIS PERIOD REPORTS LIMIT    a report every PERIOD seconds, REPORTS of them (0: no end), and an end after
                                            LIMIT seconds whatever happens
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

TOOLS = "/opt/aws/neuron/bin"
METRICS = ["neuroncore_counters", "memory_used", "execution_stats"]
SYSTEM = ["neuron_hw_counters", "memory_info", "vcpu_usage"]
LONGEST = 1 << 22  # bytes of a report: 128 cores with all their memory take less than a tenth


def configuration(period):
    """What neuron-monitor is asked for."""
    runtimes = [{"tag_filter": ".*", "metrics": [{"type": name} for name in METRICS]}]
    return {
        "period": f"{period:g}s",
        "neuron_runtimes": runtimes,
        "system_metrics": [{"type": name} for name in SYSTEM],
    }


def group(holder, name):
    """A group of metrics; {} when it is not there, or says that it could not be read."""
    found = (holder or {}).get(name) or {}
    return {} if found.get("error") else found


def add(total, more):
    """Add the numbers of one mapping to those of another."""
    for name, value in (more or {}).items():
        if isinstance(value, (int, float)) and value:
            total[name] = total.get(name, 0) + value


def condensed(report):
    """A report of neuron-monitor without what nobody looks at: figures of all processes together, by core."""
    hardware, system = report.get("neuron_hardware_info") or {}, report.get("system_data") or {}
    devices, each = hardware.get("neuron_device_count") or 0, hardware.get("neuroncore_per_device_count") or 0
    cores, errors, outcomes, latencies = [0.0] * (devices * each), {}, {}, []
    used = host = runtimes = 0
    for process in report.get("neuron_runtime_data") or []:
        runtimes += 1
        told = process.get("report") or {}
        for index, core in (group(told, "neuroncore_counters").get("neuroncores_in_use") or {}).items():
            if index.isdigit() and int(index) < len(cores):
                cores[int(index)] += core.get("neuroncore_utilization") or 0
        stats, memory = group(told, "execution_stats"), group(told, "memory_used")
        add(errors, stats.get("error_summary"))
        add(outcomes, stats.get("execution_summary"))
        latency = ((stats.get("latency_stats") or {}).get("device_latency") or {}).get("p50")
        if latency:
            latencies.append(latency)
        used += (memory.get("neuron_runtime_used_bytes") or {}).get("neuron_device") or 0
    ecc = {}
    for device in group(system, "neuron_hw_counters").get("neuron_devices") or []:
        index = device.get("neuron_device_index")
        add(ecc, {f"{index} {name}": value for name, value in device.items() if "_ecc_" in name})
    ram, load = group(system, "memory_info"), group(system, "vcpu_usage").get("average_usage") or {}
    host = ram.get("memory_used_bytes") or 0
    return {
        "type": (report.get("instance_info") or {}).get("instance_type") or "",
        "emulated": (report.get("instance_info") or {}).get("emulated_by") or "",
        "devices": devices,
        "cores": [min(100.0, round(value, 1)) for value in cores],
        "device_bytes": [used, devices * (hardware.get("neuron_device_memory_size") or 0)],
        "host_bytes": [host, ram.get("memory_total_bytes") or 0],
        "cpu": round(100 - load["idle"], 1) if "idle" in load else None,
        "ecc": ecc,
        "errors": errors,
        "outcomes": outcomes,
        "latency_s": max(latencies) if latencies else None,
        "processes": runtimes,
        "problem": hardware.get("error") or "",
    }


def say(node, found):
    """One line; False when nobody reads any more."""
    try:
        sys.stdout.write(json.dumps(dict(found, node=node), separators=(",", ":")) + "\n")
        sys.stdout.flush()
    except OSError:
        return False
    return True


def watch(node, program, period, reports, limit):
    """Run neuron-monitor and say what it reports; its exit code, None when it was ended here."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file, tempfile.TemporaryFile() as words:
        json.dump(configuration(period), file)
        file.flush()
        null, pipe = subprocess.DEVNULL, subprocess.PIPE
        process = subprocess.Popen([program, "-c", file.name], stdin=null, stdout=pipe, stderr=words)
        ending = threading.Timer(limit, process.kill)
        ending.daemon = True
        ending.start()
        told = 0
        try:
            for line in iter(lambda: process.stdout.readline(LONGEST), b""):
                try:
                    found = condensed(json.loads(line.decode("utf-8", "replace")))
                except (ValueError, AttributeError, TypeError, KeyError):
                    continue  # a line that is no report; what it writes beside them is no concern of ours
                told += 1
                if not say(node, found) or told == reports:
                    return None
        finally:
            ending.cancel()
            process.kill()
            process.wait()
        words.seek(0)
        said = words.read().decode("utf-8", "replace").split("\n")
        last = [one.strip() for one in said if one.strip()][-1:]
        if not told:
            say(node, {"problem": last[0] if last else "neuron-monitor ended without a word"})
        return process.returncode


def main(period, reports, limit):
    """See above; 0, or 1 when there is nothing that could report."""
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    path = os.environ.get("PATH", "/usr/bin:/bin") + ":" + TOOLS
    program = shutil.which("neuron-monitor", path=path)
    if program is None:
        say(node, {"problem": "neuron-monitor is not installed on this node"})
        return 1
    watch(node, program, float(period), int(reports), float(limit))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
