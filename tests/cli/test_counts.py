"""What a command asks: connections to the head node, and calls to AWS, as docs/running.md lists them."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from tests.cli.trnctl_runner import Trnctl

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


def asked(trnctl: Trnctl, *, clear: bool = False) -> dict[str, Any]:
    """What the emulated account was asked since the last clearing."""
    endpoint = trnctl.world()["endpoint"]
    method = "DELETE" if clear else "GET"
    wanted = urllib.request.Request(f"{endpoint}/_sandbox/calls", method=method)  # noqa: S310  the sandbox's own address
    with urllib.request.urlopen(wanted, timeout=20) as answer:  # noqa: S310
        return dict(json.loads(answer.read()))


@pytest.mark.parametrize("words", [["status"], ["runs"], ["top", "--once"]], ids=" ".join)
def test_a_look_is_three_calls_to_aws_and_one_start_of_ssh(ultra1: Trnctl, words: list[str]) -> None:
    count = ultra1.counting_ssh()
    before, _ = count(), asked(ultra1, clear=True)
    ultra1(*words)
    calls = asked(ultra1)["calls"]
    # The head node's timer copies what it knows to the bucket now and then.
    ours = {name: count for name, count in calls.items() if not name.startswith("s3:")}
    assert sum(ours.values()) == 3, calls
    assert count() - before == 1
