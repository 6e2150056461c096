"""Copies between this machine and a head node: rsync over the shared ssh connection, else tar or scp over the same.

rsync says what it changed, removes what is no longer there, and copies only what differs; it may be missing on either
side. Then named files go up in a tar archive, and what is copied as a whole goes through scp.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from trnctl.adapters.ssh_shell import SshOptions, connection_loss, ssh_words
from trnctl.errors import NotFoundError, ToolError, ToolMissing
from trnctl.ports import Completed, Shell, Transfer, Transferred

_TIMEOUT = 6 * 3600.0  # of one copy, seconds: a checkpoint of a large model takes its time
# rsync's itemized changes: two characters that say what became of it, nine more, the name.
_ITEM = re.compile(r"(?P<what>[<>ch.*][fdLDS ]|\*d)\S* +(?P<name>.+)")
_MISSING_THERE = re.compile(r"rsync: (command )?not found|No such file or directory.*rsync$|remote command not found")


class SshFiles:
    """Files on a head node. `local` runs the programs of this machine."""

    def __init__(self, local: Shell, destination: str, options: SshOptions) -> None:
        self._local, self._destination, self._options = local, destination, options

    def copy(self, transfer: Transfer) -> Transferred:
        """Carry a copy out; see `ports.HeadFiles.copy`."""
        try:
            done = self._rsync(transfer)
        except ToolMissing as error:
            return self._without_rsync(transfer, error, "this machine")
        if done.returncode == 127 or _MISSING_THERE.search(done.stderr):
            missing = ToolMissing("rsync is not installed on the head node.", remedy="", program="rsync")
            return self._without_rsync(transfer, missing, "the head node")
        self._check(done, transfer)
        return _itemized(done.stdout)

    def _rsync(self, transfer: Transfer) -> Completed:
        """-s: names of files are no words for the shell there."""
        words = ["rsync", "-a", "-s", "--no-owner", "--no-group", "--itemize-changes", "--timeout=120"]
        words += ["-e", shlex.join(ssh_words(self._destination, self._options, ["-T"]))]
        words += [f"--exclude={name}" for name in transfer.exclude]
        words += ["--dry-run"] if transfer.dry_run else []
        there = f"{self._destination}:{transfer.there}"
        if transfer.names is None:
            here = transfer.here
            ends = (here, there) if transfer.up else (there, here)
            words += ["--delete"] if transfer.delete else []
            return self._local.run([*words, "--", *ends], timeout=_TIMEOUT)
        words += ["--checksum"]  # code is small, and an edit may keep a file's size and second
        words += ["--delete-missing-args"] if transfer.delete else []
        words += ["--files-from=-", "--from0", "--", f"{transfer.here}/", f"{there}/"]
        return self._local.run(words, stdin="".join(f"{name}\0" for name in transfer.names), timeout=_TIMEOUT)

    def _without_rsync(self, transfer: Transfer, missing: ToolMissing, where: str) -> Transferred:
        if transfer.delete or transfer.dry_run or transfer.exclude:
            raise ToolMissing(
                f"rsync is not installed on {where}, and nothing else can tell what differs.",
                remedy=f"Install it on {where}: apt-get install rsync (macOS: brew install rsync).",
                program="rsync",
            ) from missing
        if transfer.names is not None:
            self._check(self._tar(transfer.here, transfer.there, transfer.names), transfer)
            return Transferred(transfer.names)
        self._check(self._scp(transfer), transfer)
        return Transferred(None)

    def _tar(self, here: str, there: str, names: Sequence[str]) -> Completed:
        """One archive through one pipe; bash, for the exit code of the first of the two."""
        pack = shlex.join(["tar", "-C", here, "--null", "-T", "-", "-c", "-f", "-"])
        unpack = shlex.join(["tar", "-C", there, "-x", "-f", "-"])
        ssh = shlex.join([*ssh_words(self._destination, self._options, ["-T"]), "--", self._destination, unpack])
        pipe = f"set -o pipefail; {pack} | {ssh}"
        return self._local.run(["bash", "-c", pipe], stdin="".join(f"{name}\0" for name in names), timeout=_TIMEOUT)

    def _scp(self, transfer: Transfer) -> Completed:
        options = [word for word in ssh_words(self._destination, self._options, [])[1:] if word]
        options = ["-P" if word == "-p" else word for word in options]
        if "-l" in options:  # scp knows the user as a part of the address
            at = options.index("-l")
            destination = f"{options[at + 1]}@{self._destination}"
            options[at : at + 2] = []
        else:
            destination = self._destination
        words, path = self._scp_path(transfer.there, pattern=not transfer.up)
        there = f"{destination}:{path}"
        ends = (transfer.here, there) if transfer.up else (there, transfer.here)
        return self._local.run(["scp", *words, "-r", "-q", *options, "--", *ends], timeout=_TIMEOUT)

    def _scp_path(self, path: str, *, pattern: bool) -> tuple[list[str], str]:
        """Options, and a path as this scp takes it literally: one before OpenSSH 8.7 has a shell there expand it; a
        newer one knows SFTP (-s), for which what is fetched is a pattern, and what is sent goes to a plain name."""
        said = self._local.run(["ssh", "-V"], timeout=20).stderr
        found = re.search(r"OpenSSH_(?:for_Windows_)?(\d+)\.(\d+)", said)
        if found is None or (int(found[1]), int(found[2])) < (8, 7):
            return [], shlex.quote(path)
        return ["-s"], re.sub(r"([*?\[\\])", r"\\\1", path) if pattern else path

    def _check(self, done: Completed, transfer: Transfer) -> None:
        """The words of rsync, scp, tar and ssh when something is wrong."""
        if done.returncode == 0:
            return
        loss = connection_loss(done.stderr, self._destination)
        if loss is not None:
            raise loss
        said = " ".join(done.stderr.split())[-400:]
        source = transfer.here if transfer.up else f"the head node's {transfer.there}"
        if re.search(r"No such file or directory|link_stat.*failed|Cannot stat|not a regular file", said):
            raise NotFoundError(
                f"The copy found no such file. {done.argv[0]} said: {said}",
                remedy=f"Look whether {source} is there, and whether the folder is that it is copied to.",
            )
        raise ToolError(
            f"{done.argv[0]} could not copy (exit code {done.returncode}). It said: {said}",
            remedy="Run the command again: what is there is not copied twice. trnctl ssh -- df -h shows the room.",
        )


def _itemized(text: str) -> Transferred:
    """The files that rsync says it has sent or removed; folders and mere changes of time are left out."""
    names, deleted = [], []
    for line in text.splitlines():
        if line.startswith("*deleting"):
            deleted.append(line.removeprefix("*deleting").strip())
            continue
        found = _ITEM.match(line)
        if found and found["what"][0] in "<>ch" and found["what"][1] in "fL":
            names.append(found["name"].partition(" -> ")[0] if found["what"][1] == "L" else found["name"])
    return Transferred(tuple(names), tuple(deleted))
