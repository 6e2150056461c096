"""A real sshd on loopback with throw-away keys, for one test session."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.adapters.small_slurm import free_ports
from trnctl.adapters.ssh_shell import SshOptions
from trnctl.sandbox.processes import children, end

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {root}/host_key
PidFile {root}/sshd.pid
AuthorizedKeysFile {root}/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin yes
Subsystem sftp internal-sftp
"""


def missing_programs() -> list[str]:
    """What is not installed of what this needs."""
    return [program for program in ("sshd", "ssh", "ssh-keygen") if shutil.which(program, path=_PATH) is None]


class SmallSshd:
    """One sshd below `root` that lets this user in; logins get the variables of `environ`."""

    def __init__(self, root: Path, environ: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.port = free_ports(1)[0]
        self._environ = dict(environ or {})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Make the keys, start it, wait until it listens."""
        for name in ("host_key", "client_key", "other_key"):
            self._make_key(name)
        (self.root / "authorized_keys").write_text((self.root / "client_key.pub").read_text())
        host_key = " ".join((self.root / "host_key.pub").read_text().split()[:2])
        (self.root / "known_hosts").write_text(f"head {host_key}\n")
        text = _CONFIG.format(port=self.port, root=self.root)
        if self._environ:
            text += "SetEnv " + " ".join(f'{name}="{value}"' for name, value in self._environ.items()) + "\n"
        (self.root / "sshd_config").write_text(text)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd's privilege separation insists on it
        self.run()

    def run(self) -> None:
        """Start the process (again)."""
        sshd = shutil.which("sshd", path=_PATH)
        assert sshd is not None
        with (self.root / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sshd, "-D", "-e", "-f", str(self.root / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError((self.root / "sshd.log").read_text()[-1000:])

    def stop(self) -> None:
        """End it; connections that are open live on, as they do when sshd is restarted."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(10)

    def drop(self) -> int:
        """Break every connection, as when a cable is pulled, but sooner noticed; how many there were."""
        assert self._process is not None
        return len(end(children(self._process.pid), patience=0))

    def options(self, *, key: str = "client_key", alias: str = "head", keep_open: int = 5) -> SshOptions:
        """How to get in."""
        return SshOptions(
            user=pwd.getpwuid(os.geteuid()).pw_name,
            identity=str(self.root / key),
            port=self.port,
            known_hosts=str(self.root / "known_hosts"),
            host_key_alias=alias,
            accept_new=False,
            keep_open=keep_open,
        )

    def connections(self) -> int:
        """Logins so far."""
        return (self.root / "sshd.log").read_text().count("Accepted publickey")

    def _make_key(self, name: str) -> None:
        path = str(self.root / name)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True, capture_output=True, timeout=20
        )
