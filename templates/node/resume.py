"""Resume a run that ended too soon. Travels with the head node's script."""

import json
import time
from contextlib import suppress

import cache
import preparing
from folder import Refused, lock, now, read_json, run_folder, write_json
from needs import missing
from slurm import call, jobs_of, require_slurm
from submit import STAGES, free_locks, go_on, newest_checkpoint, record, submit_stages, with_preparing


def resume(request):
    """Submit the stages again that a run has not done, in its own folder: it goes on from its newest whole checkpoint.

    Nodes of its that are down or drained are left out, as long as the partition has enough others.
    """
    folder = run_folder(request)
    if not folder.is_dir():
        raise Refused("no-run", "There is no run {run} in {runs_folder}.".format(**request))
    with lock(folder):
        require_slurm()
        manifest, before = read_json(folder / "run.json") or {}, read_json(folder / "submitted.json")
        waiting = prepare_again(folder, before)
        if waiting is not None:
            return waiting
        may_resume(folder, before)
        lacking = [need["what"] for need, _ in missing(preparing.needs_of(folder)) if need.get("fetch")]
        cached = looked_at(manifest.get("cache"))
        freed = free_locks(manifest["cache"], [folder.parent])[0] if cached else []
        excluded, short = nodes_to_avoid(folder, manifest)
        checkpoint = newest_checkpoint(folder) or manifest.get("from_checkpoint", "")
        stages = stages_to_do(folder, manifest)
        options = before.get("sbatch_args", [])
        again = {"run": folder.name, "stages": stages, "sbatch_args": options + without(manifest, excluded)}
        try:
            jobs = submit_stages(folder, again)
        except Refused:
            write_json(folder / "submitted.json", before)  # what it was before stays known
            raise
        if lacking:
            write_json(folder / "run.json", with_preparing(manifest))
        for stage in ["prepare", *stages] if lacking else stages:
            with suppress(OSError):
                (folder / "ended" / (stage + ".json")).unlink()
        if not lacking and preparing.failed(folder):
            # A person has brought what the preparer could not: else a submit would take the run for one that failed.
            write_json(folder / "ended" / "prepare.json", {"stage": "prepare", "exit_code": 0, "at": now()})
        for name in (".notify-1", ".notify-2", "notified.json"):
            with suppress(OSError):
                (folder / name).unlink()  # its new end is told, too
        found = {name: before.get(name) for name in ("compile", "why", "digest")}
        found.update(stages=stages, resumed=before.get("resumed", 0) + 1)
        found.update(preparing=lacking, hold=bool(request.get("hold")))
        again["sbatch_args"] = options
        answer = go_on(folder, record(folder, again, dict(before["jobs"], **jobs), found), request, again=False)
    told = [{"graph": module.name, "age_s": round(time.time() - module.locked_at)} for module in freed]
    answer = {"prepare": answer["prepare"], "jobs": jobs, "checkpoint": checkpoint, "freed": told}
    return dict(answer, run=folder.name, folder=str(folder), excluded=excluded, short=short)


def prepare_again(folder, before):
    """The answer for a run whose jobs wait for a preparer that has died: it has another one. None for other runs."""
    if before is None or not before.get("preparing") or preparing.ended(folder) or not jobs_of(folder.name):
        return None
    seen = preparing.look(folder)
    if seen is not None and seen["alive"]:
        raise Refused("lives", f"{folder.name} goes on: what it needs is being fetched.")
    answer = {"run": folder.name, "folder": str(folder), "jobs": before["jobs"], "prepare": preparing.begin(folder)}
    return dict(answer, checkpoint="", freed=[], excluded=[], short=False)


def may_resume(folder, before):
    """A run that lives, or has done all, or was never submitted, is not resumed."""
    if before is None:
        raise Refused("never", f"{folder.name} was never submitted.")
    living = jobs_of(folder.name)
    if living:
        job, stage, state = living[0]
        raise Refused("lives", f"{folder.name} goes on: its {stage} job {job} is {state}.")
    if (read_json(folder / "results.json") or {}).get("complete"):
        raise Refused("complete", f"{folder.name} has done all its steps.")
    manifest, told = read_json(folder / "run.json") or {}, read_json(folder / "results.json") or {}
    left = (manifest.get("max_node_seconds") or 0) - (told.get("node_seconds") or 0)
    if manifest.get("max_node_seconds") and left < 150 * (manifest.get("nodes") or 1):
        text = "{} has used up its cap of ${:,.2f} (--max-cost)."
        raise Refused("cap-reached", text.format(folder.name, manifest["max_cost_usd"]))


def without(manifest, nodes):
    """The option of sbatch that leaves nodes out, those that the run's own script leaves out among them."""
    names = [name for name in (manifest.get("exclude"), *nodes) if name]
    return ["--exclude=" + ",".join(names)] if nodes else []


def looked_at(cache_url):
    """Whether a run has a cache that can be looked at."""
    return bool(cache_url) and cache.reachable(cache_url)


def stages_to_do(folder, manifest):
    """The stages of a run that did not end well; the compile stage also when its graphs are no longer whole."""
    stages = []
    for stage in [one for one in STAGES if (folder / (one + ".sbatch")).is_file()]:
        if stage not in manifest.get("stages", STAGES):
            continue
        ended = read_json(folder / "ended" / (stage + ".json")) or {}
        well = ended.get("exit_code") == 0
        if stage == "compile" and well and looked_at(manifest.get("cache")) and manifest.get("cache_shared", True):
            well = cache.best_verdict(manifest["cache"], manifest.get("fingerprint", ""))[0]
        if not well or stage == "train":
            stages.append(stage)
    return stages


def nodes_to_avoid(folder, manifest):
    """(nodes that the run last had and that are down or drained now, whether they are needed all the same)."""
    ends = [read_json(folder / "ended" / (stage + ".json")) or {} for stage in ("train", "compile")]
    had = next((end["node_list"] for end in ends if end.get("node_list")), "") or last_nodes(folder)
    queue = manifest.get("queue", "")
    code, out, _ = call(["sinfo", "-h", "-N", "-n", had, "-t", "down,drain,fail", "-o", "%N"]) if had else (0, "", "")
    lost = sorted(set(out.split())) if not code else []
    if not lost:
        return [], False
    code, out, _ = call(["sinfo", "-h", "-N", "-p", queue, "-o", "%N"])
    others = set(out.split()) - set(lost)
    return ([], True) if len(others) < manifest.get("nodes", 1) else (lost, False)


def last_nodes(folder):
    """The nodes of the last attempt at training, as its own record has them; '' when it has none."""
    attempts = []
    with suppress(OSError, ValueError):
        attempts = json.loads((folder / "logs" / "train" / "attempts.json").read_text(encoding="utf-8"))
    return attempts[-1].get("node_list", "") if attempts else ""
