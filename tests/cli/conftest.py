"""Sandboxes that tests of the command line share, because each takes seconds to come up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import fault_story
from tests.cli.trnctl_runner import Trnctl, empty_folder, sandbox


@pytest.fixture(scope="session")
def ultra1() -> Iterator[Trnctl]:
    """A sandbox with the cluster of examples/trn1-16-nodes.yaml. Tests leave it as they found it: no job, no fault."""
    with sandbox() as trnctl:
        trnctl("cluster", "create", "-y", timeout=120)
        trnctl.place_needs()
        yield trnctl


@pytest.fixture
def nowhere() -> Iterator[Trnctl]:
    """trnctl without a sandbox, without a cluster file."""
    with empty_folder() as folder:
        yield Trnctl(folder)


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    """Where a test may write a cluster file of its own."""
    return tmp_path / "trnctl.yaml"


@pytest.fixture(autouse=True)
def fault_is_told(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that calls itself the story of a fault has let it happen, and has asked `why` about it."""
    yield
    mark = request.node.get_closest_marker("fault")
    if mark is not None:
        assert set(mark.args) <= fault_story.STRUCK, f"never happened: {set(mark.args) - fault_story.STRUCK}"
        assert set(mark.args) <= fault_story.TOLD, f"why was not asked: {set(mark.args) - fault_story.TOLD}"
