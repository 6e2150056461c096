"""Commands on the head node, each through one ssh that shares a connection with the ones before it."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trnctl.errors import ConnectionLost, ToolMissing, WaitedTooLong
from trnctl.ports import CommandFailed, Completed, Shell

# ssh binds `<ControlPath>.<16 random characters>` first, and a unix socket's name has at most 107 bytes.
_SOCKET_LIMIT = 107 - 17


@dataclass(frozen=True)
class SshOptions:
    """How to reach a host.

    With `config_file` (ssh's `-F`) that file says user, key, port and host keys; otherwise the fields here do.
    `host_key_alias` names the host in `known_hosts`: an instance id outlives its addresses. `accept_new` trusts a
    host that was never seen. `proxy_command` is ssh's (see `session_manager_proxy`). `control_folder` None = a
    private folder of this user. Times are in seconds.
    """

    config_file: str | None = None
    user: str | None = None
    identity: str | None = None
    port: int | None = None
    known_hosts: str | None = None
    host_key_alias: str | None = None
    accept_new: bool = True
    proxy_command: str | None = None
    connect_timeout: int = 10
    keep_open: int = 60
    control_folder: str | None = None


def session_manager_proxy(region: str, profile: str | None = None) -> str:
    """The ProxyCommand that goes through AWS Session Manager; the destination is then an instance id.

    Needs the `aws` command and its session-manager-plugin on this machine.
    """
    words = ["aws", "ssm", "start-session", "--target", "%h", "--document-name", "AWS-StartSSHSession"]
    words += ["--parameters", "portNumber=%p", "--region", region]
    return shlex.join(words + (["--profile", profile] if profile else []))


class SshShell:
    """A Shell on another machine. `local` runs ssh; `destination` is a host name, an address or an alias."""

    def __init__(self, local: Shell, destination: str, options: SshOptions | None = None) -> None:
        self._local = local
        self._destination = destination
        self._options = options or SshOptions()

    def run(self, argv: Sequence[str], *, stdin: str | None = None, timeout: float) -> Completed:
        """Run to the end; see `ports.Shell.run`. One ssh process; a remote exit code is returned."""
        command = self._command(["-T"], argv)
        try:
            done = self._local.run(command, stdin=stdin, timeout=timeout)
        except WaitedTooLong as error:
            raise WaitedTooLong(
                f"{argv[0]} on {self._destination} did not finish within {timeout:g} seconds; it may still run there.",
                remedy="Look at the head node: trnctl ssh -- uptime. Then run the command again.",
            ) from error
        except ToolMissing as error:
            raise _no_ssh(error) from error
        if done.returncode == 255 and (loss := connection_loss(done.stderr, self._destination)):
            raise loss
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    def stream(self, argv: Sequence[str], *, stdin: str | None = None) -> Iterator[str]:
        """Yield the remote stdout's lines as they come; see `ports.Shell.stream`."""
        try:
            yield from self._local.stream(self._command(["-T"], argv), stdin=stdin)
        except ToolMissing as error:
            raise _no_ssh(error) from error
        except CommandFailed as error:
            failed = error.completed
            if failed.returncode == 255 and (loss := connection_loss(failed.stderr, self._destination)):
                raise loss from error
            raise CommandFailed(
                error.message.replace("ssh failed", f"{argv[0]} on {self._destination} failed", 1),
                remedy="Run it there to see more: trnctl ssh -- " + " ".join(argv[:3]),
                completed=Completed(tuple(argv), failed.returncode, "", failed.stderr),
            ) from error

    def interact(self, argv: Sequence[str]) -> int:
        """Hand over the terminal; an empty `argv` is a login shell there. ssh itself tells the user what fails."""
        try:
            return self._local.interact(self._command(["-t"], argv))
        except ToolMissing as error:
            raise _no_ssh(error) from error

    def _command(self, flags: Sequence[str], argv: Sequence[str]) -> list[str]:
        # The remote side hands one string to the user's shell: every word is quoted for it.
        words = ssh_words(self._destination, self._options, flags)
        return [*words, "--", self._destination, *([shlex.join(argv)] if argv else [])]


def ssh_words(destination: str, options: SshOptions, flags: Sequence[str]) -> list[str]:
    """ssh and all its options for a destination, which itself does not stand among them: rsync adds it."""
    words = ["ssh", *flags]
    if options.config_file:
        words += ["-F", options.config_file]
    if options.user:
        words += ["-l", options.user]
    if options.port:
        words += ["-p", str(options.port)]
    if options.identity:
        words += ["-i", options.identity, "-o", "IdentitiesOnly=yes"]
    for name, value in _settings(destination, options):
        words += ["-o", f"{name}={value}"]
    return words


def _settings(destination: str, options: SshOptions) -> Iterator[tuple[str, str]]:
    yield "BatchMode", "yes"  # never ask: a question on a pipe is a hang
    yield "ConnectTimeout", str(options.connect_timeout)
    yield "ServerAliveInterval", "5"  # a dead host is noticed after 15 s, also by the shared connection
    yield "ServerAliveCountMax", "3"
    yield "Compression", "yes"  # log tails and JSON shrink well
    if options.known_hosts:
        yield "UserKnownHostsFile", _quoted(options.known_hosts)
    if options.host_key_alias:
        yield "HostKeyAlias", options.host_key_alias
    if not options.config_file:
        yield "StrictHostKeyChecking", "accept-new" if options.accept_new else "yes"
    if options.proxy_command:
        yield "ProxyCommand", options.proxy_command
    socket = _control_socket(destination, options)
    if socket:
        yield "ControlMaster", "auto"
        yield "ControlPath", _quoted(socket)
        yield "ControlPersist", str(options.keep_open)
    else:
        yield "ControlMaster", "no"


def _control_socket(destination: str, options: SshOptions) -> str | None:
    """Where connections to this destination meet; None when there is no safe and short place for it."""
    folder = options.control_folder or _control_folder()
    if folder is None:
        return None
    key = repr((destination, options))
    path = str(Path(folder) / hashlib.sha256(key.encode()).hexdigest()[:16])
    return path if len(os.fsencode(path)) <= _SOCKET_LIMIT and _is_private(folder) else None


def _quoted(path: str) -> str:
    """A path for an ssh option: percent signs are ssh's tokens, and a blank would end the word."""
    return '"' + path.replace("%", "%%") + '"'


def _control_folder() -> str | None:
    """A short folder for this user's sockets: the session's runtime folder, or one below the temporary folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    bases = [Path(runtime) / "trnctl"] if runtime and Path(runtime).is_dir() else []
    bases += [Path(tempfile.gettempdir()) / f"trnctl-{os.getuid()}", Path("/tmp") / f"trnctl-{os.getuid()}"]  # noqa: S108  checked by _is_private
    return next((str(base) for base in bases if len(os.fsencode(base)) + 17 <= _SOCKET_LIMIT), None)


def _is_private(folder: str) -> bool:
    """Make the folder if need be; True when it is a real folder of ours that nobody else can enter."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103  Path.mkdir gives parents another mode
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _no_ssh(error: ToolMissing) -> ToolMissing:
    return ToolMissing(
        error.message, remedy="Install OpenSSH's client: apt-get install openssh-client.", program=error.program
    )


@dataclass(frozen=True)
class _Loss:
    """One way in which ssh says that there is no connection; `reached` as in ConnectionLost."""

    pattern: str
    cause: str
    remedy: str
    reached: bool = False


_TRY_AGAIN = "Run the command again; what was submitted is not submitted twice."
# ssh's own messages (OpenSSH 7.4 to 9.9), most telling first. Each stands at the start of a line of stderr.
_LOSSES = (
    _Loss(
        r"@?\s*(WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED|WARNING: POSSIBLE DNS SPOOFING)",
        "its host key has changed",
        "If the head node was replaced, forget the old key: ssh-keygen -R HOST (with -f FILE for another known_hosts)."
        " If it was not, somebody may be listening: do not connect.",
    ),
    _Loss(
        r"Host key verification failed",
        "its host key is not known",
        "Connect once by hand to see and accept the key, or check the known_hosts file.",
    ),
    _Loss(
        r".*[Pp]ermission denied \([a-z,-]+\)|.*Too many authentication failures",
        "it refused the key or the user",
        "Check head_node.ssh_key in trnctl.yaml: it must be the private half of head_node.key_name. The user is ubuntu"
        " on Ubuntu, ec2-user on Amazon Linux and RHEL, rocky on Rocky.",
    ),
    _Loss(
        r"ssh: Could not resolve hostname",
        "its name does not resolve",
        "Check the network of this machine, and whether the head node still exists: trnctl cluster describe.",
    ),
    _Loss(
        r"ssh: connect to host .*: Connection refused",
        "nothing listens there: the head node is still booting, or sshd is down",
        "Wait a minute and run the command again; trnctl status shows the head node's state.",
    ),
    _Loss(
        r"ssh: connect to host .*(timed out|No route to host|Network is unreachable)"
        r"|Connection timed out during banner",
        "it did not answer in time: the security group does not let this machine in, or the instance is stopped",
        "Check head_node.ssh_from in trnctl.yaml against the address of this machine (it may have changed), or set"
        " head_node.ssm: true without ssh_from to go through Session Manager.",
    ),
    _Loss(
        r".*(session-manager-plugin|SessionManagerPlugin) (is )?not found|.*aws: (command )?not found",
        "the AWS CLI or its session-manager-plugin is missing on this machine",
        "Install the AWS CLI and the session-manager-plugin, or use head_node.ssh_from instead of ssm.",
    ),
    _Loss(
        r".*TargetNotConnected|.*An error occurred \(.*StartSession",
        "Session Manager does not reach it",
        "The head node needs the policy AmazonSSMManagedInstanceCore and a way to the SSM endpoints; it can take some"
        " minutes after boot.",
    ),
    _Loss(
        r"kex_exchange_identification:|ssh_exchange_identification:|Connection (closed|reset) by .* port \d+",
        "it closed the connection before the login was done",
        "The head node may be booting or overloaded. Wait a minute and run the command again.",
    ),
    _Loss(
        r"Unable to negotiate with|no matching (host key|key exchange|cipher)",
        "its ssh and this one share no algorithm",
        "Update OpenSSH on this machine.",
    ),
    _Loss(
        r"(Load key|Identity file|.*Bad owner or permissions|.*UNPROTECTED PRIVATE KEY|.*Bad configuration option"
        r"|Can't open user config|.*terminating, \d+ bad configuration)",
        "ssh could not use its key or its configuration",
        "Check that head_node.ssh_key exists and is readable by you alone: chmod 600.",
    ),
    _Loss(
        r"(client_loop|packet_write_wait|Timeout, server|Read from remote host|Write failed|mux_client"
        r"|(Shared )?[Cc]onnection to .* closed|Connection (closed|reset))",
        "the connection broke",
        _TRY_AGAIN,
        reached=True,
    ),
)  # fmt: skip


def connection_loss(stderr: str, destination: str) -> ConnectionLost | None:
    """What ssh's own words say about a connection that failed; None when the 255 is the remote command's own.

    ssh uses 255 for its failures, and so may a remote command. Only ssh's known messages, at the start of a line,
    count as a lost connection.
    """
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for loss in _LOSSES:
        said = next((line for line in lines if re.match(loss.pattern, line)), None)
        if said is not None:
            return ConnectionLost(
                f"The connection to {destination} failed: {loss.cause}. ssh said: {said}",
                remedy=loss.remedy.replace("HOST", destination),
                reached=loss.reached,
            )
    return None
