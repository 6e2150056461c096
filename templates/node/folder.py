"""A run's folder on the head node: how its files are read, written and locked.

Travels with the head node's script.
"""

import errno
import fcntl
import json
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path


class Refused(Exception):
    """A request that cannot be met; `kind` is a word that the other end knows, `said` a tool's own words."""

    def __init__(self, kind, message, said=""):
        super().__init__(message)
        self.answer = {"kind": kind, "message": message, "said": str(said).strip()}


def read_json(path):
    """What a JSON file holds; None when it is missing, unreadable, half written or no object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write(path, text, mode=0o644):
    """Write a file so that nobody ever reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    # With its mode from the beginning: a secret must not be readable for a moment either.
    descriptor = os.open(str(part), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.chmod(mode)
    part.replace(path)


def write_json(path, value):
    """Write an object; see `write`."""
    write(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def safe(name):
    """The name, unless it could leave the run's folder."""
    if not name or name.startswith("/") or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise Refused("bad-request", f"The name {name!r} is not a plain relative path.")
    return name


def listed(folder):
    """The entries of a folder, [] when it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def now():
    """The time as it stands in our files: UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def lock(folder):
    """Hold the run alone; the lock goes with this process."""
    handle = locked(folder / ".lock", 30)
    if handle is None:
        raise Refused("busy", "Another submission of this run has held its lock for 30 seconds.")
    return handle


def locked(path, patience, waiting=None):
    """A file that this process alone holds locked while the handle lives; None when another one holds it for `patience`
    seconds. `waiting` is called, with what the holder has written into the file, for as long as one holds it."""
    handle, until = open_lock(path), time.time() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except OSError as error:
            if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
                # A Lustre mounted without `flock`: there is one head node, so its own disk can hold the lock; one for
                # all users, who fetch into the same places.
                local = Path(tempfile.gettempdir(), "trnctl-{}.lock".format(str(path).replace("/", "_")[-150:]))
                handle = open_lock(local)
                with suppress(OSError):  # another user has made it
                    local.chmod(0o644)
                continue
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        if time.time() >= until:
            return None
        if waiting is not None:
            handle.seek(0)
            waiting(handle.read(200).strip())
        time.sleep(0.25)


def open_lock(path):
    """The lock's file, also one that another user has made: whoever may read it may lock it."""
    try:
        return path.open("a+")
    except PermissionError:
        return path.open("r")


def own(folder):
    """Make a run's folder, which is its owner's alone: scripts hold variables, and logs whatever a program prints."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)


def share(*folders):
    """Make the folders that all users of the cluster write into, as /tmp is; one that is there stays as it is."""
    for folder in folders:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # another user was quicker
                folder.chmod(0o1777)


def runs_folders(request):
    """Where runs lie. Who has no cluster file cannot know the mount: then there are patterns, separated by colons."""
    places = []
    for pattern in request["runs_folder"].split(":"):
        places += sorted(Path("/").glob(pattern[1:])) if "*" in pattern else [Path(pattern)]
    return places


def run_folder(request):
    """The folder of the run that is asked for, whether or not it is there."""
    folders = [place / safe(request["run"]) for place in runs_folders(request)]
    return next((folder for folder in folders if folder.is_dir()), folders[0] if folders else Path("/nonexistent"))


def named_folder(places, name):
    """The folder of the run of that name, or of the only one that ends in `-name`; it need not be there."""
    exact = [place / name for place in places if (place / name).is_dir()]
    ending = [folder for place in places for folder in listed(place) if folder.name.endswith("-" + name)]
    return exact[0] if exact else ending[0] if len(ending) == 1 else places[0] / name if places else Path("/") / name


def log_node(manifest):
    """The node whose log holds the step lines of training: not always the first, where the model is split in stages."""
    return (manifest or {}).get("log_node") or 0


def tail(path, size):
    """(text, offset of its start): the last `size` bytes of a log, from a line's start; (None, 0) without one."""
    try:
        with path.open("rb") as file:
            length = file.seek(0, os.SEEK_END)
            at = file.seek(max(0, length - size))
            data = file.read(size)
    except OSError:
        return None, 0
    cut = data.find(b"\n") + 1 if at else 0
    return data[cut:].decode("utf-8", "replace"), at + cut
