"""Check the nodes of a job before they work: each for itself, then in pairs; judge, and on demand drain what fails.

    health.py FOLDER            in a job, on its first node: check, and write FOLDER/health.json
    health.py FOLDER drain      and drain the nodes that fail, with the reason

FOLDER/expect.json says what the nodes should have. Exit code 0 when no node fails, 6 when some do (with `drain`: they
are drained, and the job may wait for others), 7 when no node can be blamed or drained, so that waiting would not help.
One step looks at all nodes at once; every step has an end. Standard library only, Python 3.6.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import judge_health as judging
from node_health import Done, bandwidth, run

STEP_SLACK_S = 90  # for Slurm to start a step everywhere, and for the tools that only look
PORT = 45654  # of the collectives' rendezvous; another for each pair, since the pairs of a round run side by side
KILL_S = 5


def node_names():
    """The job's nodes, in Slurm's order."""
    told = run(["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]], 30)
    return told.out.split()


def look_at_each(folder, nodes, patience_s):
    """Start the look at all nodes in one step; their reports by node. Who gives none in time has none."""
    count = str(len(nodes))
    here = Path(__file__).resolve().parent
    step = ["srun", "--nodes=" + count, "--ntasks=" + count, "--ntasks-per-node=1", "--overlap", "--wait=0"]
    step += ["--kill-on-bad-exit=0", "--output=" + str(folder / "reports").replace("%", "%%") + "/node-%n.log"]
    run([*step, "python3", str(here / "node_health.py"), str(folder), str(time.time())], patience_s + STEP_SLACK_S)
    reports = {}
    for node in nodes:
        try:
            reports[node] = json.loads((folder / "reports" / (node + ".json")).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
    return reports


def look_between(folder, nodes, expect):
    """An all-reduce of 1 GB in each pair; a round's pairs at once."""
    links = []
    for pairs in judging.rounds(nodes):
        started = [start_pair(folder, pair, PORT + number, expect) for number, pair in enumerate(pairs)]
        links += [end_pair(step, pair, report, expect) for step, pair, report in started]
    return links


def start_pair(folder, pair, port, expect):
    """Start nccom-test on the first of two nodes, which starts the workers of both."""
    report = folder / "reports" / "{}+{}.allr.json".format(*pair)
    first = address_of(pair[0])
    ends = ["timeout", "-k", str(KILL_S), str(expect["patience_s"])]
    network = [f"NEURON_RT_ROOT_COMM_ID={first}:{port}", "FI_PROVIDER=efa", "FI_EFA_USE_DEVICE_RDMA=1"]
    words = ["-r", str(2 * expect["ranks"]), "-N", "2", "-b", "1gb", "-e", "1gb", "-d", "fp32", "-n", "5", "-w", "2"]
    words += ["--non-interactive", "--report-to-json-file", str(report), "allr", "--hosts", *pair]
    step = ["srun", "--nodes=1", "--ntasks=1", "--nodelist=" + pair[0], "--overlap", "--quiet"]
    log = (folder / "reports" / "{}+{}.log".format(*pair)).open("wb")
    environment = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/opt/aws/neuron/bin:/opt/amazon/openmpi/bin")
    with log:
        argv = [*step, "env", *network, *ends, "nccom-test", *words]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
        return subprocess.Popen(argv, env=environment, start_new_session=True, **pipes), pair, report


def end_pair(step, pair, report, expect):
    """What became of a pair's all-reduce. The node ends it in time; should Slurm not, this does."""
    try:
        code = step.wait(expect["patience_s"] + KILL_S + STEP_SLACK_S)
    except subprocess.TimeoutExpired:
        step.kill()
        code = step.wait()
    link = {"nodes": list(pair), "busbw": None, "error": "hung", "seconds": expect["patience_s"]}
    if code not in (124, 137, -9):
        said = report.with_name(report.name.replace(".allr.json", ".log")).read_text(errors="replace")
        link.update(bandwidth(report, Done(code, said)))
    return link


def address_of(node):
    """A node's address as Slurm knows it: the Neuron runtime resolves no name of more than 63 characters."""
    told = run(["scontrol", "-o", "show", "node", node], 30)
    words = [word[len("NodeAddr=") :] for word in told.out.split() if word.startswith("NodeAddr=")]
    return words[0] if words else node


def drain(failed, findings):
    """Drain nodes, each with its own reason; what Slurm said of those that could not be."""
    refused = {}
    for node in failed:
        first = next(one for one in findings if one["node"] == node and one["level"] == "error")
        reason = "trnctl health: {code}: {message}".format(**first)
        words = ["scontrol", "update", "NodeName=" + node, "State=DRAIN", "Reason=" + reason]
        told = run(words, 30)
        if told.code:  # only root and Slurm's own user may; ParallelCluster's first user may become root
            told = run(["sudo", "-n", "env", "PATH=" + os.environ.get("PATH", "") + ":/opt/slurm/bin", *words], 30)
        if told.code:
            refused[node] = told.words
    return refused


def check(folder):
    """Check, write health.json, return what it holds."""
    began = time.time()
    expect = json.loads((folder / "expect.json").read_text(encoding="utf-8"))
    (folder / "reports").mkdir(parents=True, exist_ok=True)
    for old in (folder / "reports").glob("*.json"):  # of the last start of this job, on other nodes perhaps
        old.unlink()
    nodes = node_names()
    reports = look_at_each(folder, nodes, expect["patience_s"] if expect["collectives"] else 0)
    _, failed, _ = judging.judge(nodes, reports, [], expect)
    well = [node for node in nodes if node not in failed]
    links = look_between(folder, well, expect) if expect["collectives"] and expect["links"] else []
    findings, failed, systemic = judging.judge(nodes, reports, links, expect)
    told = {"nodes": nodes, "reports": reports, "links": links, "findings": findings, "failed": failed}
    told.update(systemic=systemic, expect=expect, job=os.environ.get("SLURM_JOB_ID", ""))
    told.update(at=began, seconds=round(time.time() - began, 1))
    part = folder / ".health.json.part"
    part.write_text(json.dumps(told, indent=1, sort_keys=True), encoding="utf-8")
    part.replace(folder / "health.json")
    return told


def main(folder, wants_drain):
    """Check, say what was found, drain if asked; the exit code."""
    told = check(folder)
    for one in told["findings"]:
        who = "node {node} fails".format(**one) if one["node"] and one["level"] == "error" else one["node"] or "check"
        print("trnctl: {} the check: {code}: {message}".format(who, **one) if "fails" in who else
              "trnctl: {}: {code}: {message}".format(who, **one))  # fmt: skip
    print("trnctl: {} of {} nodes are well, after {seconds:.0f} s".format(
        len(told["nodes"]) - len(told["failed"]), len(told["nodes"]), **told))  # fmt: skip
    if not told["failed"]:
        return 0
    if told["systemic"]:
        print("trnctl: most nodes fail, which points at the image, the software or the network: none is drained")
        return 7
    if not wants_drain:
        return 6
    refused = drain(told["failed"], told["findings"])
    for node, words in refused.items():
        print(f"trnctl: {node} could not be drained: {words}")
    return 7 if refused else 6


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "drain" in sys.argv[2:]))
