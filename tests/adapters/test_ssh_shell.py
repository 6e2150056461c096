"""The Shell over ssh: against a real sshd on loopback, and its reading of ssh's own words."""

from __future__ import annotations

import stat
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.adapters.small_slurm import free_ports
from tests.adapters.small_sshd import SmallSshd
from tests.contracts.shell import ShellContract
from tests.fakes import ScriptedShell
from trnctl.adapters.local_shell import LocalShell
from trnctl.adapters.ssh_shell import SshOptions, SshShell, connection_loss, session_manager_proxy
from trnctl.errors import ConnectionLost, ToolMissing, WaitedTooLong
from trnctl.ports import Shell

# What OpenSSH 9.2 printed here, and, where it could not be provoked on loopback, what it prints by its source.
SAID = {
    "refused": "ssh: connect to host 127.0.0.1 port 2299: Connection refused",
    "timed out": "ssh: connect to host 203.0.113.9 port 22: Connection timed out",
    "no route": "ssh: connect to host 10.0.0.7 port 22: No route to host",
    "publickey": "ubuntu@198.51.100.7: Permission denied (publickey).",
    "resolve": "ssh: Could not resolve hostname head.invalid: Name or service not known",
    "changed": "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.",
    "unknown key": "No ED25519 host key is known for head and you have requested strict checking.\r\n"
    "Host key verification failed.",
    "booting": "kex_exchange_identification: read: Connection reset by peer\nConnection reset by 127.0.0.1 port 2222",
    "ssm": "An error occurred (TargetNotConnected) when calling the StartSession operation: i-0 is not connected.\n"
    "kex_exchange_identification: Connection closed by remote host",
    "plugin": "SessionManagerPlugin is not found. Please refer to SessionManager Documentation here: …",
    "dropped": "client_loop: send disconnect: Broken pipe",
    "silent": "Timeout, server 198.51.100.7 not responding.",
    "closed": "Connection to 198.51.100.7 closed by remote host.",
}


class TestSshShell(ShellContract):
    """It keeps the promises of every Shell, with another shell in between."""

    far = True

    @pytest.fixture
    def shell(self, sshd: SmallSshd) -> Shell:
        return SshShell(LocalShell(), "127.0.0.1", sshd.options())


def test_commands_share_one_connection(sshd: SmallSshd) -> None:
    shell = SshShell(LocalShell(), "127.0.0.1", replace(sshd.options(alias="head"), connect_timeout=7))
    before = sshd.connections()
    for _ in range(3):
        assert shell.run(["true"], timeout=20).returncode == 0
    assert sshd.connections() - before == 1


def test_the_shared_connection_never_holds_its_first_caller(sshd: SmallSshd) -> None:
    """The first ssh leaves a master behind, which inherits its stderr."""
    shell = SshShell(LocalShell(), "127.0.0.1", replace(sshd.options(keep_open=8), connect_timeout=8))
    began = time.monotonic()
    assert shell.run(["echo", "hi"], timeout=20).stdout == "hi\n"
    assert list(shell.stream(["echo", "again"])) == ["again"]
    assert time.monotonic() - began < 4


def test_a_remote_255_is_the_commands_own(sshd: SmallSshd) -> None:
    shell = SshShell(LocalShell(), "127.0.0.1", sshd.options())
    done = shell.run(["sh", "-c", "echo sbatch: unrecognized option >&2; exit 255"], timeout=20)
    assert (done.returncode, done.stderr) == (255, "sbatch: unrecognized option\n")


def test_a_refused_key(sshd: SmallSshd) -> None:
    shell = SshShell(LocalShell(), "127.0.0.1", sshd.options(key="other_key"))
    with pytest.raises(ConnectionLost, match="refused the key or the user") as caught:
        shell.run(["true"], timeout=20)
    assert not caught.value.reached
    assert "ec2-user on Amazon Linux" in caught.value.remedy


def test_a_host_key_that_nobody_knows(sshd: SmallSshd) -> None:
    shell = SshShell(LocalShell(), "127.0.0.1", sshd.options(alias="stranger"))
    with pytest.raises(ConnectionLost, match="host key is not known"):
        shell.run(["true"], timeout=20)


def test_a_host_key_that_has_changed(sshd: SmallSshd, tmp_path: Path) -> None:
    known = tmp_path / "known hosts"
    other = " ".join((sshd.root / "other_key.pub").read_text().split()[:2])
    known.write_text(f"head {other}\n")
    shell = SshShell(LocalShell(), "127.0.0.1", replace(sshd.options(), known_hosts=str(known)))
    with pytest.raises(ConnectionLost, match="host key has changed") as caught:
        shell.run(["true"], timeout=20)
    assert "ssh-keygen -R" in caught.value.remedy


def test_nothing_listens(sshd: SmallSshd) -> None:
    shell = SshShell(LocalShell(), "127.0.0.1", replace(sshd.options(), port=free_ports(1)[0]))
    with pytest.raises(ConnectionLost, match="nothing listens there") as caught:
        shell.run(["true"], timeout=20)
    assert not caught.value.reached
    with pytest.raises(ConnectionLost, match="nothing listens there"):
        list(shell.stream(["true"]))


