"""The compile cache on disk: <cache>/neuronxcc-<version>+<hash>/MODULE_<graph>+<flags>/ and what lies in it.

model.hlo_module.pb   compile_flags.json    what to compile
model.neff   model.done                     compiled
model.log                                   failed, and remembered as failed
model.hlo_module.pb.lock                    being compiled, or left by a compiler that was killed
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from trnctl.sandbox.neuron.devices import compiler_version
from trnctl.sandbox.neuron.emulation import NOTICE, node_local
from trnctl.sandbox.neuron.graphs import CompilerFlags, Graph

State = Literal["done", "locked", "failed", "todo"]
DEFAULT_CACHE = "/var/tmp/neuron-compile-cache"  # noqa: S108  Neuron's default, on the node's own disk


class Entry(NamedTuple):
    """One MODULE_ folder."""

    folder: Path

    @property
    def hlo(self) -> Path:
        """The graph; Neuron's logs name an entry by this path."""
        return self.folder / "model.hlo_module.pb"

    @property
    def neff(self) -> Path:
        """The compiled graph."""
        return self.folder / "model.neff"

    @property
    def log(self) -> Path:
        """What the compiler said when it failed."""
        return self.folder / "model.log"

    @property
    def lock(self) -> Path:
        """There while somebody compiles."""
        return self.folder / "model.hlo_module.pb.lock"

    @property
    def _done(self) -> Path:
        return self.folder / "model.done"

    def compiled(self) -> bool:
        """Whether the compiled graph is there, whoever holds the lock."""
        return self._done.exists() and self.neff.exists()

    def failed_at(self) -> float:
        """When the compilation last failed, in seconds of the epoch; 0 when it has not."""
        try:
            return self.log.stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def state(self) -> State:
        """Compiled, being compiled, failed, or none of these yet; asked of the disk each time."""
        if self.compiled():
            return "done"
        if self.lock.exists():
            return "locked"
        return "failed" if self.log.exists() else "todo"

    @property
    def graph(self) -> Mapping[str, object]:
        """What the emulated tracer wrote about the graph."""
        content: Mapping[str, object] = json.loads(self.hlo.read_bytes())
        return content

    @property
    def flags(self) -> list[str]:
        """The compiler's flags of this entry."""
        flags: list[str] = json.loads((self.folder / "compile_flags.json").read_text(encoding="utf-8"))
        return flags

    def take_lock(self) -> bool:
        """Take the lock; False when somebody has it."""
        try:
            os.close(os.open(self.lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            return False
        return True

    def release_lock(self) -> None:
        """Let the lock go; silent if it is gone."""
        self.lock.unlink(missing_ok=True)

    def succeed(self, neff: bytes) -> None:
        """Record a compiled graph; an earlier failure is forgotten."""
        _write(self.neff, neff)
        self.log.unlink(missing_ok=True)
        self._done.touch()

    def fail(self, log: str) -> None:
        """Record a failure; it is remembered until somebody retries."""
        _write(self.log, log.encode())

    def forget(self) -> None:
        """Drop what was compiled, keep the graph."""
        for path in (self._done, self.neff, self.log):
            path.unlink(missing_ok=True)


class Cache(NamedTuple):
    """A compile cache: `url` as Neuron prints it, `folder` where it lies, `version` the compiler's folder in it."""

    url: str
    folder: Path
    version: str

    def entry(self, graph: Graph, flags: CompilerFlags) -> Entry:
        """The entry of a graph, whether it exists or not."""
        return Entry(self.folder / self.version / f"MODULE_{graph.key}+{flags.key}")

    def add(self, graph: Graph, flags: CompilerFlags) -> Entry:
        """Put a traced graph into the cache; many nodes may do so at once."""
        entry = self.entry(graph, flags)
        entry.folder.mkdir(parents=True, exist_ok=True)
        _write(entry.folder / "compile_flags.json", json.dumps(list(flags.compiler)).encode())
        if not entry.hlo.exists():
            content = {"graph": graph.name, "facts": dict(graph.facts), "note": NOTICE}
            _write(entry.hlo, json.dumps(content, sort_keys=True).encode())
        return entry

    def entries(self) -> list[Entry]:
        """All entries of this compiler version, by name."""
        return [
            Entry(path.parent) for path in sorted((self.folder / self.version).glob("MODULE_*/model.hlo_module.pb"))
        ]

    def by_state(self) -> dict[State, list[Entry]]:
        """All entries of this compiler version, sorted by their states."""
        sorted_entries: dict[State, list[Entry]] = {"todo": [], "locked": [], "done": [], "failed": []}
        for entry in self.entries():
            sorted_entries[entry.state()].append(entry)
        return sorted_entries

    def clear_locks(self) -> None:
        """Remove every lock of every compiler version, whoever holds it."""
        for lock in self.folder.glob("neuronxcc-*/MODULE_*/*.lock"):
            lock.unlink(missing_ok=True)

    def clean(self) -> None:
        """Remove the whole cache."""
        shutil.rmtree(self.folder, ignore_errors=True)


def open_cache(flags: CompilerFlags, sdk: str) -> Cache:
    """The cache that the environment names: --cache_dir of NEURON_CC_FLAGS, else NEURON_COMPILE_CACHE_URL, else
    Neuron's default on the node's own disk. Ends the program for s3://, which the sandbox has no copy of."""
    url = flags.cache_dir or os.environ.get("NEURON_COMPILE_CACHE_URL") or DEFAULT_CACHE
    if url.startswith("s3://"):
        raise SystemExit(
            f"trnctl sandbox: a compile cache in S3 ({url}) is not emulated — use a path on shared storage"
        )
    version = compiler_version(sdk)
    build = hashlib.sha256(f"{NOTICE} {version}".encode()).hexdigest()[:8]
    return Cache(url, node_local(url.removeprefix("file://")), f"neuronxcc-{version}+{build}")


def _write(path: Path, content: bytes) -> None:
    """Write a file so that other nodes see all of it or nothing."""
    fresh = path.with_name(f".{path.name}.{os.environ.get('SLURMD_NODENAME', '')}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)
