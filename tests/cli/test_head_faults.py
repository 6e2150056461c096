"""Head nodes that do not come up, one after the other in one sandbox: `create` names the cause by itself, `why` says
the same afterwards, and creating again, with which the remedy ends, works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.fault_story import over, said, strike, told
from tests.cli.trnctl_runner import SIXTEEN, Trnctl, sandbox
from trnctl.sandbox.head_faults import HEAD_FAULTS

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


@pytest.fixture(scope="module")
def account() -> Iterator[Trnctl]:
    """An account whose resources are made at once, and whose head nodes fail to boot."""
    with sandbox(SIXTEEN, "--resource-seconds", "0.002") as trnctl:
        yield trnctl


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("head-bootstrap-timeout", marks=pytest.mark.fault("head-bootstrap-timeout")),
        pytest.param("head-no-route", marks=pytest.mark.fault("head-no-route")),
        pytest.param("head-image-unbaked", marks=pytest.mark.fault("head-image-unbaked")),
        pytest.param("head-recipe-failed", marks=pytest.mark.fault("head-recipe-failed")),
        pytest.param("head-script-failed", marks=pytest.mark.fault("head-script-failed")),
        pytest.param("head-script-missing", marks=pytest.mark.fault("head-script-missing")),
        pytest.param("head-image-mismatch", marks=pytest.mark.fault("head-image-mismatch")),
        pytest.param("head-mount-failed", marks=pytest.mark.fault("head-mount-failed")),
    ],
)
def test_a_head_node_that_fails_is_told_with_its_cause_and_can_be_created_again(account: Trnctl, name: str) -> None:
    strike(account, name)
    ended = account("cluster", "create", "-y", code=4, timeout=240)
    assert ended.out == ""
    assert "run this command again" in ended.err.splitlines()[-1]
    finding = told(account, name)
    said(ended, finding)
    seen = account.json("status")
    assert seen["cluster"]["phase"] == "create-failed"
    [alert] = [one for one in seen["alerts"] if one["code"] == "stack-failed"]
    assert finding["message"][1:].rstrip(".") in alert["message"]
    if HEAD_FAULTS[name].logs:  # of a node that is gone: CloudWatch keeps them beyond the rollback
        assert finding["file"].startswith("CloudWatch ip-")
    if HEAD_FAULTS[name].console:
        assert finding["file"].startswith("console of i-")


def test_what_has_failed_can_be_kept_for_a_look(account: Trnctl) -> None:
    strike(account, "head-bootstrap-timeout")
    ended = account("cluster", "create", "--keep-failed", "-y", code=4, timeout=240)
    assert "runs on and costs; trnctl why and trnctl ssh look at it" in ended.err.splitlines()[-1]
    assert account.json("status")["cluster"]["head_node"]["state"] == "running"
    told(account, "head-bootstrap-timeout")


def test_then_it_comes_up(account: Trnctl) -> None:
    created = account("cluster", "create", "-y", timeout=240)
    assert "a stack named ultra1 that failed to be created is deleted first" in created.talk
    assert account.json("status")["cluster"]["phase"] == "running"
    over(account)
    proof = account.json("teardown", "--delete-storage", "-y", timeout=240)
    assert proof["left"] == []  # also not the file systems of the creations that failed
    assert any("log group /aws/parallelcluster/ultra1-" in one for one in proof["kept"])
