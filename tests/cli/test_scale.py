"""The benchmark of many nodes and jobs sees them all, and judges. How fast, a quiet machine says (make bench)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.trnctl_runner import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


def test_a_look_at_1875_nodes_and_hundreds_of_jobs_sees_all_in_little_memory() -> None:
    argv = [sys.executable, str(ROOT / "bench/scale.py"), "300", "--seconds", "120"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "squeue has 301 jobs; status saw 1,875 nodes" in done.stdout
    assert "status within 120 s and 150 MB" in done.stdout
