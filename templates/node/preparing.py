"""The preparer of a run: a process of its own on the head node, which fetches what the run needs and lets it go.

Travels with the head node's script. What the preparer is and does stands in the run's folder:

    prepare/needs.json      what the run needs; see `needs`
    prepare/prepare.py      the preparer, with its modules
    prepare/now.json        its process, and what it does: {"pid", "ticks", "boot", "since", "words", "done", "total"}
    prepare.log             what it said
    ended/prepare.json      how it ended
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from folder import now, read_json, write_json

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def needs_of(folder):
    """What the run needs, as its submission brought it."""
    return (read_json(folder / "prepare" / "needs.json") or {}).get("needs", [])


def begin(folder):
    """Start the preparer, unless it lives; its process id. It outlives the connection that this runs in."""
    living = look(folder)
    if living is not None and living["alive"]:
        return living["pid"]
    with suppress(OSError):
        (folder / "ended" / "prepare.json").unlink()
    # -I would leave the script's own folder out, where its modules lie.
    argv = [sys.executable, "-E", "-s", str(folder / "prepare" / "prepare.py")]
    with (folder / "prepare.log").open("ab") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=str(folder), start_new_session=True
        )
    state = {"pid": process.pid, "ticks": ticks_of(process.pid), "boot": boot()}
    write_json(folder / "prepare" / "process.json", dict(state, since=now(), began=time.time()))
    return process.pid


def look(folder):
    """What the preparer does, and whether it lives; None where there never was one."""
    process = read_json(folder / "prepare" / "process.json")
    if process is None:
        return None
    over = ended(folder)
    alive = not over and process["boot"] == boot() and process["ticks"] == ticks_of(process["pid"])
    seen = dict(read_json(folder / "prepare" / "now.json") or {}, **process)
    return dict(seen, alive=alive, ended=over, seconds=round(time.time() - process["began"]))


def stop(folder):
    """End the preparer and what it has started; its process id, None when it did not live."""
    seen = look(folder)
    if seen is None or not seen["alive"]:
        return None
    with suppress(OSError):
        os.killpg(seen["pid"], signal.SIGTERM)
    return seen["pid"]


def ended(folder):
    """Whether it has done its work; or was cancelled, which only `resume` overrules."""
    return (folder / "ended" / "prepare.json").exists()


def failed(folder):
    """Whether the preparer gave up, and has cancelled the run's jobs."""
    return bool((read_json(folder / "ended" / "prepare.json") or {}).get("exit_code"))


def boot():
    """What tells this start of the head node from others; '' where the kernel does not say."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def ticks_of(pid):
    """When a process began, in clock ticks since the boot: process ids are used again. None when there is no such
    process, or it is dead and nobody has taken leave of it."""
    try:
        fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
