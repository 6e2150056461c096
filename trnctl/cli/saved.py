"""Opens saved evidence: a file, standard input, a folder, gzip, or the archive of `pcluster export-cluster-logs`."""

from __future__ import annotations

import gzip
import sys
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from trnctl.errors import UsageError

_CHUNK = 1 << 20
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def opened(name: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """(name, bytes chunk by chunk) of every file in it. UsageError when it cannot be read."""
    try:
        if name == "-":
            yield "standard input", _chunks(sys.stdin.buffer)
            return
        path = Path(name)
        paths = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        for one in paths:
            yield from _file(one, str(one.relative_to(path)) if path.is_dir() else name)
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UsageError(
            f"{name} cannot be read: {why}", remedy="check the path and its permissions; - reads standard input"
        ) from error


def _file(path: Path, name: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    with path.open("rb") as file:
        start = file.read(2)
        file.seek(0)
        if start == b"\x1f\x8b" and tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                for member in archive:
                    inner = archive.extractfile(member) if member.isfile() else None
                    if inner is not None:
                        yield member.name, _chunks(inner)
        elif start == b"\x1f\x8b":
            with gzip.open(file) as text:
                yield name, _chunks(text)
        else:
            yield name, _chunks(file)


def _chunks(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """The bytes of a text; UTF-16, as PowerShell's redirection writes it, as UTF-8."""
    first = file.read(_CHUNK)
    if first[:2] in _UTF16:
        import codecs

        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        while first:
            yield decoder.decode(first).encode()
            first = file.read(_CHUNK)
        return
    while first:
        yield first
        first = file.read(_CHUNK)
