"""Put the emulated tools on a cluster's PATH, and the stand-ins for training scripts and data on its shared storage."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

from trnctl.render.places import code_folder, environment_of, hub_mark
from trnctl.sandbox.neuron.emulation import CLUSTER_VARIABLE, NOTICE
from trnctl.sandbox.neuron.sources import brought, code_of, data_files, recipes, wheels

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
# Every node's epilog asks its kernel at the end of each job: where nothing is broken, no Python need start.
_QUICK = {"dmesg": f'[ $# -gt 0 ] || ls "${CLUSTER_VARIABLE}"/run/neuron/*.broken >/dev/null 2>&1 || exit 0\n'}
_PROGRAMS = {**TOOLS, "git": "git"}  # git is the real one, but for the commits that the shipped recipes pin


def install(bin: Path, cluster_dir: Path) -> None:  # noqa: A002  the folder is called bin
    """Write a wrapper for each emulated tool into `bin`; they obey `cluster_dir`/emulation.json."""
    bin.mkdir(parents=True, exist_ok=True)
    for tool, module in _PROGRAMS.items():
        wrapper = bin / tool
        wrapper.write_text(
            f"#!/bin/sh\n# {tool}, {NOTICE}.\n"
            f"export {CLUSTER_VARIABLE}={shlex.quote(str(cluster_dir))}\n"
            f"{_QUICK.get(tool, '')}"
            f'exec {shlex.quote(sys.executable)} -P -m {_PACKAGE}.{module} "$@"\n',
            encoding="utf-8",
        )
        wrapper.chmod(0o755)


def install_source(root: Path, mount: str, *, sdk: str = "", os: str = "") -> None:
    """Put what the shipped recipes need where the preparer would: for tests of what comes after it. An environment is
    only said to be there, for that release and system."""
    shared = Path(f"{root}{mount}") / "trnctl"
    install_brought(root, mount)
    for recipe in recipes():
        place = Path(code_folder(f"{root}{mount}", replace(recipe.source, path="")))
        for name, text in code_of(recipe).items():
            _write(place / name, text)
        for data in recipe.data:
            _place_data(shared / "data" / data.path)
        for model in recipe.hub:
            _write(Path(hub_mark(f"{root}{mount}", model)), model.revision)
        if environment := environment_of(recipe, mount=f"{root}{mount}", sdk=sdk, os=os):
            _write(Path(environment) / "complete", "")


def install_brought(root: Path, mount: str) -> None:
    """Put there what a person would bring, or what lies on the internet outside of S3: placeholders."""
    for recipe in recipes():
        for path in brought(recipe):
            _place_data(Path(f"{root}{mount}") / "trnctl" / "data" / path)


def _place_data(path: Path) -> None:
    """A file, or a folder with empty files."""
    files = data_files(path.name)
    if not files:
        _write(path, "{}")
        return
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def install_packages(home: Path, wheelhouse: Path) -> None:
    """Let pip on the cluster find the stand-ins for what the shipped recipes require, and ask nobody else. Packages of
    other recipes can be put beside them, as wheels."""
    wheelhouse.mkdir(parents=True, exist_ok=True)
    for name, content in wheels().items():
        (wheelhouse / name).write_bytes(content)
    _write(home / ".config" / "pip" / "pip.conf", f"[global]\nno-index = true\nfind-links = {wheelhouse}\n")
