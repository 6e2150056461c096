"""What a head node that failed to boot leaves behind: streams in the cluster's log group, and its console."""

from __future__ import annotations

import time
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.responses.general import General
from moto.ec2.utils import Base64EncodedString

from trnctl.sandbox.aws.backends import Backends
from trnctl.sandbox.aws.faults import BootFault
from trnctl.sandbox.ports import HeadNodeBoot

_LOG_GROUP = "AWS::Logs::LogGroup"
_CONSOLE = "trnctl_console"  # an attribute of moto's instance


def leave_behind(stack: Any, boot: HeadNodeBoot, fault: BootFault) -> None:
    """Send the fault's logs to CloudWatch as ParallelCluster's agent does, in streams `HOST.INSTANCE.LOG`."""
    backends = Backends(boot.region)
    backends.ec2.get_instance(boot.instance_id).__dict__[_CONSOLE] = fault.console
    resources = stack.resource_map._resource_json_map
    groups = [stack.resource_map[name] for name, one in resources.items() if one["Type"] == _LOG_GROUP]
    host = "ip-" + boot.private_ip.replace(".", "-")
    now = int(time.time() * 1000)
    for group in groups:
        if not group.name.startswith(f"/aws/parallelcluster/{stack.name}-"):
            continue  # of a Lambda function
        for log, text in fault.logs.items():
            stream = f"{host}.{boot.instance_id}.{log}"
            backends.logs.create_log_stream(group.name, stream)
            events = [{"timestamp": now, "message": line} for line in text.splitlines()]
            backends.logs.put_log_events(group.name, stream, events)


def install() -> None:
    """GetConsoleOutput tells each instance's own console; a second call changes nothing."""
    General.get_console_output = _own_console


def _own_console(response: Any) -> Any:
    instance = response.ec2_backend.get_instance(response._get_param("InstanceId"))
    text = str(instance.__dict__.get(_CONSOLE, ""))
    output = Base64EncodedString.from_raw_string(text)
    return ActionResult({"InstanceId": instance.id, "Timestamp": utcnow(), "Output": output})
