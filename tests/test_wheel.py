"""The wheel, built through the source distribution, works alone: no checkout, no emulator, no pcluster, no AWS."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from trnctl import __version__

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "trn1-16-nodes.yaml"

# Loaded by Python before trnctl: whoever asks for the emulator, a process or the network fails, and says so.
GUARD = """
import sys

ABSENT = {"moto", "pcluster", "jsii", "aws_cdk"}


def guard(event, args):
    if event == "import" and args[0].split(".")[0] in ABSENT:
        raise ModuleNotFoundError(f"the test took {args[0]} away")
    if event in {"socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.exec", "os.posix_spawn"}:
        raise PermissionError(f"the test forbids {event}: {args}")


sys.addaudithook(guard)
"""


@dataclass(frozen=True)
class Installed:
    """A wheel and the folder that it was installed into."""

    wheel: Path
    folder: Path
    empty: Path

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run Python on the installed wheel, guarded, from an empty folder, with an empty PATH and HOME."""
        environment = {
            "PYTHONPATH": os.pathsep.join([str(self.folder / "guard"), str(self.folder / "site")]),
            "PATH": str(self.empty),
            "HOME": str(self.empty),
            "LANG": "C.UTF-8",
        }
        command = [sys.executable, "-P", *argv]
        return subprocess.run(
            command, cwd=self.empty, env=environment, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    empty = tmp_path_factory.mktemp("empty")
    python(folder, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(ROOT))
    (wheel,) = (folder / "dist").glob("*.whl")
    python(folder, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", "site", str(wheel))
    (folder / "guard").mkdir()
    (folder / "guard" / "sitecustomize.py").write_text(GUARD)
    return Installed(wheel, folder, empty)


def python(folder: Path, *argv: str) -> None:
    done = subprocess.run([sys.executable, *argv], cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_source_distribution_holds_what_the_tests_need(installed: Installed) -> None:
    import tarfile

    (archive,) = (installed.folder / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert {"LICENSE", "Makefile", "tools/setup.sh", "tests/test_wheel.py", "examples/trn1-16-nodes.yaml"} <= names


def test_the_wheel_holds_every_template_as_it_is(installed: Installed) -> None:
    templates = [path for path in (ROOT / "templates").rglob("*") if path.is_file()]
    assert templates
    with ZipFile(installed.wheel) as archive:
        for path in templates:
            name = f"trnctl/templates/{path.relative_to(ROOT / 'templates').as_posix()}"
            assert archive.read(name) == path.read_bytes()


def test_the_wheel_holds_the_reference_trainer(installed: Installed) -> None:
    scripts = list((ROOT / "examples" / "fsdp_trainer").glob("*.py"))
    assert {"train.py", "model.py"} <= {path.name for path in scripts}
    with ZipFile(installed.wheel) as archive:
        for path in scripts:
            assert archive.read(f"trnctl/examples/fsdp_trainer/{path.name}") == path.read_bytes()
        assert not [name for name in archive.namelist() if "__pycache__" in name]


def test_the_wheel_holds_the_package_and_nothing_beside_it(installed: Installed) -> None:
    with ZipFile(installed.wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert tops == {"trnctl", f"trnctl-{__version__}.dist-info"}


def test_the_metadata_names_the_licence_and_asks_only_for_what_the_commands_need(installed: Installed) -> None:
    info = f"trnctl-{__version__}.dist-info"
    with ZipFile(installed.wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert metadata["License-Expression"] == "Apache-2.0"
    needed = {re.split(r"[^\w-]", row)[0] for row in metadata.get_all("Requires-Dist") or [] if "extra ==" not in row}
    assert needed == {"boto3", "jinja2", "pyyaml", "rich", "typer"}


def test_it_runs_from_where_it_was_installed(installed: Installed) -> None:
    done = installed.run("-c", "import trnctl; print(trnctl.__file__)")
    assert Path(done.stdout.strip()) == installed.folder / "site" / "trnctl" / "__init__.py"


@pytest.mark.parametrize(
    "code",
    ["import moto", "import pcluster.cli", "import socket; socket.create_connection(('127.0.0.1', 9))",
     "import subprocess; subprocess.run(['true'])"],
)  # fmt: skip
def test_the_guard_guards(installed: Installed, code: str) -> None:
    done = installed.run("-c", code)
    assert done.returncode != 0
    assert "the test " in done.stderr


def test_it_tells_its_version(installed: Installed) -> None:
    done = installed.run("-m", "trnctl", "--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"trnctl {__version__}")


def test_it_renders_a_cluster(installed: Installed) -> None:
    done = installed.run("-m", "trnctl", "-c", str(EXAMPLE), "cluster", "render")
    assert (done.returncode, done.stderr) == (0, "")
    assert "InstanceType: trn1.32xlarge" in done.stdout.replace('"', "")


def test_it_shows_what_a_submit_would_write_and_run(installed: Installed) -> None:
    done = installed.run("-m", "trnctl", "submit", "bert-large", "-N", "4", "--dry-run", "-c", str(EXAMPLE))
    assert done.returncode == 0, done.stderr
    assert "#SBATCH --nodes=4" in done.stdout
    assert "neuron_parallel_compile" in done.stdout


def test_the_command_is_installed(installed: Installed) -> None:
    done = installed.run(str(installed.folder / "site" / "bin" / "trnctl"), "--help")
    assert done.returncode == 0, done.stderr
    assert "teardown" in done.stdout
