"""What every HeadFiles must do."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

from trnctl.errors import NotFoundError
from trnctl.ports import HeadFiles, Transfer


class FilesBench(Protocol):
    """A HeadFiles; `here` is a folder of this machine, `there` a path on the head node, `seen` where that can be
    looked at."""

    files: HeadFiles
    here: Path
    there: str
    seen: Path


def fill(folder: Path, **files: str) -> None:
    """Write files; `a__b` is a/b, and `x_py` is x.py."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def content(folder: Path) -> dict[str, str]:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()
    }


class HeadFilesContract:
    """Give a fixture `bench`."""

    def test_named_files_go_up(self, bench: FilesBench) -> None:
        fill(bench.here, train_py="1", sub__deep_py="2", left_py="3")
        bench.seen.mkdir(parents=True)
        names = ("sub/deep.py", "train.py")
        bench.files.copy(Transfer(str(bench.here), bench.there, up=True, names=names))
        assert content(bench.seen) == {"sub/deep.py": "2", "train.py": "1"}

    def test_only_what_differs_is_copied_and_named(self, bench: FilesBench) -> None:
        fill(bench.here, a_py="1", b_py="2")
        bench.seen.mkdir(parents=True)
        bench.files.copy(Transfer(str(bench.here), bench.there, up=True, names=("a.py",)))
        done = bench.files.copy(Transfer(str(bench.here), bench.there, up=True, names=("a.py", "b.py")))
        assert done.names == ("b.py",)

    def test_what_is_no_longer_here_is_removed_only_when_asked(self, bench: FilesBench) -> None:
        fill(bench.here, a_py="1")
        fill(bench.seen, a_py="0", gone_py="x", other__kept="y")
        names = ("a.py", "gone.py")
        plan = bench.files.copy(Transfer(str(bench.here), bench.there, up=True, names=names, delete=True, dry_run=True))
        assert (plan.names, plan.deleted) == (("a.py",), ("gone.py",))
        assert set(content(bench.seen)) == {"a.py", "gone.py", "other/kept"}
        bench.files.copy(Transfer(str(bench.here), bench.there, up=True, names=names, delete=True))
        assert content(bench.seen) == {"a.py": "1", "other/kept": "y"}

    def test_a_file_comes_down(self, bench: FilesBench) -> None:
        fill(bench.seen, results="{}")
        done = bench.files.copy(Transfer(f"{bench.here}/", f"{bench.there}/results", up=False))
        assert done.names == ("results",)
        assert content(bench.here) == {"results": "{}"}

    def test_a_folder_comes_down_without_what_is_left_out(self, bench: FilesBench) -> None:
        fill(bench.seen, results="{}", checkpoints__big="x", logs__checkpoints="y")
        target = bench.here / "run"
        target.mkdir()
        bench.files.copy(Transfer(f"{target}/", f"{bench.there}/", up=False, exclude=("/checkpoints",)))
        assert content(target) == {"results": "{}", "logs/checkpoints": "y"}

    def test_what_is_not_there_is_told(self, bench: FilesBench) -> None:
        with pytest.raises(NotFoundError, match="no such file"):
            bench.files.copy(Transfer(f"{bench.here}/", f"{bench.there}/nothing", up=False))

    def test_names_are_no_words_for_a_shell(self, bench: FilesBench) -> None:
        names = ("two words.py", "it's $(touch x).py", "*.py")
        for name in names:
            (bench.here / name).write_text(name)
        bench.seen.mkdir(parents=True)
        bench.files.copy(Transfer(str(bench.here), bench.there, up=True, names=names))
        assert set(content(bench.seen)) == set(names)
