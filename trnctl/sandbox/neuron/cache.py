"""The compile cache: <cache>/neuronxcc-<version>+<hash>/MODULE_<graph>+<flags>/ and what lies in it.

model.hlo_module.pb   compile_flags.json    what to compile
model.neff   model.done                     compiled
model.log                                   failed, and remembered as failed
model.hlo_module.pb.lock                    being compiled, or left by a compiler that was killed
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Literal, NamedTuple

from trnctl.sandbox.neuron.devices import compiler_version
from trnctl.sandbox.neuron.emulation import NOTICE, node_local
from trnctl.sandbox.neuron.graphs import CompilerFlags, Graph
from trnctl.sandbox.neuron.shelf import FolderShelf, S3Shelf, Shelf

State = Literal["done", "locked", "failed", "todo"]
DEFAULT_CACHE = "/var/tmp/neuron-compile-cache"  # noqa: S108  Neuron's default, on the node's own disk
_LOCK = "model.hlo_module.pb.lock"


class Entry(NamedTuple):
    """One MODULE_ folder of a cache: `key` is VERSION/MODULE_…"""

    shelf: Shelf
    key: str

    @property
    def name(self) -> str:
        """MODULE_…"""
        return self.key.rpartition("/")[2]

    @property
    def hlo(self) -> str:
        """The graph; Neuron's logs name an entry by this path."""
        return self.shelf.words(self._of("model.hlo_module.pb"))

    @property
    def neff(self) -> str:
        """The compiled graph, as logs name it."""
        return self.shelf.words(self._of("model.neff"))

    def _of(self, name: str) -> str:
        return f"{self.key}/{name}"

    def compiled(self) -> bool:
        """Whether the compiled graph is there, whoever holds the lock."""
        return self.shelf.exists(self._of("model.done")) and self.shelf.exists(self._of("model.neff"))

    def failed_at(self) -> float:
        """When the compilation last failed, in seconds of the epoch; 0 when it has not."""
        return self.shelf.modified(self._of("model.log"))

    def state(self) -> State:
        """Compiled, being compiled, failed, or none of these yet; asked anew each time."""
        if self.compiled():
            return "done"
        if self.shelf.exists(self._of(_LOCK)):
            return "locked"
        return "failed" if self.shelf.exists(self._of("model.log")) else "todo"

    @property
    def graph(self) -> Mapping[str, object]:
        """What the emulated tracer wrote about the graph."""
        content: Mapping[str, object] = json.loads(self.shelf.read(self._of("model.hlo_module.pb")))
        return content

    @property
    def flags(self) -> list[str]:
        """The compiler's flags of this entry."""
        flags: list[str] = json.loads(self.shelf.read(self._of("compile_flags.json")))
        return flags

    def take_lock(self) -> bool:
        """Take the lock; False when somebody has it."""
        return self.shelf.create(self._of(_LOCK))

    def release_lock(self) -> None:
        """Let the lock go; silent if it is gone."""
        self.shelf.remove(self._of(_LOCK))

    def succeed(self, neff: bytes) -> None:
        """Record a compiled graph; an earlier failure is forgotten."""
        self.shelf.write(self._of("model.neff"), neff)
        self.shelf.remove(self._of("model.log"))
        self.shelf.write(self._of("model.done"), b"")

    def fail(self, log: str) -> None:
        """Record a failure; it is remembered until somebody retries."""
        self.shelf.write(self._of("model.log"), log.encode())

    def forget(self) -> None:
        """Drop what was compiled, keep the graph."""
        for name in ("model.done", "model.neff", "model.log"):
            self.shelf.remove(self._of(name))


class Cache(NamedTuple):
    """A compile cache: `url` as Neuron prints it, `shelf` where it lies, `version` the compiler's folder in it."""

    url: str
    shelf: Shelf
    version: str

    def entry(self, graph: Graph, flags: CompilerFlags) -> Entry:
        """The entry of a graph, whether it exists or not."""
        return Entry(self.shelf, f"{self.version}/MODULE_{graph.key}+{flags.key}")

    def entry_at(self, hlo: str) -> Entry:
        """The entry whose graph logs name so."""
        return Entry(self.shelf, hlo.removeprefix(self.shelf.words("")).strip("/").rpartition("/")[0])

    def add(self, graph: Graph, flags: CompilerFlags) -> Entry:
        """Put a traced graph into the cache; many nodes may do so at once."""
        entry = self.entry(graph, flags)
        self.shelf.write(f"{entry.key}/compile_flags.json", json.dumps(list(flags.compiler)).encode())
        if not self.shelf.exists(f"{entry.key}/model.hlo_module.pb"):
            content = {"graph": graph.name, "facts": dict(graph.facts), "note": NOTICE}
            self.shelf.write(f"{entry.key}/model.hlo_module.pb", json.dumps(content, sort_keys=True).encode())
        return entry

    def entries(self) -> list[Entry]:
        """All entries of this compiler version, by name."""
        found = self.shelf.names(f"{self.version}/MODULE_*/model.hlo_module.pb")
        return [Entry(self.shelf, key.rpartition("/")[0]) for key in found]

    def by_state(self) -> dict[State, list[Entry]]:
        """All entries of this compiler version, sorted by their states."""
        sorted_entries: dict[State, list[Entry]] = {"todo": [], "locked": [], "done": [], "failed": []}
        for entry in self.entries():
            sorted_entries[entry.state()].append(entry)
        return sorted_entries

    def clear_locks(self) -> None:
        """Remove every lock of every compiler version, whoever holds it."""
        for lock in self.shelf.names("neuronxcc-*/MODULE_*/*.lock"):
            self.shelf.remove(lock)

    def clean(self) -> None:
        """Remove the whole cache."""
        self.shelf.clean()


def open_cache(flags: CompilerFlags, sdk: str) -> Cache:
    """The cache that the environment names: --cache_dir of NEURON_CC_FLAGS, else NEURON_COMPILE_CACHE_URL, else
    Neuron's default on the node's own disk."""
    url = flags.cache_dir or os.environ.get("NEURON_COMPILE_CACHE_URL") or DEFAULT_CACHE
    shelf: Shelf = S3Shelf(url) if url.startswith("s3://") else FolderShelf(node_local(url.removeprefix("file://")))
    version = compiler_version(sdk)
    build = hashlib.sha256(f"{NOTICE} {version}".encode()).hexdigest()[:8]
    return Cache(url, shelf, f"neuronxcc-{version}+{build}")
