"""git on an emulated head node: the real one, but for the commits that the shipped recipes pin, which need no internet.

Nobody can make a repository whose commit has a given name. So such a commit is fetched from a repository made here,
under its own name, and git's own replacement of objects (git-replace(1)) lets the pinned name stand for it: everything
else that is done with it, the real git does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PINNED = re.compile(r"[0-9a-f]{40}")
_NAMES = ["-c", "user.name=trnctl sandbox", "-c", "user.email=sandbox@localhost", "-c", "commit.gpgsign=false"]


def main(words: list[str]) -> int:
    """Run git; its exit code."""
    git = _real_git()
    if git is None:
        print("git: command not found", file=sys.stderr)
        return 127
    if "fetch" in words and words and _PINNED.fullmatch(words[-1]):
        from trnctl.sandbox.neuron.sources import code_at

        files = code_at(words[-1])
        if files:
            return _fetch(git, _folder(words), words[-1], files)
    return subprocess.call([git, *words])


def _real_git() -> str | None:
    """The first git on PATH that is not this one."""
    here = os.environ.get("TRNCTL_SANDBOX_CLUSTER", "")
    places = [place for place in os.environ.get("PATH", "").split(os.pathsep) if place != f"{here}/bin"]
    return shutil.which("git", path=os.pathsep.join(places))


def _folder(words: list[str]) -> str:
    """The folder of `-C`, else the current one."""
    return words[words.index("-C") + 1] if "-C" in words else "."


def _fetch(git: str, folder: str, commit: str, files: Mapping[str, str]) -> int:
    """A commit with these files, known to the repository in `folder` by the pinned name."""
    source = Path(folder) / ".git" / "emulated"
    shutil.rmtree(source, ignore_errors=True)
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    _run(git, "init", "-q", str(source))
    _run(git, "-C", str(source), "add", "-A")
    _run(git, "-C", str(source), *_NAMES, "commit", "-q", "-m", "Emulated by the trnctl sandbox")
    _run(git, "-C", folder, "fetch", "-q", str(source.resolve()), "HEAD")
    _run(git, "-C", folder, "update-ref", f"refs/replace/{commit}", "FETCH_HEAD")
    shutil.rmtree(source)
    return 0


def _run(git: str, *words: str) -> None:
    subprocess.run([git, *words], check=True, timeout=60, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
