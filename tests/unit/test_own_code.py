"""A user's own code: which files belong to it, the state it is in, and how it comes to the cluster."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.recipes import recipe
from trnctl.actions.code import Place, gone, place_of
from trnctl.cli.workdir import origin_of, read_code, workdir_of
from trnctl.errors import RefusedError, UsageError
from trnctl.plan.code import Code, CodeFile, code_of, pinned
from trnctl.plan.ignore import ignored, rules_of
from trnctl.render.places import live_code_folder

PATTERNS = st.lists(
    st.sampled_from([
        "*.log", "/out", "out/", "a/b", "a/**", "**/b", "a/**/c", "!keep.log", "!out/keep", "b?", "[ab].py", "[!a].py",
        "\\#x", "#comment", "", "  ", "data/", "!data/", "*", "!*.py", "/a/*", "c*", "**", "x y", "trail  ", "[",
        "a\\*",
    ]),
    max_size=5,
)  # fmt: skip
PATHS = ["a/b", "a/c.py", "a/b.py", "a/x/c", "out/keep", "out/x.log", "keep.log", "x.log", "b.py", "data/c", "#x",
         "x y", "trail", "a*", "deep/out/x", "deep/a/b", "[", "b1", "c/data"]  # fmt: skip


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


def names(folder: Path) -> list[str]:
    return list(read_code(str(folder)).names)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "-q")
    for path in PATHS:
        place = folder / path
        if place.parent.is_file() or place.is_dir():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x")
    return folder


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(top=PATTERNS, inner=PATTERNS)
def test_what_git_leaves_out_is_left_out(repository: Path, top: list[str], inner: list[str]) -> None:
    (repository / ".gitignore").write_text("\n".join(top) + "\n")
    (repository / "a" / ".gitignore").write_text("\n".join(inner) + "\n")
    listed = git(repository, "ls-files", "-z", "--others", "--cached", "--exclude-standard").split("\0")
    assert names(repository) == sorted(name for name in listed if name)


def test_a_path_in_a_folder_of_its_own_rules() -> None:
    rules = rules_of(["/only-here", "*.tmp"], "sub/")
    assert ignored("sub/only-here", rules, folder=False)
    assert not ignored("only-here", rules, folder=False)
    assert not ignored("sub/deep/only-here", rules, folder=False)
    assert ignored("sub/deep/x.tmp", rules, folder=False)


def test_what_tools_write_is_never_code(tmp_path: Path) -> None:
    for name in (".git/config", ".venv/bin/python", "pkg/__pycache__/x.pyc", "train.py", "pkg/model.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert names(tmp_path) == ["pkg/model.py", "train.py"]


def test_the_repository_around_it_has_its_say(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("*.ckpt\n/elsewhere\n")
    inner = tmp_path / "training"
    inner.mkdir()
    for name in ("train.py", "big.ckpt", "elsewhere"):
        (inner / name).write_text("x")
    assert names(inner) == ["elsewhere", "train.py"]


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    first = tmp_path / "one"
    first.mkdir()
    (first / "train.py").write_text("1")
    (first / "link").symlink_to("train.py")
    (first / "run.sh").write_text("x")
    (first / "run.sh").chmod(0o755)
    digest = read_code(str(first)).digest
    second = tmp_path / "two"
    shutil.copytree(first, second, symlinks=True)
    assert read_code(str(second)).digest == digest
    (second / "run.sh").chmod(0o644)
    assert read_code(str(second)).digest != digest
    (second / "run.sh").chmod(0o755)
    (second / "train.py").write_text("2")
    assert read_code(str(second)).digest != digest


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        read_code(str(tmp_path / "nothing"))


def test_two_folders_of_the_same_name_have_a_copy_each(tmp_path: Path) -> None:
    """`sync --delete` of one would remove the other's files."""
    for project in ("a", "b"):
        (tmp_path / project / "src").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "src")
    origins = [origin_of(str(tmp_path / name)) for name in ("a/src", "b/src", "link")]
    one, other, again = (live_code_folder("/fsx", "src", origin) for origin in origins)
    assert one != other
    assert one == again, "the same code, by another way"
    others = origins[0].replace("@", "2@", 1), origins[0].replace(":", "2:", 1)
    assert len({one, *(live_code_folder("/fsx", "src", origin) for origin in others)}) == 3, "of another user or host"


def test_what_is_too_large_for_code_is_refused() -> None:
    files = [CodeFile("train.py", False, 10, "a"), CodeFile("weights.bin", False, 2 << 30, "b")]
    with pytest.raises(RefusedError, match=r"weights\.bin is the largest"):
        code_of("/x", files)


def test_a_recipe_is_pinned_to_the_state_of_its_code() -> None:
    own = replace(recipe(), name="mine", workdir="code", script="train.py")
    code = Code("/x/code", ("train.py",), 1, "d" * 40)
    assert pinned(own, code).source.commit == "d" * 40
    with pytest.raises(UsageError, match=r"has no train\.py"):
        pinned(own, replace(code, names=("other.py",)))
    assert workdir_of(own, "/recipes/mine.yaml") == "/recipes/code"


def test_what_is_gone_here_is_named_but_not_what_tools_write_there() -> None:
    code = Code("/x", ("train.py", "pkg/a.py"), 1, "d" * 40)
    listing = "\0".join(["./train.py", "./old.py", "./pkg/a.py", "./pkg/__pycache__/a.pyc", "./.venv/bin/x", ""])
    assert gone(listing, code) == ["old.py"]


def test_what_gitignore_names_is_never_taken_for_gone(tmp_path: Path) -> None:
    """A training that was started in that folder has written outputs there, which are not here."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / ".gitignore").write_text("outputs/\n*.ckpt\n")
    (tmp_path / "pkg/.gitignore").write_text("cache\n")
    (tmp_path / "train.py").touch()
    code = read_code(str(tmp_path))
    kept = ["./outputs/step_9/model.bin", "./last.ckpt", "./pkg/cache/x"]
    assert gone("\0".join([*kept, "./old.py", "./cache/y", ""]), code) == ["old.py", "cache/y"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("head:/fsx/x", Place("head", "/fsx/x")),
        ("bert-1129-a3f:results.json", Place("bert-1129-a3f", "results.json")),
        ("a3f:", Place("a3f", "")),
        ("./a:b", Place("", "./a:b")),
        ("/here/x", Place("", "/here/x")),
        ("results.json", Place("", "results.json")),
    ],
)
def test_one_side_of_a_copy(text: str, place: Place) -> None:
    assert place_of(text) == place
