"""Put the emulated tools on a cluster's PATH, and the stand-ins for training scripts and data on its shared storage."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from trnctl.render.job import code_folder
from trnctl.render.templates import names, read
from trnctl.sandbox.neuron.emulation import CLUSTER_VARIABLE, NOTICE
from trnctl.sandbox.neuron.llm_scripts import SCRIPTS
from trnctl.specs.workload_loading import load_workload

_PACKAGE = "trnctl.sandbox.neuron"
TOOLS = {
    "neuron-ls": "neuron_ls",
    "neuron-top": "neuron_top",
    "neuron-monitor": "neuron_monitor",
    "neuron_parallel_compile": "parallel_compile",
    "nccom-test": "nccom_test",
    "fi_info": "fi_info",
    "torchrun": "torchrun",
    "dmesg": "dmesg",
    "dpkg-query": "dpkg_query",
    "modinfo": "modinfo",
}
_STAND_INS = Path(__file__).parent / "stand_ins"
_DATA_PREFIX = "{data}/"  # how a recipe's argument names a prepared data set
_CONFIG = re.compile(r"^[\w.]+_config_\w+$")  # how a recipe names the folder of a model's configuration
_SHARDS = 1024  # as many as the recipe of the public tutorial makes
_SHARD_NAME = "wikicorpus_en_training_{}.hdf5"


def install(bin: Path, cluster_dir: Path) -> None:  # noqa: A002  the folder is called bin
    """Write a wrapper for each emulated tool into `bin`; they obey `cluster_dir`/emulation.json."""
    bin.mkdir(parents=True, exist_ok=True)
    for tool, module in TOOLS.items():
        wrapper = bin / tool
        wrapper.write_text(
            f"#!/bin/sh\n# {tool}, {NOTICE}.\n"
            f"export {CLUSTER_VARIABLE}={shlex.quote(str(cluster_dir))}\n"
            f'exec {shlex.quote(sys.executable)} -P -m {_PACKAGE}.{module} "$@"\n',
            encoding="utf-8",
        )
        wrapper.chmod(0o755)


def install_source(root: Path, mount: str) -> None:
    """Put a stand-in for every shipped recipe's script where its source is expected below `root` + `mount`, and
    placeholders for the data sets that the recipes name; a script without a stand-in gets one that refuses."""
    shared = Path(f"{root}{mount}") / "trnctl"
    for name in names("workloads/"):
        recipe = load_workload(read(name), name)
        if recipe.plan_only or recipe.source.shipped:  # nothing is run, or the real one comes with each run
            continue
        script = Path(code_folder(f"{root}{mount}", recipe.source)) / recipe.script
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(_stand_in(script.name).read_text(encoding="utf-8"), encoding="utf-8")
        for value in map(str, {**recipe.arguments, **recipe.overrides}.values()):
            if value.startswith(_DATA_PREFIX):
                _place_data(shared / "data" / value.removeprefix(_DATA_PREFIX))
            elif _CONFIG.search(value):
                _place_config(script.parent / value / "config.json")


def _stand_in(script: str) -> Path:
    """The file that takes a script's place; one that refuses, where there is none."""
    if script in SCRIPTS:
        return _STAND_INS / "llm.py"
    own = _STAND_INS / script
    return own if own.is_file() else _STAND_INS / "none.py"


def _place_data(path: Path) -> None:
    """Empty placeholders: shards for BERT, a saved data set for the others, a model's configuration."""
    if path.suffix == ".json":
        _place_config(path)
        return
    path.mkdir(parents=True, exist_ok=True)
    if "hdf5" not in path.name:
        (path / "dataset_info.json").write_text("{}", encoding="utf-8")
        return
    for number in range(_SHARDS):
        (path / _SHARD_NAME.format(number)).touch()


def _place_config(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}", encoding="utf-8")
