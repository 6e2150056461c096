"""One emulated cluster from start to stop: its folder, and what changes in it."""

from __future__ import annotations

import json
import logging
import os
import pwd
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trnctl.sandbox.machines import programs, ssh
from trnctl.sandbox.machines.addresses import Ports, own_address
from trnctl.sandbox.machines.daemon_logs import DaemonLogs
from trnctl.sandbox.machines.daemons import Daemons
from trnctl.sandbox.machines.head_timer import HeadTimer, put_hooks, script_of
from trnctl.sandbox.machines.names import Scheduling, ephemeral_mounts, login_user, scheduling
from trnctl.sandbox.machines.nodes import Nodes
from trnctl.sandbox.machines.sent_logs import SentLogs
from trnctl.sandbox.machines.slurm import SYSTEM_PATH, Slurm, tool
from trnctl.sandbox.machines.slurm_conf import Site, ignored_settings, slurm_conf
from trnctl.sandbox.neuron.hardware_faults import strike_again
from trnctl.sandbox.neuron.install import install, install_brought, install_packages
from trnctl.sandbox.neuron.sources import HUB_BUCKET
from trnctl.sandbox.ports import Account, BootFailed, HeadNodeBoot, NodeInstance
from trnctl.sandbox.processes import Register, end, with_environment

log = logging.getLogger(__name__)
CLUSTER_VARIABLE = "TRNCTL_SANDBOX_CLUSTER"  # in the environment of all that runs on a cluster: its folder
_TICK_SECONDS = 0.5
_POWER_DOWN_SECONDS = 15.0
_SENT_SECONDS = 5.0  # between two looks of the CloudWatch agents at the logs


@dataclass(frozen=True)
class Pace:
    """How quickly the sandbox's time goes. `steps` is how many steps an emulated training does; `idle_seconds`
    replaces ScaledownIdletime; `capacity_seconds` is how long a refused node is left alone; `timer_seconds` stand for
    the minute between two runs of the head node's timer."""

    boot_seconds: float = 1.0
    steps: int = 20
    compile_seconds: float = 2.0
    idle_seconds: int | None = None
    capacity_seconds: float = 20.0
    timer_seconds: float = 5.0


