"""What a cluster's nodes have sent to CloudWatch, and what EC2 shows of a node's console: evidence where no node can be
asked any more."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from trnctl.adapters.aws_calls import NoSuchThing
from trnctl.adapters.aws_clients import Clients
from trnctl.adapters.aws_records import CLUSTER_TAG, utc
from trnctl.errors import CloudError
from trnctl.ports.evidence import SavedText

MOST_STREAMS = 16  # read, each with one call
_MOST_EVENTS = 1000  # of the end of each
_MOST_OF_A_KIND = 4  # nodes whose log of one kind is read: those that wrote last
# The last part of a stream's name, `HOST.INSTANCE.LOG`, and what that log is (ParallelCluster's cloudwatch agent
# configuration), in the order in which they tell most.
_LOGS: Mapping[str, str] = {
    "bootstrap_error_msg": "chef", "chef-client": "chef", "cloud-init-output": "cloud-init", "cfn-init": "cfn-init",
    "cloud-init": "cloud-init", "clustermgtd": "clustermgtd", "clustermgtd_events": "clustermgtd",
    "slurm_resume": "slurm-resume", "compute_console_output": "compute-console", "slurmctld": "slurmctld",
}  # fmt: skip
_ENDED_BY_SOMEBODY = "Client.UserInitiatedShutdown"  # by ParallelCluster, when nothing needs it any more
_STREAM = re.compile(r"(?P<host>[^.]+)\.(?P<instance>i-\w+)\.(?P<log>[\w-]+)")


def sent_logs(clients: Clients, cluster: str, instances: Sequence[str], since: datetime | None) -> list[SavedText]:
    """See `ports.Cloud.sent_logs`: one call for the group, one for its streams, one for the instances that have ended,
    and one for each text that is read."""
    clients.client("logs")  # clients are made by one thread
    clients.client("ec2")
    with ThreadPoolExecutor(max_workers=8) as pool:
        asked = pool.submit(_ended, clients, cluster, since)
        group = _newest_group(clients, cluster)
        streams = _wanted(_streams(clients, group)) if group else []
        logs = [pool.submit(_left_out_when_refused, _log, clients, group, one, since) for one in streams]
        ended = asked.result()
        shown = list(dict.fromkeys([*instances, *list(ended)[:_MOST_OF_A_KIND]]))
        consoles = [pool.submit(_left_out_when_refused, _console, clients, one) for one in shown]
        texts = [future.result() for future in (*logs, *consoles)]
    why = SavedText("instance", "EC2 instances", "".join(f"{line}\n" for line in ended.values())) if ended else None
    return [text for text in (*texts, why) if text is not None]


def _ended(clients: Clients, cluster: str, since: datetime | None) -> dict[str, str]:
    """The cluster's instances that have ended, and not because somebody ended them: what EC2 says of each, by id, the
    youngest first. EC2 forgets them after about an hour."""
    tag = {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]}
    over = {"Name": "instance-state-name", "Values": ["shutting-down", "terminated", "stopping", "stopped"]}
    try:
        groups = clients.pages("ec2", "describe_instances", "Reservations", Filters=[tag, over])
    except CloudError:
        return {}
    found = [one for group in groups for one in group["Instances"] if since is None or utc(one["LaunchTime"]) >= since]
    found.sort(key=lambda one: one["LaunchTime"], reverse=True)
    told = {one["InstanceId"]: str(one.get("StateReason", {}).get("Message", "")) for one in found}
    states = {one["InstanceId"]: str(one["State"]["Name"]) for one in found}
    return {
        name: f"EC2 instance {name} is {states[name]}: {why}"
        for name, why in told.items()
        if why and not why.startswith(_ENDED_BY_SOMEBODY)
    }


def _newest_group(clients: Clients, cluster: str) -> str:
    """The log group of the newest cluster of that name, which is followed by the minute of its creation."""
    prefix = f"/aws/parallelcluster/{cluster}-"
    found = clients.pages("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=prefix)
    ours = [one for one in found if re.fullmatch(r"\d{12}", one["logGroupName"].removeprefix(prefix))]
    return str(max(ours, key=lambda one: one.get("creationTime", 0))["logGroupName"]) if ours else ""


def _streams(clients: Clients, group: str) -> list[str]:
    """The streams of a group, those that were written last first, fifty at most."""
    try:
        answer = clients.call(
            "logs", "describe_log_streams", logGroupName=group, orderBy="LastEventTime", descending=True, limit=50
        )
    except NoSuchThing:
        return []
    return [str(one["logStreamName"]) for one in answer["logStreams"]]


def _wanted(names: Sequence[str]) -> list[tuple[str, str]]:
    """(stream, source) of those that tell why nodes do not come up."""
    chosen: list[tuple[str, str]] = []
    for log, source in _LOGS.items():
        alike = [name for name in names if (found := _STREAM.fullmatch(name)) and found["log"] == log]
        chosen += [(name, source) for name in alike[:_MOST_OF_A_KIND]]
    return chosen[:MOST_STREAMS]


def _left_out_when_refused(read: Callable[..., SavedText | None], *words: object) -> SavedText | None:
    try:
        return read(*words)
    except CloudError:
        return None


def _log(clients: Clients, group: str, stream: tuple[str, str], since: datetime | None) -> SavedText | None:
    name, source = stream
    begin = {"startTime": int(since.timestamp() * 1000)} if since else {}
    asked = {"logGroupName": group, "logStreamName": name, "limit": _MOST_EVENTS, "startFromHead": False}
    answer = clients.call("logs", "get_log_events", **asked, **begin)
    text = "".join(f"{event['message']}\n" for event in answer["events"])
    host = name.partition(".")[0]
    if not text:
        return None
    return SavedText(source, f"CloudWatch {name}", text, host if source in {"chef", "cloud-init", "cfn-init"} else "")


def _console(clients: Clients, instance: str) -> SavedText | None:
    """The console of an instance; EC2 keeps it for an hour after its end. botocore has undone its encoding."""
    answer: dict[str, Any] = clients.call("ec2", "get_console_output", InstanceId=instance)
    text = str(answer.get("Output") or "")
    return SavedText("compute-console", f"console of {instance}", text) if text else None
