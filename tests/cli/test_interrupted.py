"""Ctrl-C, and a world that dies: the work goes on or its end is told, and the same command takes it up again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.cli.trnctl_runner import SIXTEEN, Ended, Trnctl, eventually, sandbox

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


@pytest.fixture(scope="module")
def leisurely() -> Iterator[Trnctl]:
    """A sandbox in which the life of a cluster takes long enough to be interrupted; the tests live it in order."""
    with sandbox(SIXTEEN, "--resource-seconds", "0.2") as trnctl:
        yield trnctl


def interrupted(trnctl: Trnctl, *words: str, when: str) -> Ended:
    """The command with Ctrl-C as soon as it has printed `when`."""
    with trnctl.start(*words) as running:
        running.until(lambda it: when in it.out + it.err, f"it has printed {when}", timeout=90)
        running.interrupt()
        ended = running.end(30)
    assert ended.code == 130
    assert "Traceback" not in ended.err
    return ended


def test_a_create_goes_on_and_the_next_one_takes_up_the_wait(leisurely: Trnctl) -> None:
    ended = interrupted(leisurely, "cluster", "create", "-y", when="creating")
    assert "the work goes on" in ended.talk
    assert "trnctl cluster create goes on" in ended.err.splitlines()[-1]
    assert leisurely.json("status")["cluster"]["phase"] == "creating"
    again = leisurely("cluster", "create", timeout=120)
    assert "ultra1 is already creating: nothing new is made" in again.talk
    assert "ultra1 is running" in again.out


def test_a_followed_run_goes_on(leisurely: Trnctl) -> None:
    words = ["submit", "bert-large", "-N", "2", "--name", "left-alone", "--set", "steps_this_run=1", "-f"]
    ended = interrupted(leisurely, *words, when="— compile 1: running")
    assert "the run goes on" in ended.talk
    assert "trnctl logs left-alone -f follows it again" in ended.talk
    assert "trnctl:left-alone:train" in leisurely.slurm("squeue", "-h", "-o", "%k")
    leisurely("logs", "left-alone", "-f", timeout=120)
    assert leisurely.json("results", "left-alone")["steps_done"] == 1


def test_watching_ends_and_nothing_else(leisurely: Trnctl) -> None:
    ended = interrupted(leisurely, "status", "-w", "--interval", "0.5", "-o", "json", when="left-alone")
    assert all(line["cluster"]["phase"] == "running" for line in ended.lines)
    leisurely("status")


def test_a_teardown_goes_on_and_the_next_one_proves_its_end(leisurely: Trnctl) -> None:
    ended = interrupted(leisurely, "teardown", "--delete-storage", "-y", when="deleting")
    assert "the work goes on" in ended.talk
    assert "trnctl teardown --cluster ultra1" in ended.err.splitlines()[-1]
    proof = leisurely.json("teardown", "--delete-storage", "-y", timeout=120)
    assert proof["left"] == []
    leisurely("status", code=8)


def test_a_create_whose_world_dies_says_so_and_works_after_a_restart() -> None:
    with sandbox(SIXTEEN, "--resource-seconds", "0.2") as trnctl:
        with trnctl.start("cluster", "create", "-y") as create:
            create.until(lambda it: "creating" in it.err, "the stack is being created")
            os.kill(trnctl.world()["pid"], signal.SIGKILL)
            ended = create.end(60)
        assert ended.code in {4, 5}
        assert ended.err.splitlines()[-2].startswith("error: ")
        assert ended.err.splitlines()[-1].startswith("remedy: ")
        assert "Traceback" not in ended.err
        assert "Start it with trnctl sandbox up" in trnctl("status", code=4).talk
        trnctl("sandbox", "up")
        trnctl("status", code=8)  # the account of the dead world is gone, and nothing pretends otherwise
        trnctl("cluster", "create", "-y", timeout=120)
        eventually(lambda: trnctl.json("status")["cluster"]["phase"] == "running", "the new cluster runs")
