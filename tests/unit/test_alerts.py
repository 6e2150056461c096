"""What status tells a person to act on: waits for capacity, shut queues, instances and nodes that do not match."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.fakes.clock import START
from trnctl.actions.alerts import block_alerts, fleet_alerts, instance_alerts, node_alerts
from trnctl.cli.status_screens import sparkline
from trnctl.errors import RefusedError
from trnctl.plan.block import clip_to_block
from trnctl.plan.progress import parse_progress
from trnctl.ports import Fleet, Instance, NodeGroup, Observed

OLD = START - timedelta(hours=1)
NODE = Instance("i-1", "trn1.32xlarge", "running", "compute", queue="compute1", launched=OLD)


def seen(*instances: Instance, fleet: str = "running") -> Observed:
    return Observed(None, Fleet(fleet, START), instances)


def group(state: str, count: int, *, reason: str = "", queue: str = "compute1", available: str = "up") -> NodeGroup:
    return NodeGroup(queue, state, count, f"{queue}-dy-i1-{state}", reason, available)


def test_a_wait_for_capacity_tells_the_time_and_the_alternatives() -> None:
    reason = "(Code:InsufficientInstanceCapacity)Failure when resuming nodes"
    groups = [group("down", 4, reason=reason), group("powered-down", 8, queue="compute2")]
    [alert] = node_alerts(groups)
    assert alert.code == "capacity-wait"
    assert "4 nodes of compute1: EC2 has no capacity for them now" in alert.message
    assert "ten minutes after each refusal" in alert.message
    for way in ("fewer nodes", "-p compute2", "capacity_block"):
        assert way in alert.remedy


def test_other_reasons_keep_slurms_words() -> None:
    reason = "(Code:VcpuLimitExceeded)Failure when resuming nodes"
    [limit] = node_alerts([group("down", 1, reason=reason)])
    assert (limit.code, "vCPU limit" in limit.message, reason in limit.message) == ("nodes-unavailable", True, True)
    [drained] = node_alerts([group("drained", 1, reason="trnctl: 1202: an uncorrectable SRAM error")])
    assert "1 node drained in compute1: trnctl: 1202" in drained.message


def test_protected_mode_and_a_queue_that_is_shut_name_the_way_back() -> None:
    shut = [group("powered-down", 16, available="inactive")]
    [alert] = fleet_alerts(seen(fleet="protected"), shut)
    assert (alert.code, "compute1" in alert.message) == ("protected-mode", True)
    assert "trnctl cluster fleet start" in alert.remedy
    [alert] = fleet_alerts(seen(), shut)
    assert alert.code == "queue-inactive"
    assert fleet_alerts(seen(fleet="stopped"), shut) == [], "somebody stopped it"


def test_an_instance_that_no_node_uses_is_told_with_its_price_and_no_name_of_one_at_work() -> None:
    other = replace(NODE, id="i-2")
    [alert] = instance_alerts(seen(NODE, other), [group("idle", 1), group("powered-down", 15)], START)
    assert alert.code == "instances-orphaned"
    assert "$21.50/h" in alert.message
    assert "i-1" not in alert.remedy, "it may be at work: nobody knows here which of them is the orphan"
    assert "scontrol show nodes" in alert.remedy
    fresh = replace(other, launched=START)
    assert instance_alerts(seen(NODE, fresh), [group("idle", 1), group("powered-down", 15)], START) == []
    assert instance_alerts(seen(NODE, other), [group("idle", 1), group("down", 1)], START) == [], "it may be its"


def test_a_node_without_an_instance_is_told() -> None:
    [alert] = instance_alerts(seen(NODE), [group("allocated", 3), group("powering-up", 2)], START)
    assert (alert.code, "2 nodes" in alert.message) == ("nodes-without-instance", True)
    assert instance_alerts(seen(NODE, fleet="stopping"), [group("allocated", 3)], START) == []


@pytest.mark.parametrize(("hours", "code"), [(48, ""), (5, "warning"), (0.4, "error")])
def test_a_block_that_ends_soon_is_told(hours: float, code: str) -> None:
    alerts = block_alerts([("cr-1", START + timedelta(hours=hours))], START)
    assert [alert.level for alert in alerts] == ([code] if code else [])


def test_a_job_ends_before_its_block() -> None:
    ends = START + timedelta(hours=10)
    assert clip_to_block(None, "cr-1", ends, START) == "9:30:00"
    assert clip_to_block("2-00:00:00", "cr-1", ends, START) == "9:30:00"
    assert clip_to_block("8:00:00", "cr-1", ends, START) is None
    with pytest.raises(RefusedError, match="cr-1 gives its instances back"):
        clip_to_block(None, "cr-1", START + timedelta(minutes=35), START)


def test_the_rate_of_the_last_steps_as_bars() -> None:
    manifest = {"log_pattern": r"step (?P<step>\d+) rate (?P<throughput>[\d.]+)", "steps": 10}
    found = parse_progress(manifest, "".join(f"step {n} rate {rate}\n" for n, rate in enumerate([50.0, 100.0, 99.0])))
    assert found.recent == (50.0, 100.0, 99.0)
    assert sparkline(found.recent) == "▁██"
    assert len(sparkline([1.0] * 64)) == 8
