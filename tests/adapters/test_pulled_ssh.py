"""ssh pulled again and again while a log is followed, and while runs are submitted: nothing lost, nothing doubled.

TRNCTL_PULLS says how often (10 without it); with 100 both take some minutes.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.adapters.small_slurm import SmallSlurm
from tests.adapters.small_sshd import SmallSshd
from tests.contracts.job_queue import new_run, two_stages
from trnctl.adapters.local_shell import LocalShell
from trnctl.adapters.slurm import SlurmQueue
from trnctl.adapters.ssh_shell import SshShell
from trnctl.errors import ConnectionLost
from trnctl.ports import File, LogLine, RunOver, Submission
from trnctl.render.agent import agent

PULLS = int(os.environ.get("TRNCTL_PULLS", "10"))


@pytest.fixture
def server(slurm: SmallSlurm) -> Iterator[SmallSshd]:
    """An sshd of this test's own, since it breaks all connections."""
    with tempfile.TemporaryDirectory(prefix="trnctl-sshd-") as folder:
        server = SmallSshd(Path(folder), {"SLURM_CONF": slurm.environ["SLURM_CONF"]})
        server.start()
        yield server
        server.stop()


def queue_of(server: SmallSshd) -> SlurmQueue:
    shell = SshShell(LocalShell(), "127.0.0.1", server.options())
    return SlurmQueue(shell, agent(), pause=lambda seconds: time.sleep(min(seconds, 0.2)))


def submission(folder: str, run: str, script: str) -> Submission:
    texts = [File(f"{stage}.sbatch", f"#!/bin/bash\n#SBATCH --output=/dev/null\n{script}\n") for stage in STAGES]
    return two_stages(run, folder, tuple(texts))


STAGES = ("compile", "train")


@pytest.fixture
def runs(slurm: SmallSlurm) -> Iterator[str]:
    """A folder of runs; afterwards the queue is empty."""
    yield tempfile.mkdtemp(prefix="runs-", dir=slurm.root / "shared")
    for job in slurm.call("squeue", "-h", "-o", "%i").split():
        slurm.call("scancel", job)


@pytest.mark.slow
def test_no_line_is_lost_or_doubled_when_ssh_is_pulled_again_and_again(server: SmallSshd, runs: str) -> None:
    run = new_run()
    queue = queue_of(server)
    folder = Path(runs) / run
    lines = f"n=0; while [ ! -e {folder}/stop ]; do echo line $n; n=$((n+1)); sleep 0.02; done"
    end = f"printf '{{\"exit_code\": 0}}' >{folder}/ended/train.json"
    script = f"({lines}) >>{folder}/logs/train/node-0.log\n{end}"
    only_train = replace(submission(runs, run, script), stages=("train",))
    queue.submit(only_train)
    seen: list[int] = []
    over = threading.Event()

    def pull() -> None:
        for _ in range(PULLS):
            known, deadline = len(seen), time.monotonic() + 20
            while len(seen) == known and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(random.uniform(0, 0.1))  # noqa: S311  no secret
            server.drop()
        (folder / "stop").touch()
        over.set()

    puller = threading.Thread(target=pull, daemon=True)
    puller.start()
    last = None
    for event in queue.follow(run, runs, stage="train"):
        if isinstance(event, LogLine) and event.text.startswith("line "):
            seen.append(int(event.text.split()[1]))
        last = event
    puller.join(10)
    assert over.is_set()
    assert isinstance(last, RunOver)
    written = (folder / "logs/train/node-0.log").read_text().splitlines()
    assert seen == list(range(len(written)))


@pytest.mark.slow
def test_no_run_is_submitted_twice_when_ssh_is_pulled_again_and_again(
    server: SmallSshd, runs: str, slurm: SmallSlurm
) -> None:
    queue = queue_of(server)
    names = [f"pulled-{number}" for number in range(PULLS)]
    unknown = 0
    for name in names:
        wanted = replace(submission(runs, name, "sleep 1"), hold=True)
        pull = threading.Timer(random.uniform(0, 0.4), server.drop)  # noqa: S311  no secret
        pull.start()
        for _ in range(5):
            try:
                queue.submit(wanted)
                break
            except ConnectionLost:  # what a person does then: the same command again
                unknown += 1
        else:
            raise AssertionError(f"{name} could not be submitted")
        pull.join()
    comments = slurm.call("squeue", "-h", "-a", "-o", "%k").split()
    ours = sorted(comment for comment in comments if comment.startswith("trnctl:pulled-"))
    assert ours == sorted(f"trnctl:{name}:{stage}" for name in names for stage in STAGES)
    print(f"{unknown} of {PULLS} submissions had to be given again")
