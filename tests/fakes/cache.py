"""Compile caches in memory."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fakes.clock import HandWoundClock
from trnctl.ports import CacheEntry, CachePicture, Lock, Pruned, Unlocked


class InMemoryCache:
    """Compile caches in memory: tests set `entries`, `locks` and `strays` (their number, of one byte each)."""

    def __init__(self, clock: HandWoundClock) -> None:
        self.clock = clock
        self.entries: list[CacheEntry] = []
        self.locks: list[Lock] = []
        self.strays = 0

    def look(self, runs_folder: str) -> CachePicture:
        """What the test has set."""
        modules = {"done": sum(entry.graphs for entry in self.entries), "locked": len(self.locks)}
        return CachePicture(self.clock.now(), tuple(self.entries), tuple(self.locks), modules, self.strays, self.strays)

    def unlock(self, runs_folder: str) -> Unlocked:
        """Those without a holder go."""
        freed = tuple(lock for lock in self.locks if not lock.holder)
        self.locks = [lock for lock in self.locks if lock.holder]
        return Unlocked(freed, tuple(self.locks))

    def prune(self, runs_folder: str, fingerprints: Sequence[str], *, strays: bool = False) -> Pruned:
        """Those that nobody uses go."""
        wanted = [entry for entry in self.entries if entry.fingerprint in fingerprints]
        gone = [entry for entry in wanted if not entry.used_by]
        self.entries = [entry for entry in self.entries if entry not in gone]
        number, self.strays = (self.strays, 0) if strays else (0, self.strays)
        kept = {entry.fingerprint: entry.used_by for entry in wanted if entry.used_by}
        freed = sum(entry.bytes for entry in gone) + number
        return Pruned(tuple(entry.fingerprint for entry in gone), kept, number, freed)
