"""The composition root: which adapter stands behind which door, for AWS and for the sandbox.

The sandbox is an environment, not another kind of adapter: an endpoint URL, an ssh config, a PATH and a folder
that stands before the mounts. This is the only file outside `trnctl/sandbox/` that knows it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trnctl.errors import ToolError, UsageError
from trnctl.ports import (
    Allocator,
    CompileCache,
    HeadEvidence,
    HeadFiles,
    Instance,
    JobQueue,
    LoadMonitor,
    NodeHealth,
    RunExport,
    Services,
    Shell,
)

if TYPE_CHECKING:
    from trnctl.adapters.ssh_shell import SshOptions
    from trnctl.sandbox.home import Sandbox
    from trnctl.specs.cluster import ClusterSpec

TARGETS = ("aws", "sandbox")
NOTICE = "sandbox: AWS and the Neuron tools are emulated; pcluster, Slurm and ssh are real"


def chosen_target(sandbox: bool) -> str:
    """`sandbox` by option or by TRNCTL_TARGET, else `aws`."""
    target = "sandbox" if sandbox else os.environ.get("TRNCTL_TARGET", "aws") or "aws"
    if target not in TARGETS:
        raise UsageError(f"TRNCTL_TARGET is {target}", remedy=f"set it to one of {', '.join(TARGETS)}")
    return target


def default_region(target: str, profile: str | None) -> str:
    """The region when neither a file nor an option names one: the environment's or the profile's."""
    if target == "sandbox":
        return require_sandbox().region
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if os.environ.get(name):
            return os.environ[name]
    from trnctl.adapters.aws import profile_region

    region = profile_region(profile)
    if region is None:
        raise UsageError(
            "no region is known", remedy="give --region, or set AWS_REGION, or name a cluster file with -c"
        )
    return region


def open_services(target: str, *, region: str, cluster: str, spec: ClusterSpec | None, profile: str | None) -> Services:
    """The doors for one cluster; nothing is connected yet."""
    if target == "sandbox":
        return _sandbox_services(region, cluster, spec)
    # This process's own environment, so that boto3 finds credentials wherever it always does.
    os.environ.update({"AWS_REGION": region, "AWS_DEFAULT_REGION": region})
    if profile:
        # Keys in the environment go before a profile in boto3: pcluster would act in another account than trnctl.
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            os.environ.pop(name, None)
        os.environ["AWS_PROFILE"] = profile
    environ = os.environ
    return _services(environ, region, spec, profile=profile, ssh=_aws_ssh(spec, region, profile))


def this_machine(grace: float, variables: Mapping[str, str]) -> Shell:
    """Commands here, also those that lie beside this Python, with some more variables; a stream that is closed has so
    many seconds to end."""
    from trnctl.adapters.local_shell import LocalShell

    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    # Ranks of one machine need no address that others can reach.
    loopback = {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo"}
    return LocalShell({**loopback, **os.environ, **variables}, path, grace=grace)


def _services(
    environ: Mapping[str, str],
    region: str,
    spec: ClusterSpec | None,
    *,
    ssh: Callable[[Instance], tuple[str, SshOptions]],
    profile: str | None = None,
    mount_prefix: str = "",
    notice: str = "",
) -> Services:
    from trnctl.adapters.aws import BotoCloud
    from trnctl.adapters.aws_account import BotoAccount
    from trnctl.adapters.clock import SystemClock
    from trnctl.adapters.local_shell import LocalShell
    from trnctl.adapters.pcluster import PclusterProvisioner
    from trnctl.specs.cluster import Pcluster

    # pcluster may live in the same environment as trnctl, which need not be on PATH.
    path = os.pathsep.join([environ.get("PATH", ""), str(Path(sys.executable).parent)])
    local = LocalShell({**environ, "PATH": path})
    wanted = spec.pcluster if spec else Pcluster()
    cloud = BotoCloud(region=region, profile=profile, environ=environ)
    return Services(
        provisioner=PclusterProvisioner(
            local, region=region, executable=wanted.executable, version=wanted.version if spec else ""
        ),
        cloud=cloud,
        account=BotoAccount(cloud.clients),
        clock=SystemClock(),
        local=local,
        head=SshDoor(local, ssh, mount_prefix),
        mount_prefix=mount_prefix,
        notice=notice,
    )


@dataclass(frozen=True)
class SshDoor:
    """Opens head nodes over ssh; `way` gives the destination and the options for one."""

    local: Shell
    way: Callable[[Instance], tuple[str, SshOptions]]
    mount_prefix: str = ""

    def shell(self, head: Instance) -> Shell:
        """A Shell on that head node."""
        from trnctl.adapters.ssh_shell import SshShell

        return SshShell(self.local, *self.way(head))

    def queue(self, head: Instance) -> JobQueue:
        """The Slurm that runs there, through the agent that is sent along with each call."""
        from trnctl.adapters.slurm import SlurmQueue
        from trnctl.render.agent import agent

        return SlurmQueue(self.shell(head), agent(), self.mount_prefix)

    def files(self, head: Instance) -> HeadFiles:
        """Copies between this machine and that head node, over the same connection."""
        from trnctl.adapters.head_files import SshFiles

        return SshFiles(self.local, *self.way(head))

    def cache(self, head: Instance) -> CompileCache:
        """The compile caches on its shared storage, through the same agent."""
        from trnctl.adapters.compile_cache import AgentCache
        from trnctl.render.agent import agent

        return AgentCache(self.shell(head), agent())

    def health(self, head: Instance) -> NodeHealth:
        """The health of its nodes, through the same agent."""
        from trnctl.adapters.node_health import AgentHealth
        from trnctl.render.agent import agent

        return AgentHealth(self.shell(head), agent())

    def export(self, head: Instance) -> RunExport:
        """Copies what lies on its shared storage, through a script of its own."""
        from trnctl.adapters.run_export import AgentExport
        from trnctl.render.agent import exporter

        return AgentExport(self.shell(head), exporter())

    def evidence(self, head: Instance) -> HeadEvidence:
        """What it has written down, through a script of its own."""
        from trnctl.adapters.head_evidence import AgentEvidence
        from trnctl.render import templates

        return AgentEvidence(self.shell(head), templates.read("node/evidence.py"), self.mount_prefix)

    def monitor(self, head: Instance) -> LoadMonitor:
        """The load of its nodes, through the agent and a script that it hands on to them."""
        from trnctl.adapters.load_monitor import AgentMonitor
        from trnctl.render.agent import agent, node_monitor

        return AgentMonitor(self.shell(head), agent(), node_monitor())

    def allocator(self, head: Instance) -> Allocator:
        """Its nodes for a person, through a script that goes along."""
        from trnctl.adapters.allocator import SlurmAllocator
        from trnctl.render import templates

        return SlurmAllocator(self.shell(head), templates.read("node/alloc.py"))


def _aws_ssh(
    spec: ClusterSpec | None, region: str, profile: str | None
) -> Callable[[Instance], tuple[str, SshOptions]]:
    """By address with the user's key; through Session Manager where the file opens only that."""

    def way(head: Instance) -> tuple[str, SshOptions]:
        from trnctl.adapters.ssh_shell import SshOptions, session_manager_proxy
        from trnctl.specs.cluster import login_user

        by_ssm = bool(spec and spec.head_node.ssm and not spec.head_node.ssh_from)
        key = spec.head_node.ssh_key if spec else None
        options = SshOptions(
            user=login_user(spec.os if spec else "ubuntu2404"),
            identity=str(Path(key).expanduser()) if key else None,
            known_hosts=str(_state_folder() / "known_hosts"),
            host_key_alias=head.id,  # AWS gives addresses away again; an instance id is never reused
            proxy_command=session_manager_proxy(region, profile) if by_ssm else None,
        )
        return (head.id if by_ssm else head.public_ip or head.private_ip), options

    return way


