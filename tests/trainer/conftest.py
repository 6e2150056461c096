"""One run of the worker for all tests of the trainer, however many processes of pytest there are."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.cases import CASES, FILE, Told

WORKER = Path(__file__).with_name("worker.py")
LONGEST = 600  # seconds, on a machine that has other things to do


@pytest.fixture(scope="session")
def trainer_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Where the cases leave their files; the same for all processes of pytest."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "trainer"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def told(trainer_folder: Path) -> Told:
    """What a case told, by its name. The first process that asks runs all of them; without PyTorch that fails."""
    folder = trainer_folder
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            for kind, name in (("H", "tokens.u16"), ("i", "tokens.i32")):
                (folder / name).write_bytes(array(kind, FILE).tobytes())
            (folder / "cases.json").write_text(json.dumps(CASES).replace("{folder}", str(folder)))
            argv = [sys.executable, str(WORKER), str(folder), str(folder / "cases.json")]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=LONGEST, check=False)
            (folder / "done").write_text(json.dumps([done.returncode, done.stdout + done.stderr]))
    code, said = json.loads((folder / "done").read_text())

    def of(name: str) -> dict[str, Any]:
        file = folder / f"{name}.json"
        assert file.exists(), f"{name} did not come to its end (the worker ended with {code}):\n{said[-4000:]}"
        return dict(json.loads(file.read_text()))

    return of
