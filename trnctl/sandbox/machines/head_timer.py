"""The head node's timer: what trnctl's node script puts below /opt/trnctl, run now and then.

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
_PUT = re.compile(rf"^ *put /({PLACE}/[\w./-]+) (\d+) <<'(\w+)'\n(.*?)^\3$", re.MULTILINE | re.DOTALL)
_LIMIT_S = 50.0  # that of the real timer


def put_files(script: str) -> Iterator[tuple[str, int, str]]:
    """Path below the root, mode and content of each file that a node script puts below /opt/trnctl."""
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
            target = self._root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.part")
            part.write_text(text)
            part.chmod(mode)
            part.replace(target)

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
