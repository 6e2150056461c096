"""1,875 instances and nodes, as the largest UltraCluster has them: read and drawn in little time, on one screen."""

from __future__ import annotations

import io
import time
from typing import Any

from rich.console import Console

from tests.fakes import START
from trnctl.actions.alerts import fleet_alerts, instance_alerts, node_alerts
from trnctl.actions.status import ClusterStatus
from trnctl.adapters.aws_records import instance_of
from trnctl.adapters.slurm import parse_jobs, parse_nodes
from trnctl.cli.status_screens import picture
from trnctl.plan.cost import spent
from trnctl.ports import Fleet, Observed, Stack

COUNT = 1875
# One instance as EC2 writes it, with what pcluster tags; the others differ in their ids.
ITEM = """<item><reservationId>r-0aa{n:014d}</reservationId><ownerId>111122223333</ownerId><instancesSet><item>
<instanceId>i-0aa{n:014d}</instanceId><imageId>ami-0aa11bb22cc33dd44</imageId><instanceState><code>16</code>
<name>running</name></instanceState><instanceType>trn1.32xlarge</instanceType>
<launchTime>2026-11-29T09:00:00.000Z</launchTime><privateIpAddress>10.1.{a}.{b}</privateIpAddress>
<placement><availabilityZone>us-west-2d</availabilityZone><groupName>ultra1-pg</groupName></placement><tagSet>
<item><key>parallelcluster:cluster-name</key><value>ultra1</value></item>
<item><key>parallelcluster:node-type</key><value>Compute</value></item>
<item><key>parallelcluster:queue-name</key><value>compute1</value></item>
<item><key>parallelcluster:compute-resource-name</key><value>i1</value></item>
<item><key>Name</key><value>Compute</value></item></tagSet></item></instancesSet></item>"""


def answer() -> bytes:
    """DescribeInstances' answer for all of them."""
    items = "".join(ITEM.format(n=n, a=n // 250, b=n % 250 + 1) for n in range(COUNT))
    return (
        '<?xml version="1.0"?><DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<requestId>r</requestId><reservationSet>{items}</reservationSet></DescribeInstancesResponse>"
    ).encode()


def parsed(body: bytes) -> dict[str, Any]:
    """As botocore parses it."""
    import botocore.session
    from botocore.parsers import create_parser

    model = botocore.session.Session().get_service_model("ec2")
    shape = model.operation_model("DescribeInstances").output_shape
    assert shape is not None
    found: dict[str, Any] = create_parser("ec2").parse({"body": body, "headers": {}, "status_code": 200}, shape)
    return found


def test_1875_instances_are_read_and_shown_within_one_and_a_half_seconds() -> None:
    body = answer()
    parsed(body)  # botocore reads its model of EC2 once a process
    begin = time.process_time()
    reservations = parsed(body)["Reservations"]
    instances = tuple(instance_of(one) for each in reservations for one in each["Instances"])
    groups = parse_nodes(
        "\x1f".join(["compute1", "up", "allocated", str(COUNT), f"compute1-dy-i1-[1-{COUNT}]", "none"])
    )
    seen = Observed(Stack("ultra1", "CREATE_COMPLETE", "running", START), Fleet("running", START), instances)
    found = [*fleet_alerts(seen, groups), *node_alerts(groups), *instance_alerts(seen, groups, START)]
    status = ClusterStatus("ultra1", "us-west-2", START, seen, spent(instances, START), groups, (), tuple(found))
    out = io.StringIO()
    Console(file=out, width=100).print(picture(status))
    took = time.process_time() - begin
    assert len(instances) == COUNT
    assert "1,875 allocated" in out.getvalue()
    assert len(out.getvalue().splitlines()) < 20
    assert found == []
    assert took < 1.5, f"{took:.2f} s"


def test_10000_jobs_are_read_in_half_a_second() -> None:
    row = ["RUNNING", "None", "4", "ubuntu", "compute1", "1:00", "2026-11-29T09:00:00", "n-[1-4]", "trnctl:r:train"]
    text = "\n".join("\x1f".join([str(number), *row]) for number in range(10_000))
    begin = time.process_time()
    jobs = parse_jobs(text, {})
    took = time.process_time() - begin
    assert len(jobs) == 10_000
    assert took < 0.5, f"{took:.2f} s"
