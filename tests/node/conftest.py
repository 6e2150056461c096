"""Machines and stand-in repositories for the tests of the node scripts."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.node.machine import Machine, machine, missing
from tests.node.stand_ins import end_gpg, make_key, make_repository, make_wheel, neuron_packages, ubuntu_packages
from tests.unit.test_render_cluster import SPEC
from trnctl.render.node import Supply, node_script
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.node_steps import BY_CODE, STEPS, Role

CLUSTER = replace(SPEC, bucket="my-bucket")
STAND_INS = Supply(
    apt_repository="file:/stand-ins/neuron",
    apt_key="file:///stand-ins/key.asc",
    pip_repository="file:///stand-ins/pip",
    budget_s=120,
    lock_s=20,
)
CODE = {step.name: step.code for step in STEPS}
COMPILER, TORCH, NXD = "2.26.6360.0+c7a0fc6c", "2.9.0.2.15.32035+ab12cd34", "0.19.28492+1a2b3c"


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repositories by name: neuron, ubuntu, empty and focal (apt), pip (Neuron's) and pypi with its placeholders."""
    if reason := missing():
        pytest.skip(f"the node scripts need a machine of their own: {reason}")
    folder = tmp_path_factory.mktemp("stand-ins")
    key = make_key(folder)
    make_repository(folder / "neuron", "noble", neuron_packages(), key)
    make_repository(folder / "focal", "focal", neuron_packages(), key)
    end_gpg(key)
    make_repository(folder / "unsigned", "noble", neuron_packages())
    make_repository(folder / "ubuntu", "noble", ubuntu_packages())
    make_repository(folder / "empty", "noble", [])
    make_wheel(folder / "pip", "neuronx-cc", COMPILER)
    make_wheel(folder / "pip", "torch-neuronx", TORCH, "torch==2.9.1")
    make_wheel(folder / "pip", "neuronx_distributed", NXD)
    for name, version in (("neuronx-cc", "99.0"), ("torch-neuronx", "0.0.1"), ("neuronx_distributed", "99.0")):
        make_wheel(folder / "pypi", name, version)
    for version in ("2.9.1", "2.14.0"):
        make_wheel(folder / "pypi", "torch", version)
    return folder


@dataclass(frozen=True)
class Node:
    """A machine, and the scripts on it."""

    machine: Machine
    signed: bool

    def install(
        self,
        role: Role = "compute",
        *,
        spec: ClusterSpec = CLUSTER,
        supply: Supply = STAND_INS,
        only: tuple[str, ...] = (),
    ) -> tuple[int, str]:
        """Write the script anew and run it: exit code and output. `only` leaves out all steps but these."""
        self.put(role, spec=spec, supply=supply, only=only)
        return self.machine.run(f"/{role}.sh")

    def put(
        self,
        role: Role = "compute",
        *,
        spec: ClusterSpec = CLUSTER,
        supply: Supply = STAND_INS,
        only: tuple[str, ...] = (),
    ) -> str:
        """Write the script; its path."""
        script = node_script(spec, role, supply)
        if only:
            script = re.sub(r"^readonly STEPS=.*$", f"readonly STEPS=({' '.join(only)})", script, flags=re.MULTILINE)
        self.machine.write(f"/{role}.sh", script, "755")
        if role == "head":
            self.machine.write("/sys/devices/virtual/dmi/id/product_name", "c5.4xlarge\n")
        return f"/{role}.sh"

    def versions(self) -> dict[str, str]:
        """Status and version of every package that dpkg knows."""
        _, output = self.machine.run("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status} ${Version}\n")
        return {words[0]: " ".join(words[1:]) for line in output.splitlines() if (words := line.split())}

    def everything(self) -> str:
        """A digest of all that the scripts may write, but for logs and what apt caches."""
        places = "/etc /opt/aws /opt/trnctl /opt/slurm /usr/lib/modules /var/lib/dpkg/status /home/ubuntu"
        found = f"find $(ls -d {places} 2>/dev/null) -type f ! -name '*.pyc' -print0"
        script = f"{found} | sort -z | xargs -0 sha256sum | sha256sum"
        return self.machine.run("sh", "-c", script)[1]


@pytest.fixture
def node(stand_ins: Path, tmp_path: Path) -> Iterator[Node]:
    """A trn1.32xlarge that has just booted."""
    signed = (stand_ins / "gnupg").is_dir()
    with machine(tmp_path, stand_ins) as made:
        if not signed:
            made.write("/etc/apt/apt.conf.d/02tests", 'Acquire::AllowInsecureRepositories "true";\n')
            made.write("/etc/apt/apt.conf.d/03tests", 'APT::Get::AllowUnauthenticated "true";\n')
        yield Node(made, signed)


_WATCHED = ("/etc", "/opt", "/usr/local", "/var/lib/dpkg", "/var/lib/apt", "/home", "/fsx", "/run")


def _state() -> dict[str, str]:
    """Names, sizes and times below the folders that the scripts write to, and the text of what matters most."""
    found = {}
    for top in _WATCHED:
        for folder, names, files in os.walk(top):
            depth = folder.count("/")
            names[:] = [name for name in names if depth < 4 and not Path(folder, name).is_symlink()]
            for name in files:
                path = Path(folder, name)
                try:
                    status = path.lstat()
                except OSError:  # it went while we looked
                    continue
                if top != "/run" or "trnctl" in name:
                    found[str(path)] = f"{status.st_size} {status.st_mtime_ns}"
    for name in ("/etc/hosts", "/var/lib/dpkg/status"):
        if Path(name).is_file():
            found[name] += hashlib.sha256(Path(name).read_bytes()).hexdigest()
    found["/opt and /fsx"] = str([sorted(Path(top).iterdir()) for top in ("/opt", "/fsx") if Path(top).is_dir()])
    return found


@pytest.fixture(scope="module", autouse=True)
def unchanged() -> Iterator[None]:
    """Nothing of all this reaches the machine that the tests run on."""
    before = _state()
    yield
    after = _state()
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    # Another process of this machine may write here as well; none writes what a node script would.
    ours = [
        path for path in changed if any(word in path for word in ("trnctl", "neuron", "hosts", "limits", "apt", "dpkg"))
    ]
    assert ours == []


def assert_failed(outcome: tuple[int, str], step: str, *words: str) -> None:
    """The script ended with the step's code, said why and what to do."""
    code, output = outcome
    assert code == CODE[step], output
    last = [line for line in output.splitlines() if "failed:" in line or "remedy:" in line]
    assert BY_CODE[code].failure in last[0]
    assert "remedy: " in last[1]
    for word in words:
        assert word in output
