"""What the sandbox's machines send to the cluster's log group: whole lines, each once."""

from __future__ import annotations

from pathlib import Path

from tests.sandbox.machines_fakes import FakeAccount
from trnctl.sandbox.machines.sent_logs import SentLogs
from trnctl.sandbox.ports import NodeInstance

NODE = NodeInstance("compute1-dy-i1-1", "i-2", "10.0.1.12")


def test_new_lines_are_sent_once_and_whole(tmp_path: Path) -> None:
    account = FakeAccount()
    agents = SentLogs(account, "ultra1", tmp_path, "ip-10-0-0-5", "i-1")
    log = tmp_path / "log" / "slurmctld.log"
    log.parent.mkdir()
    log.write_text("one\ntw")
    agents.ship([NODE])
    log.write_text("one\ntwo\nthree\n")
    (tmp_path / "log" / "slurmd-compute1-dy-i1-1.log").write_text("of the node\n")
    agents.ship([NODE])
    agents.ship([NODE])
    assert account.sent == {
        "ip-10-0-0-5.i-1.slurmctld": ["one", "two", "three"],
        "ip-10-0-1-12.i-2.slurmd": ["of the node"],
    }


def test_a_log_that_began_anew_is_sent_from_its_start(tmp_path: Path) -> None:
    account = FakeAccount()
    agents = SentLogs(account, "ultra1", tmp_path, "ip-10-0-0-5", "i-1")
    log = tmp_path / "log" / "slurmctld.log"
    log.parent.mkdir()
    for text in ("first, and long\n", "second\n"):
        log.write_text(text)
        agents.ship([])
    assert account.sent["ip-10-0-0-5.i-1.slurmctld"] == ["first, and long", "second"]


def test_the_last_words_of_a_node_name_the_step_that_failed(tmp_path: Path) -> None:
    account = FakeAccount()
    SentLogs(account, "ultra1", tmp_path, "ip-10-0-0-5", "i-1").failed_boot(NODE, "2026-10-01T09:12:01Z")
    (lines,) = account.sent.values()
    assert list(account.sent) == ["ip-10-0-1-12.i-2.cloud-init-output"]
    assert any("step repository: failed" in line for line in lines)
