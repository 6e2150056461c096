"""Gathers what a head node has written down: the ends of its logs, what Slurm says, a run's own logs. Changes nothing.

It is sent with the call and leaves nothing installed. Standard library only, Python 3.6 and newer. It answers one line,
`trnctl ` and then JSON: {"ok": {"run", "since", "texts": [{"source", "name", "node", "text"}]}}, or when there is no
such run {"error": {"kind", "message"}}. What cannot be read is left out.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# (where ParallelCluster writes it, what it is); of each the end is read.
LOGS = [
    ("parallelcluster/clustermgtd", "clustermgtd"),
    ("parallelcluster/clustermgtd.events", "clustermgtd"),
    ("parallelcluster/slurm_resume.log", "slurm-resume"),
    ("parallelcluster/slurm_suspend.log", "clustermgtd"),
    ("parallelcluster/slurm_fleet_status_manager.log", "clustermgtd"),
    ("parallelcluster/compute_console_output.log", "compute-console"),
    ("parallelcluster/bootstrap_error_msg", "chef"),
    ("slurmctld.log", "slurmctld"),
    ("cfn-init.log", "cfn-init"),
    ("cfn-init-cmd.log", "cfn-init"),
    ("cloud-init-output.log", "cloud-init"),
    ("chef-client.log", "chef"),
]
COMMANDS = [
    ("sinfo -R", "sinfo", ["sinfo", "-R", "-o", "%E %u %H %N"]),  # whole reasons: by itself it cuts them
    ("sinfo", "sinfo", ["sinfo", "-a"]),
    ("squeue", "squeue", ["squeue", "-a", "-o", "%i %P %j %u %t %M %D %R"]),
]
MOST_RUN_LOGS = 64
MOST_NODES = 16
LARGEST = 8 << 20  # bytes of all texts together
SECONDS = 8  # for each command


def end_of(path, size):
    """The last `size` bytes of a file as text, from a line's start; '' when it cannot be read."""
    try:
        with path.open("rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(max(0, length - size))
            data = file.read(size)
    except OSError:
        return answer(["sudo", "-n", "tail", "-c", str(size), str(path)]) if path.exists() else ""
    text = data.decode("utf-8", "replace")
    return text.partition("\n")[2] if length > size else text


def start(argv):
    """A started command, None when there is no such program."""
    path = os.environ.get("PATH", "/usr/bin:/bin") + ":/opt/slurm/bin"
    program = shutil.which(argv[0], path=path)
    if program is None:
        return None
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    environment = dict(os.environ, PATH=path, TZ="UTC")
    return subprocess.Popen([program] + argv[1:], stdin=null, stdout=pipe, stderr=null, env=environment)  # noqa: RUF005  3.6 style


def finish(process):
    """What a started command printed; '' when it failed or took too long."""
    if process is None:
        return ""
    try:
        out, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return ""
    return out.decode("utf-8", "replace")


def answer(argv):
    """What a command prints."""
    return finish(start(argv))


def run_folder(request):
    """The run's folder, by its name or by what its name ends in; None when there is none or there are several."""
    places = []
    for pattern in request["runs_folder"].split(":"):
        places += sorted(Path("/").glob(pattern[1:])) if "*" in pattern else [Path(pattern)]
    exact = [place / request["run"] for place in places if (place / request["run"]).is_dir()]
    found = exact or [path for place in places for path in place.glob("*-" + request["run"])]
    return found[0] if len(found) == 1 or exact else None


def run_texts(folder, size):
    """The logs of a run: [(source, name, node, text)], of each the end, and how its stages ended."""
    logs = sorted(folder.glob("*.log")) + sorted(folder.glob("logs/*/*.log"))
    size = size if len(logs) <= MOST_RUN_LOGS else 16384
    found = []
    for path in logs:
        named = re.match(r"node-(\d+)$", path.stem)
        node = f"node{named.group(1)}" if named else ""
        found.append(("job-log", str(path.relative_to(folder)), node, end_of(path, size)))
    for path in [*sorted(folder.glob("ended/*.json")), folder / "not-submitted.json"]:
        found.append(("unknown", str(path.relative_to(folder)), "", end_of(path, 4096)))
    manifest = read_json(folder / "run.json")
    if manifest.get("nodes"):
        found.append(("config", "run.json", "", json.dumps({"nodes": manifest["nodes"]})))
    told = read_json(folder / "notified.json")
    if told and not told.get("ok"):
        found.append(("unknown", "notified.json", "", "nobody could be told that the run has ended: " + told["said"]))
    found.append(("unknown", "results.json", "", cap_words(manifest, read_json(folder / "results.json"))))
    return found


def cap_words(manifest, results):
    """That a run which is not complete has used its cap up; '' for others. Slurm says only that time was up. What is
    kept back is a minute and what Slurm needs to end a job, as results.py reckons."""
    cap, used = manifest.get("max_node_seconds"), results.get("node_seconds")
    ended = any((results.get("stages") or {}).values())
    if not (cap and used and ended) or results.get("complete") or cap - used >= 150 * (manifest.get("nodes") or 1):
        return ""
    text = "the run's cap of ${:,.2f} is used up: {:,.2f} node-hours"
    return text.format(manifest.get("max_cost_usd") or 0, used / 3600)


def read_json(path):
    """The object in a file, {} when there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def slurm_texts(jobs, about_run):
    """What Slurm says of nodes and jobs; nothing when its controller does not answer, but for that it does not."""
    ping = answer(["scontrol", "ping"])
    if not re.search(r"\bis UP\b", ping):
        return [("scontrol", "scontrol ping", "", ping or "Unable to contact slurm controller: no answer to a ping")]
    asked = [one for one in COMMANDS if one[0] != "squeue" or not about_run]
    if jobs:
        asked.append(("squeue", "squeue", [*COMMANDS[-1][2], "-t", "all", "-j", ",".join(jobs)]))
    asked += [("scontrol show job " + job, "scontrol", ["scontrol", "show", "job", job]) for job in jobs]
    started = [(name, source, start(argv)) for name, source, argv in asked]
    return [(source, name, "", finish(process)) for name, source, process in started]


def nodes_of(texts, results):
    """The names of the nodes that a run's jobs have or had."""
    lists = [found for _, _, _, text in texts for found in re.findall(r"^ *NodeList=(\S+)", text, re.M)]
    lists.append(str(results.get("node_list") or ""))
    named = next((one for one in reversed(lists) if one and one != "(null)"), "")
    return answer(["scontrol", "show", "hostnames", named]).split()[:MOST_NODES] if named else []


def kernel_texts(nodes):
    """What the kernels of the run's nodes say of Neuron hardware, where their dmesg can be read."""
    ways = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=4", "-o", "StrictHostKeyChecking=no"]
    look = "(dmesg || sudo -n dmesg) 2>/dev/null | grep NEURON_HW_ERR | tail -n 20"
    started = [(node, start(["ssh"] + ways + [node, look])) for node in nodes]  # noqa: RUF005  3.6 style
    return [("kernel", "dmesg of " + node, node, finish(process)) for node, process in started]


def gather(request):
    """Everything, the run's own words first, until it is too much. None when there is no such run."""
    prefix, folder, texts = Path(request.get("mount_prefix") or "/"), None, []
    if request["run"]:
        folder = run_folder(request)
        if folder is None:
            return None
        texts = run_texts(folder, request["bytes"])
    submitted = read_json(folder / "submitted.json") if folder else {}
    slurm = slurm_texts(sorted(submitted.get("jobs", {}).values()), folder is not None)
    texts += slurm
    texts += kernel_texts(nodes_of(slurm, read_json(folder / "results.json"))) if folder else []
    for name, source in LOGS:
        path = prefix / "var" / "log" / name
        texts.append((source, "/var/log/" + name, "", end_of(path, request["bytes"])))
    left, kept = LARGEST, []
    for source, name, node, text in texts:
        if text.strip() and len(text) <= left:
            left -= len(text)
            kept.append({"source": source, "name": name, "node": node, "text": text})
    return {"run": folder.name if folder else "", "since": submitted.get("at", ""), "texts": kept}


def main(text):
    """Answer one request."""
    request = json.loads(text)
    found = gather(request)
    if found is None:
        message = "There is no run {run} in {runs_folder}, or there are several.".format(**request)
        answered = {"error": {"kind": "no-run", "message": message}}
    else:
        answered = {"ok": found}
    sys.stdout.write("trnctl " + json.dumps(answered) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read()))
