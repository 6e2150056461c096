"""What resume writes into a run's folder, with stand-ins for Slurm's commands."""

from __future__ import annotations

import json
import os
from pathlib import Path

from trnctl.adapters.local_shell import LocalShell
from trnctl.adapters.slurm import SlurmQueue
from trnctl.render.agent import agent

_TOOLS = {"scontrol": "echo is UP", "squeue": ":", "sinfo": ":", "sbatch": "echo 9"}


def test_a_preparer_that_gave_up_is_forgotten_once_a_person_has_brought_what_it_could_not(tmp_path: Path) -> None:
    """Else the same submit would cancel the run's living jobs, and start it from its beginning."""
    tools, run = tmp_path / "tools", tmp_path / "runs/r"
    tools.mkdir()
    for name, text in _TOOLS.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    contents: dict[str, object] = {
        "run.json": {"stages": ["prepare", "train"]},
        "submitted.json": {"run": "r", "jobs": {"train": "7"}, "preparing": ["the words"]},
        "prepare/needs.json": {"needs": []},
        "ended/prepare.json": {"exit_code": 1, "kind": "network", "reason": "no way"},
    }
    for name, content in contents.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(json.dumps(content))
    (run / "train.sbatch").touch()
    queue = SlurmQueue(LocalShell({**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}), agent())
    assert queue.resume("r", str(tmp_path / "runs")).jobs == {"train": "9"}
    assert json.loads((run / "ended/prepare.json").read_text())["exit_code"] == 0
