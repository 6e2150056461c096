"""What every command shares: the global options, the cluster file, and the way to the doors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trnctl.errors import UsageError

if TYPE_CHECKING:
    from trnctl.actions.runs import OpenCluster
    from trnctl.ports import Services
    from trnctl.specs.cluster import ClusterFile, ClusterSpec

Output = Literal["table", "json"]
CONFIG_NAME = "trnctl.yaml"


def say_more() -> None:
    """`-v`: each command that is started and each question to AWS on stderr, with the milliseconds since the start."""
    import logging

    told = logging.StreamHandler()
    told.setFormatter(logging.Formatter("  %(relativeCreated)6.0f ms  %(message)s"))
    calls = logging.getLogger("trnctl.calls")
    calls.addHandler(told)
    calls.setLevel(logging.DEBUG)
    calls.propagate = False


@dataclass
class Session:
    """The global options of one command line; `rest` is what followed `--` (None when there was none);
    `edited` is the cluster file's text as a command would have it, before it is written."""

    config: str | None = None
    output: Output = "table"
    cluster: str | None = None
    sandbox: bool = False
    profile: str | None = None
    region: str | None = None
    color: bool = True
    rest: tuple[str, ...] | None = None
    edited: str | None = None

    @property
    def json(self) -> bool:
        """Whether data goes to stdout as JSON."""
        return self.output == "json"

    def file(self) -> ClusterFile:
        """The cluster file: `-c`, else `trnctl.yaml` here or above. UsageError lists every problem in it."""
        found = self.find_file()
        if found is None:
            raise UsageError(
                f"there is no {CONFIG_NAME} in this folder or above it",
                remedy="write one with trnctl init, or name one with -c FILE",
            )
        for option, said, written in (
            ("--cluster", self.cluster, found.cluster.name),
            ("--region", self.region, found.cluster.region),
        ):
            if said is not None and said != written:
                raise UsageError(
                    f"{option} {said} contradicts {found.path}, which says {written}",
                    remedy="leave the option out, or name the file that is meant with -c",
                )
        return found

    def find_file(self) -> ClusterFile | None:
        """The cluster file if there is one; a file that was named must exist."""
        from trnctl.cli.files import read_cluster_file

        path = self.path()
        return None if path is None else read_cluster_file(path, self.edited)

    def path(self) -> str | None:
        """Where the cluster file lies, if there is one."""
        from trnctl.cli.files import find_config

        return self.config or find_config(CONFIG_NAME)

    def spec(self) -> ClusterSpec:
        """The cluster of the file."""
        return self.file().cluster

    def name_and_region(self) -> tuple[str, str, ClusterSpec | None]:
        """Which cluster is meant: `--cluster` and `--region` win over the file, which may then be absent."""
        from trnctl.targets import default_region

        found = None if self.cluster and not self.config else self.find_file()
        spec = found.cluster if found else None
        if self.cluster and spec and spec.name != self.cluster:
            spec = None
        if not self.cluster and spec is None:
            self.file()
        name = self.cluster or (spec.name if spec else "")
        region = self.region or (spec.region if spec else default_region(self.target, self.profile))
        return name, region, spec

    @property
    def target(self) -> str:
        """`aws`, or `sandbox` by option or by TRNCTL_TARGET."""
        from trnctl.targets import chosen_target

        return chosen_target(self.sandbox)

    def services(self, region: str, cluster: str, spec: ClusterSpec | None) -> Services:
        """The doors for that cluster."""
        from trnctl.targets import open_services

        return open_services(self.target, region=region, cluster=cluster, spec=spec, profile=self.profile)

    def open(self) -> OpenCluster:
        """The cluster that is meant, with its doors."""
        from trnctl.actions.runs import OpenCluster
        from trnctl.actions.submit import runs_folder

        name, region, spec = self.name_and_region()
        services = self.services(region, name, spec)
        bucket = spec.bucket if spec else None
        return OpenCluster(name, region, services, runs_folder(spec, services.mount_prefix), bucket, spec)

    def region_alone(self) -> str:
        """The region when no single cluster is meant: `--region`, the file's, or the environment's."""
        from trnctl.targets import default_region

        if self.region:
            return self.region
        found = self.find_file()
        return found.cluster.region if found else default_region(self.target, self.profile)
