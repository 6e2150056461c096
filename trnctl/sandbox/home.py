"""The sandbox's home: where it lies, and what a running sandbox has written there for others to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOME_VARIABLE = "TRNCTL_SANDBOX_HOME"


@dataclass(frozen=True)
class Sandbox:
    """A sandbox as its world described itself in sandbox.json when it was up.

    `pid` and `started` (clock ticks since boot) name the world's process; `runtime` is the short folder that holds
    its sockets; `options` are those of `up`.
    """

    home: Path
    pid: int
    started: int
    endpoint: str
    region: str
    account: str
    runtime: Path
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def ssh_config(self) -> Path:
        """The client's ssh configuration, with a block for each head node."""
        return self.home / "ssh_config"

    @property
    def alive(self) -> bool:
        """Whether the world that wrote sandbox.json still runs: by pid and start time, as pids are used again."""
        from trnctl.sandbox.processes import Process

        return Process(self.pid, self.started).alive


def home_folder(environ: Mapping[str, str]) -> Path:
    """Where the sandbox of this user lies: $TRNCTL_SANDBOX_HOME, else below $XDG_STATE_HOME or ~/.local/state."""
    if chosen := environ.get(HOME_VARIABLE):
        return Path(chosen).expanduser().absolute()
    state = environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path(environ.get("HOME", "~")).expanduser() / ".local" / "state"
    return base / "trnctl" / "sandbox"


def read(home: Path) -> Sandbox | None:
    """The sandbox that was last up in that home, dead or alive (see `alive`); None when there is none."""
    try:
        content = json.loads((home / "sandbox.json").read_text(encoding="utf-8"))
        return Sandbox(
            home=home,
            pid=int(content["pid"]),
            started=int(content["started"]),
            endpoint=str(content["endpoint"]),
            region=str(content["region"]),
            account=str(content["account"]),
            runtime=Path(content["runtime"]),
            options=dict(content["options"]),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None  # it is written in one piece, so that anything else was never ours


def mount_prefix(home: Path, cluster: str) -> str:
    """What stands before every mount directory of that cluster on this machine."""
    return str(home / "clusters" / cluster / "root")
