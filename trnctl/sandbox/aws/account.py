"""The compute nodes' EC2: launches and terminates instances for Slurm, tagged as ParallelCluster tags them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instances import StateReason

from trnctl.sandbox.aws import instances
from trnctl.sandbox.aws.backends import Backends
from trnctl.sandbox.aws.faults import Faults, LaunchFault
from trnctl.sandbox.aws.head_nodes import launch_template
from trnctl.sandbox.ports import NodeInstance, NodeWish, Refusal


class EmulatedAccount:
    """The `Account` door of the machines, over moto."""

    def __init__(self, backends: Backends, faults: Faults, lock: threading.RLock) -> None:
        self._backends, self._faults, self._lock = backends, faults, lock
        self._nodes: dict[tuple[str, str], Any] = {}  # (cluster, node name) -> moto's instance
        self._abandoned: list[tuple[str, Any]] = []
        self.write_fleet: Callable[[str, str], None] = lambda _cluster, _status: None  # set once there is a fleet

    def launch(self, cluster: str, wishes: Sequence[NodeWish]) -> list[NodeInstance | Refusal]:
        """Launch an instance for each wish; a node whose instance still lives keeps it.

        Wishes for the same compute resource are one request, as in ParallelCluster: a launch fault without
        `capacity` refuses all of them at once.
        """
        answers: dict[str, NodeInstance | Refusal] = {}
        groups: dict[tuple[str, str, str, str], list[NodeWish]] = {}
        for wish in wishes:
            groups.setdefault((wish.queue, wish.compute_resource, wish.instance_type, wish.subnet), []).append(wish)
        with self._lock:
            for group in groups.values():
                answers.update({answer.name: answer for answer in self._launch_group(cluster, group)})
        return [answers[wish.name] for wish in wishes]

    def terminate(self, cluster: str, names: Sequence[str]) -> None:
        """Terminate the instances behind these nodes; silent for names that have none."""
        with self._lock:
            for name in names:
                if (instance := self._nodes.pop((cluster, name), None)) is not None:
                    self._end(instance)

    def shut_down(self, cluster: str, names: Sequence[str]) -> None:
        """Terminate the instances behind these nodes, with what EC2 says of one that has shut itself down."""
        with self._lock:
            for name in names:
                if (instance := self._nodes.pop((cluster, name), None)) is not None:
                    self._end(instance)
                    code = "Client.InstanceInitiatedShutdown"
                    instance.state_reason = StateReason(f"{code}: Instance initiated shutdown", code)

    def send_logs(self, cluster: str, stream: str, lines: Sequence[str]) -> None:
        """Put lines into a stream of the newest log group of that cluster; silent without one."""
        prefix, at = f"/aws/parallelcluster/{cluster}-", int(time.time() * 1000)
        with self._lock:
            groups = [name for name in self._backends.logs.groups if name.startswith(prefix)]
            if groups and lines:
                newest = max(groups)  # the name ends in the time of its creation
                self._backends.logs.ensure_log_stream(newest, stream)
                events = [{"timestamp": at, "message": line} for line in lines if line]
                self._backends.logs.put_log_events(newest, stream, events)

    def read_object(self, place: str) -> str:
        """The text of an object; '' when it is not there."""
        bucket, _, key = place.removeprefix("s3://").partition("/")
        with self._lock:
            known = self._backends.s3.buckets.get(bucket) if place.startswith("s3://") else None
            found = known.keys.get(key) if known is not None else None
            return "" if found is None else str(found.value.decode("utf-8", "replace"))

    def abandon(self, cluster: str, names: Sequence[str]) -> None:
        """Let go of the instances behind these nodes."""
        with self._lock:
            for name in names:
                if (instance := self._nodes.pop((cluster, name), None)) is not None:
                    self._abandoned.append((cluster, instance))

    def end_abandoned(self, cluster: str) -> None:
        """Terminate what was let go of."""
        with self._lock:
            for owner, instance in self._abandoned:
                if owner == cluster:
                    self._end(instance)
            self._abandoned = [one for one in self._abandoned if one[0] != cluster]

    def put_fleet(self, cluster: str, status: str) -> None:
        """Write the compute fleet's status."""
        self.write_fleet(cluster, status)

    def terminate_all(self, cluster: str) -> None:
        """Terminate every compute instance of a cluster."""
        with self._lock:
            self.terminate(cluster, [name for owner, name in self._nodes if owner == cluster])
            for instance in self._backends.instances(cluster, "Compute"):
                self._end(instance)

    def _launch_group(self, cluster: str, wishes: Sequence[NodeWish]) -> list[NodeInstance | Refusal]:
        """One request: all wishes have queue, compute resource, type and subnet in common."""
        living = {wish.name: node for wish in wishes if (node := self._living(cluster, wish.name))}
        wanted = [wish for wish in wishes if wish.name not in living]
        answers: list[NodeInstance | Refusal] = list(living.values())
        if not wanted:
            return answers
        granted, rule = self._faults.launch(wanted[0].instance_type, len(wanted), self._count)
        for wish in wanted[:granted]:
            try:
                answers.append(self._launch_one(cluster, wish))
            except EC2ClientError as error:
                answers.append(Refusal(wish.name, str(error.code), str(error.message)))
        if rule is not None:
            zone = self._backends.ec2.get_subnet(wanted[0].subnet).availability_zone
            message = rule.message.format(type=wanted[0].instance_type, zone=zone)
            answers += [Refusal(wish.name, rule.code, message) for wish in wanted[granted:]]
        return answers

    def _launch_one(self, cluster: str, wish: NodeWish) -> NodeInstance:
        stack = self._backends.cloudformation.get_stack(cluster)
        template = instances.template_data(self._backends, *launch_template(stack, wish.queue, wish.compute_resource))
        instance = instances.run(self._backends, template, instance_type=wish.instance_type, subnet_id=wish.subnet)
        self._nodes[cluster, wish.name] = instance
        return NodeInstance(wish.name, instance.id, instance.private_ip)

    def _living(self, cluster: str, name: str) -> NodeInstance | None:
        instance = self._nodes.get((cluster, name))
        if instance is None or instance.state != "running":
            return None
        return NodeInstance(name, instance.id, instance.private_ip)

    def _count(self, rule: LaunchFault) -> int:
        """How many of the instances that were launched since a rule came into force still live."""
        return sum(
            instance.state != "terminated"
            and instance.launch_time >= rule.since
            and fnmatchcase(instance.instance_type, rule.instance_type)
            for instance in self._nodes.values()
        )

    @staticmethod
    def _end(instance: Any) -> None:
        if instance.state != "terminated":
            instance.terminate()
