"""Say whether all graphs of a compile stage were compiled, and name those that were not.

    gate.py STARTED CACHE CODE     when the stage began, in seconds since 1970; the folder or URL of the compile cache;
                                   how neuron_parallel_compile ended

Runs on the stage's first node, from the run's folder. neuron_parallel_compile of old releases ends with 0 although
graphs failed, and newer ones when a worker of theirs broke off, so two witnesses are heard: the summary in each node's
log, and the cache, where a graph that the logs name must be whole. What was found is written into the cache's ledger,
for runs to come. Exit code 0 when all is well, 1 when not, 3 when a compiler was killed for want of memory. Needs only
Python 3.6.
"""

import json
import re
import sys
import time
from pathlib import Path

import cache as caches

START = re.compile(r"^trnctl: stage compile starts ", re.MULTILINE)
SUMMARY = re.compile(r"Total (graphs|successful compilations|failed compilations):\s*(\d+)")
NOTHING_TO_DO = re.compile(r"no todo hlos", re.IGNORECASE)
PLACE = re.compile(r"(neuronxcc-[^/\s\"']+)/(MODULE_\w+\+\w+)")
VERSION = re.compile(r"neuronxcc-[^/\s\"']+")
# What the wrapper says of a compiler that SIGKILL ended, and what the kernel says that sent it.
KILLED = re.compile(r"neuronx-cc failed with -9|returned? (?:code )?-9\b|Out of memory: Kill|oom-kill|oom_kill")
KILLED_CODE = "137"
PATIENCE_S = 1800  # for graphs that another run compiles: releases pass over them and end with 0
LOOK_S = 1.0


def this_attempt(log):
    """What a log says since the stage last began."""
    text = log.read_text(encoding="utf-8", errors="replace")
    starts = [match.start() for match in START.finditer(text)]
    return text[starts[-1] :] if starts else text


def counted(text):
    """The sums of a log's summaries: graphs, successful, failed; None where it has none."""
    found = SUMMARY.findall(text)
    words = ("graphs", "successful compilations", "failed compilations")
    return tuple(sum(int(count) for word, count in found if word == wanted) for wanted in words) if found else None


def graphs_of(cache, texts):
    """The modules that the logs name. One that a log names without its compiler is looked for under every compiler
    that the logs name; where each node has a cache of its own, in each."""
    named = {place for text in texts for place in PLACE.findall(text)}
    versions = {version for text in texts for version in VERSION.findall(text)}
    alone = {graph for text in texts for graph in caches.GRAPH.findall(text)} - {graph for _, graph in named}
    places = [cache, *caches.folders(cache / "hosts", "")]
    versions = versions or {path.name for place in places for path in caches.folders(place, "neuronxcc-")}
    paths = {place / version / graph for place in places for version, graph in named}
    there = {path for path in paths if path.is_dir()}
    there |= {cache / version / graph for version, graph in named if not any(p.name == graph for p in there)}
    there |= {p / v / g for p in places for v in versions for g in alone if (p / v / g).is_dir()}
    return [caches.Module(path) for path in sorted(there)]


def failed_since(cache, versions, since, known):
    """Modules that no log names, and that failed since the stage began."""
    found = []
    for module in caches.walk(cache):
        if module.path not in known and module.state == "failed" and (not versions or module.version in versions):
            written = (module.path / "model.log").stat().st_mtime
            found += [module] if written >= since - caches.CLOCK_SLACK else []
    return found


def settled(cache_url, texts, code):
    """(the cache, the modules that the logs name), once nobody compiles any of them any more, or patience ends."""
    deadline = time.time() + (PATIENCE_S if code == "0" else 0)
    while True:
        cache = caches.at(cache_url)
        modules = graphs_of(cache, texts)
        if time.time() >= deadline or not any(module.state == "locked" for module in modules):
            return cache, modules
        time.sleep(LOOK_S)


