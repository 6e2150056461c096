"""What a run needs on shared storage, and the program that fetches it on the head node.

Below the shared mount:

    trnctl/src/NAME-COMMIT/         the code, at its pinned commit, or with the digest of a user's own folder
    trnctl/data/PATH                the data sets
    trnctl/hub/                     models of the Hugging Face hub, laid out as HF_HOME is
    trnctl/packages/DIGITS/         a recipe's packages on top of the node software's environment
"""

from __future__ import annotations

import shlex

from trnctl.ports import File, Need
from trnctl.render import templates
from trnctl.render.job import JobRequest
from trnctl.render.places import code_folder, data_folder, environment_of, hub_folder, hub_mark
from trnctl.specs.preparation import DataSet, HubModel
from trnctl.specs.workload import WorkloadSpec

_PROGRAM = ("prepare", "clone", "bucket", "download", "environment", "hub", "folder", "needs", "slurm")
_DATA = "{data}/"  # how a recipe's argument names a prepared data set


def preparer() -> tuple[File, ...]:
    """The preparer and its modules, as they lie in a run's folder."""
    return tuple(File(f"prepare/{name}.py", templates.read(f"node/{name}.py")) for name in _PROGRAM)


def needs_of(workload: WorkloadSpec, request: JobRequest) -> tuple[Need, ...]:
    """What must lie on shared storage before nodes are paid for, and how it gets there."""
    return (
        *_code(workload, request.mount),
        *(_data_set(one, request.mount) for one in workload.data),
        *_named_data(workload, request.mount),
        *_packages(workload, request),
        *(_model(one, request.mount) for one in workload.hub),
    )


def _code(workload: WorkloadSpec, mount: str) -> list[Need]:
    source, code = workload.source, code_folder(mount, workload.source)
    if source.shipped:
        return []  # it is among the run's files
    path = f"{code}/{workload.script}"
    if workload.workdir:  # only this machine has it
        return [Need(path, "the code of workdir", f"Bring it there: trnctl sync {workload.name}")]
    top = code.removesuffix(source.path).rstrip("/")
    clone = shlex.join(["git", "clone", source.repository, top])
    way = f"Fetch it on the head node: {clone} && git -C {shlex.quote(top)} checkout {source.commit}"
    fetch = {"kind": "git", "target": top, "repository": source.repository, "commit": source.commit}
    return [Need(path, "the training code", way, fetch=fetch)]


def _data_set(data: DataSet, mount: str) -> Need:
    path = f"{data_folder(mount)}/{data.path}"
    check: dict[str, object] = {"files": data.files, "match": data.match} if data.files else {}
    wanted = {"sha256": data.sha256, "bytes": data.bytes}
    return Need(
        path,
        f"the data set {data.path}",
        f"Bring what {data.source} holds to {path}",
        check=check,
        fetch={
            "kind": "folder" if data.source.endswith("/") else "archive" if data.unpack else "file",
            "target": path,
            "url": data.source,
            **{name: value for name, value in wanted.items() if value},
        },
    )


def _named_data(workload: WorkloadSpec, mount: str) -> list[Need]:
    """Data that arguments name and that no entry of `data` brings: a person has to."""
    known = [one.path for one in workload.data]
    place = data_folder(mount)
    way = "Put it there first"
    if workload.data_source:
        way = f"Fetch it on the head node: mkdir -p {place} && {workload.data_source.replace('{data}', place)}"
    needs = []
    for value in (*workload.arguments.values(), *workload.overrides.values()):
        name = value.removeprefix(_DATA).rstrip("/") if isinstance(value, str) and value.startswith(_DATA) else ""
        if name and not any(name == one or name.startswith(f"{one}/") for one in known):
            needs.append(Need(f"{place}/{name}", "the data set", way))
    return needs


def _packages(workload: WorkloadSpec, request: JobRequest) -> list[Need]:
    if not workload.requirements:
        return []
    target = environment_of(workload, mount=request.mount, sdk=request.sdk, os=request.os)
    return [
        Need(
            f"{target}/complete",
            "the environment with the recipe's packages",
            f"Install {' '.join(workload.requirements)} there",
            fetch={
                "kind": "environment",
                "target": target,
                "base": workload.virtualenv,
                "packages": list(workload.requirements),
            },
        )
    ]


def _model(model: HubModel, mount: str) -> Need:
    target = f"{hub_folder(mount)}/hub/models--{model.model.replace('/', '--')}"
    return Need(
        hub_mark(mount, model),
        f"the model {model.model}",
        f"Bring {', '.join(model.files)} of {model.model} to {target}",
        fetch={
            "kind": "hub",
            "target": target,
            "model": model.model,
            "revision": model.revision,
            "files": list(model.files),
        },
    )
