"""The script that travels to the head node, and the modules that go with it, as texts."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from trnctl.adapters.agent import plain_words
from trnctl.render.agent import agent

NODE = Path(__file__).parents[2] / "templates" / "node"
AGENT = NODE / "queue.py"
SENT = sorted(NODE.glob("*.py"))  # with the message, or in a run's folder
OURS = {path.stem for path in SENT}
PARTS = pytest.mark.parametrize("part", SENT, ids=lambda path: path.stem)
# What Python 3.6 has; ParallelCluster's oldest head nodes (RHEL 8) have no newer one.
NEWER_MODULES = {"contextvars", "dataclasses", "graphlib", "tomllib", "zoneinfo"}
STANDARD = sys.stdlib_module_names - NEWER_MODULES
NEWER_METHODS = {"removeprefix", "removesuffix", "missing_ok", "capture_output", "is_relative_to", "with_stem"}


@PARTS
def test_it_is_python_3_6(part: Path) -> None:
    tree = ast.parse(part.read_text(), feature_version=(3, 6))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    assert not names & NEWER_METHODS


@PARTS
def test_it_imports_only_what_every_python_has(part: Path) -> None:
    tree = ast.parse(part.read_text())
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in found} <= STANDARD | OURS


def test_it_never_asks_sacct() -> None:
    """ParallelCluster keeps no accounting unless it is given a database."""
    words = [node.value for node in ast.walk(ast.parse(AGENT.read_text())) if isinstance(node, ast.Constant)]
    assert "sacct" not in words


def test_it_survives_every_locale() -> None:
    """Python 3.6 may run in the C locale, where it reads and prints only ASCII."""
    assert agent().isascii()


def test_its_modules_are_there_under_their_own_names() -> None:
    installed = agent()[: agent().index(AGENT.read_text())]
    code = f"{installed}import cache, tend; print(tend.cache is cache, cache.__name__, tend.__name__)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("True cache tend\n", "")


def test_what_slurm_says_is_readable() -> None:
    stars = "*" * 41
    banner = f"Slurmctld(primary) at vm is DOWN\n{stars}\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n{stars}"
    assert plain_words(banner) == "Slurmctld(primary) at vm is DOWN"
    two = "sbatch: error: Batch script contains DOS line breaks\nsbatch: error: instead of UNIX line breaks.\n"
    assert plain_words(two) == "Batch script contains DOS line breaks; instead of UNIX line breaks"
    again = "squeue: error: Unable to contact slurm controller\n" * 2
    assert plain_words(again) == "Unable to contact slurm controller"
    assert plain_words("sbatch: error: allocation failure: Invalid name") == "allocation failure: Invalid name"
