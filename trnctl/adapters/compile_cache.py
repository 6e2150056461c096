"""The compile caches beside the runs, looked after by the head node's script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from trnctl.adapters.agent import Agent
from trnctl.ports import CacheEntry, CachePicture, Lock, Pruned, Shell, Unlocked

_TIMEOUT = 300  # seconds; ten thousand graphs on a file system that is busy


class AgentCache:
    """The CompileCache behind a Shell. `script` is the program that `render.agent` makes."""

    def __init__(self, shell: Shell, script: str) -> None:
        self._agent = Agent(shell, script)

    def look(self, runs_folder: str) -> CachePicture:
        """See `ports.CompileCache.look`."""
        return parse_picture(self._agent.ask("look", {"runs_folder": runs_folder}, timeout=_TIMEOUT))

    def unlock(self, runs_folder: str) -> Unlocked:
        """See `ports.CompileCache.unlock`."""
        answer = self._agent.ask("unlock", {"runs_folder": runs_folder}, timeout=_TIMEOUT)
        return Unlocked(tuple(map(_lock, answer["freed"])), tuple(map(_lock, answer["held"])))

    def prune(self, runs_folder: str, fingerprints: Sequence[str], *, strays: bool = False) -> Pruned:
        """See `ports.CompileCache.prune`."""
        request = {"runs_folder": runs_folder, "fingerprints": list(fingerprints), "strays": strays}
        answer = self._agent.ask("prune", request, timeout=_TIMEOUT)
        kept = {one["fingerprint"]: tuple(one["used_by"]) for one in answer["kept"]}
        return Pruned(tuple(answer["removed"]), kept, answer["strays"], answer["bytes"])


def parse_picture(answer: Mapping[str, Any]) -> CachePicture:
    """What the script saw, as our records."""
    return CachePicture(
        at=datetime.fromtimestamp(answer["at"], UTC),
        entries=tuple(map(_entry, answer["entries"])),
        locks=tuple(map(_lock, answer["locks"])),
        modules=dict(answer["modules"]),
        strays=answer["strays"],
        stray_bytes=answer["stray_bytes"],
    )


def _entry(one: Mapping[str, Any]) -> CacheEntry:
    plain = ("fingerprint", "cache", "chip", "sdk", "state", "graphs", "bytes", "workload", "nodes", "run", "compile_s")
    return CacheEntry(
        **{name: one[name] for name in plain},
        last_used=datetime.fromtimestamp(one["last_used"], UTC),
        problems=tuple(one["problems"]),
        used_by=tuple(one["used_by"]),
    )


def _lock(one: Mapping[str, Any]) -> Lock:
    return Lock(one["graph"], one["age_s"], one["holder"], one["path"])
