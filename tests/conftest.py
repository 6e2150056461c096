"""What all tests share: whole texts compared with the files in tests/snapshots."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest

SNAPSHOTS = Path(__file__).parent / "snapshots"
_compared: pytest.StashKey[set[str]] = pytest.StashKey()

Snapshot = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The only way to rewrite a snapshot."""
    parser.addoption(
        "--update-snapshots", action="store_true", help="rewrite the snapshots that differ, or are missing"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Remember which snapshots are compared, also on the workers of pytest-xdist."""
    config.stash[_compared] = set[str]()


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    """`snapshot("clusters/spot.yaml", text)` fails unless the text is exactly tests/snapshots/clusters/spot.yaml.

    A missing file fails too. Snapshot tests must not be marked slow: a full run fails for files that no test compared.
    """
    config = request.config

    def compare(name: str, text: str) -> None:
        config.stash[_compared].add(name)
        path = SNAPSHOTS / name
        if config.getoption("--update-snapshots"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            return
        if not path.is_file():
            pytest.fail(f"there is no snapshot {name}: look at the text, then run pytest --update-snapshots")
        expected = path.read_bytes().decode()
        if text != expected:
            lines = difflib.unified_diff(
                expected.splitlines(keepends=True), text.splitlines(keepends=True), f"snapshots/{name}", "rendered"
            )
            pytest.fail(f"{''.join(lines)}\nIf this is right, run pytest --update-snapshots.", pytrace=False)

    return compare


def orphans(compared: set[str], folder: Path = SNAPSHOTS) -> list[str]:
    """Snapshots that no test compared."""
    kept = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return sorted(kept - compared)


def _is_full_run(config: pytest.Config) -> bool:
    chosen = config.option.keyword or config.getoption("lf", False) or config.option.collectonly
    return (
        not chosen
        and config.option.markexpr in {"", "not slow"}
        and config.args_source is not pytest.Config.ArgsSource.ARGS
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a full run that passed but left snapshots without a test."""
    config = session.config
    compared = config.stash[_compared]
    output = getattr(config, "workeroutput", None)
    if output is not None:  # a worker of pytest-xdist hands its names to the controller
        output["snapshots"] = sorted(compared)
        return
    left = orphans(compared) if exitstatus == pytest.ExitCode.OK and _is_full_run(config) else []
    if left:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(f"no test compares these snapshots, delete them: {', '.join(left)}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Collect the names from a finished worker of pytest-xdist."""
    config: pytest.Config = node.config  # type: ignore[attr-defined]  # xdist ships no types for its nodes
    config.stash[_compared].update(getattr(node, "workeroutput", {}).get("snapshots", ()))