def test_a_config_file_says_everything(sshd: SmallSshd, tmp_path: Path) -> None:
    options = sshd.options()
    config = tmp_path / "ssh config"
    config.write_text(
        f"Host 198.51.100.7\n HostName 127.0.0.1\n Port {sshd.port}\n User {options.user}\n"
        f" IdentityFile {options.identity}\n IdentitiesOnly yes\n UserKnownHostsFile {options.known_hosts}\n"
        f" HostKeyAlias head\n"
    )
    shell = SshShell(LocalShell(), "198.51.100.7", SshOptions(config_file=str(config), keep_open=5))
    assert shell.run(["echo", "there"], timeout=20).stdout == "there\n"


def test_a_login_that_goes_through_a_proxy(sshd: SmallSshd) -> None:
    """As Session Manager does it; the proxy keeps its stderr as long as the shared connection lives."""
    relay = (
        "import os,socket,sys,threading\n"
        f"s=socket.create_connection(('127.0.0.1',{sshd.port}))\n"
        "def up():\n"
        "    while True:\n"
        "        d=os.read(0,65536)\n"
        "        if not d: return\n"
        "        s.sendall(d)\n"
        "threading.Thread(target=up,daemon=True).start()\n"
        "while True:\n"
        "    d=s.recv(65536)\n"
        "    if not d: break\n"
        "    os.write(1,d)\n"
    )
    script = sshd.root / "relay.py"
    script.write_text(relay)
    options = replace(sshd.options(keep_open=6), proxy_command=f"/usr/bin/env python3 {script}")
    began = time.monotonic()
    assert SshShell(LocalShell(), "i-0aa11bb22cc33dd44", options).run(["echo", "hi"], timeout=20).stdout == "hi\n"
    assert time.monotonic() - began < 5


def test_a_command_that_takes_too_long_says_where(sshd: SmallSshd) -> None:
    shell = SshShell(LocalShell(), "127.0.0.1", sshd.options())
    with pytest.raises(WaitedTooLong, match=r"sleep on 127\.0\.0\.1 .* may still run there"):
        shell.run(["sleep", "20"], timeout=1)


@pytest.mark.parametrize(("name", "said"), SAID.items())
def test_ssh_says_why(name: str, said: str) -> None:
    loss = connection_loss(f"Warning: Permanently added 'head' to the list of known hosts.\n{said}\n", "head")
    assert loss is not None, name
    assert loss.remedy
    assert loss.reached == (name in ("dropped", "silent", "closed"))


def test_what_a_remote_command_says_is_no_lost_connection() -> None:
    for said in (
        "",
        "sbatch: error: Unable to contact slurm controller (connect failure)",
        "bash: x: Permission denied",
    ):
        assert connection_loss(said, "head") is None


def test_the_destination_is_never_an_option() -> None:
    with ScriptedShell() as local:
        local.on("ssh", "--", "-oProxyCommand=touch /tmp/no")
        SshShell(local, "-oProxyCommand=touch /tmp/no").run(["true"], timeout=5)
    argv = local.calls[0].argv
    assert argv[argv.index("--") :] == ("--", "-oProxyCommand=touch /tmp/no", "true")


def test_an_empty_command_is_a_login_shell() -> None:
    with ScriptedShell() as local:
        local.on("ssh", "-t", "head", returncode=3)
        assert SshShell(local, "head").interact([]) == 3
    assert local.calls[0].argv[-2:] == ("--", "head")


def test_no_ssh_at_all() -> None:
    with pytest.raises(ToolMissing) as caught:
        SshShell(LocalShell({}, path="/nonexistent"), "head").run(["true"], timeout=5)
    assert "openssh-client" in caught.value.remedy


def test_the_socket_folder_is_private() -> None:
    # A test's own folder can be too long for a socket's name, and would then not be used at all.
    with tempfile.TemporaryDirectory(prefix="s-") as short, ScriptedShell() as local:
        folder = Path(short) / "s"
        local.on("ssh", times=None)
        SshShell(local, "head", SshOptions(control_folder=str(folder))).run(["true"], timeout=5)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert "ControlMaster=auto" in local.calls[-1].argv
        folder.chmod(0o755)  # as if somebody else had made it
        SshShell(local, "head", SshOptions(control_folder=str(folder))).run(["true"], timeout=5)
        assert "ControlMaster=no" in local.calls[-1].argv


def test_a_folder_that_is_too_long_for_a_socket_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 90)
    with ScriptedShell() as local:
        local.on("ssh")
        SshShell(local, "head", SshOptions(control_folder=str(folder))).run(["true"], timeout=5)
    assert "ControlMaster=no" in local.calls[-1].argv


def test_session_manager_proxy() -> None:
    assert session_manager_proxy("us-west-2", "my profile") == (
        "aws ssm start-session --target %h --document-name AWS-StartSSHSession --parameters portNumber=%p"
        " --region us-west-2 --profile 'my profile'"
    )
