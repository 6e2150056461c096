"""Where things that runs need lie on shared storage."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

from trnctl.specs.preparation import HubModel
from trnctl.specs.workload import Source, WorkloadSpec


def code_folder(mount: str, source: Source) -> str:
    """Where a recipe's code lies on shared storage; the folder's name ends with 12 digits of the commit."""
    name = PurePosixPath(source.repository).name.removesuffix(".git")
    return str(PurePosixPath(mount) / "trnctl/src" / f"{name}-{source.commit[:12]}" / source.path)


def live_code_folder(mount: str, name: str, origin: str) -> str:
    """Where `sync` keeps a copy of a user's code that follows it; a run never uses it, but a state of its own. `origin`
    is USER@HOST:PATH of the code: two folders of the same name must not share a copy, or one removes the other's."""
    return f"{mount}/trnctl/code/{name}-{hashlib.sha256(origin.encode(errors='surrogateescape')).hexdigest()[:8]}"


def data_folder(mount: str) -> str:
    """Where prepared data sets lie on shared storage: what `{data}` stands for in a recipe."""
    return f"{mount}/trnctl/data"


def hub_folder(mount: str) -> str:
    """Where models of the Hugging Face hub lie on shared storage: what `{hub}` stands for in a recipe."""
    return f"{mount}/trnctl/hub"


def hub_mark(mount: str, model: HubModel) -> str:
    """The file that says that a model's files lie in the hub's folder. Its name tells which files: another recipe may
    need others of the same revision."""
    digits = hashlib.sha256("\0".join(sorted(model.files)).encode()).hexdigest()[:8]
    name = f"models--{model.model.replace('/', '--')}"
    return f"{hub_folder(mount)}/hub/{name}/snapshots/{model.revision}/.whole-{digits}"


def environment_of(workload: WorkloadSpec, *, mount: str, sdk: str, os: str) -> str:
    """The virtual environment of a recipe's own packages, named after all that decides what is in it; '' when it has
    none, and the recipe's `virtualenv` is all."""
    if not workload.requirements:
        return ""
    parts = [os, sdk, workload.virtualenv, *sorted(workload.requirements)]
    digits = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    return f"{mount}/trnctl/packages/{digits}"  # `environments` beside it belongs to root, who installs the nodes
