"""A check of nodes as the head node's script carries it out, on a Slurm that is one small program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trnctl.adapters.local_shell import LocalShell
from trnctl.adapters.node_health import AgentHealth
from trnctl.errors import RefusedError, ToolError
from trnctl.ports import CheckProgress, File, HealthCheck, HealthReport, Link, NodeFinding
from trnctl.render.agent import agent

SEP = "\x1f"
# Nodes by their states; the job's states, one for each look; what sbatch was given.
SLURM = r"""#!/bin/sh
told=$FOLDER/told
case "$(basename "$0") $*" in
    "scontrol ping") echo "Slurmctld(primary) at head is UP" ;;
    sinfo*) cat "$FOLDER/nodes" ;;
    sbatch*) echo "$*" >>"$told"; [ -z "$REFUSES" ] || { echo "$REFUSES" >&2; exit 1; }; echo 7 ;;
    squeue*) head -n 1 "$FOLDER/states"; sed -i 1d "$FOLDER/states"
        [ "$(wc -l <"$FOLDER/states")" -gt 1 ] || [ ! -e "$FOLDER/health.json" ] || cp "$FOLDER/health.json" "$CHECK" ;;
    scancel*) echo "scancel $*" >>"$told" ;;
    "scontrol update"*) echo "$*" >>"$told"; case $* in *n-9*) echo "Invalid node" >&2; exit 1 ;; esac ;;
    sudo*) echo "sudo: no" >&2; exit 1 ;;
esac
"""
FOUND = {
    "nodes": ["n-1", "n-2"], "reports": {"n-1": {"devices": {"count": 16}}}, "failed": ["n-2"], "systemic": False,
    "links": [{"nodes": ["n-1", "n-2"], "busbw": None, "error": "hung", "seconds": 2}], "seconds": 4.5,
    "findings": [{"code": "node-silent", "level": "error", "node": "n-2", "message": "gave no report"}],
}  # fmt: skip


class Head:
    """A head node in a folder: its Slurm's words are files there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        for name in ("scontrol", "sinfo", "sbatch", "squeue", "scancel", "sudo"):
            (folder / "bin" / name).write_text(SLURM)
            (folder / "bin" / name).chmod(0o755)
        self.check_folder = folder / "trnctl/health/health-1"
        self.states("RUNNING", "RUNNING")
        self.nodes(("n-1", "idle"), ("n-2", "idle"))
        (folder / "told").touch()

    def nodes(self, *states: tuple[str, str], features: str = "dynamic,trn1.32xlarge") -> None:
        """Each node and its state."""
        rows = [SEP.join([name, state, "bad disk" if "drain" in state else "none", features]) for name, state in states]
        (self.folder / "nodes").write_text("".join(f"{row}\n" for row in rows))

    def states(self, *states: str) -> None:
        """What squeue says of the job, look by look; then it has forgotten it."""
        rows = [SEP.join([state, "Resources" if state == "PENDING" else "None", "2"]) for state in states]
        (self.folder / "states").write_text("".join(f"{row}\n" for row in rows))

    def health(self, **environment: str) -> AgentHealth:
        """The door to it."""
        told = {"FOLDER": str(self.folder), "CHECK": str(self.check_folder / "health.json"), **environment}
        return AgentHealth(LocalShell({"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", **told}), agent())

    def wanted(self, count: int | None = None, wait_s: float = 30, constraint: str = "") -> HealthCheck:
        """A check of one file."""
        files = (File("health.sbatch", "#!/bin/sh\n"),)
        return HealthCheck(str(self.check_folder), files, "compute1", count, wait_s, 30, constraint)

    @property
    def told(self) -> str:
        """What Slurm was told to do."""
        return (self.folder / "told").read_text()


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path)


def test_a_check_runs_on_what_is_up_and_idle_and_tells_what_cannot_be_had(head: Head) -> None:
    head.nodes(("n-10", "idle"), ("n-2", "idle"), ("n-3", "allocated"), ("n-4", "idle~"), ("n-5", "drained"))
    (head.folder / "health.json").write_text(json.dumps(FOUND))
    *steps, last = head.health().check(head.wanted())
    assert isinstance(last, HealthReport)
    assert all(isinstance(step, CheckProgress) for step in steps)
    assert (last.nodes, last.failed, last.seconds) == (("n-1", "n-2"), ("n-2",), 4.5)
    assert last.links == (Link(("n-1", "n-2"), None, "hung"),)
    assert last.findings == (NodeFinding("node-silent", "error", "n-2", "gave no report"),)
    assert last.not_had == {"n-3": "allocated", "n-5": "drained (bad disk)"}
    assert "--nodelist=n-2,n-10 --nodes=2" in head.told
    assert "scancel 7" in head.told, "whatever became of it, it does not stay"
    assert (head.check_folder / "health.sbatch").read_text() == "#!/bin/sh\n"


def test_with_a_number_slurm_chooses(head: Head) -> None:
    head.nodes(("n-1", "idle~"), ("n-2", "down"))
    (head.folder / "health.json").write_text(json.dumps(FOUND))
    *_, last = head.health().check(head.wanted(count=2))
    assert isinstance(last, HealthReport)
    assert last.not_had == {"n-2": "down"}
    assert "--nodelist" not in head.told
    assert "--nodes=2" in head.told


def test_nodes_of_another_kind_are_left_out(head: Head) -> None:
    with pytest.raises(RefusedError, match="no queue compute1, or it has no nodes"):
        list(head.health().check(head.wanted(constraint="trn2.48xlarge")))


def test_where_no_node_is_idle_nothing_is_started(head: Head) -> None:
    head.nodes(("n-1", "idle~"), ("n-2", "allocated"))
    with pytest.raises(RefusedError, match="No node of compute1 is up and idle") as caught:
        list(head.health().check(head.wanted()))
    assert "-N 1" in caught.value.remedy
    assert head.told == ""


def test_nodes_that_do_not_come_are_not_waited_for_without_end(head: Head) -> None:
    head.states(*["PENDING"] * 9)
    *_, last = head.health().check(head.wanted(count=2, wait_s=1))
    assert isinstance(last, HealthReport)
    assert last.why == "the nodes could not be had in 1 s (Resources)"
    assert "scancel 7" in head.told


def test_a_job_that_ends_without_a_result_is_told_of_by_its_last_words(head: Head) -> None:
    head.states("RUNNING")
    head.check_folder.parent.mkdir(parents=True)
    *_, last = head.health().check(head.wanted())
    assert isinstance(last, HealthReport)
    assert last.why == "the job ended as OVER"


def test_what_sbatch_refuses_is_told(head: Head) -> None:
    with pytest.raises(ToolError, match="invalid partition"):
        list(head.health(REFUSES="sbatch: error: invalid partition specified: x").check(head.wanted()))


def test_nodes_are_drained_each_for_its_reason(head: Head) -> None:
    done = head.health().drain({"n-1": "trnctl health: node-efa: it's 7 of 8", "n-9": "x"})
    assert (done.nodes, dict(done.refused)) == (("n-1",), {"n-9": "sudo: no"})
    assert "update NodeName=n-1 State=DRAIN Reason=trnctl health: node-efa: it's 7 of 8" in head.told
