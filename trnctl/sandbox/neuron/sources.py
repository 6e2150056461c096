"""What the sources of the shipped recipes hold in the sandbox, which has no internet: code, data, models, packages.

The scripts are the stand-ins, the data sets placeholders, the models and packages empty: each says of itself that it is
none of the real ones.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from trnctl.render.templates import names, read
from trnctl.sandbox.neuron.emulation import NOTICE
from trnctl.sandbox.neuron.llm_scripts import SCRIPTS
from trnctl.specs.workload import WorkloadSpec
from trnctl.specs.workload_loading import load_workload

HUB_BUCKET = "hub-of-the-sandbox"  # answers for huggingface.co below the emulated S3's endpoint
MARK = "EMULATED.txt"
_STAND_INS = Path(__file__).parent / "stand_ins"
_DATA = "{data}/"  # how a recipe's argument names a prepared data set
_CONFIG = re.compile(r"^[\w.]+_config_\w+$")  # how a recipe names the folder of a model's configuration
_SHARDS = 1024  # as many as the recipe of the public tutorial makes
_SHARD_NAME = "wikicorpus_en_training_{}.hdf5"


@cache
def recipes() -> tuple[WorkloadSpec, ...]:
    """The shipped recipes whose code lies in a repository."""
    loaded = [load_workload(read(name), name) for name in names("workloads/")]
    return tuple(recipe for recipe in loaded if recipe.source.repository)


def _script_text(script: str) -> str:
    """The stand-in for a recipe's script; one that refuses where there is none."""
    name = "llm.py" if script in SCRIPTS else script
    stand_in = _STAND_INS / name
    return (stand_in if stand_in.is_file() else _STAND_INS / "none.py").read_text(encoding="utf-8")


def code_of(recipe: WorkloadSpec) -> dict[str, str]:
    """The files of a recipe's repository, as far as the recipe names them: path -> text."""
    script = PurePosixPath(recipe.source.path) / recipe.script
    values = map(str, {**recipe.arguments, **recipe.overrides}.values())
    configs = {str(script.parent / value / "config.json"): "{}" for value in values if _CONFIG.search(value)}
    return {str(script): _script_text(script.name), **configs}


def code_at(commit: str) -> dict[str, str]:
    """The files of the repository that some recipes pin at this commit: path -> text; {} for another commit."""
    files: dict[str, str] = {}
    for recipe in recipes():
        if recipe.source.commit == commit:
            files.update(code_of(recipe))
    return {**files, MARK: f"This repository is {NOTICE}.\n"} if files else {}


def data_files(name: str) -> dict[str, str]:
    """The files of a data set of that name, empty placeholders: shards for BERT, a saved data set for the others; {}
    for what is a file itself."""
    if PurePosixPath(name).suffix:
        return {}
    if "hdf5" in name:
        return {_SHARD_NAME.format(number): "" for number in range(_SHARDS)}
    return {"dataset_info.json": "{}"}


def brought(recipe: WorkloadSpec) -> list[str]:
    """Data that nobody fetches from S3: what its arguments name besides, and what lies elsewhere on the internet."""
    fetched = [data.path for data in recipe.data if data.source.startswith("s3://")]
    named = [str(value) for value in {**recipe.arguments, **recipe.overrides}.values()]
    paths = [value.removeprefix(_DATA).rstrip("/") for value in named if value.startswith(_DATA)]
    return [path for path in paths if path not in fetched]


def objects() -> Iterator[tuple[str, str, bytes]]:
    """What lies in the buckets that the recipes name, and what the hub holds: (bucket, key, content)."""
    sources = {data.source: data for recipe in recipes() for data in recipe.data if data.source.startswith("s3://")}
    for source, data in sources.items():
        bucket, _, key = source.removeprefix("s3://").partition("/")
        files = {**data_files(PurePosixPath(data.path).name), MARK: f"This data set is {NOTICE}.\n"}
        if key.endswith("/"):
            yield from ((bucket, key + name, text.encode()) for name, text in files.items())
        else:
            yield bucket, key, _archive(PurePosixPath(data.path).name, files) if data.unpack else b"{}"
    for recipe in recipes():
        for model in recipe.hub:
            for name in model.files:
                yield HUB_BUCKET, f"{model.model}/resolve/{model.revision}/{name}", _model_content(name)


def _archive(folder: str, files: Mapping[str, str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return content.getvalue()


def _model_content(name: str) -> bytes:
    return (json.dumps({"trnctl": NOTICE}) if name.endswith(".json") else NOTICE).encode()


def wheels() -> Mapping[str, bytes]:
    """An empty package for each that a recipe requires: file name -> wheel."""
    wanted = {requirement for recipe in recipes() for requirement in recipe.requirements}
    return dict(_wheel(*_named(requirement)) for requirement in sorted(wanted))


def _named(requirement: str) -> tuple[str, str]:
    name, _, version = requirement.partition("==")
    return re.sub(r"[-_.]+", "_", name.partition("[")[0]).lower(), version


def _wheel(name: str, version: str) -> tuple[str, bytes]:
    info = f"{name}-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {NOTICE}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: trnctl-sandbox\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl", content.getvalue()