def _state_folder() -> Path:
    """Where trnctl keeps what it may lose: known host keys and error logs. UsageError where it cannot be made."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "trnctl"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(
            f"the folder {folder} for host keys cannot be made: {error.strerror}",
            remedy="set XDG_STATE_HOME to a folder that you may write to",
        ) from error
    return folder


# ------------------------------------------------------------------------------------------- the sandbox


def _sandbox_services(region: str, cluster: str, spec: ClusterSpec | None) -> Services:
    from trnctl.sandbox import home
    from trnctl.sandbox.aws.environment import pcluster_environment

    world = require_sandbox()
    environ = pcluster_environment(world.endpoint, region, world.home)

    def way(head: Instance) -> tuple[str, SshOptions]:
        from trnctl.adapters.ssh_shell import SshOptions

        return head.public_ip or head.private_ip, SshOptions(
            config_file=str(world.ssh_config), control_folder=str(world.runtime / "ssh")
        )

    return _services(
        environ,
        region,
        spec,
        ssh=way,
        mount_prefix=home.mount_prefix(world.home, cluster),
        notice=NOTICE,
    )


def require_sandbox() -> Sandbox:
    """The running sandbox. ToolError when there is none."""
    from trnctl.sandbox import home

    world = home.read(home.home_folder(os.environ))
    if world is None or not world.alive:
        raise ToolError("The sandbox is not up.", remedy="Start it with trnctl sandbox up.")
    return world


def sandbox_up(
    *, region: str | None, spec: ClusterSpec | None, resource_seconds: float, boot_seconds: float, steps: int
) -> Sandbox:
    """Start the world, with what the cluster file names in it; a world that is up is left as it is."""
    from trnctl.sandbox import home, lifecycle
    from trnctl.sandbox.named import seeds_of

    return lifecycle.up(
        home.home_folder(os.environ),
        region=region or "us-west-2",
        resource_seconds=resource_seconds,
        boot_seconds=boot_seconds,
        steps=steps,
        seeds=seeds_of(spec) if spec else None,
    )


def sandbox_down() -> list[str]:
    """End the world; what was ended, in words."""
    from trnctl.sandbox import home, lifecycle

    return lifecycle.down(home.home_folder(os.environ))


def sandbox_fault(name: str | None, times: int) -> Mapping[str, str]:
    """Set a fault, or clear all; every known fault with what it does."""
    from trnctl.sandbox import faults

    known = faults.list_faults()
    if name == "clear":
        faults.clear_faults(require_sandbox().home)
    elif name is not None:
        faults.set_fault(require_sandbox().home, name, times=times)
    return known
