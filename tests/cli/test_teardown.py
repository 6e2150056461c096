"""Teardown: what is kept and what is deleted, runs that are in the way, the stack alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.trnctl_runner import Trnctl, sandbox

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


@pytest.fixture(scope="module")
def account() -> Iterator[Trnctl]:
    """A sandbox in which each test makes a cluster and takes it away."""
    with sandbox() as trnctl:
        yield trnctl


def test_the_two_words_about_storage_exclude_each_other(account: Trnctl) -> None:
    ended = account("teardown", "--keep-storage", "--delete-storage", "-y", code=2)
    assert "exclude each other" in ended.talk


def test_runs_are_cancelled_when_told_and_kept_storage_goes_at_a_second_teardown(account: Trnctl) -> None:
    account("cluster", "create", "-y", timeout=240)
    account("submit", "bert-large", "-N", "2", "--hold", "--name", "alive")
    assert "ultra1 is at work: alive" in account("teardown", "--keep-storage", "-y", code=3).talk
    ended = account("teardown", "--keep-storage", "--cancel-runs", "-y", "-o", "json", timeout=120)
    assert "keeps fs-" in ended.talk
    kept = ended.json
    assert any("run alive" in one for one in kept["deleted"])
    assert kept["left"] == []
    (system,) = [one for one in kept["kept"] if "fs-" in one]
    account("status", code=8)
    # What outlived the cluster is still found by its tag.
    assert "--keep-storage or --delete-storage" in account("teardown", "-y", code=2).talk
    gone = account.json("teardown", "--delete-storage", "-y", timeout=60)
    assert any(system.split()[1] in one for one in gone["deleted"])
    assert not [one for one in gone["kept"] if "fs-" in one]
    assert gone["left"] == []
    assert "nothing there carries its tag" in account("teardown", "--delete-storage", "-y", code=8).talk


def test_delete_takes_the_stack_alone(account: Trnctl) -> None:
    account("cluster", "create", "-y", timeout=240)
    assert account.json("cluster", "delete", "-y", timeout=120) == {"deleted": "ultra1"}
    assert account.json("cluster", "list")["clusters"] == []
    account("status", code=8)
    proof = account.json("teardown", "--delete-storage", "-y", timeout=60)
    assert any("fs-" in one for one in proof["deleted"])
    assert proof["left"] == []
