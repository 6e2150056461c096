"""`trnctl why` on saved files, on codes, and on a cluster and its runs."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.trnctl_runner import Trnctl, eventually, sandbox

LOCK = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 2201 (unattended-upgr)\n"
STOCK = (
    "We currently do not have sufficient trn1.32xlarge capacity in the Availability Zone you requested (us-west-2d)."
)


def saved(folder: Path, name: str, content: bytes) -> str:
    """A file that holds this."""
    path = folder / name
    path.write_bytes(content)
    return str(path)


def archive(members: dict[str, str]) -> bytes:
    """A compressed archive, as `pcluster export-cluster-logs` makes one."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return made.getvalue()


def found(trnctl: Trnctl, *words: str) -> list[str]:
    """The codes that it finds."""
    return [one["code"] for one in trnctl.json("why", *words)["findings"]]


def test_a_saved_log_is_explained_with_cause_evidence_and_remedy(nowhere: Trnctl, tmp_path: Path) -> None:
    ended = nowhere("why", saved(tmp_path, "cloud-init-output.log", f"Hit:1 x\n{LOCK}".encode()))
    lines = ended.out.splitlines()
    assert lines[0].split() == ["error", "apt-lock", "[high", "confidence]"]
    assert [line.split()[0] for line in lines[1:] if line[2:3].strip()] == ["cause", "evidence", "remedy"]
    assert "cloud-init-output.log:2" in ended.out
    assert "looked at 2 lines of 1 text" in ended.talk
    assert max(map(len, lines)) <= 100 or str(tmp_path) in ended.out


def test_the_json_has_the_keys_of_the_contract(nowhere: Trnctl, tmp_path: Path) -> None:
    answer = nowhere.json("why", saved(tmp_path, "x.log", LOCK.encode()))
    assert {"findings", "harmless", "looked_at", "facts", "about", "name"} <= set(answer)
    (finding,) = answer["findings"]
    wanted = {"code", "level", "path", "line", "message", "remedy", "evidence", "cause", "confidence"}
    assert wanted <= set(finding)
    assert (finding["line"], finding["confidence"], answer["about"]) == (1, "high", "file")


@pytest.mark.parametrize("name", ["why", "diagnose", "explain"])
def test_standard_input_is_read_under_every_name(nowhere: Trnctl, name: str) -> None:
    assert "apt-lock" in nowhere(name, "-", stdin=LOCK).out


def test_a_file_is_read_however_it_was_saved(nowhere: Trnctl, tmp_path: Path) -> None:
    logs = {"demo/cfn-init.log": "all is well\n", "demo/cloud-init-output.log": LOCK}
    assert found(nowhere, saved(tmp_path, "a.log.gz", gzip.compress(LOCK.encode()))) == ["apt-lock"]
    assert found(nowhere, saved(tmp_path, "utf16.txt", LOCK.encode("utf-16"))) == ["apt-lock"]
    assert found(nowhere, saved(tmp_path, "logs.tar.gz", archive(logs))) == ["apt-lock"]
    folder = tmp_path / "logs"
    folder.mkdir()
    saved(folder, "one.log", b"nothing\n")
    saved(folder, "two.log", LOCK.encode())
    assert found(nowhere, str(folder)) == ["apt-lock"]


def test_an_archive_is_read_from_a_pipe_too(nowhere: Trnctl) -> None:
    packed = archive({"demo/cloud-init.log": LOCK}).decode("utf-8", "surrogateescape")
    assert "apt-lock" in nowhere("why", "-", stdin=packed).out


@pytest.mark.parametrize("content", [b"", gzip.compress(b"")], ids=["empty", "empty, packed"])
def test_an_empty_text_is_said_to_be_empty(nowhere: Trnctl, tmp_path: Path, content: bytes) -> None:
    assert "is empty: there is nothing to judge" in nowhere("why", saved(tmp_path, "x.log", content)).out


def test_what_holds_no_text_is_exit_code_2(nowhere: Trnctl, tmp_path: Path) -> None:
    core = bytes(range(256)) * 100
    assert "is no text" in nowhere("why", saved(tmp_path, "core", core), code=2).talk
    assert "is no text" in nowhere("why", saved(tmp_path, "core.gz", gzip.compress(core)), code=2).talk
    (tmp_path / "nothing").mkdir()
    assert "no file" in nowhere("why", str(tmp_path / "nothing"), code=2).talk


