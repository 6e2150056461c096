"""What `trnctl cache` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from trnctl.actions.cache import PrunePlan
from trnctl.cli.output import Screen
from trnctl.cli.words import duration, plural
from trnctl.findings import Finding
from trnctl.ports import CacheEntry, CachePicture, Pruned, Unlocked


def entries(screen: Screen, picture: CachePicture) -> None:
    """`cache ls`: one line a fingerprint, the one that was used last first."""
    ordered = sorted(picture.entries, key=lambda entry: entry.last_used, reverse=True)
    if screen.json:
        screen.data({"entries": [_entry_json(entry) for entry in ordered], **_sums(picture)})
        return
    if not ordered:
        screen.say("Nothing is compiled yet: the compile stage of the next run does it.")
    else:
        screen.table(
            ["FINGERPRINT", "PLACE", "STATE", "WORKLOAD", "NODES", "CHIP", "SDK", "GRAPHS", "SIZE", "TOOK", "USED"],
            [_row(entry, picture) for entry in ordered],
            right=(4, 7, 8, 9, 10),
        )
        for place, where in sorted({(_place(entry), entry.cache) for entry in ordered}):
            screen.field(place, where, style="dim")
    if picture.strays:
        screen.say(
            f"{plural(picture.strays, 'graph')} ({size(picture.stray_bytes)}) of no fingerprint: "
            "trnctl cache prune --strays removes them",
            style="dim",
        )
    if picture.locks:
        screen.say(f"! {plural(len(picture.locks), 'lock')}: trnctl cache verify says whose", style="yellow")


def _row(entry: CacheEntry, picture: CachePicture) -> list[object]:
    used = "now" if entry.used_by else f"{duration((picture.at - entry.last_used).total_seconds())} ago"
    return [
        entry.fingerprint, _place(entry), entry.state, entry.workload, entry.nodes, entry.chip, entry.sdk, entry.graphs,
        size(entry.bytes), duration(entry.compile_s), used,
    ]  # fmt: skip


def _place(entry: CacheEntry) -> str:
    """Where it lies: on the cluster's shared storage, which goes with that, or in S3."""
    return "S3" if entry.cache.startswith("s3://") else "shared"


def verified(screen: Screen, picture: CachePicture, findings: Sequence[Finding]) -> None:
    """`cache verify`: the findings, and what was looked at."""
    screen.findings(findings, _sums(picture))
    if not screen.json:
        states = ", ".join(f"{count:,} {state}" for state, count in sorted(picture.modules.items())) or "none"
        screen.say(f"Looked at {plural(sum(picture.modules.values()), 'graph')}: {states}.", style="dim")


def unlocked(screen: Screen, done: Unlocked) -> None:
    """`cache unlock`: what was freed, and what stays."""
    if screen.json:
        screen.data({"freed": [asdict(lock) for lock in done.freed], "held": [asdict(lock) for lock in done.held]})
        return
    for lock in done.freed:
        screen.say(f"{lock.graph}: the lock of {duration(lock.age_s)} ago is removed")
    for lock in done.held:
        screen.say(f"{lock.graph}: stays locked, perhaps by {lock.holder}", style="yellow")
    screen.text(f"removed {plural(len(done.freed), 'lock')}" if done.freed else "there was no lock to remove")


def prune_plan(screen: Screen, plan: PrunePlan) -> None:
    """What would go, and what stays because it is used."""
    for entry in plan.going:
        screen.say(
            f"- {entry.fingerprint}  {entry.workload} on {plural(entry.nodes, 'node')}, "
            f"{plural(entry.graphs, 'graph')}, {size(entry.bytes)}, {entry.state}"
        )
    if plan.strays:
        screen.say(f"- {plural(plan.strays, 'graph')} of no fingerprint")
    for entry in plan.used:
        screen.say(f"  {entry.fingerprint} stays: {', '.join(entry.used_by)} uses it", style="yellow")
    if not plan.empty:
        screen.say(f"{size(plan.bytes)} in all")


def pruned(screen: Screen, done: Pruned | None) -> None:
    """What went; None when there was nothing to remove."""
    removed = list(done.removed) if done else []
    strays, freed = (done.strays, done.bytes) if done else (0, 0)
    if screen.json:
        screen.data({"removed": removed, "strays": strays, "bytes": freed, "kept": dict(done.kept) if done else {}})
        return
    for name, users in (done.kept if done else {}).items():
        screen.say(f"{name} stays: {', '.join(users)} uses it now", style="yellow")
    if not removed and not strays:
        screen.text("nothing was removed")
        return
    words = [f"{plural(len(removed), 'fingerprint')}"] + ([f"{plural(strays, 'graph')} of none"] if strays else [])
    screen.text(f"removed {' and '.join(words)}, {size(freed)}")


def size(count: int) -> str:
    """`1.2 GiB`, `463 B`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:,.0f} B" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1024
    raise AssertionError("the last unit takes everything")


def _entry_json(entry: CacheEntry) -> dict[str, object]:
    return {**asdict(entry), "last_used": entry.last_used.isoformat(timespec="seconds")}


def _sums(picture: CachePicture) -> dict[str, object]:
    return {
        "modules": dict(picture.modules),
        "locks": [asdict(lock) for lock in picture.locks],
        "strays": picture.strays,
        "stray_bytes": picture.stray_bytes,
        "at": picture.at.isoformat(timespec="seconds"),
    }
