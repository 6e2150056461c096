"""Opens saved evidence: a file, standard input, a folder, what is packed (gzip, bzip2, xz), or an archive (tar, zip)
such as `pcluster export-cluster-logs` makes, whose members may be packed again."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from trnctl.errors import UsageError

_CHUNK = 1 << 20
_SNIFFED = 4096
_KEPT = 64 * 1024 * 1024  # bytes of a zip archive that are held in memory; more goes to a temporary file
_DEEPEST = 3  # archives within archives
_PACKED: tuple[tuple[bytes, Callable[[IO[bytes]], object]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
)
_BROKEN = (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, NotImplementedError)
Texts = Iterator[tuple[str, Iterator[bytes]]]


def opened(name: str, left_out: list[str]) -> Texts:
    """(name, bytes chunk by chunk) of every text in it. What is empty, is no text or cannot be read is named in
    `left_out`, with the reason. UsageError when it cannot be read, or when nothing in it is a text."""
    read = 0
    try:
        for one in _all(name, left_out):
            read += 1
            yield one
    except _BROKEN as error:
        raise UsageError(
            f"{name} cannot be read: {_reason(error)}",
            remedy="check the path and its permissions; - reads standard input",
        ) from error
    if not read:
        raise UsageError(
            f"{name} holds nothing that could be judged: {'; '.join(left_out[:3]) or 'no file'}",
            remedy="give a log, the output of a command, JSON or YAML of an AWS tool, or an archive of such files",
        )


def _all(name: str, left_out: list[str]) -> Texts:
    path = Path(name)
    if name == "-":
        yield from _texts(sys.stdin.buffer, "standard input", left_out)
    elif path.is_dir():
        yield from _folder(path, left_out)
    else:
        with path.open("rb") as file:
            yield from _texts(file, name, left_out)


def _folder(path: Path, left_out: list[str]) -> Texts:
    """Every file below it; one that cannot be read does not hide the others."""
    for one in sorted(one for one in path.rglob("*") if one.is_file()):
        name = str(one.relative_to(path))
        try:
            with one.open("rb") as file:
                yield from _texts(file, name, left_out)
        except _BROKEN as error:
            left_out.append(f"{name} was left out: {_reason(error)}")


def _texts(file: IO[bytes], name: str, left_out: list[str], depth: int = 0) -> Texts:
    """The texts in a file, which is read once, from its start to its end: it may be a pipe, or larger than memory."""
    start = file.read(_SNIFFED)
    whole = cast("IO[bytes]", _Begun(start, file))
    unpack = next((how for magic, how in _PACKED if start.startswith(magic)), None)
    if not start:
        left_out.append(f"{name} is empty")
        yield name, iter(())
    elif depth < _DEEPEST and start.startswith(b"PK\x03\x04"):
        yield from _zip(whole, left_out, depth)
    elif depth < _DEEPEST and start[257:262] == b"ustar":
        with tarfile.open(fileobj=whole, mode="r|") as archive:
            for member in archive:
                inner = archive.extractfile(member) if member.isfile() else None
                if inner is not None:
                    yield from _texts(inner, member.name, left_out, depth + 1)
    elif depth < _DEEPEST and unpack is not None:
        with cast("IO[bytes]", unpack(whole)) as unpacked:
            yield from _texts(unpacked, name, left_out, depth + 1)
    elif (encoding := _encoding(start)) is None:
        left_out.append(f"{name} is no text")
    else:
        yield name, _chunks(whole, encoding)


def _zip(file: IO[bytes], left_out: list[str], depth: int) -> Texts:
    """The members of an archive whose table stands at its end, so that it is kept first."""
    with tempfile.SpooledTemporaryFile(max_size=_KEPT) as kept:
        while chunk := file.read(_CHUNK):
            kept.write(chunk)
        kept.seek(0)
        with zipfile.ZipFile(kept) as archive:
            for member in archive.infolist():
                if member.flag_bits & 1:
                    left_out.append(f"{member.filename} was left out: it has a password")
                elif not member.is_dir():
                    with archive.open(member) as inner:
                        yield from _texts(inner, member.filename, left_out, depth + 1)


class _Begun(io.RawIOBase):
    """A stream whose first bytes have been read already: it gives them once more."""

    def __init__(self, start: bytes, rest: IO[bytes]) -> None:
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The first bytes, then the rest."""
        if not self._start:
            return self._rest.read(size)
        found, self._start = (self._start, b"") if size < 0 else (self._start[:size], self._start[size:])
        return found


def _encoding(start: bytes) -> str | None:
    """How a text is written, by its first bytes: UTF-16 is what PowerShell's redirection makes. None: it is no text."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    nothing = start.count(0)
    if nothing > len(start) // 3:
        for encoding, zeros in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):
            if zeros.count(0) == nothing > 0.9 * len(zeros):
                return encoding
    strange = sum(start.count(bytes((code,))) for code in range(32) if code not in b"\t\n\r\f\x08\x1b")
    return None if strange > len(start) // 20 else "utf-8"


def _chunks(file: IO[bytes], encoding: str) -> Iterator[bytes]:
    """The bytes of a text, as UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding != "utf-8" else None
    while chunk := file.read(_CHUNK):
        yield chunk if decoder is None else decoder.decode(chunk).encode()


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__)
