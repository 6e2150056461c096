"""The timer of the head node and the hooks of Slurm: what trnctl's node script puts below /opt/trnctl is run now and
then, what it puts below /opt/slurm/etc/scripts by slurmd, around each job.

The script itself is not run here, where it would change the user's machine. The files that it would put there are taken
out of it, so that what runs is what a head node gets.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

log = logging.getLogger(__name__)
PLACE = "opt/trnctl"
HOOKS = "opt/slurm/etc/scripts"
_PUT = re.compile(rf"^ *put /((?:{PLACE}|{HOOKS})/[\w./-]+) (\d+) <<'(\w+)'\n(.*?)^\3$", re.MULTILINE | re.DOTALL)
# What ParallelCluster itself has there; slurmd wants at least one of each.
_OF_PARALLELCLUSTER = {
    "prolog.d/90_pcluster_health_check_manager": "#!/bin/sh\n# There it looks at GPUs.\nexit 0\n",
    "epilog.d/90_pcluster_noop": "#!/bin/sh\nexit 0\n",
}
_LIMIT_S = 50.0  # that of the real timer


def put_files(script: str) -> Iterator[tuple[str, int, str]]:
    """Path below the root, mode and content of each file that a node script puts below PLACE or HOOKS."""
    for path, mode, _, text in _PUT.findall(script):
        yield path, int(mode, 8), text


def script_of(config: Mapping[str, object], moment: str) -> str:
    """The s3:// place of trnctl's own head node script at `OnNodeConfigured` or `OnNodeUpdated`, '' without one. It
    stands first."""
    head = config.get("HeadNode")
    actions = head.get("CustomActions") if isinstance(head, Mapping) else None
    action = actions.get(moment) if isinstance(actions, Mapping) else None
    if isinstance(action, Mapping):
        sequence = action.get("Sequence")
        first = sequence[0] if isinstance(sequence, list) and sequence else action
        return str(first.get("Script", "")) if isinstance(first, Mapping) else ""
    return ""


def put_hooks(root: Path, tools: Path) -> None:
    """Make the folders of Slurm's hooks with what ParallelCluster has there. `tools` is where /opt/slurm/bin leads."""
    for name, text in _OF_PARALLELCLUSTER.items():
        _put(root / HOOKS / name, 0o755, text)
    (root / "opt/slurm/bin").symlink_to(tools, target_is_directory=True)


def _put(target: Path, mode: int, text: str) -> None:
    """Write a file so that whoever runs it meanwhile gets the old one or the new one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    part.write_text(text)
    part.chmod(mode)
    part.replace(target)


class HeadTimer:
    """Runs the programs of one head node every few seconds, in a thread, from `start` until `stop`."""

    def __init__(self, root: Path, environment: Mapping[str, str], *, seconds: float) -> None:
        self._root, self._environment, self._seconds = root, dict(environment), seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"timer of {root.parent.name}", daemon=True)

    def install(self, script: str) -> None:
        """Put the script's files there; the folders that it makes are made."""
        (self._root / PLACE / "timer.d").mkdir(parents=True, exist_ok=True)
        (self._root / PLACE / "state").mkdir(exist_ok=True)
        for path, mode, text in put_files(script):
            # The programs of a node lie below the root here; those of this machine are not the node's.
            own = text.replace("/opt/slurm/bin", f"{self._root}/opt/slurm/bin") if path.startswith(HOOKS) else text
            _put(self._root / path, mode, own)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a program that runs is waited for, as long as it may run."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_LIMIT_S)

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            for program in sorted((self._root / PLACE / "timer.d").glob("*")):
                if program.is_file() and os.access(program, os.X_OK):
                    self._once(program)

    def _once(self, program: Path) -> None:
        try:
            done = subprocess.run(
                [program], env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=_LIMIT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            log.warning("%s: %s", program, error)
            return
        if done.returncode or done.stderr:
            log.warning("%s ended with %s: %s", program, done.returncode, done.stderr.strip()[-2000:])
