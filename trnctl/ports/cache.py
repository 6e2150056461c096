"""The door to the compile caches on shared storage, and the records of what lies in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

Compile = Literal["scheduled", "cached", "skipped"]


@dataclass(frozen=True)
class CacheWish:
    """What decides whether a run needs its compile stage: the graphs of `fingerprint` in the cache at `url` (a folder,
    or s3://…, which is not looked at). Where nodes have a cache each (`shared` False), nobody can tell beforehand.

    `mode` is the user's word; `without` are the files that replace those of the same name when the stage is left out.
    """

    url: str
    fingerprint: str
    shared: bool
    mode: Literal["auto", "force", "skip"]
    without: tuple[tuple[str, str], ...] = ()  # name and text


@dataclass(frozen=True)
class Lock:
    """The lock of a graph. `holder` names a living job that may hold it; '' means that its compiler is gone."""

    graph: str
    age_s: int
    holder: str = ""
    path: str = ""


@dataclass(frozen=True)
class CacheEntry:
    """The graphs of one fingerprint. `state`: complete, partial (some did not compile), locked, damaged (a graph that
    was compiled is locked, or no longer whole: `problems` says which). `used_by` are living jobs with this fingerprint.
    """

    fingerprint: str
    cache: str
    chip: str
    sdk: str
    state: Literal["complete", "partial", "locked", "damaged"]
    graphs: int
    bytes: int
    workload: str
    nodes: int
    run: str
    compile_s: float | None
    last_used: datetime
    problems: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class CachePicture:
    """All caches beside the cluster's runs at one moment. `modules` counts the compiled graphs by state (done, locked,
    failed, todo, damaged); `strays` belong to no fingerprint."""

    at: datetime
    entries: tuple[CacheEntry, ...]
    locks: tuple[Lock, ...]
    modules: Mapping[str, int]
    strays: int
    stray_bytes: int


@dataclass(frozen=True)
class Unlocked:
    """Locks that were removed, and those that stay because a living job may hold them."""

    freed: tuple[Lock, ...]
    held: tuple[Lock, ...]


@dataclass(frozen=True)
class Pruned:
    """Fingerprints that were removed, those that stay with who uses them, strays that were removed, bytes freed."""

    removed: tuple[str, ...]
    kept: Mapping[str, tuple[str, ...]]
    strays: int
    bytes: int


class CompileCache(Protocol):
    """The compile caches of a cluster. Every method is one connection; `runs_folder` as for `JobQueue.observe`: the
    caches lie beside it."""

    def look(self, runs_folder: str) -> CachePicture:
        """What is there, down to each graph's state. Folders are read, never what the files hold."""

    def unlock(self, runs_folder: str) -> Unlocked:
        """Remove the locks that no living job can hold."""

    def prune(self, runs_folder: str, fingerprints: Sequence[str], *, strays: bool = False) -> Pruned:
        """Remove fingerprints, and strays, but nothing that a living job may use."""
