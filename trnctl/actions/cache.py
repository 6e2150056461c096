"""Look after the compile caches: what they hold, what is wrong with them, and what may go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from trnctl.actions.head_node import head_of
from trnctl.actions.runs import OpenCluster
from trnctl.errors import NotFoundError, RefusedError
from trnctl.findings import Finding
from trnctl.ports import CacheEntry, CachePicture, CompileCache, Pruned, Unlocked


def door(opened: OpenCluster) -> CompileCache:
    """The cluster's caches. NotFoundError and RefusedError when there is no head node that runs."""
    return opened.services.head.cache(head_of(opened.cluster, opened.services))


def look(opened: OpenCluster) -> CachePicture:
    """What the caches hold, the entry that was used last first."""
    return door(opened).look(opened.runs_folder)


def verify(picture: CachePicture) -> list[Finding]:
    """What is wrong with the caches: locks that nobody holds, fingerprints whose graphs are not whole."""
    found = []
    for lock in picture.locks:
        if lock.holder:
            words = f"{lock.graph} is locked, perhaps by {lock.holder}"
            found.append(Finding("cache-locked", "info", words, "wait for it", evidence=lock.path))
            continue
        words = f"{lock.graph} has been locked for {_age(lock.age_s)} by a compiler that no longer runs"
        found.append(
            Finding("cache-lock-stale", "error", f"{words}: who needs this graph waits without end",
                    "trnctl cache unlock removes it, and so does trnctl submit", evidence=lock.path)
        )  # fmt: skip
    for entry in picture.entries:
        if entry.state == "damaged":
            words = f"{entry.fingerprint} ({entry.workload}): {'; '.join(entry.problems[:3])}"
            remedy = f"submit it again, which compiles what is missing; or trnctl cache prune {entry.fingerprint}"
            found.append(Finding("cache-damaged", "error", words, remedy, evidence=entry.cache))
        elif entry.state == "partial":
            words = f"{entry.fingerprint} ({entry.workload}): some graphs did not compile in {entry.run}"
            remedy = f"trnctl results {entry.run} names them; the next submit compiles them again"
            found.append(Finding("cache-partial", "warning", words, remedy, evidence=entry.cache))
    return found


def unlock(opened: OpenCluster) -> Unlocked:
    """Remove the locks that no living job can hold. RefusedError when living jobs may hold all that there are."""
    done = door(opened).unlock(opened.runs_folder)
    if done.held and not done.freed:
        holders = ", ".join(sorted({lock.holder for lock in done.held}))
        raise RefusedError(
            f"{len(done.held)} graphs are locked, perhaps by {holders}, and none otherwise",
            remedy="wait until these jobs end, or cancel them, and run it again",
        )
    return done


@dataclass(frozen=True)
class PrunePlan:
    """What `prune` will remove: fingerprints, and modules of none (`strays`). `used` stay, since living jobs use
    them. `bytes` is what goes at most: graphs that two fingerprints share stay with the other."""

    going: tuple[CacheEntry, ...]
    used: tuple[CacheEntry, ...]
    strays: int
    bytes: int

    @property
    def empty(self) -> bool:
        """Whether nothing would go."""
        return not self.going and not self.strays


def plan_prune(picture: CachePicture, fingerprints: Sequence[str], *, days: float, strays: bool) -> PrunePlan:
    """The fingerprints that are named (their first digits are enough), else those that were not used for so many days.

    NotFoundError for one that no cache has.
    """
    wanted = [_named(picture, text) for text in fingerprints]
    if not wanted:
        wanted = [entry for entry in picture.entries if picture.at - entry.last_used >= timedelta(days=days)]
    going = tuple(entry for entry in wanted if not entry.used_by)
    used = tuple(entry for entry in wanted if entry.used_by)
    number, size = (picture.strays, picture.stray_bytes) if strays else (0, 0)
    return PrunePlan(going, used, number, sum(entry.bytes for entry in going) + size)


def prune(opened: OpenCluster, plan: PrunePlan) -> Pruned:
    """Carry it out. What a living job has come to use meanwhile stays."""
    names = [entry.fingerprint for entry in plan.going]
    return door(opened).prune(opened.runs_folder, names, strays=plan.strays > 0)


def _named(picture: CachePicture, text: str) -> CacheEntry:
    found = [entry for entry in picture.entries if entry.fingerprint.startswith(text)]
    if len(found) != 1:
        known = ", ".join(sorted({entry.fingerprint for entry in found or picture.entries})) or "none yet"
        raise NotFoundError(
            f"{text} is the beginning of {len(found)} fingerprints"
            if found
            else f"no cache has the fingerprint {text}",
            remedy=f"trnctl cache ls shows them: {known}",
        )
    return found[0]


def _age(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds >= 120 else f"{seconds} s"
