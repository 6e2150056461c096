"""HeadFiles: in a folder, and over ssh with rsync, tar and scp."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.adapters.small_sshd import SmallSshd
from tests.contracts.files import FilesBench, HeadFilesContract, content, fill
from tests.fakes.files import FolderFiles
from trnctl.adapters.head_files import SshFiles
from trnctl.adapters.local_shell import LocalShell
from trnctl.adapters.ssh_shell import SshOptions
from trnctl.errors import ConnectionLost, ToolMissing
from trnctl.ports import HeadFiles, Transfer


@dataclass
class Bench:
    """Two folders."""

    files: HeadFiles
    here: Path
    there: str
    seen: Path


class TestInAFolder(HeadFilesContract):
    """The fake keeps its promises."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> FilesBench:
        (tmp_path / "here").mkdir()
        return Bench(FolderFiles(tmp_path / "root"), tmp_path / "here", "/fsx/x", tmp_path / "root/fsx/x")


def over_ssh(sshd: SmallSshd, folder: Path, shell: LocalShell | None = None) -> Bench:
    (folder / "here").mkdir()
    files = SshFiles(shell or LocalShell(), "127.0.0.1", sshd.options())
    return Bench(files, folder / "here", str(folder / "there"), folder / "there")


class TestOverSsh(HeadFilesContract):
    """rsync, with a real sshd."""

    @pytest.fixture
    def bench(self, sshd: SmallSshd, tmp_path: Path) -> FilesBench:
        if shutil.which("rsync") is None:
            pytest.skip("rsync is not installed")
        return over_ssh(sshd, tmp_path)


@pytest.fixture
def without_rsync(sshd: SmallSshd, tmp_path: Path) -> Bench:
    """A machine that has ssh, scp and tar, but no rsync."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("ssh", "scp", "tar", "bash", "sh"):
        (tools / name).symlink_to(str(shutil.which(name)))
    return over_ssh(sshd, tmp_path, LocalShell({**os.environ, "PATH": str(tools)}))


def test_named_files_go_up_in_an_archive_where_there_is_no_rsync(without_rsync: Bench) -> None:
    fill(without_rsync.here, train_py="1", sub__deep_py="2", left="3")
    without_rsync.seen.mkdir()
    names = ("sub/deep.py", "train.py")
    done = without_rsync.files.copy(Transfer(str(without_rsync.here), without_rsync.there, up=True, names=names))
    assert done.names == names
    assert content(without_rsync.seen) == {"sub/deep.py": "2", "train.py": "1"}


def test_files_come_down_with_scp_where_there_is_no_rsync(without_rsync: Bench) -> None:
    fill(without_rsync.seen, results="{}")
    done = without_rsync.files.copy(Transfer(f"{without_rsync.here}/", f"{without_rsync.there}/results", up=False))
    assert done.names is None
    assert content(without_rsync.here) == {"results": "{}"}


@pytest.mark.parametrize("name", ["a b", "$(touch x)", "one[1]*?", "back\\slash", "it's"])
def test_scp_takes_every_name_literally(without_rsync: Bench, name: str) -> None:
    fill(without_rsync.seen, one1xy="another")
    (without_rsync.seen / name).write_text("this")
    without_rsync.files.copy(Transfer(f"{without_rsync.here}/", f"{without_rsync.there}/{name}", up=False))
    assert content(without_rsync.here) == {name: "this"}
    without_rsync.files.copy(Transfer(f"{without_rsync.here}/{name}", f"{without_rsync.there}/2{name}", up=True))
    assert (without_rsync.seen / f"2{name}").read_text() == "this"


@pytest.mark.parametrize(
    ("version", "word"),
    [("OpenSSH_8.2p1 Ubuntu", "there:'/fsx/$(x) [1]'"), ("OpenSSH_9.6p1, OpenSSL", "there:/fsx/$(x) \\[1]")],
)
def test_an_old_scp_has_its_path_quoted_for_the_shell_there(tmp_path: Path, version: str, word: str) -> None:
    """Programs that stand in for those of another release; scp notes its words."""
    for name, text in (
        ("rsync", "echo 'bash: rsync: command not found' >&2; exit 127"), ("ssh", f"echo '{version}' >&2"),
        ("scp", f"printf '%s\\n' \"$@\" >{tmp_path}/words"),
    ):  # fmt: skip
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    shell = LocalShell({**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    SshFiles(shell, "there", SshOptions()).copy(Transfer("here", "/fsx/$(x) [1]", up=False))
    words = (tmp_path / "words").read_text().splitlines()
    assert words[-2:] == [word, "here"]
    assert ("-s" in words) == ("9.6" in version)


@pytest.mark.parametrize("wish", [{"delete": True}, {"dry_run": True}, {"exclude": ("x",)}])
def test_what_only_rsync_can_do_is_refused_without_it(without_rsync: Bench, wish: dict[str, object]) -> None:
    transfer = Transfer(str(without_rsync.here), without_rsync.there, up=True, **wish)  # type: ignore[arg-type]
    with pytest.raises(ToolMissing, match="rsync is not installed on this machine"):
        without_rsync.files.copy(transfer)


def test_a_failing_archive_is_no_success(without_rsync: Bench) -> None:
    without_rsync.seen.mkdir()
    transfer = Transfer(str(without_rsync.here), without_rsync.there, up=True, names=("nothing.py",))
    with pytest.raises(Exception, match="no such file"):
        without_rsync.files.copy(transfer)


def test_a_head_node_that_does_not_answer_is_a_lost_connection(sshd: SmallSshd, tmp_path: Path) -> None:
    files = SshFiles(LocalShell(), "nowhere.invalid", sshd.options())
    with pytest.raises(ConnectionLost, match=r"does not resolve|refused"):
        files.copy(Transfer(str(tmp_path), "/nowhere", up=True))