class Cluster:
    """A head node with its compute nodes, from `start` to `stop`."""

    def __init__(
        self,
        boot: HeadNodeBoot,
        *,
        home: Path,
        runtime: Path,
        account: Account,
        register: Register,
        endpoint: str,
        pace: Pace,
        faults: Sequence[str] = (),
    ) -> None:
        self.name, self.boot = boot.cluster, boot
        self.folder = home / "clusters" / boot.cluster
        self._home, self._endpoint, self._pace, self._register = home, endpoint, pace, register
        self._faults, self._instances = list(faults), list[NodeInstance]()
        self._struck_instance = ""
        self._scheduling = scheduling(boot.config)
        self._ports = Ports()
        controller, self._ssh_port = self._ports.take(2)
        ports = self._node_ports(self._scheduling, {})
        user = pwd.getpwuid(os.geteuid()).pw_name
        self._site = Site(self.folder, runtime, user, own_address(), controller, ports, pace.idle_seconds)
        environment = self._environment()
        self._daemons = Daemons(self.name, self._site, register, environment)
        self.slurm = Slurm(self._site.conf)
        self._sent = SentLogs(account, self.name, self.folder, self._head_name, boot.instance_id)
        self.nodes = Nodes(
            self.name,
            self._site,
            self._scheduling,
            account=account,
            register=register,
            environment=environment,
            boot_seconds=pace.boot_seconds,
            capacity_seconds=pace.capacity_seconds,
            changed=self._nodes_changed,
            sent=self._sent,
        )
        self._account, self._logs = account, DaemonLogs(self.folder)
        self._timer = HeadTimer(self.folder / "root", environment, seconds=pace.timer_seconds)
        self._controller_down = False
        self._next_sent = 0.0
        self._ended = threading.Event()
        self._lock = threading.RLock()

    # ------------------------------------------------------------------------------------- life

    def start(self) -> ssh.Head:
        """Start everything; returns when ssh and Slurm answer. BootFailed when a daemon does not come up."""
        for folder in ("bin", "etc/nodes", "state", "log", "run", "root/home", "root/var/log"):
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
        (self.folder / "root/var/log/slurmctld.log").symlink_to(self.folder / "log" / "slurmctld.log")
        self._site.runtime.mkdir(parents=True)
        self._mount()
        self._write_programs()
        put_hooks(self.folder / "root", self.folder / "bin")
        self._write_conf()
        self._nodes_changed([])
        self._daemons.start_munged()
        self._daemons.start_sshd(self._ssh_port)
        self._daemons.start_slurmctld()
        self._describe()
        self._install_timer(self.boot.config, "OnNodeConfigured")
        self._timer.start()
        threading.Thread(target=self._look_after, name=f"nodes of {self.name}", daemon=True).start()
        return self.head

    @property
    def head(self) -> ssh.Head:
        """The head node as the client sees it."""
        return ssh.Head(self.name, tuple(filter(None, (self.boot.public_ip, self.boot.private_ip))), self._ssh_port)

    def stop(self) -> None:
        """End every process of the cluster, terminate its instances, remove its folder."""
        self._ended.set()
        self._timer.stop()
        with self._lock:
            self.nodes.active = False
            if powered := self.nodes.powered():
                self.nodes.power_down(powered)
            self._daemons.stop()
            end(with_environment(lambda each: each.get(CLUSTER_VARIABLE) == str(self.folder)), patience=0)
            self._register.reap()
            self._ports.release()
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.rmtree(self._site.runtime, ignore_errors=True)

    # ------------------------------------------------------------------------------------- changes

    def reconfigure(self, config: Mapping[str, object]) -> None:
        """Follow a new configuration. Nodes that are in it unchanged keep running, with their jobs."""
        new = scheduling(config)
        with self._lock:
            old = self._scheduling
            gone = [
                name
                for name in self.nodes.powered()
                if (was := old.resource(name)) is None or not was.runs_on_as(new.resource(name))
            ]
            self._scheduling = self.nodes.scheduling = new
            ports = self._node_ports(new, self._site.ports)
            self._site = self.nodes.site = replace(self._site, ports=ports)
            self.nodes.power_down(gone)
            self._write_hops()
            self._nodes_changed(self._instances)
            # Slurm 22.05 takes nodes on and off only when slurmctld starts; jobs and node states survive that.
            self._write_conf()
            self._daemons.restart_slurmctld()
            self._describe()
        self._install_timer(config, "OnNodeUpdated")
        if self.nodes.active:
            self.nodes.power_up_static()

    def stop_fleet(self) -> None:
        """Partitions inactive, all nodes off; running jobs go back into the queue, as Slurm decides."""
        self.nodes.active = False
        self.slurm.update_partitions([queue.name for queue in self._scheduling.queues], "inactive")
        powered = self.nodes.powered()
        self.slurm.update_nodes(powered, "power_down_force", "stopping cluster")
        limit = time.monotonic() + _POWER_DOWN_SECONDS
        while self.nodes.powered() and time.monotonic() < limit:
            time.sleep(0.1)
        self.nodes.power_down({*powered, *self.nodes.powered()})  # also waits for what Slurm has just begun
        self._write_conf()

    def start_fleet(self) -> None:
        """Partitions active again, static nodes on."""
        self.nodes.active = True
        self._write_conf()
        self.slurm.update_partitions([queue.name for queue in self._scheduling.queues], "up")
        self.nodes.power_up_static()

    def set_faults(self, faults: Sequence[str]) -> None:
        """The faults that the emulated tools obey from now on."""
        with self._lock:
            if "hardware-error" in faults and "hardware-error" not in self._faults:
                strike_again(self.folder)
            self._faults = list(faults)
            self._nodes_changed(self._instances)

    def fail(self, fault: str) -> list[str]:
        """Make a fault of the head node or of the fleet happen now; what it struck, [] when there was nothing."""
        if fault == "slurmctld-down":
            with self._lock:
                self._controller_down = True
                self._daemons.kill_slurmctld()
            return ["slurmctld"]
        if fault == "ssh-drop":
            return [f"{self._daemons.drop_connections()} connections"]
        if fault == "zombie-node":
            name = self.nodes.abandon_one()
            return [name] if name else []
        if fault == "protected-mode":
            return self._protect()
        if fault == "node-boot-failure":
            self.nodes.boots_fail = True
            return [self.name]
        raise ValueError(f"There is no fault {fault} of a cluster.")

    def restart_controller(self) -> None:
        """What `systemctl restart slurmctld` does on the head node."""
        with self._lock:
            self._daemons.restart_slurmctld()
            self._controller_down = False

    def recover(self) -> None:
        """End the faults that `fail` made; protected mode stays, until the fleet is started."""
        self.nodes.boots_fail = False
        if self._controller_down:
            self.restart_controller()
        self._account.end_abandoned(self.name)

    def _protect(self) -> list[str]:
        """What clustermgtd does when nodes of a queue have failed to boot ten times."""
        queues = [queue.name for queue in self._scheduling.queues]
        self.nodes.active = False
        self.slurm.update_partitions(queues, "inactive")
        self._logs.protected(queues)
        self._account.put_fleet(self.name, "PROTECTED")
        return queues

    # ------------------------------------------------------------------------------------- parts

    def _install_timer(self, config: Mapping[str, object], moment: str) -> None:
        """What ParallelCluster would have the head node run at this moment, as far as it is the timer's."""
        place = script_of(config, moment)
        if place:
            self._timer.install(self._account.read_object(place))

    def _node_ports(self, new: Scheduling, known: Mapping[str, int]) -> dict[str, int]:
        """A port for every node; nodes that have one keep it, since their slurmd may be running."""
        missing = [name for name in new.nodes() if name not in known]
        try:
            fresh = dict(zip(missing, self._ports.take(len(missing)), strict=True))
        except OSError as error:
            raise BootFailed(f"{len(missing)} nodes are too many for the ports of this machine") from error
        return {name: known.get(name) or fresh[name] for name in new.nodes()}

    def _environment(self) -> dict[str, str]:
        """What a session or a daemon on the cluster finds in its environment."""
        home = self.folder / "root" / "home" / login_user(self.boot.config)
        return {
            "PATH": f"{self.folder / 'bin'}:{SYSTEM_PATH}",
            "HOME": str(home),
            "SLURM_CONF": str(self._site.conf),
            "LANG": "C.UTF-8",
            **self._internet(),
            CLUSTER_VARIABLE: str(self.folder),
            # What a node's own software finds instead of the instance's metadata; the emulator checks no key.
            "AWS_ENDPOINT_URL": self._endpoint,
            "AWS_ACCESS_KEY_ID": "sandbox",
            "AWS_SECRET_ACCESS_KEY": "sandbox",
            "AWS_REGION": str(self.boot.config.get("Region", "")),
        }

    def _internet(self) -> dict[str, str]:
        """Where the AWS tools and the Hugging Face hub are looked for: in the emulated account. It checks no keys."""
        return {
            "AWS_ENDPOINT_URL": self._endpoint,
            "AWS_ACCESS_KEY_ID": "sandbox",
            "AWS_SECRET_ACCESS_KEY": "sandbox",
            "AWS_EC2_METADATA_DISABLED": "true",
            "HF_ENDPOINT": f"{self._endpoint}/{HUB_BUCKET}",
        }

    def _mount(self) -> None:
        """Link root/<mount> to the content of its file system; parents first, so that mounts may lie in mounts."""
        for directory, identity in sorted(self.boot.file_systems.items()):
            content = self._home / "file_systems" / Path(identity).name
            content.mkdir(parents=True, exist_ok=True)
            link = self.folder / "root" / directory.lstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            if link.is_dir() and not link.is_symlink():
                link.rmdir()  # root/home, which a file system is mounted on
            link.symlink_to(content, target_is_directory=True)
        for directory in ephemeral_mounts(self.boot.config):  # each node's own on AWS; here all nodes share it
            (self.folder / "root" / directory.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def _write_programs(self) -> None:
        environment = self._environment()
        home = Path(environment["HOME"])
        home.mkdir(parents=True, exist_ok=True)
        values = {"folder": self.folder, "user": home.name}
        for name in (".bashrc", ".profile"):
            programs.write(home / name, programs.START_UP, values, mode=0o644)
        hop = {name: value for name, value in environment.items() if name != "SLURM_CONF"}
        programs.write_programs(
            self.folder, cluster=self.name, endpoint=self._endpoint, sshd=tool("sshd"), environment=hop
        )
        install(self.folder / "bin", self.folder)
        install_packages(home, self._home / "wheels")
        for mount in self.boot.file_systems or ["/home"]:
            install_brought(self.folder / "root", mount)
        real = {name: tool(name) for name in ("ssh", "scp", "sftp")}
        programs.write_stand_ins(self.folder, head_name=self._head_name, ssh_programs=real)
        keys = self._home / "keys"
        config = ssh.sshd_config(keys, environment, port=self._ssh_port, shadow=ssh.own_shadow())
        (self.folder / "etc" / "sshd_config").write_text(config)
        self._write_hops()

    def _struck(self) -> str:
        """The node that faults of a single node strike: the second, which any job on two nodes gets, and of it the
        instance that it has when the fault is set, or gets then; one that replaces it is well."""
        name = next((name for name in self._scheduling.nodes() if name.endswith("-2")), "")
        ids = {each.name: each.instance_id for each in self._instances}
        if not self._faults:
            self._struck_instance = ""
        elif not self._struck_instance:
            self._struck_instance = ids.get(name, "")
        return name if self._struck_instance in ("", ids.get(name, "")) else ""

    @property
    def _head_name(self) -> str:
        return "ip-" + self.boot.private_ip.replace(".", "-")

    def _write_hops(self) -> None:
        hops = ssh.hop_config(self._home / "keys", self._scheduling.instance_types(), self._site.program("reach"))
        (self.folder / "etc" / "ssh_config").write_text(hops)

    def _write_conf(self) -> None:
        for name in ignored_settings(self._scheduling, self._site):
            log.warning("%s: the sandbox does not follow the Slurm setting %s", self.name, name)
        self._site.conf.write_text(slurm_conf(self._scheduling, self._site, active=self.nodes.active))

    def _nodes_changed(self, instances: Sequence[NodeInstance]) -> None:
        """Write what the emulated tools and `hostname -i` read: emulation.json and etc/hosts."""
        self._instances = list(instances)
        write_whole(
            self.folder / "emulation.json",
            json.dumps(
                {
                    "steps": self._pace.steps,
                    "step_seconds": None,
                    "compile_seconds": self._pace.compile_seconds,
                    "instance_types": self._scheduling.instance_types(),
                    "instance_ids": {each.name: each.instance_id for each in instances},
                    "faults": self._faults,
                    "struck": self._struck(),
                },
                indent=1,
            ),
        )
        known = [(self.boot.private_ip, self._head_name), *((each.private_ip, each.name) for each in instances)]
        write_whole(self.folder / "etc" / "hosts", "".join(f"{ip} {name}\n" for ip, name in known))

    def _describe(self) -> None:
        content = {
            "cluster": self.name,
            "ssh_port": self.head.port,
            "addresses": list(self.head.addresses),
            "queues": [queue.name for queue in self._scheduling.queues],
            "instance_types": self._scheduling.instance_types(),
        }
        write_whole(self.folder / "cluster.json", json.dumps(content, indent=1))

    def _look_after(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            with self._lock:
                if not self._ended.is_set() and not self._controller_down:
                    try:
                        self.nodes.tick()
                        self._send_logs()
                    except Exception:  # whatever it is, the next half second needs this thread again
                        log.exception("looking after the nodes of %s", self.name)

    def _send_logs(self) -> None:
        """Now and then: each look costs a stat for every log."""
        now = time.monotonic()
        if now >= self._next_sent:
            self._next_sent = now + _SENT_SECONDS
            self._sent.ship(self.nodes.instances())


def write_whole(path: Path, text: str) -> None:
    """Write a file that others read meanwhile: they see the old text or the new one, never a part."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
