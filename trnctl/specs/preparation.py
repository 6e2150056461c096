"""What a recipe needs on shared storage besides its code: data sets, packages, models of the Hugging Face hub."""

from __future__ import annotations

from dataclasses import dataclass

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


@dataclass(frozen=True)
class DataSet:
    """One data set below the folder that `{data}` stands for.

    `source` is an s3:// or https:// address; an archive is unpacked, and becomes the folder `path`, as does what lies
    below an address of S3 that ends with a slash. A file that is fetched must have this SHA-256 and this number of
    bytes, where they are known; what lies there in the end must hold at least so many `files` whose names match.
    """

    path: str
    source: str
    unpack: bool = False
    sha256: str = ""
    bytes: int | None = None
    files: int | None = None
    match: str = "*"


@dataclass(frozen=True)
class HubModel:
    """Files of a model on the hub at a revision, under the name that the script asks for."""

    model: str
    revision: str
    files: tuple[str, ...]
