"""A user's own code as a value: which files, how large, and the digest that tells one state of them from another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from trnctl.errors import RefusedError, UsageError
from trnctl.plan.ignore import IgnoreRule
from trnctl.specs.workload import Source, WorkloadSpec

MOST_BYTES = 1 << 30  # code is small; what is larger is data, which belongs on shared storage


@dataclass(frozen=True)
class CodeFile:
    """A file, or a link: its name relative to the folder, whether it can be executed, its size, and a digest of its
    content or of where it leads."""

    name: str
    executable: bool
    size: int
    digest: str


@dataclass(frozen=True)
class Code:
    """A folder's files, without what git's `rules` leave out. `digest` is 40 hexadecimal digits."""

    folder: str
    names: tuple[str, ...]
    size: int
    digest: str
    rules: tuple[IgnoreRule, ...] = ()


def code_of(folder: str, files: Iterable[CodeFile]) -> Code:
    """The code in a folder. RefusedError when it is too large to be code."""
    found = sorted(files, key=lambda file: file.name)
    size = sum(file.size for file in found)
    if size > MOST_BYTES:
        largest = max(found, key=lambda file: file.size)
        raise RefusedError(
            f"{folder} holds {size / 2**30:,.1f} GiB, and all of it would be copied ({largest.name} is the largest)",
            remedy="name what is no code in its .gitignore, or put data on shared storage: trnctl cp DATA head:/fsx/…",
        )
    text = "\n".join(f"{file.name}\0{file.executable:d}\0{file.digest}" for file in found)
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:40]
    return Code(folder, tuple(file.name for file in found), size, digest)


def pinned(workload: WorkloadSpec, code: Code) -> WorkloadSpec:
    """The recipe with the state of its own code in the place of a commit. UsageError when its script is not there."""
    if workload.script not in code.names:
        raise UsageError(
            f"{code.folder} has no {workload.script}, which {workload.name} starts",
            remedy="correct script or workdir in the recipe; what .gitignore names is left out",
        )
    return replace(workload, source=Source(workload.name, code.digest))
