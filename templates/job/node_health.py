"""Look at one node: devices, EFA, an all-reduce among its own workers, disks, clock, versions. Judges nothing.

    node_health.py FOLDER LAUNCHED     srun starts it once on each node; LAUNCHED is when, by the first node's clock

Reads FOLDER/expect.json and writes FOLDER/reports/NODE.json. Nothing here may hang: every tool is killed, with all that
it started, when its time is up, and that is told. Standard library only, Python 3.6.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PATHS = ("/opt/aws/neuron/bin", "/opt/amazon/efa/bin", "/opt/amazon/openmpi/bin", "/usr/sbin", "/sbin")
QUICK_S = 30  # for tools that only look
PACKAGES = {
    "aws-neuronx-dkms": "driver package",
    "aws-neuronx-runtime-lib": "runtime",
    "aws-neuronx-collectives": "collectives",
    "aws-neuronx-tools": "tools",
}
COUNTERS = ("mem_ecc_uncorrected", "sram_ecc_uncorrected")
DEVICES = Path("/sys/devices/virtual/neuron_device")
EFA_VERSION = Path("/opt/amazon/efa_installed_packages")


class Done:
    """How a tool ended: `code` (127 not there, 124 killed when its time was up), what it printed."""

    def __init__(self, code, out="", err=""):
        self.code, self.out, self.err = code, out, err

    @property
    def words(self):
        """The last thing that it said."""
        lines = [line.strip() for line in (self.err + "\n" + self.out).splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it said nothing"


def run(argv, seconds, environment=None):
    """Run a tool to its end, or to the end of its time."""
    both = dict(os.environ, **(environment or {}))
    both["PATH"] = os.pathsep.join([both.get("PATH", "/usr/bin:/bin"), *PATHS])
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        tool = subprocess.Popen(
            ["env", *argv], env=both, start_new_session=True, encoding="utf-8", errors="replace", **pipes
        )
    except OSError as error:
        return Done(127, "", str(error))
    try:
        out, err = tool.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(tool.pid, signal.SIGKILL)
        try:
            out, err = tool.communicate(timeout=5)
        except subprocess.TimeoutExpired:  # it hangs in a driver, where nothing ends it, or left a daemon behind
            out = err = ""
            tool.stdout.close()
            tool.stderr.close()
            tool.poll()
        return Done(124, out, err)
    return Done(tool.returncode, out, err)


# ------------------------------------------------------------------------------------------------ devices


def devices():
    """Neuron's devices as neuron-ls tells them, in either of its shapes: up to 2.33 a list, from 2.34 an object."""
    told = run(["neuron-ls", "-j"], QUICK_S)
    found = listed(told.out)
    if found is None and told.code != 124:
        newer = run(["neuron-ls", "--output-format", "json"], QUICK_S)
        found, told = listed(newer.out), newer if listed(newer.out) is not None else told
    if found is None:
        return {"count": 0, "error": "it did not answer" if told.code == 124 else told.words}
    cores = sum(int(one.get("nc_count") or 0) for one in found)
    busy = sorted({each.get("pid") for one in found for each in one.get("neuron_processes") or []} - {None})
    return {"count": len(found), "cores": cores, "busy": busy, "error": ""}


def listed(text):
    """The devices in what neuron-ls printed; None when it printed none of the two shapes."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if isinstance(value, dict):  # announced for 2.34, its keys not published: the list of objects that are devices
        lists = [one for one in value.values() if isinstance(one, list)]
        value = next((one for one in lists if all(isinstance(each, dict) and "bdf" in each for each in one)), None)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return None
    return value


def hardware_errors(folder):
    """Uncorrectable memory errors that the driver has counted, by counter; {} where it counts none."""
    found = {}
    for name in COUNTERS:
        for path in folder.glob(f"neuron*/stats/hardware/{name}"):
            try:
                found[name] = found.get(name, 0) + int(path.read_text().split()[0])
            except (OSError, ValueError, IndexError):
                continue
    return {name: count for name, count in found.items() if count}


def adapters():
    """The EFA devices that libfabric sees."""
    told = run(["fi_info", "-p", "efa", "-t", "FI_EP_RDM"], QUICK_S)
    domains = set(re.findall(r"^\s*domain: (\S+)", told.out, re.MULTILINE))
    error = "" if told.code == 0 else "it did not answer" if told.code == 124 else told.words
    return {"count": len(domains), "error": error}


def collective(ranks, seconds, report):
    """An all-reduce of 1 GB among the node's own workers, and its bus bandwidth in GB/s."""
    words = ["-r", str(ranks), "-b", "1gb", "-e", "1gb", "-d", "fp32", "-n", "5", "-w", "2", "--non-interactive"]
    began = time.time()
    told = run(["nccom-test", *words, "--report-to-json-file", str(report), "allr"], seconds)
    if told.code == 124:
        return {"busbw": None, "error": "hung", "seconds": seconds}
    return dict(bandwidth(report, told), seconds=round(time.time() - began, 1))


