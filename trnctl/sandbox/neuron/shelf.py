"""Where an emulated compile cache keeps its files: in a folder, or as objects of a bucket.

Keys are relative, with slashes. What other nodes see is a whole file or none, on either.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
from pathlib import Path
from typing import Any, Protocol


class Shelf(Protocol):
    """The few things that a cache does with files."""

    def words(self, key: str) -> str:
        """The key as Neuron's logs print it."""

    def exists(self, key: str) -> bool:
        """Whether there is such a file."""

    def modified(self, key: str) -> float:
        """When it was written, in seconds of the epoch; 0 when it is not there."""

    def read(self, key: str) -> bytes:
        """What it holds. OSError when it is not there."""

    def write(self, key: str, content: bytes) -> None:
        """Write it."""

    def create(self, key: str) -> bool:
        """Make an empty file; False when there is one."""

    def remove(self, key: str) -> None:
        """Remove it; silent when it is gone."""

    def names(self, pattern: str) -> list[str]:
        """The keys that match a pattern with `*` inside a part."""

    def clean(self) -> None:
        """Remove everything."""


class FolderShelf:
    """A folder, on a node's own disk or shared."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def words(self, key: str) -> str:
        """The path."""
        return str(self.root / key)

    def exists(self, key: str) -> bool:
        """See `Shelf`."""
        return (self.root / key).exists()

    def modified(self, key: str) -> float:
        """See `Shelf`."""
        try:
            return (self.root / key).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def read(self, key: str) -> bytes:
        """See `Shelf`."""
        return (self.root / key).read_bytes()

    def write(self, key: str, content: bytes) -> None:
        """Beside it, then into place."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.environ.get('SLURMD_NODENAME', '')}.{os.getpid()}")
        fresh.write_bytes(content)
        fresh.replace(path)

    def create(self, key: str) -> bool:
        """As only one of several processes can."""
        try:
            os.close(os.open(self.root / key, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            return False
        return True

    def remove(self, key: str) -> None:
        """See `Shelf`."""
        (self.root / key).unlink(missing_ok=True)

    def names(self, pattern: str) -> list[str]:
        """See `Shelf`."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))

    def clean(self) -> None:
        """See `Shelf`."""
        shutil.rmtree(self.root, ignore_errors=True)


class S3Shelf:
    """A prefix of a bucket, through the script that real nodes speak to S3 with. There is no exclusive create: two
    nodes that take a lock in one moment both have it, and compile twice."""

    def __init__(self, url: str) -> None:
        from trnctl.render import templates

        script: dict[str, Any] = {"__name__": "s3"}
        exec(compile(templates.read("node/s3.py"), "s3.py", "exec"), script)  # noqa: S102  a file of this package
        self._bucket_of, self._unreachable = script["Bucket"], script["Unreachable"]
        self._name, self._prefix = script["split"](url)
        self._url = url.rstrip("/")

    def words(self, key: str) -> str:
        """The URL."""
        return f"{self._url}/{key}".rstrip("/")

    def exists(self, key: str) -> bool:
        """See `Shelf`."""
        return key in self._listed(key)

    def modified(self, key: str) -> float:
        """See `Shelf`."""
        return self._listed(key).get(key, 0.0)

    def read(self, key: str) -> bytes:
        """See `Shelf`."""
        found: bytes | None = self._ask("get", self._prefix + key)
        if found is None:
            raise FileNotFoundError(self.words(key))
        return found

    def write(self, key: str, content: bytes) -> None:
        """See `Shelf`."""
        self._ask("put", self._prefix + key, content)

    def create(self, key: str) -> bool:
        """See `Shelf`, and the class."""
        if self.exists(key):
            return False
        self.write(key, b"")
        return True

    def remove(self, key: str) -> None:
        """See `Shelf`."""
        self._ask("delete", self._prefix + key)

    def names(self, pattern: str) -> list[str]:
        """See `Shelf`."""
        depth, start = pattern.count("/"), pattern.partition("*")[0]
        return [key for key in self._listed(start) if key.count("/") == depth and fnmatch.fnmatch(key, pattern)]

    def clean(self) -> None:
        """See `Shelf`."""
        for key in self._listed(""):
            self.remove(key)

    def _listed(self, start: str) -> dict[str, float]:
        """Keys that begin so, and when each was written."""
        found = self._ask("list", self._prefix + start)
        return {key.removeprefix(self._prefix): float(at) for key, _, at in found}

    def _ask(self, verb: str, *words: object) -> Any:
        """One question in a connection of its own, since compilers are threads. Ends the tool when S3 refuses."""
        bucket = self._bucket_of(self._name)
        try:
            return getattr(bucket, verb)(*words)
        except self._unreachable as error:
            raise SystemExit(f"trnctl sandbox: the compile cache {self._url}: {error}") from error
        finally:
            bucket.close()