def test_one_file_that_cannot_be_read_hides_no_other(nowhere: Trnctl, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    saved(folder, "a.log", LOCK.encode())
    saved(folder, "core", bytes(range(256)) * 100)
    saved(folder, "broken.gz", gzip.compress(LOCK.encode() * 1000)[:60])
    (folder / "memory").symlink_to("/proc/self/mem")
    answer = nowhere.json("why", str(folder))
    assert [one["code"] for one in answer["findings"]] == ["apt-lock"]
    assert [note.split(" ")[0] for note in answer["notes"]] == ["broken.gz", "core", "memory"]


def test_lines_that_speak_of_an_error_are_shown_where_nothing_is_known(nowhere: Trnctl) -> None:
    text = "all is well\nERROR: the flux capacitor is out of tune\nstep 2\n"
    ended = nowhere("why", "-", stdin=text)
    assert ended.out.startswith("Undecided: nothing that trnctl knows")
    assert "standard input:2" in ended.out
    assert "flux capacitor" in ended.out
    answer = nowhere("why", "-", "-o", "json", stdin=text).json
    assert answer["findings"] == []
    assert [one["line"] for one in answer["unexplained"]] == [2]


def test_nothing_found_is_a_success_that_says_what_was_looked_at(nowhere: Trnctl) -> None:
    ended = nowhere("why", "-", stdin="step 812 loss 7.12\n")
    assert "Nothing that trnctl knows has gone wrong" in ended.out
    assert "looked at 1 line of 1 text" in ended.talk


def test_a_harmless_line_is_said_to_be_harmless(nowhere: Trnctl) -> None:
    ended = nowhere("why", "-", stdin="!!  This software has not been tested with node v24.1.0.  !!\n")
    assert "Nothing that trnctl knows has gone wrong" in ended.out
    assert "harmless pcluster's banner" in ended.talk


def test_a_code_is_explained(nowhere: Trnctl) -> None:
    assert "UnkillableStepTimeout" in nowhere("why", "kill-task-failed").out
    assert "Service Quotas" in nowhere("why", "QUOTA_SHORT").out
    answer = nowhere.json("why", "insufficient-capacity")
    assert (answer["about"], answer["code"]) == ("code", "insufficient-capacity")
    assert answer["links"]


def test_what_nobody_knows_is_exit_code_8(nowhere: Trnctl) -> None:
    ended = nowhere("why", "insufficient-capacty", code=8)
    assert "did you mean insufficient-capacity?" in ended.talk


def test_a_file_that_cannot_be_read_is_exit_code_2(nowhere: Trnctl, tmp_path: Path) -> None:
    assert "there is no file" in nowhere("why", str(tmp_path / "no.log"), code=2).talk
    broken = saved(tmp_path, "broken.gz", gzip.compress(LOCK.encode() * 1000)[:60])
    assert "cannot be read" in nowhere("why", broken, code=2).talk


# ------------------------------------------------------------------------------------ a cluster and its runs


@pytest.fixture(scope="module")
def cluster() -> Iterator[Trnctl]:
    """A sandbox with a cluster of its own, whose logs these tests fill."""
    with sandbox() as trnctl:
        trnctl("cluster", "create", "-y", timeout=120)
        trnctl.place_needs()
        yield trnctl


@pytest.mark.slow
@pytest.mark.sandbox
def test_a_launch_that_ec2_refuses_is_found_in_the_head_nodes_logs(cluster: Trnctl) -> None:
    assert "Nothing that trnctl knows has gone wrong" in cluster("why").out
    cluster("sandbox", "fault", "insufficient-capacity", "--times", "20")
    try:
        cluster("submit", "bert-large", "-N", "1", "--name", "cap")
        eventually(lambda: "insufficient-capacity" in found(cluster), "the refusal is in the logs", timeout=60)
        assert found(cluster, "cap")[0] == "insufficient-capacity"
    finally:
        cluster("sandbox", "fault", "clear")
        cluster("cancel", "cap")


@pytest.mark.slow
@pytest.mark.sandbox
def test_a_followed_run_that_fails_ends_with_its_cause(cluster: Trnctl) -> None:
    cluster("sandbox", "fault", "compile-failure")
    try:
        ended = cluster("submit", "bert-large", "-N", "1", "--name", "bad", "-f", code=6, timeout=180)
    finally:
        cluster("sandbox", "fault", "clear")
    assert "cause" in ended.err
    assert "evidence" in ended.err
    assert found(cluster, "bad")[0] in {"compile-partial", "compiler-error"}
    before = cluster.connections()
    cluster("why", "bad")
    assert cluster.connections() - before <= 1, "one connection to the head node"


@pytest.mark.slow
@pytest.mark.sandbox
def test_a_hardware_error_blames_the_node_that_has_it(cluster: Trnctl) -> None:
    cluster("submit", "bert-large", "-N", "1", "--name", "hung", "--set", "steps_this_run=1", "-f", timeout=180)
    (folder,) = cluster.shared("/fsx").rglob("hung/logs/train")
    (folder / "node-0.log").write_text("suspected hang in collectives operation 4 out of 90\n")
    (folder / "node-1.log").write_text(
        "kernel: NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR nd-id=2 action=TERMINATE_INSTANCE\n"
    )
    answer = cluster.json("why", "hung")
    assert [(one["code"], one["node"]) for one in answer["findings"][:1]] == [("neuron-hw-error", "node1")]
    assert all(one["code"] != "neuron-hw-error" for one in answer["findings"][1:])
    assert json.dumps(answer["facts"]).count("version") == 1


@pytest.mark.slow
@pytest.mark.sandbox
def test_an_unknown_run_is_exit_code_8(cluster: Trnctl) -> None:
    assert "There is no run nosuch" in cluster("why", "nosuch", code=8).talk
