"""The words of the faults that need no machines: what the emulated account says is what `trnctl why` knows."""

from __future__ import annotations

import json

import pytest

from tests.diagnosing import codes, diagnosed
from trnctl.sandbox import faults
from trnctl.sandbox.aws.faults import SILENT

REASONS = {
    name: str(fault.rule.get("reason", SILENT))
    for name, fault in faults.FAULTS.items()
    if fault.rule.get("kind") == "boot"
}


def event(reason: str, *, status: str = "CREATE_FAILED") -> str:
    """A stack's event, as `trnctl cluster events -o json` saves it."""
    return json.dumps(
        {
            "LogicalResourceId": "HeadNodeWaitCondition20261001", "ResourceStatus": status,
            "ResourceType": "AWS::CloudFormation::WaitCondition", "ResourceStatusReason": reason,
        }
    )  # fmt: skip


@pytest.mark.parametrize("name", REASONS)
def test_every_way_in_which_a_head_node_fails_has_a_cause_and_a_remedy(name: str) -> None:
    reason = REASONS[name]
    if not reason.startswith("WaitCondition"):
        reason = f"WaitCondition received failed message: '{reason}' for uniqueId: i-0aa"
    found = diagnosed(event(reason), name="events.json")
    assert codes(found), f"nobody knows {reason}"
    first = found.findings[0]
    assert first.level == "error"
    assert first.cause
    assert first.remedy


def test_each_of_them_is_told_apart() -> None:
    found = {name: codes(diagnosed(event(reason), name="events.json"))[0] for name, reason in REASONS.items()}
    assert len(set(found.values())) == len(found), found


def test_every_fault_says_what_happens() -> None:
    listed = faults.list_faults()
    assert len(listed) > 25
    assert all(len(words) > 10 for words in listed.values())
