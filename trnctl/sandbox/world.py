"""The sandbox's daemon: the emulated account and the machines, in one process until SIGTERM.

Started by `lifecycle.up` as `python -m trnctl.sandbox.world --home H --options JSON`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from trnctl.sandbox.aws.seeds import ACCOUNT, ReservationSeed, Seeds
from trnctl.sandbox.aws.server import Emulator
from trnctl.sandbox.machines.cluster import Pace, write_whole
from trnctl.sandbox.machines.local import LocalMachines
from trnctl.sandbox.processes import Register, process

log = logging.getLogger("trnctl.sandbox.world")


@dataclass(frozen=True)
class Options:
    """What `up` was asked for: the region, how quickly time goes, and what the account must know from the start."""

    region: str
    resource_seconds: float
    pace: Pace
    seeds: Seeds

    @classmethod
    def read(cls, text: str) -> Options:
        """From the JSON that `lifecycle.up` writes: flat, with the keys of Pace and `seeds`."""
        content = json.loads(text)
        pace = Pace(**{each.name: content[each.name] for each in fields(Pace) if each.name in content})
        return cls(str(content["region"]), float(content["resource_seconds"]), pace, _seeds(content["seeds"]))


def _seeds(content: Mapping[str, Any]) -> Seeds:
    lists = {name: tuple(values) for name, values in content.items() if name != "reservations"}
    return Seeds(**lists, reservations=tuple(ReservationSeed(**each) for each in content.get("reservations", ())))


def runtime_folder(home: Path) -> Path:
    """A new folder for unix sockets, whose paths have at most 107 bytes; `home/runtime` is a link to it, so that it
    is found again whatever happens to this process."""
    # In /tmp although TMPDIR may say otherwise, for a short path; mkdtemp makes the name one that nobody can foresee.
    folder = Path(tempfile.mkdtemp(prefix="trnctl-", dir="/tmp"))
    folder.chmod(0o711)  # munge insists that all may pass through to its socket
    (home / "runtime").symlink_to(folder, target_is_directory=True)
    return folder


def run(home: Path, options: Options, option_text: str) -> None:
    """Serve until SIGTERM or SIGINT, then end all machines."""
    runtime = runtime_folder(home)
    machines = LocalMachines(home, runtime, Register(home / "processes.jsonl"), options.pace)
    emulator = Emulator(
        machines=machines,
        home=home,
        region=options.region,
        resource_seconds=options.resource_seconds,
        seeds=options.seeds,
    )
    machines.account, machines.endpoint = emulator.account, emulator.endpoint
    emulator.routes.update(machines.routes())
    server = threading.Thread(target=emulator.serve_forever, name="server", daemon=True)
    server.start()
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    me = process(os.getpid())
    description = {
        "pid": os.getpid(),
        "started": me.started if me else 0,
        "endpoint": emulator.endpoint,
        "region": options.region,
        "account": ACCOUNT,
        "runtime": str(runtime),
        "options": json.loads(option_text),
    }
    write_whole(home / "sandbox.json", json.dumps(description, indent=1))
    log.info("up at %s", emulator.endpoint)
    while not asked.wait(1):
        if not server.is_alive():
            raise RuntimeError("the account's server has ended by itself")
    log.info("asked to end")
    machines.close()
    emulator.stop()
    (home / "sandbox.json").unlink(missing_ok=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="trnctl.sandbox.world", description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--options", required=True)
    given = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    run(given.home, Options.read(given.options), given.options)


if __name__ == "__main__":
    main()
