"""What `trnctl cache` does on the head node: look at the compile caches, free stale locks, remove what nobody uses.

Travels with the head node's script. Each function takes the request, the folders of runs, beside which the caches lie,
and squeue's lines of the living jobs, and returns what is answered.
"""

import re
import shutil
import time
from pathlib import Path

import cache

MOST_RUNS = 200  # whose run.json is read to find caches in S3
GRAPH = re.compile(r"((hosts|users)/[^/]+/)?neuronxcc-[^/]+/MODULE_[^/]+")


def caches(places):
    """[(CHIP, SDK, folder)] of every cache beside these folders of runs, and of those in S3 that newest runs name."""
    roots = [place.parent / "cache" for place in places]
    chips = [chip for root in roots for chip in cache.folders(root, "")]
    shared = [(chip.name, sdk.name, sdk) for chip in chips for sdk in cache.folders(chip, "")]
    found = [(chip, sdk, folder) for chip, sdk, top in shared for folder in [top, *cache.folders(top / "users", "")]]
    return found + [(*kind, cache.at(url)) for url, kind in sorted(in_s3(places).items())]


def in_s3(places):
    """{URL: (CHIP, SDK)} of the caches in S3 that runs name in their run.json."""
    runs = [(entry.stat().st_mtime, place / entry.name) for place in places for entry in cache.scan(place)]
    found = {}
    for _, folder in sorted(runs, reverse=True)[:MOST_RUNS]:
        manifest = cache.manifest_of([folder.parent], folder.name) or {}
        url = str(manifest.get("cache", ""))
        if url.startswith("s3://"):
            chip = str((manifest.get("fingerprint_of") or {}).get("chip", ""))
            found.setdefault(url.rstrip("/"), (chip, str(manifest.get("sdk", ""))))
    return found


def look(request, places, lines):
    """Every fingerprint of every cache; with `verify` each module's state and each lock as well."""
    answer = {"at": time.time(), "entries": [], "locks": [], "modules": {}, "strays": 0, "stray_bytes": 0}
    for chip, sdk, folder in caches(places):
        jobs = cache.users(lines, places, str(folder))
        known = cache.ledgers(folder)
        modules = {place_of(module, folder): module for module in cache.walk(folder)}
        listed = {graph for ledger in known.values() for graph in ledger["graphs"]}
        for fingerprint, ledger in sorted(known.items()):
            answer["entries"].append(entry(fingerprint, ledger, (chip, sdk, folder), modules, jobs))
        strays = [module for place, module in modules.items() if place not in listed]
        answer["strays"] += len(strays)
        answer["stray_bytes"] += sum(module.bytes for module in strays)
        for module in modules.values():
            answer["modules"][module.state] = answer["modules"].get(module.state, 0) + 1
            if module.locks:
                answer["locks"].append(lock_words(module, jobs))
    return answer


def place_of(module, folder):
    """A module's folder as a ledger writes it."""
    return str(module.path.relative_to(folder))


def entry(fingerprint, ledger, place, modules, jobs):
    """One fingerprint of the cache at `place` (chip, SDK, folder): what its ledger says, what its graphs are now."""
    chip, sdk, folder = place
    there = [(graph, modules.get(graph) or cache.Module(folder / graph)) for graph in ledger["graphs"]]
    problems = [f"{module.name} {cache.WORDS[module.state]}" for _, module in there if module.state != "done"]
    state = ledger.get("state", "partial")
    if problems and state == "complete":
        state = "locked" if all(module.state in ("locked", "done") for _, module in there) else "damaged"
    living = [job for job in jobs if job["fingerprint"] == fingerprint]
    return {
        "fingerprint": fingerprint,
        "cache": str(folder),
        "chip": chip,
        "sdk": sdk,
        "state": state,
        "graphs": len(there),
        "bytes": sum(module.bytes for _, module in there),
        "workload": ledger.get("workload", ""),
        "nodes": ledger.get("nodes", 0),
        "run": ledger.get("run", ""),
        "compiled_at": ledger.get("compiled_at", ""),
        "compile_s": ledger.get("compile_s"),
        "last_used": ledger["last_used"],
        "problems": problems,
        "used_by": sorted({cache.named(job) for job in living}),
    }


def lock_words(module, jobs):
    """A lock: whose it may be, '' when no living job can hold it."""
    job = cache.holder(module, jobs)
    return {
        "graph": module.name,
        "path": str(module.locks[0]),
        "age_s": max(0, round(time.time() - module.locked_at)),
        "holder": cache.named(job) if job else "",
    }


def unlock(request, places, lines):
    """Remove the locks that nobody can hold; with the others, whose they may be."""
    answer = {"freed": [], "held": []}
    for _, _, folder in caches(places):
        locked = [module for module in cache.walk(folder) if module.locks]
        jobs = cache.users(lines, places, str(folder))
        words = {module.path: lock_words(module, jobs) for module in locked}
        freed, held = cache.free(locked, jobs)
        answer["freed"] += [words[module.path] for module in freed]
        answer["held"] += [words[module.path] for module, _ in held]
    return answer


def prune(request, places, lines):
    """Remove fingerprints, and with `strays` the modules that belong to none, but nothing that a living job may use.

    A ledger goes before its graphs, so that one that stays never claims graphs that are gone.
    """
    wanted = set(request["fingerprints"])
    answer = {"removed": [], "kept": [], "strays": 0, "bytes": 0}
    for _, _, folder in caches(places):
        jobs = cache.users(lines, places, str(folder))
        known = cache.ledgers(folder)
        going = {name for name in known if name in wanted}
        for name in sorted(going):
            users = [cache.named(job) for job in jobs if job["fingerprint"] == name]
            if users:
                going.discard(name)
                answer["kept"].append({"fingerprint": name, "used_by": users})
        for name in sorted(going):
            try:
                (folder / cache.LEDGER / (name + ".json")).unlink()
                answer["removed"].append(name)
            except OSError:
                going.discard(name)
                answer["kept"].append({"fingerprint": name, "used_by": ["another user, whose it is"]})
        answer["bytes"] += remove({g for n in going for g in known[n]["graphs"]}, folder, known, going)
        if request.get("strays") and not jobs:
            listed = {graph for ledger in known.values() for graph in ledger["graphs"]}
            strays = {place_of(module, folder) for module in cache.walk(folder)} - listed
            answer["strays"] += len(strays)
            answer["bytes"] += remove(strays, folder, known, going)
    return answer


def remove(graphs, folder, known, going):
    """Delete modules that no fingerprint which stays has; the bytes of their compiled graphs."""
    kept = {graph for name, ledger in known.items() if name not in going for graph in ledger["graphs"]}
    freed = 0
    for graph in sorted(graphs - kept):
        path = folder / graph
        if not GRAPH.fullmatch(graph) or ".." in graph.split("/"):
            continue  # a ledger that was written by hand must not lead out of the cache
        module = cache.Module(path)
        freed += module.bytes
        if isinstance(path, Path):
            shutil.rmtree(str(path), ignore_errors=True)
        elif path.is_dir():
            path.remove()
    return freed
