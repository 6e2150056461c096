"""The ways into head and compute nodes: throw-away keys, sshd's configuration, ssh's configuration on either side."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trnctl.sandbox.machines.addresses import LOOPBACK
from trnctl.sandbox.processes import command_lines

HOST_KEY_ALIAS = "trnctl-sandbox"  # one host key for all, so that known_hosts never changes
PRIVILEGE_FOLDER = Path("/run/sshd")  # sshd of root wants it to exist; a service manager makes it elsewhere
_PRIVILEGE_MARK = PRIVILEGE_FOLDER / "made-by-trnctl-sandbox"


@dataclass(frozen=True)
class Head:
    """A head node as the client sees it: its emulated addresses, and the port of its sshd on this machine."""

    cluster: str
    addresses: tuple[str, ...]
    port: int


def make_keys(folder: Path) -> None:
    """A host key and a client key (ed25519, no passphrase), and the known_hosts that vouches for the first."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("host", "client"):
        if not (folder / name).exists():
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "trnctl sandbox", "-f", str(folder / name)]
            subprocess.run(argv, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=30)
    (folder / "known_hosts").write_text(f"{HOST_KEY_ALIAS} {(folder / 'host.pub').read_text()}")


def make_privilege_folder() -> None:
    """Make /run/sshd for a root without service manager, with a mark that it is ours."""
    if os.geteuid() == 0 and not PRIVILEGE_FOLDER.exists():
        PRIVILEGE_FOLDER.mkdir(mode=0o755)
        _PRIVILEGE_MARK.touch()


def remove_privilege_folder() -> None:
    """Remove /run/sshd if a sandbox made it and no sshd, of whomever, needs it any more."""
    if _PRIVILEGE_MARK.exists() and not any(command_lines("sshd")):
        _PRIVILEGE_MARK.unlink()
        PRIVILEGE_FOLDER.rmdir()


def sshd_config(keys: Path, environment: Mapping[str, str], *, port: int, shadow: str = "") -> str:
    """sshd's configuration of one cluster. Sessions start in the emulated HOME with `environment`, which sshd sets
    before the shell runs, so that the shell finds the sandbox's start-up files, not the user's own.

    `shadow` is the account's password field: sshd refuses keys too for a locked account ('!'), unless PAM decides.
    """
    variables = " ".join(f'"{name}={value}"' for name, value in environment.items())
    lines = [
        f"Port {port}",
        f"ListenAddress {LOOPBACK}",
        f"HostKey {keys / 'host'}",
        f"AuthorizedKeysFile {keys / 'client.pub'}",
        "PidFile none",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        f"UsePAM {'yes' if shadow.startswith('!') else 'no'}",
        "StrictModes no",  # the home may lie in a folder that a group can write to
        "PermitRootLogin prohibit-password",
        "PrintMotd no",
        "PrintLastLog no",
        "MaxStartups 200",
        "MaxSessions 100",
        f"SetEnv {variables}",
        f"Subsystem sftp internal-sftp -d {environment['HOME']}",
    ]
    return "\n".join(lines) + "\n"


def client_config(keys: Path, heads: Iterable[Head]) -> str:
    """The user's side: a block for each head node's public and private address."""
    blocks = ["# Head nodes of the trnctl sandbox; written anew whenever one comes or goes."]
    for head in heads:
        blocks.append(_block(keys, " ".join(head.addresses), f"HostName {LOOPBACK}", f"Port {head.port}"))
    return "\n\n".join(blocks) + "\n"


def hop_config(keys: Path, groups: Iterable[str], reach: Path) -> str:
    """The head's and the nodes' side: compute nodes by name, each reached by a program instead of a port."""
    patterns = " ".join(f"{group}-*" for group in groups)
    return _block(keys, patterns, f"ProxyCommand {reach} %n") + "\n" if patterns else ""


def _block(keys: Path, patterns: str, *way: str) -> str:
    lines = [
        *way,
        f"User {pwd.getpwuid(os.geteuid()).pw_name}",
        f"IdentityFile {keys / 'client'}",
        "IdentitiesOnly yes",
        f"HostKeyAlias {HOST_KEY_ALIAS}",
        f"UserKnownHostsFile {keys / 'known_hosts'}",
        "GlobalKnownHostsFile /dev/null",
        "StrictHostKeyChecking yes",
        "BatchMode yes",
        "LogLevel ERROR",
        "KexAlgorithms curve25519-sha256",  # the default one costs 90 ms of CPU a connection
    ]
    return "\n    ".join([f"Host {patterns}", *lines])


def own_shadow() -> str:
    """The password field of this account, '' where it cannot be read (sshd of a plain user cannot either)."""
    name = pwd.getpwuid(os.geteuid()).pw_name
    try:
        lines = Path("/etc/shadow").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":")[1] for line in lines if line.startswith(f"{name}:")), "")
