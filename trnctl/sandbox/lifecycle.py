"""The sandbox as a whole: up, down, status; what it needs on this machine; what a dead one has left behind."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import importlib.util
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trnctl.errors import ToolError, UsageError, WaitedTooLong
from trnctl.sandbox.home import HOME_VARIABLE, Sandbox, read
from trnctl.sandbox.processes import Process, Register, command_lines, end, process, with_environment, written

if TYPE_CHECKING:
    from trnctl.sandbox.aws.seeds import Seeds

APT_LINE = (
    "sudo apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge openssh-server openssh-client"
)
PIP_LINE = "pip install 'trnctl[sandbox]'"
_PROGRAMS = (
    "slurmctld", "slurmd", "scontrol", "sinfo", "squeue", "sbatch", "munged", "sshd", "ssh", "scp", "sftp",
    "ssh-keygen",
)  # fmt: skip
_MARK = ".trnctl-sandbox"  # says that a folder is a sandbox's home, so that `down` may empty it
# Everything that a sandbox writes into its home; `down` removes these and nothing else.
_CONTENT = (
    "sandbox.json", ".sandbox.json.part", "ssh_config", ".ssh_config.part", "processes.jsonl", "aws", "keys", "log",
    "wheels", "file_systems", "clusters", "runtime", "lock", _MARK,
)  # fmt: skip
_UP_SECONDS = 60.0
_END_SECONDS = 20.0


def missing_tools() -> list[str]:
    """Programs and Python packages that the sandbox needs and this machine lacks."""
    from trnctl.sandbox.machines.slurm import find

    programs = [name for name in _PROGRAMS if find(name) is None]
    packages = [name for name in ("moto", "pcluster") if importlib.util.find_spec(name) is None]
    if "pcluster" in packages and find("pcluster") is not None:
        packages.remove("pcluster")  # any installation will do
    return programs + packages


def require_tools(missing: Sequence[str]) -> None:
    """ToolError with the lines that install what is missing; nothing when nothing is."""
    lines = [APT_LINE] if set(missing) & set(_PROGRAMS) else []
    lines += [PIP_LINE] if set(missing) - set(_PROGRAMS) else []
    if missing:
        raise ToolError(
            f"The sandbox needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed.",
            remedy="Install with: " + " && ".join(lines),
        )


def up(
    home: Path,
    *,
    region: str = "us-west-2",
    resource_seconds: float = 0.05,
    boot_seconds: float = 1.0,
    steps: int = 20,
    idle_seconds: int | None = None,
    capacity_seconds: float = 20.0,
    timer_seconds: float = 5.0,
    seeds: Seeds | None = None,
) -> Sandbox:
    """Start the world and wait until it answers. One that is up is left as it is, whatever its options.

    Seconds are real ones: `resource_seconds` for each emulated AWS resource, `boot_seconds` for each instance,
    `idle_seconds` in place of the file's ScaledownIdletime, `capacity_seconds` until a refused node is tried again,
    `timer_seconds` between two runs of the head node's timer.
    Raises ToolError (something is missing, or the world died), UsageError (an unusable home), WaitedTooLong.
    """
    _check_path(home)
    require_tools(missing_tools())
    with _locked(home):
        found = read(home)
        if found is not None and found.alive:
            ask(found, "GET", "/_sandbox/health")
            return found
        _end_all(home)
        _remove(home, keep=("lock", _MARK))
        (home / "log").mkdir()
        options = {
            "region": region,
            "resource_seconds": resource_seconds,
            "boot_seconds": boot_seconds,
            "steps": steps,
            "idle_seconds": idle_seconds,
            "capacity_seconds": capacity_seconds,
            "timer_seconds": timer_seconds,
            "seeds": asdict(seeds) if seeds else {},
        }
        # -P: a folder called trnctl where the user happens to stand is not the package.
        argv = [sys.executable, "-P", "-m", "trnctl.sandbox.world", "--home", str(home)]
        world = Register(home / "processes.jsonl").start(
            [*argv, "--options", json.dumps(options)],
            what="world",
            environment=dict(os.environ),
            log=home / "log" / "world.log",
        )
        return _await(home, world)


def down(home: Path) -> list[str]:
    """End every process of the sandbox and remove every file; what was ended, in words ([] when nothing was up)."""
    if not home.exists():
        return []
    if not (home / _MARK).exists():
        raise UsageError(
            f"{home} is not a sandbox's home, so nothing in it is removed.",
            remedy=f"Check {HOME_VARIABLE}; `trnctl sandbox up` makes a home.",
        )
    with _locked(home):
        ended = _end_all(home)
        _remove(home)
    with contextlib.suppress(OSError):  # something of the user's own lies in it
        home.rmdir()
    return ended


def status(home: Path) -> Sandbox | None:
    """The running sandbox, None when there is none. ToolError when its world lives but does not answer."""
    found = read(home)
    if found is None or not found.alive:
        return None
    ask(found, "GET", "/_sandbox/health")
    return found


def ask(sandbox: Sandbox, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Ask the world something on its control routes. ToolError when it does not answer or refuses."""
    address = sandbox.endpoint.removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=30)
    remedy = "Look at log/world.log in the sandbox's home; `trnctl sandbox down` and `up` start afresh."
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None)
        answer = connection.getresponse()
        content = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ToolError(f"The sandbox's world does not answer at {sandbox.endpoint}: {error}", remedy=remedy) from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise ToolError(f"The sandbox's world refused {path}: {content.get('error')}", remedy=remedy)
    return dict(content)


