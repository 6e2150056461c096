"""Real programs for the adapters' tests: a small Slurm and a small sshd, one of each for the session."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters import small_slurm, small_sshd
from tests.adapters.small_slurm import SmallSlurm
from tests.adapters.small_sshd import SmallSshd

_INSTALL = "apt-get install --no-install-recommends slurmctld slurmd slurm-client munge openssh-server openssh-client"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs programs that not every machine has."""
    for item in items:
        if {"slurm", "sshd"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.sandbox)


@pytest.fixture(scope="session")
def slurm() -> Iterator[SmallSlurm]:
    """A real Slurm of four nodes. Its folder is short: munge's socket is in it."""
    missing = small_slurm.missing_programs()
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} ({_INSTALL})")
    with tempfile.TemporaryDirectory(prefix="trnctl-slurm-") as folder:
        cluster = SmallSlurm(Path(folder))
        cluster.start()
        yield cluster
        cluster.stop()


@pytest.fixture(scope="session")
def sshd(slurm: SmallSlurm) -> Iterator[SmallSshd]:
    """A real sshd on the machine where `slurm` is."""
    missing = small_sshd.missing_programs()
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} ({_INSTALL})")
    with tempfile.TemporaryDirectory(prefix="trnctl-sshd-") as folder:
        server = SmallSshd(Path(folder), {"SLURM_CONF": slurm.environ["SLURM_CONF"]})
        server.start()
        yield server
        server.stop()
