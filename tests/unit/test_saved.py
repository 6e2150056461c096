"""Saved evidence is read however it is packed; what is no text is named and left out."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from trnctl.cli.saved import opened
from trnctl.errors import UsageError

TEXT = "E: Could not get lock /var/lib/dpkg/lock-frontend\n"
BINARY = bytes(range(256)) * 20


def tarred(members: dict[str, bytes], mode: str) -> bytes:
    """A tar archive of these."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]  # it takes any of its modes
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    """A zip archive of these."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def read(folder: Path, content: bytes) -> tuple[dict[str, str], list[str]]:
    """(the texts in a file that holds this, what was left out)."""
    path = folder / "evidence"
    path.write_bytes(content)
    left_out: list[str] = []
    texts = {name: b"".join(chunks).decode() for name, chunks in opened(str(path), left_out)}
    return texts, left_out


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.encode("utf-16"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        gzip.compress(TEXT.encode()),
        bz2.compress(TEXT.encode()),
        lzma.compress(TEXT.encode()),
        gzip.compress(TEXT.encode("utf-16")),
    ],
    ids=["plain", "mark", "utf-16", "utf-16-le", "utf-16-be", "gzip", "bzip2", "xz", "utf-16 in gzip"],
)
def test_a_text_is_read_however_it_is_written(tmp_path: Path, content: bytes) -> None:
    texts, left_out = read(tmp_path, content)
    assert list(texts.values()) == [TEXT]
    assert left_out == []


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_each_member_of_an_archive_is_read_and_unpacked(tmp_path: Path, mode: str) -> None:
    members = {"demo/a.log": TEXT.encode() * 5000, "demo/b.log.gz": gzip.compress(TEXT.encode()), "demo/core": BINARY}
    texts, left_out = read(tmp_path, tarred(members, mode))
    assert {name: len(text) for name, text in texts.items()} == {
        "demo/a.log": len(TEXT) * 5000,
        "demo/b.log.gz": len(TEXT),
    }
    assert left_out == ["demo/core is no text"]


def test_an_archive_within_an_archive_is_read(tmp_path: Path) -> None:
    inner = tarred({"a.log": TEXT.encode()}, "w:gz")
    texts, _ = read(tmp_path, zipped({"logs/": b"", "logs/inner.tar.gz": inner, "logs/b.log": TEXT.encode()}))
    assert texts == {"a.log": TEXT, "logs/b.log": TEXT}


def test_an_empty_text_is_named(tmp_path: Path) -> None:
    texts, left_out = read(tmp_path, gzip.compress(b""))
    assert list(texts.values()) == [""]
    assert left_out[0].endswith("evidence is empty")


@pytest.mark.parametrize(
    "content",
    [BINARY, gzip.compress(BINARY), zipped({"core": BINARY}), zipped({})],
    ids=["plain", "gzip", "zip", "empty zip"],
)
def test_what_holds_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UsageError, match="holds nothing that could be judged"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    "content", [gzip.compress(TEXT.encode() * 1000)[:60], b"PK\x03\x04 and no more"], ids=["gzip", "zip"]
)
def test_what_is_broken_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path, content)
