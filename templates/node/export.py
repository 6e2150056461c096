"""Copy runs from the cluster's shared storage to a bucket, before it is deleted: what they achieved, and checkpoints.

Sent to the head node like the agent, with `s3`; it installs nothing, and needs no AWS software there. Each line that it
prints is an object, JSON after `trnctl `:

    {"files": N, "bytes": N}                     what there is to copy, first
    {"done": N, "bytes": N, "name": "RUN/…"}     after each file, and now and then within a large one
    {"ok": {"files", "bytes", "copied", "to": "s3://…", "left_out": ["RUN/… (why)"]}}
    or {"error": {"kind", "message", "said"}}

A file that lies there already with the same size, and was written there later, is not copied again, so that an export
that broke off goes on where it was. A link is copied as the file that it leads to, when that lies in the same run; one
that leads out of it is named at the end. A run that this user may not read ends it before anything is copied: who asks
is about to delete the file system, and must not learn afterwards what was left out. Only Python 3.6.
"""

import json
import os
import sys
from pathlib import Path

import s3

PART = 64 * 1024 * 1024  # bytes; S3 takes at most 10,000 parts, so that a file may have 625 GiB
WHOLE = ("results.json", "run.json", "submitted.json", "not-submitted.json", "ended", "logs", "output", "checkpoints")
LEADS_OUT = "a link that leads out of the run, or nowhere"


def main(text):
    """Copy what the request names; the exit code."""
    request = json.loads(text)
    name, prefix = s3.split(request["to"])
    bucket = s3.Bucket(name, request.get("region", ""))
    shut = unreadable(places(request))
    if shut:
        message = "These folders of runs cannot be read by this user of the head node: {}.".format(", ".join(shut))
        emit({"error": {"kind": "unreadable", "message": message, "said": ""}})
        return 3
    left_out = []
    files = list(wanted(places(request), left_out))
    emit({"files": len(files), "bytes": sum(path.stat().st_size for _, path in files)})
    try:
        there = {key: (size, at) for key, size, at in bucket.list(prefix)}
        copied = done = 0
        for number, (relative, path) in enumerate(files, start=1):
            facts = path.stat()
            old = there.get(prefix + relative)
            if old is None or old[0] != facts.st_size or old[1] < facts.st_mtime:
                put(bucket, prefix + relative, path, lambda extra, d=done, n=number, r=relative: tell(n, d + extra, r))
                copied += 1
            done += facts.st_size
            tell(number, done, relative)
    except (OSError, s3.Unreachable) as error:
        message = "The export to {} broke off.".format(request["to"])
        emit({"error": {"kind": "export", "message": message, "said": str(error)}})
        return 3
    emit({"ok": {"files": len(files), "bytes": done, "copied": copied, "to": request["to"], "left_out": left_out}})
    return 0


def tell(number, done, name):
    """How far it is."""
    emit({"done": number, "bytes": done, "name": name})


def places(request):
    """The folders in which runs lie; without a cluster file there are patterns, separated by colons."""
    found = []
    for pattern in request["runs_folder"].split(":"):
        found += sorted(Path("/").glob(pattern[1:])) if "*" in pattern else [Path(pattern)]
    return found


def unreadable(folders):
    """Folders that may hold runs, and are closed to this user; pathlib passes over them in silence."""
    found = []
    for run in [one for folder in folders if folder.is_dir() for one in sorted(folder.iterdir()) if one.is_dir()]:
        if closed(run):
            found.append(str(run))
            continue
        found += [str(run / name) for name in WHOLE if (run / name).is_dir() and closed(run / name)]
        for name in WHOLE:
            for place, inside, _ in os.walk(str(run / name)):
                found += [str(Path(place, one)) for one in inside if closed(Path(place, one))]
    return found


def closed(folder):
    """Whether this user may not look into a folder."""
    return not os.access(str(folder), os.R_OK | os.X_OK)


def wanted(folders, left_out):
    """(RUN/path, file) of everything that is worth keeping; `left_out` is told of what lies there and is not
    copied. Scripts are not worth it: they hold the values of variables."""
    for folder in folders:
        for run in sorted(folder.glob("*/run.json")):
            home = run.parent.resolve()
            for name in WHOLE:
                path = run.parent / name
                for file in [path] if path.is_file() else sorted(walk(path, home, left_out, folder)):
                    if kept(file, home):
                        yield str(file.relative_to(folder)), file
                    else:
                        left_out.append(f"{file.relative_to(folder)} ({LEADS_OUT})")


def walk(path, home, left_out, folder):
    """The files below a folder, also by links to folders that stay in the run."""
    for place, inside, names in os.walk(str(path), followlinks=True):
        above = [one.resolve() for one in (Path(place), *Path(place).parents)]
        for name in sorted(inside):
            entry = Path(place, name)
            if entry.is_symlink() and not stays(entry, home):
                inside.remove(name)
                left_out.append(f"{entry.relative_to(folder)} ({LEADS_OUT})")
            elif entry.is_symlink() and entry.resolve() in above:
                inside.remove(name)  # a ring
        for name in names:
            entry = Path(place, name)
            if entry.is_symlink() or entry.is_file():
                yield entry


def kept(file, home):
    """Whether a file, or what a link leads to, lies in the run."""
    return not file.is_symlink() or (stays(file, home) and file.is_file())


def stays(path, home):
    """Whether a link leads to something in the run's folder."""
    try:
        return home in path.resolve().parents and path.exists()
    except (OSError, RuntimeError):  # a ring of links
        return False


def put(bucket, key, path, told):
    """Write one file, in parts when it is large; `told` hears how many bytes of it are there."""
    if path.stat().st_size <= PART:
        bucket.put(key, path.read_bytes())
        return
    upload = bucket.begin(key)
    parts, sent = [], 0
    try:
        with path.open("rb") as file:
            for content in iter(lambda: file.read(PART), b""):
                parts.append(bucket.part(key, upload, len(parts) + 1, content))
                sent += len(content)
                told(sent)
        bucket.finish(key, upload, parts)
    except BaseException:
        bucket.abandon(key, upload)
        raise


def emit(event):
    """One line of the protocol."""
    sys.stdout.write("trnctl " + json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read()))
