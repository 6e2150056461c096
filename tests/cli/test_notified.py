"""Who is told that a run has ended, when, and in which words: by runs that could not tell it themselves."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_prepare import own_recipe
from tests.cli.trnctl_runner import Trnctl, eventually, sandbox

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


class Hook:
    """A webhook on loopback: what it was told, by run."""

    def __init__(self) -> None:
        self.told: dict[str, list[dict[str, Any]]] = {}
        hook = self

        class Door(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.told.setdefault(message["run"], []).append(message)
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self.url = f"http://127.0.0.1:{self.server.server_port}/told"

    def words(self, run: str) -> list[tuple[str, str]]:
        """(state, stage) of each time that the end of a run was told."""
        return [(one["state"], one["stage"]) for one in self.told.get(run, [])]


@pytest.fixture
def hook() -> Iterator[Hook]:
    found = Hook()
    threading.Thread(target=found.server.serve_forever, daemon=True).start()
    yield found
    found.server.shutdown()
    found.server.server_close()


def job_of(trnctl: Trnctl, run: str, stage: str = "train") -> str:
    """The id of a run's job."""
    return str(json.loads(trnctl.shared(f"/fsx/trnctl/runs/{run}/submitted.json").read_text())["jobs"][stage])


def test_each_end_is_told_once_in_words(hook: Hook, tmp_path: Path) -> None:
    with sandbox() as trnctl:
        trnctl("cluster", "create", "-y", timeout=240)
        recipe = own_recipe(tmp_path, sha256='"' + "0" * 64 + '"')
        trnctl("submit", recipe, "-N", "1", "--name", "unready", "--notify", hook.url, timeout=120)
        trnctl.place_needs()

        def submit(run: str, *words: str, url: str = hook.url) -> None:
            given = ("submit", "bert-large", "-N", "1", "--name", run, "--notify", url, "--compile", "skip")
            trnctl(*given, *words, timeout=120)

        submit("limited", "--time", "1")
        submit("lost", "--", "--no-requeue")
        submit("cancelled")
        submit("never", "--hold")
        submit("untold", "--set", "steps_this_run=1", url="http://127.0.0.1:9/token")
        runs = ("lost", "cancelled")
        logs = [trnctl.shared(f"/fsx/trnctl/runs/{run}/logs/train/node-0.log") for run in runs]
        eventually(lambda: all(log.exists() and "step_loss" in log.read_text() for log in logs), "they train", 240)
        trnctl.slurm("scancel", job_of(trnctl, "cancelled"), job_of(trnctl, "never"))
        node = trnctl.slurm("squeue", "-h", "-j", job_of(trnctl, "lost"), "-o", "%N").strip()
        trnctl.slurm("scontrol", "update", f"nodename={node}", "state=down", "reason=gone")
        wanted = {
            "unready": ("failed", "prepare"), "limited": ("timeout", "train"), "lost": ("node-fail", "train"),
            "cancelled": ("cancelled", "train"), "never": ("cancelled", "train"),
        }  # fmt: skip
        eventually(lambda: set(hook.told) == set(wanted), f"all are told: {hook.told}", timeout=300)
        time.sleep(8)  # the head node's timer looks again
        assert {run: hook.words(run) for run in hook.told} == {run: [words] for run, words in wanted.items()}
        texts = {run: hook.told[run][0]["text"] for run in wanted}
        assert "limited ran out of time in its train stage at step " in texts["limited"]
        assert "lost lost a node in its train stage" in texts["lost"]
        assert texts["never"] == "never cancelled in its train stage: before it started"
        states = {run["run"]: run["state"] for run in trnctl.json("status")["runs"]}
        assert {run: states[run] for run in wanted} == {run: state for run, (state, _) in wanted.items()}
        untold = json.loads(trnctl.shared("/fsx/trnctl/runs/untold/notified.json").read_text())
        assert (untold["ok"], untold["tries"]) == (False, 3)
        findings = {one["code"]: one for one in trnctl.json("why", "untold")["findings"]}
        assert "nobody could be told" in findings["notification-failed"]["message"]
        assert "token" not in json.dumps(findings)