# --------------------------------------------------------------------------------------------- parts


def _check_path(home: Path) -> None:
    """Slurm's and sshd's files cannot quote: a home with blanks or quotes in its path cannot work."""
    if not re.fullmatch(r"[\w./@+=,:-]+", str(home), re.ASCII):
        raise UsageError(
            f"The sandbox cannot live in {home}: Slurm takes no blanks, quotes or percent signs in paths.",
            remedy=f"Set {HOME_VARIABLE} to a plain path.",
        )


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Make the home and hold its lock, so that two commands at once do not both start a world."""
    if home.exists() and any(home.iterdir()) and not (home / _MARK).exists():
        raise UsageError(
            f"{home} holds something else; the sandbox wants a folder of its own.",
            remedy=f"Set {HOME_VARIABLE} to a folder that is empty or does not exist.",
        )
    try:
        home.mkdir(mode=0o755, parents=True, exist_ok=True)
        (home / _MARK).write_text("Home of the trnctl sandbox; `trnctl sandbox down` removes it.\n")
    except OSError as error:
        raise UsageError(
            f"The sandbox cannot live in {home}: {error.strerror}.",
            remedy=f"Set {HOME_VARIABLE} to a folder that you may write to.",
        ) from error
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _await(home: Path, world: Process) -> Sandbox:
    limit = time.monotonic() + _UP_SECONDS
    while time.monotonic() < limit:
        found = read(home)
        if found is not None and found.pid == world.pid:
            ask(found, "GET", "/_sandbox/health")
            return found
        if not world.alive:
            said = (home / "log" / "world.log").read_text(errors="replace").strip().splitlines()
            raise ToolError(
                f"The sandbox's world ended while it started: {said[-1] if said else 'it said nothing'}",
                remedy=f"Read {home / 'log' / 'world.log'}; `trnctl sandbox up` tries again.",
            )
        time.sleep(0.02)
    raise WaitedTooLong(
        f"The sandbox's world did not answer within {_UP_SECONDS:.0f} seconds.",
        remedy=f"Read {home / 'log' / 'world.log'}; `trnctl sandbox down` ends it.",
    )


def _end_all(home: Path) -> list[str]:
    """End the world, then whatever it or a world before it has left running."""
    from trnctl.sandbox.machines.cluster import CLUSTER_VARIABLE
    from trnctl.sandbox.machines.ssh import remove_privilege_folder

    clusters = f"{home / 'clusters'}/"
    recorded = written(home / "processes.jsonl")
    ended = end([each for each in recorded if each.what == "world"], patience=_END_SECONDS)
    ended += end([each for each in recorded if each.what.startswith("slurmd ")], patience=0)
    # slurmctld takes its own children along when it is asked, and leaves them behind when it is killed.
    ended += end(recorded, patience=5)
    end(with_environment(lambda each: each.get(CLUSTER_VARIABLE, "").startswith(clusters)), patience=0)
    end(_connections(home), patience=2)
    remove_privilege_folder()
    return [str(each) for each in ended]


def _connections(home: Path) -> list[Process]:
    """ssh clients that use our configuration, and shared connections that wait for the next command: those have
    rewritten their command line to the path of their socket, which lies in the runtime folder."""
    runtime = home / "runtime"
    sockets = f"{runtime.readlink() if runtime.is_symlink() else runtime}/"
    found = [
        process(pid, "ssh")
        for pid, words in command_lines("ssh")
        if str(home / "ssh_config") in words or any(sockets in word for word in words)
    ]
    return [each for each in found if each is not None]


def _remove(home: Path, keep: tuple[str, ...] = ()) -> None:
    runtime = home / "runtime"
    if runtime.is_symlink():
        shutil.rmtree(runtime.readlink(), ignore_errors=True)
    for name in _CONTENT:
        path = home / name
        if name in keep:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
