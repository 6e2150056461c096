"""The logs of ParallelCluster's daemons, where a head node has them, in the form in which they write."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

_LINE = "{at:%Y-%m-%d %H:%M:%S},{milliseconds:03d} - [{module}:{function}] - {level} - {message}\n"
# What console_logger of aws-parallelcluster-node writes of a node that failed to boot.
_CONSOLE = """\
{at:%Y-%m-%d %H:%M:%S},000 - [slurm_plugin.console_logger:_get_console_output_from_nodes] - INFO - \
Console output for Instance ID i-0aa11bb22cc33dd44 (Node Name {partition}-dy-i1-1) follows:
[   61.123456] cloud-init[1893]: E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 2201 \
(unattended-upgr)
"""


class DaemonLogs:
    """Appends to root/var/log/parallelcluster of a cluster's folder. Wordings of aws-parallelcluster-node."""

    def __init__(self, folder: Path) -> None:
        self._place = folder / "root" / "var" / "log" / "parallelcluster"

    def refused(self, names: Sequence[str], code: str, message: str) -> None:
        """EC2 did not launch these nodes."""
        self._write(
            "slurm_resume.log",
            "slurm_plugin.instance_manager",
            "add_instances_for_nodes",
            "ERROR",
            f"Encountered exception when launching instances for nodes (x{len(names)}) {list(names)}: "
            f"An error occurred ({code}) when calling the RunInstances operation (reached max retries: 1): {message}",
        )

    def unhealthy(self, names: Sequence[str]) -> None:
        """These nodes are to be replaced, because their slurmd is gone."""
        self._write(
            "clustermgtd",
            "slurm_plugin.clustermgtd",
            "_maintain_nodes",
            "INFO",
            f"Found the following unhealthy dynamic nodes: (x{len(names)}) {list(names)}",
        )

    def boot_failed(self, names: Sequence[str]) -> None:
        """The instances behind these nodes ended before their slurmd came up."""
        for name in names:
            self._write(
                "clustermgtd",
                "slurm_plugin.slurm_resources",
                "is_bootstrap_failure",
                "WARNING",
                f"Node bootstrap error: Node {name} is currently in power up state without valid backing instance",
            )
        self._write(
            "clustermgtd",
            "slurm_plugin.clustermgtd",
            "_handle_bootstrap_failure_nodes",
            "WARNING",
            f"Found the following bootstrap failure nodes: (x{len(names)}) {list(names)}",
        )

    def protected(self, partitions: Sequence[str]) -> None:
        """Nodes of these partitions have failed to boot too often; the console of the last one tells why."""
        self._place.mkdir(parents=True, exist_ok=True)
        with (self._place / "compute_console_output.log").open("a", encoding="utf-8") as file:
            file.write(_CONSOLE.format(at=datetime.now(UTC), partition=partitions[0]))
        names = ", ".join(f"'{name}': {{'i1': 10}}" for name in partitions)
        for level, message in (
            ("WARNING", f"Setting cluster into protected mode due to failures detected in node provisioning. "
                        f"Bootstrap failures by partition: {{{names}}}"),
            ("INFO", f"Placing bootstrap failure partitions to INACTIVE: {list(partitions)}"),
        ):  # fmt: skip
            self._write("clustermgtd", "slurm_plugin.clustermgtd", "_enter_protected_mode", level, message)

    def _write(self, name: str, module: str, function: str, level: str, message: str) -> None:
        now = datetime.now(UTC)
        line = _LINE.format(
            at=now, milliseconds=now.microsecond // 1000, module=module, function=function, level=level, message=message
        )
        self._place.mkdir(parents=True, exist_ok=True)
        with (self._place / name).open("a", encoding="utf-8") as file:
            file.write(line)
