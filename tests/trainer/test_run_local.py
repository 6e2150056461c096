"""`trnctl run-local` trains for real on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.trnctl_runner import Trnctl, left


@pytest.fixture
def trnctl(tmp_path: Path) -> Trnctl:
    """No sandbox, no account, no cluster file."""
    return Trnctl(tmp_path)


def test_it_trains_and_tells_every_step(trnctl: Trnctl, tmp_path: Path) -> None:
    words = ("run-local", "fsdp-llama-tiny", "--ranks", "2", "--set", "steps=6", "--write", str(tmp_path / "run"))
    done = trnctl("-o", "json", *words, target="aws", timeout=120)
    *steps, last = done.lines
    assert [one["step"] for one in steps] == [1, 2, 3, 4, 5, 6]
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert last["results"]["final_loss"] == pytest.approx(steps[-1]["loss"], abs=1e-6)
    assert last["results"]["peak_resident_groups"] == 2
    assert json.loads((tmp_path / "run" / "output" / "results.json").read_text()) == last["results"]
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000006"]


@pytest.mark.slow
def test_ctrl_c_saves_and_ends_all_and_another_number_of_ranks_goes_on(trnctl: Trnctl, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["run-local", "fsdp-llama-tiny", "--set", "steps=100000", "--write", str(run)]
    with trnctl.start(*words, "--ranks", "2", target="aws") as running:
        running.until(lambda it: "\nstep 3 " in it.out, "the third step", timeout=120)
        running.interrupt()
        ended = running.end(timeout=90)
    assert ended.code == 130
    assert f"--write {run}" in ended.talk
    (saved,) = (path.name for path in (run / "checkpoints").iterdir())
    at = int(saved.removeprefix("step-"))
    assert at >= 3
    mark = str(run).encode()
    living = [path for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists() and mark in read(path)]
    assert living == []

    words[3] = f"steps={at + 2}"
    more = trnctl("-o", "json", *words, "--ranks", "1", target="aws", timeout=120)
    assert [one["step"] for one in more.lines[:-1]] == [at + 1, at + 2]
    assert more.lines[-1]["results"]["resumed_from"] == saved
    assert left(trnctl) == []


def read(path: Path) -> bytes:
    """What the kernel tells of a process; nothing of one that has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_without_pytorch_it_says_what_to_install(trnctl: Trnctl, tmp_path: Path) -> None:
    words = ("run-local", "fsdp-llama-tiny", "--python", "/usr/bin/python3", "--write", str(tmp_path / "run"))
    assert not os.path.exists("/usr/bin/torchrun"), "this machine has PyTorch where the test expects none"  # noqa: PTH110
    done = trnctl(*words, target="aws", code=4)
    assert "no torchrun at /usr/bin/torchrun" in done.talk
    assert "pip install 'trnctl[trainer]'" in done.talk
    assert not (tmp_path / "run").exists()


def test_a_training_that_fails_ends_with_6(trnctl: Trnctl, tmp_path: Path) -> None:
    words = ("run-local", "fsdp-llama-tiny", "--ranks", "1", "--set", "data=/nowhere", "--write", str(tmp_path / "run"))
    done = trnctl(*words, target="aws", code=6, timeout=120)
    assert "/nowhere" in done.out
    assert "exit code 1" in done.talk