def complaints(logs, counts, texts, modules):
    """What is wrong beside graphs that the cache shows: in words, each with the log that tells."""
    found = []
    for log, count in zip(logs, counts):  # noqa: B905  strict= needs Python 3.10
        if count and count[2]:
            found.append(f"failed compilations: {count[2]} (log {log})")
        elif count and count[0] != count[1] + count[2]:
            found.append(f"of {count[0]} graphs only {count[1]} are said to have compiled (log {log})")
    told = any(count is not None for count in counts) or any(NOTHING_TO_DO.search(text) for text in texts)
    if not told and not modules:
        found.append("neuron_parallel_compile said neither that it compiled nor that there was nothing to do")
    return found


def was_killed(folder, texts):
    """Whether a compiler, or the tool itself, was killed as the kernel does when memory runs out."""
    first = folder / "logs" / "compile" / "first-to-fail"
    by_code = first.is_file() and first.read_text(encoding="utf-8").split()[1:2] == [KILLED_CODE]
    return by_code or any(KILLED.search(text) for text in texts)


def write_ledger(folder, cache, modules, bad, since):
    """Tell runs to come which graphs this fingerprint has, and whether all were compiled."""
    manifest = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    if not manifest.get("fingerprint") or not modules:
        return
    caches.write_ledger(cache, manifest["fingerprint"], {
        "fingerprint": manifest["fingerprint"],
        "facts": manifest.get("fingerprint_of", {}),
        "state": "partial" if bad else "complete",
        "graphs": sorted(str(module.path.relative_to(cache)) for module in modules),
        "failed": sorted(module.name for module in bad),
        "bytes": sum(module.bytes for module in modules),
        "workload": manifest.get("workload"),
        "nodes": manifest.get("nodes"),
        "run": manifest.get("run"),
        "compiled_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "compile_s": round(time.time() - since, 1),
    })  # fmt: skip


def unseen_because(cache_url):
    """Why a cache cannot be looked at; '' when it can."""
    try:
        cache = caches.at(cache_url)
        if not isinstance(cache, Path):
            cache.scan()
    except FileNotFoundError:
        return ""  # nothing lies there yet
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def main(folder, since, cache_url, code):
    """Print a line for each graph that is not whole, write down what was found, return the exit code."""
    logs = sorted((folder / "logs" / "compile").glob("node-*.log"))
    texts = [this_attempt(log) for log in logs]
    counts = [counted(text) for text in texts]
    modules, bad, unseen = [], [], unseen_because(cache_url)
    if unseen:
        print(f"trnctl: only the summaries are looked at: {unseen}")
    else:
        cache, modules = settled(cache_url, texts, code)
        versions = {version for text in texts for version in VERSION.findall(text)}
        bad = [module for module in modules if module.state != "done"]
        bad += failed_since(cache, versions, since, {module.path for module in modules})
    for module in bad:
        log = module.path / "model.log"
        where = f" (log {log})" if module.state == "failed" else f": it {caches.WORDS[module.state]} ({module.path})"
        print(f"trnctl: graph failed: {module.name}{where}")
    wrong = [] if bad else complaints(logs, counts, texts, modules)
    for complaint in wrong:
        print(f"trnctl: {complaint}")
    record = [{"graph": module.name, "log": str(module.path / "model.log"), "state": module.state} for module in bad]
    (folder / "logs" / "compile" / "failed-graphs.json").write_text(json.dumps(record), encoding="utf-8")
    well = not bad and not wrong and code == "0"
    if not unseen and (well or bad):
        try:
            write_ledger(folder, cache, modules + [one for one in bad if one not in modules], bad, since)
        except OSError as error:  # another user's cache, or a bucket that may only be read
            print(f"trnctl: what was compiled could not be noted in the cache, and is not found cached: {error}")
    if not well and was_killed(folder, texts):
        print("trnctl: a compiler was killed, as the kernel does when the node's memory runs out")
        return 3
    return 0 if not bad and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent, float(sys.argv[1]), sys.argv[2], sys.argv[3]))
