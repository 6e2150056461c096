"""The snapshot fixture itself: what is missing, different or left over fails, and only one option rewrites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import conftest

pytest_plugins = ["pytester"]

TEST = """\
def test_it(snapshot):
    snapshot("greetings/hello.txt", "hello\\n")
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with our conftest and one snapshot test."""
    pytester.makeconftest(Path(conftest.__file__).read_text())
    pytester.makepyfile(TEST)
    return pytester


def stored(project: pytest.Pytester) -> Path:
    return project.path / "snapshots" / "greetings" / "hello.txt"


def run(project: pytest.Pytester, *args: str) -> pytest.ExitCode | int:
    return project.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *args).ret


def test_a_missing_snapshot_fails_and_is_not_written(project: pytest.Pytester) -> None:
    assert run(project) == pytest.ExitCode.TESTS_FAILED
    assert not stored(project).exists()


def test_only_the_option_writes(project: pytest.Pytester) -> None:
    assert run(project, "--update-snapshots") == pytest.ExitCode.OK
    assert stored(project).read_text() == "hello\n"
    assert run(project) == pytest.ExitCode.OK
    stored(project).write_text("hello")
    assert run(project) == pytest.ExitCode.TESTS_FAILED
    assert stored(project).read_text() == "hello"


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)])
def test_a_left_over_snapshot_fails_a_full_run_only(project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    run(project, "--update-snapshots")
    (project.path / "snapshots" / "old.txt").write_text("x")
    assert run(project, *workers) == pytest.ExitCode.TESTS_FAILED
    assert run(project, "-k", "it") == pytest.ExitCode.OK
    assert run(project, ".") == pytest.ExitCode.OK
