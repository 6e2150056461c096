"""What the adapters' tests run against: a small Slurm and a small sshd, one of each for the session, and moto."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters import small_slurm, small_sshd
from tests.adapters.small_slurm import SmallSlurm
from tests.adapters.small_sshd import SmallSshd
from trnctl.sandbox.aws.images import write_images

# moto looks for it in its process's environment; reading its thousands of images takes a second after every reset.
_AMIS = "MOTO_EC2_LOAD_DEFAULT_AMIS"
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


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """moto's own server on a free port of loopback. It reads its images once a process: those of the emulator, whose
    tests may come after on this worker."""
    if "MOTO_AMIS_PATH" not in os.environ:
        images = tmp_path_factory.mktemp("moto") / "images.json"
        write_images(images)
        os.environ["MOTO_AMIS_PATH"] = str(images)
    before = os.environ.get(_AMIS)
    os.environ[_AMIS] = "false"
    server_module = pytest.importorskip("moto.server", reason="the sandbox extra is not installed")
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
    if before is None:
        del os.environ[_AMIS]
    else:
        os.environ[_AMIS] = before