def bandwidth(report, told):
    """The bandwidth that nccom-test wrote into its report, or what it said instead."""
    try:
        results = json.loads(report.read_text(encoding="utf-8"))["results"]
        values = [value for one in results for name, value in one.items() if name.startswith("busbw")]
        return {"busbw": round(sum(map(float, values)) / len(values), 2), "error": ""}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        return {"busbw": None, "error": told.words}


# ------------------------------------------------------------------------------------------- the machine itself


def disks(paths):
    """Free and all bytes of each file system, as a plain user may fill it; one that is not there has an error."""
    found = []
    for path in paths:
        try:
            told = os.statvfs(path)
            size, free = told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize
            found.append({"path": path, "bytes": size, "free": free, "error": ""})
        except OSError as error:
            found.append({"path": path, "bytes": 0, "free": 0, "error": error.strerror or str(error)})
    return found


def clock():
    """How far the clock is from its time server, in seconds, as chrony tells; None where nobody does."""
    told = run(["chronyc", "-n", "tracking"], QUICK_S)
    found = re.search(r"^System time\s*: ([\d.]+) seconds (fast|slow)", told.out, re.MULTILINE)
    return round(float(found.group(1)) * (1 if found.group(2) == "fast" else -1), 6) if found else None


def versions():
    """What runs here, by name; a name is left out where nobody tells."""
    found = {"kernel": os.uname().release}
    told = run(["dpkg-query", "-W", "-f", "${Package} ${Version}\\n", *sorted(PACKAGES)], QUICK_S)
    if told.code == 127:
        told = run(["rpm", "-q", "--qf", "%{NAME} %{VERSION}\\n", *sorted(PACKAGES)], QUICK_S)
    for line in told.out.splitlines():
        name, _, version = line.strip().partition(" ")
        if name in PACKAGES and version and "not installed" not in version:
            found[PACKAGES[name]] = version
    loaded = run(["cat", "/sys/module/neuron/version"], QUICK_S)
    driver = loaded if loaded.code == 0 else run(["modinfo", "-F", "version", "neuron"], QUICK_S)
    if driver.code == 0 and driver.out.strip():
        found["driver"] = driver.out.split()[0]
    try:
        efa = re.search(r"version: (\S+)", EFA_VERSION.read_text(encoding="utf-8", errors="replace"))
        found.update({"EFA installer": efa.group(1)} if efa else {})
    except OSError:
        pass
    return found


def report(folder, launched):
    """All that is to be known of this node. The all-reduce comes last, when nothing else can be delayed by it."""
    at = time.time()
    expect = json.loads((folder / "expect.json").read_text(encoding="utf-8"))
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    told = {"node": name, "delay_s": round(at - launched, 3), "devices": devices(), "efa": adapters()}
    told.update(disks=disks(expect["disks"]), clock_s=clock(), versions=versions())
    told["errors"] = hardware_errors(DEVICES)
    whole = told["devices"]["count"] == expect["devices"]
    if expect["collectives"] and whole:
        place = folder / "reports" / (name + ".allr.json")
        told["collective"] = collective(expect["ranks"], expect["patience_s"], place)
    return told


def main(folder, launched):
    """Write the report in one step, so that nobody reads half of it."""
    (folder / "reports").mkdir(parents=True, exist_ok=True)
    told = report(folder, launched)
    part = folder / "reports" / ".{node}.part".format(**told)
    part.write_text(json.dumps(told, indent=1), encoding="utf-8")
    part.replace(folder / "reports" / (told["node"] + ".json"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
