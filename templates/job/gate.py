"""Say whether all graphs of a compile stage were compiled, and name those that were not.

    gate.py STARTED CACHE          when the stage began, in seconds since 1970; the folder or URL of the compile cache

Runs on the stage's first node, from the run's folder. neuron_parallel_compile of old releases ends with 0 although
graphs failed, so two witnesses are heard: the summary in each node's log, and the shared cache, where a failed graph
leaves a model.log and no model.neff. Exit code 0 when all is well, 1 otherwise. Needs only Python 3.6.
"""

import json
import re
import sys
from pathlib import Path

START = re.compile(r"^trnctl: stage compile starts ", re.MULTILINE)
SUMMARY = re.compile(r"Total failed compilations:\s*(\d+)")
VERSION = re.compile(r"neuronxcc-[^/\s\"']+")
GRAPH = re.compile(r"MODULE_\w+\+\w+")
CLOCK_SLACK = 5.0  # seconds by which a file server's clock may be behind


def this_attempt(log):
    """What a log says since the stage last began."""
    text = log.read_text(encoding="utf-8", errors="replace")
    starts = [match.start() for match in START.finditer(text)]
    return text[starts[-1] :] if starts else text


def touched(graph, since, named):
    """Whether this stage had to do with a graph's folder: it wrote there, or its log names it."""
    if graph.name in named:
        return True
    return any(entry.stat().st_mtime >= since for entry in graph.iterdir())


def failed_graphs(cache, texts, since):
    """The folders of graphs that failed, by name. Of compilers only the one that the logs name, when they name one."""
    versions = {version for text in texts for version in VERSION.findall(text)}
    named = {graph for text in texts for graph in GRAPH.findall(text)}
    return [
        graph
        for graph in sorted(cache.glob("neuronxcc-*/MODULE_*"))
        if (not versions or graph.parent.name in versions)
        and (graph / "model.log").is_file()
        and not (graph / "model.neff").is_file()
        and touched(graph, since, named)
    ]


def main(folder, cache_url, since):
    """Print one line for each failed graph, write them down for the stage's record, return the exit code."""
    texts = {log: this_attempt(log) for log in sorted((folder / "logs" / "compile").glob("node-*.log"))}
    counts = {log: sum(map(int, SUMMARY.findall(text))) for log, text in texts.items()}
    graphs = []
    if "://" in cache_url:
        print(f"trnctl: the cache {cache_url} is no folder; only the summaries are looked at")
    else:
        graphs = failed_graphs(Path(cache_url), texts.values(), since - CLOCK_SLACK)
    for graph in graphs:
        print(f"trnctl: graph failed: {graph.name} (log {graph / 'model.log'})")
    if not graphs:
        for log, count in counts.items():
            if count:
                print(f"trnctl: failed compilations: {count}, and the cache holds no log of them (log {log})")
    record = [{"graph": graph.name, "log": str(graph / "model.log")} for graph in graphs]
    (folder / "logs" / "compile" / "failed-graphs.json").write_text(json.dumps(record), encoding="utf-8")
    return 1 if graphs or any(counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent, sys.argv[2], float(sys.argv[1])))
