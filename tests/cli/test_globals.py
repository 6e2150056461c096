"""Global options mean the same before and after real commands; nothing after `--` is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.trnctl_runner import SIXTEEN, Trnctl

COMMANDS = {
    "cluster render": ["cluster", "render"],
    "cluster validate": ["cluster", "validate"],
    "workloads show": ["workloads", "show", "bert-large"],
    "submit --dry-run": ["submit", "bert-large", "-N", "4", "--dry-run", "--name", "same"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_file_and_the_form_are_taken_before_and_after(nowhere: Trnctl, command: list[str]) -> None:
    options = ["-c", str(SIXTEEN), "-o", "json"]
    before = nowhere(*options, *command, target="aws")
    after = nowhere(*command, *options, target="aws")
    between = nowhere(*options[:2], *command, *options[2:], target="aws")
    attached = nowhere(*command, f"-c{SIXTEEN}", "-ojson", target="aws")
    said = _without_time(before.out)
    assert before.json
    assert [_without_time(one.out) for one in (after, between, attached)] == [said] * 3


def _without_time(text: str) -> str:
    """What is printed but for the moment of a submit, which the run's manifest holds."""
    return "\n".join(line for line in text.splitlines() if "submitted_at" not in line)


def test_the_sandbox_is_chosen_by_option_as_by_variable(nowhere: Trnctl) -> None:
    trnctl = nowhere.of(SIXTEEN)
    by_variable = trnctl("status", code=4)
    before = nowhere("--sandbox", "-c", str(SIXTEEN), "status", code=4, target="aws")
    after = nowhere("status", "-c", str(SIXTEEN), "--sandbox", code=4, target="aws")
    assert by_variable.err == before.err == after.err
    assert "sandbox is not up" in by_variable.err


def test_a_file_in_the_folder_or_above_is_found(nowhere: Trnctl, tmp_path: Path) -> None:
    (tmp_path / "trnctl.yaml").write_text(SIXTEEN.read_text())
    below = tmp_path / "deep" / "er"
    below.mkdir(parents=True)
    assert "compute1" in Trnctl(nowhere.folder, where=below)("cluster", "render", target="aws").out


@pytest.mark.slow
@pytest.mark.sandbox
def test_a_cluster_is_chosen_by_name_without_a_file(ultra1: Trnctl) -> None:
    by_name = Trnctl(ultra1.folder)
    assert by_name.json("status", "--cluster", "ultra1")["cluster"]["name"] == "ultra1"
    assert by_name.json("--cluster", "ultra1", "--region", "us-west-2", "runs") == ultra1.json("runs")
    elsewhere = by_name("status", "--cluster", "ultra1", "--region", "us-east-2", code=8)
    assert "us-east-2" in elsewhere.talk


@pytest.mark.slow
@pytest.mark.sandbox
def test_what_follows_two_dashes_goes_to_the_other_side_untouched(ultra1: Trnctl) -> None:
    ended = ultra1("-o", "json", "ssh", "--", "printf", "'%s\\n'", "-o", "json", "--sandbox", "'a  b'", "-c", "-v")
    assert ended.out.splitlines() == ["-o", "json", "--sandbox", "a  b", "-c", "-v"]
