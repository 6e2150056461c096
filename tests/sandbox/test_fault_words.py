"""The words of the faults that need no machines: what the emulated account says is what `trnctl why` knows."""

from __future__ import annotations

import json

import pytest

from tests.diagnosing import codes, diagnosed, diagnosed_all
from trnctl.sandbox import faults
from trnctl.sandbox.aws.faults import SILENT
from trnctl.sandbox.head_faults import HEAD_FAULTS, HeadFault


def event(reason: str, kind: str = "AWS::CloudFormation::WaitCondition", status: str = "CREATE_FAILED") -> str:
    """A stack's event, as `trnctl cluster events -o json` saves it."""
    return json.dumps(
        {
            "LogicalResourceId": "HeadNodeWaitCondition20261001", "ResourceStatus": status,
            "ResourceType": kind, "ResourceStatusReason": reason,
        }
    )  # fmt: skip


def left(head: HeadFault) -> dict[str, str]:
    """All that a head node leaves behind which failed in this way."""
    reason = f"WaitCondition received failed message: '{head.reason}' for uniqueId: i-0aa" if head.reason else SILENT
    return {"events.json": event(reason), **head.logs, "console": head.console}


@pytest.mark.parametrize("name", HEAD_FAULTS)
def test_every_way_in_which_a_head_node_fails_has_the_cause_that_it_promises(name: str) -> None:
    head = HEAD_FAULTS[name]
    found = diagnosed_all(left(head))
    assert codes(found)[0] == head.why
    first = found.findings[0]
    assert first.level == "error"
    assert first.cause
    assert first.remedy


def test_each_of_them_is_told_apart() -> None:
    whys = [head.why for head in HEAD_FAULTS.values()]
    assert len(set(whys)) == len(whys), whys


@pytest.mark.parametrize("name", ["delete-failed", "placement-group-in-use", "image-build-failed"])
def test_a_resource_that_fails_is_explained_by_what_aws_says_of_it(name: str) -> None:
    fault = faults.FAULTS[name]
    rule = fault.rule
    found = diagnosed(event(str(rule["reason"]), str(rule["type"]), f"{rule['op']}_FAILED"), name="events.json")
    assert codes(found)[0] == fault.why


def test_every_fault_says_what_happens() -> None:
    listed = faults.list_faults()
    assert len(listed) > 25
    assert all(len(words) > 10 for words in listed.values())
