"""A real Slurm of a few emulated nodes on loopback, for one test session; up in a fifth of a second."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

_CONF = """\
ClusterName=parallelcluster
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={root}/munge/munge.sock,cred_expire=5
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd-%n.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
EnforcePartLimits=ALL
ReturnToService=2
MinJobAge={min_job_age}
KillWait=2
MessageTimeout=30
CompleteWait=0
"""


def missing_programs() -> list[str]:
    """What is not installed of what this needs."""
    return [program for program in PROGRAMS if shutil.which(program, path=_PATH) is None]


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on just now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


class SmallSlurm:
    """One Slurm below `root`, with partition compute1 of `nodes` nodes. `environ` is for its clients."""

    def __init__(self, root: Path, *, nodes: int = 4, min_job_age: int = 300) -> None:
        self.root = root
        self.environ = {**os.environ, "PATH": _PATH, "SLURM_CONF": str(root / "etc/slurm.conf")}
        self._names = [f"compute1-dy-i1-{number}" for number in range(1, nodes + 1)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._munged = 0
        self._min_job_age = min_job_age
        self._controller: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start all and wait until every node is idle."""
        for name in ("state", "spool", "log", "run", "etc", "munge", "shared/runs"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        for folder in (self.root, self.root / "munge"):
            folder.chmod(0o755)  # munged refuses a socket that not everybody can reach
        self._write_configuration()
        self._start_munge()
        self.start_controller()
        for name in self._names:
            (self.root / "spool" / name).mkdir()
            self._processes.append(self._start("slurmd", "-D", "-N", name))
        self.wait_for_nodes()

    def start_controller(self) -> None:
        """Start slurmctld (again)."""
        self._controller = self._start("slurmctld", "-D", "-i")

    def kill_controller(self) -> None:
        """The controller goes down as in a crash."""
        assert self._controller is not None
        self._controller.kill()
        self._controller.wait()

    def stop(self) -> None:
        """End every process that was started here, by its id."""
        started = [*self._processes, *([self._controller] if self._controller else [])]
        for process in started:
            if process.poll() is None:
                process.terminate()
        for process in started:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._munged:
            os.kill(self._munged, signal.SIGTERM)

    def call(self, *argv: str) -> str:
        """A command of Slurm's; its stdout."""
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, timeout=40, check=True)
        return done.stdout

    def _write_configuration(self) -> None:
        port, *node_ports = free_ports(1 + len(self._names))
        user = pwd.getpwuid(os.geteuid()).pw_name
        host = socket.gethostname().split(".")[0]
        text = _CONF.format(host=host, user=user, port=port, root=self.root, min_job_age=self._min_job_age)
        for name, node_port in zip(self._names, node_ports, strict=True):
            text += f"NodeName={name} NodeAddr=127.0.0.1 Port={node_port} CPUs=128 RealMemory=1000 State=UNKNOWN\n"
        text += f"PartitionName=compute1 Nodes={','.join(self._names)} OverSubscribe=EXCLUSIVE Default=YES\n"
        (self.root / "etc/slurm.conf").write_text(text)

    def _start_munge(self) -> None:
        folder = self.root / "munge"
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid"}
        files |= {"log-file": "munged.log", "seed-file": "munged.seed"}
        words = [f"--{option}={folder / name}" for option, name in files.items()]
        subprocess.run([self._find("munged"), *words, "--num-threads=2"], check=True, capture_output=True, timeout=20)
        self._munged = int((folder / "munged.pid").read_text())

    def _start(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.root / "log" / f"{program}.out").open("ab") as log:
            return subprocess.Popen(
                [self._find(program), *words],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _find(self, program: str) -> str:
        found = shutil.which(program, path=_PATH)
        assert found is not None, program
        return found

    def wait_for_nodes(self) -> None:
        """Until all are idle."""
        deadline = time.monotonic() + 20
        said = ""
        while time.monotonic() < deadline:
            asked = ["sinfo", "-h", "-o", "%D %T"]
            done = subprocess.run(asked, env=self.environ, capture_output=True, text=True, timeout=40, check=False)
            said = done.stdout + done.stderr
            if f"{len(self._names)} idle" in done.stdout.splitlines():
                return
            time.sleep(0.05)
        log = (self.root / "log/slurmctld.out").read_text()[-1000:]
        self.stop()
        raise AssertionError(f"Slurm did not come up: {said}\n{log}")
