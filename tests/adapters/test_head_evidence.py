"""The script that gathers evidence, run on a folder that looks like a head node's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trnctl.adapters.head_evidence import AgentEvidence
from trnctl.adapters.local_shell import LocalShell
from trnctl.errors import NotFoundError
from trnctl.ports import HeadEvidence
from trnctl.render import templates

SLURM = """#!/bin/sh
case "$(basename "$0") $*" in
    "scontrol ping") echo "Slurmctld(primary) at head is UP" ;;
    "scontrol show job 7") echo "JobId=7 JobName=train"; echo "   NodeList=c-dy-i-[1-2]" ;;
    "scontrol show hostnames"*) echo c-dy-i-1; echo c-dy-i-2 ;;
    "squeue"*) echo "7 c train me PD 0:00 2 (BadConstraints)" ;;
    "ssh"*c-dy-i-2*) echo "neuron0: NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR nd-id=1" ;;
esac
"""


@pytest.fixture
def head(tmp_path: Path) -> HeadEvidence:
    """A head node whose Slurm and ssh are one small program, with one run and two logs."""
    programs, logs, run = tmp_path / "bin", tmp_path / "root/var/log/parallelcluster", tmp_path / "runs/bert-large-a3f"
    for folder in (programs, logs, run / "logs" / "train", run / "ended"):
        folder.mkdir(parents=True)
    for name in ("scontrol", "squeue", "sinfo", "ssh"):
        (programs / name).write_text(SLURM)
        (programs / name).chmod(0o755)
    (logs / "clustermgtd").write_text("old\n" * 200_000 + "newest\n")
    (run / "logs/train/node-1.log").write_text("of node 1\n")
    (run / "submitted.json").write_text(json.dumps({"jobs": {"train": "7"}, "at": "2026-10-01T09:12:01Z"}))
    (run / "run.json").write_text(json.dumps({"nodes": 2}))
    shell = LocalShell({"PATH": f"{programs}:/usr/bin:/bin"})
    return AgentEvidence(shell, templates.read("node/evidence.py"), str(tmp_path / "root"))


def test_the_ends_of_logs_and_slurms_words_are_gathered(head: HeadEvidence) -> None:
    texts = {one.name: one for one in head.gather().texts}
    log = texts["/var/log/parallelcluster/clustermgtd"]
    assert log.source == "clustermgtd"
    assert log.text.endswith("old\nnewest\n")
    assert 200_000 < len(log.text) <= 256 * 1024
    assert "BadConstraints" in texts["squeue"].text
    assert "/var/log/slurmctld.log" not in texts, "what is not there is left out"


@pytest.mark.parametrize("name", ["bert-large-a3f", "a3f"])
def test_a_run_brings_its_logs_and_what_the_kernels_of_its_nodes_say(
    head: HeadEvidence, tmp_path: Path, name: str
) -> None:
    gathered = head.gather(str(tmp_path / "runs"), name)
    texts = {one.name: one for one in gathered.texts}
    assert (gathered.run, gathered.since) == ("bert-large-a3f", "2026-10-01T09:12:01Z")
    assert (texts["logs/train/node-1.log"].node, texts["logs/train/node-1.log"].text) == ("node1", "of node 1\n")
    assert json.loads(texts["run.json"].text) == {"nodes": 2}
    assert "JobId=7" in texts["scontrol show job 7"].text
    assert (texts["dmesg of c-dy-i-2"].source, texts["dmesg of c-dy-i-2"].node) == ("kernel", "c-dy-i-2")
    assert "dmesg of c-dy-i-1" not in texts


@pytest.mark.parametrize(
    ("used", "complete", "words"),
    [(7000, False, "the run's cap of $43.00 is used up: 1.94 node-hours"), (7000, True, ""), (3000, False, "")],
)
def test_a_cap_that_is_used_up_is_told(
    head: HeadEvidence, tmp_path: Path, used: int, complete: bool, words: str
) -> None:
    run = tmp_path / "runs/bert-large-a3f"
    (run / "run.json").write_text(json.dumps({"nodes": 2, "max_cost_usd": 43.0, "max_node_seconds": 7200}))
    ended = {"node_seconds": used, "complete": complete, "stages": {"train": {"exit_code": 143}}}
    (run / "results.json").write_text(json.dumps(ended))
    texts = {one.name: one.text for one in head.gather(str(tmp_path / "runs"), "a3f").texts}
    assert texts.get("results.json", "") == words


def test_a_run_is_found_behind_a_pattern(head: HeadEvidence, tmp_path: Path) -> None:
    assert head.gather(f"{tmp_path}/r*s:/nowhere", "a3f").run == "bert-large-a3f"


def test_a_run_that_is_not_there_is_not_found(head: HeadEvidence, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="There is no run nope"):
        head.gather(str(tmp_path / "runs"), "nope")


def test_a_controller_that_is_down_is_told_and_not_waited_for(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "scontrol").write_text("#!/bin/sh\necho 'Slurmctld(primary) at head is DOWN'\nexit 1\n")
    (programs / "scontrol").chmod(0o755)
    shell = LocalShell({"PATH": f"{programs}:/usr/bin:/bin"})
    texts = AgentEvidence(shell, templates.read("node/evidence.py"), str(tmp_path)).gather().texts
    assert [(one.name, "DOWN" in one.text) for one in texts] == [("scontrol ping", True)]
