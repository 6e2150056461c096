"""Fetch data over HTTPS or from S3, for the preparer: what broke off goes on, what is wrong is thrown away.

A download lies beside its place as NAME.download, an archive is unpacked to NAME.unpacked; only what is whole, and is
what the recipe says, is moved to its place, in one step. Standard library only, Python 3.6 and newer.
"""

import hashlib
import http.client
import os
import shutil
import subprocess
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path

from folder import now, read_json, write_json
from needs import Failed, short

TRIES, PAUSE, TIMEOUT = 8, 2, 60  # of one connection; seconds
CHUNK = 1 << 20
NO_SPACE = (28, 122)  # ENOSPC, EDQUOT


def fetch_file(need, tell):
    """One file, as it is."""
    target = Path(need["fetch"]["target"])
    if target.exists():
        raise other_data(need, target)
    part = downloaded(need, target, tell)
    part.rename(target)
    keep_record(need, target)
    discard(part)


def fetch_archive(need, tell):
    """A tar archive of any compression; its content becomes the target folder."""
    target, check = Path(need["fetch"]["target"]), need.get("check") or {}
    if target.exists():
        raise other_data(need, target)
    part = downloaded(need, target, tell)
    place = target.with_name(target.name + ".unpacked")
    shutil.rmtree(str(place), ignore_errors=True)
    unpack(part, place, tell)
    only = list(place.iterdir())
    inner = only[0] if len(only) == 1 and only[0].is_dir() and only[0].name == target.name else place
    lacking = short(str(inner), check)
    if lacking:
        shutil.rmtree(str(place), ignore_errors=True)
        discard(part)
        raise Failed("incomplete", "{} {}".format(need["fetch"]["url"], lacking))
    inner.rename(target)
    shutil.rmtree(str(place), ignore_errors=True)
    keep_record(need, target)
    discard(part)


def other_data(need, target):
    """What is wrong with a folder that is there and is not whole."""
    lacking = short(str(target), need.get("check") or {}) or "is not what the recipe names"
    return Failed("other-data", f"{target} lies there already, and {lacking}")


def keep_record(need, target):
    """Write down beside it where it comes from."""
    fetched = {name: need["fetch"].get(name) for name in ("url", "sha256", "bytes")}
    write_json(target.with_name(f".{target.name}.from.json"), dict(fetched, at=now()))


# -------------------------------------------------------------------------------------------------------- download


def downloaded(need, target, tell):
    """The whole file of a need's source beside its place, checked. Goes on where an earlier one broke off."""
    wanted, part = need["fetch"], target.with_name(target.name + ".download")
    tell.say("fetches {}".format(wanted["url"]))
    room = 2 if wanted["kind"] == "archive" else 1  # it is unpacked beside itself
    transfer(wanted["url"], part, "fetches {}".format(wanted["url"].rpartition("/")[2]), tell, room=room)
    size = part.stat().st_size
    if wanted.get("bytes") and size != wanted["bytes"]:
        discard(part)
        raise Failed("checksum", "{} has {:,} bytes, not {:,}".format(wanted["url"], size, wanted["bytes"]))
    if wanted.get("sha256"):
        found = sha256(part, tell)
        if found != wanted["sha256"]:
            discard(part)
            raise Failed("checksum", "{} has the SHA-256 {}, not {}".format(wanted["url"], found, wanted["sha256"]))
    return part


def discard(part):
    """Remove a download, and what is known of it."""
    for path in (part, part.with_name(part.name + ".json")):
        with suppress(FileNotFoundError):
            path.unlink()


def sha256(path, tell):
    """The SHA-256 of a file."""
    digest, total, done = hashlib.sha256(), path.stat().st_size, 0
    with path.open("rb") as file:
        for block in iter(lambda: file.read(CHUNK), b""):
            digest.update(block)
            done += len(block)
            tell("checks " + path.name[: -len(".download")], done, total)
    return digest.hexdigest()


def transfer(url, part, words, tell, *, room=1, headers=None):
    """Bring `part` to the length of what a URL holds; `room` times that must be free. Returns its ETag."""
    address = public_address(url)
    while True:
        try:
            pull_it = pulling(address, part, words, tell, room=room, headers=headers or {})
            return patiently(url, pull_it)
        except urllib.error.HTTPError as error:
            if error.code in (401, 403) and url.startswith("s3://") and address == public_address(url):
                address = signed_address(url)  # with the head node's own role
                continue
            if error.code == 416:  # what is there is longer than the source, so it is of something else
                discard(part)
                continue
            raise refusal(url, error) from error
        except OSError as error:
            if error.errno in NO_SPACE:  # what running jobs write, their checkpoints first, needs the room more
                discard(part)
            raise


def pulling(address, part, words, tell, *, room, headers):
    """One connection, as a function that can be tried again."""
    return lambda: pull(address, part, words, tell, room=room, headers=headers)


def patiently(url, ask):
    """What `ask` returns; it is asked again while the network fails. An HTTP status is no failure of the network."""
    tries = 0
    while True:
        try:
            return ask()
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException) as error:  # an answer in chunks that is cut off is the second
            if getattr(error, "errno", None) in NO_SPACE:
                raise
            tries += 1
            if tries >= TRIES:
                reason = getattr(error, "reason", error)
                raise Failed("network", f"{url} cannot be reached: {reason}") from error
            time.sleep(PAUSE * tries)


def pull(address, part, words, tell, *, room, headers):
    """One connection. What is there already is asked for no more, as long as the source is still the same."""
    state = part.with_name(part.name + ".json")
    known = read_json(state) or {}
    have = part.stat().st_size if part.exists() and known.get("etag") else 0
    asked = dict(headers)
    if have:
        asked.update({"Range": f"bytes={have}-", "If-Range": known["etag"]})
    if have and have == known.get("total"):
        return known["etag"]
    request = urllib.request.Request(address, headers=asked)  # noqa: S310  https, or the endpoint that is set
    with urllib.request.build_opener(SameHost).open(request, timeout=TIMEOUT) as answer:
        if answer.status != 206:
            have = 0
        length = answer.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        enough_room(part.parent, (total or 0) * room - have)
        etag = answer.headers.get("ETag")
        write_json(state, {"etag": etag, "total": total})
        tell(words, have, total)
        with part.open("r+b" if have else "wb") as file:
            file.seek(have)
            for block in iter(lambda: answer.read(CHUNK), b""):
                file.write(block)
                have += len(block)
                tell(words, have, total)
    if total is not None and have < total:
        raise OSError(f"the connection ended after {have:,} of {total:,} bytes")
    return etag


class SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and gives a person's token to no other host: urllib would take it along."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # noqa: PLR0917  urllib's own form
        """The next request; None where a redirect is none to follow."""
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and (made.type, made.host) != (req.type, req.host):
            made.remove_header("Authorization")
        return made


def enough_room(folder, size):
    """Say at once that it will not fit, rather than after an hour."""
    free = shutil.disk_usage(str(folder)).free
    if size > free:
        gib = 2.0**30
        raise Failed("space", f"{folder} has {free / gib:,.1f} GiB free, and {size / gib:,.1f} GiB are needed")


def public_address(url):
    """A URL that anybody may ask. The endpoint of S3 may be set in the environment, as the AWS tools know it."""
    if not url.startswith("s3://"):
        return url
    bucket, _, key = url[len("s3://") :].partition("/")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint or "." in bucket:
        root = "{}/{}".format(endpoint or "https://s3.amazonaws.com", bucket)
    else:
        root = f"https://{bucket}.s3.amazonaws.com"
    return root + "/" + urllib.parse.quote(key, safe="/")


def signed_address(url):
    """A URL with the head node's own signature, for an hour, from the AWS CLI. It is never printed."""
    program = shutil.which("aws")
    if program is None:
        raise Failed("access", f"{url} is not public, and the aws command, which signs requests, is not installed")
    process = subprocess.Popen(
        [program, "s3", "presign", url, "--expires-in", "3600"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise Failed("network", "aws s3 presign gave no answer within a minute") from error
    if process.returncode:
        raise Failed("access", f"{url} is not public, and the head node has no credentials: {err.strip()[-200:]}")
    return out.strip()


def refusal(url, error):
    """What an HTTP status means."""
    if error.code in (401, 403):
        return Failed("access", f"{url} may not be read by the head node ({error.code} {error.reason})")
    if error.code in (404, 410):
        return Failed("absent", f"there is no {url} ({error.code})")
    return Failed("network", f"{url} cannot be read now ({error.code} {error.reason})")


# ---------------------------------------------------------------------------------------------------------- unpack


def unpack(archive, place, tell):
    """Unpack a tar archive; every path in it must stay inside."""
    total = archive.stat().st_size
    place.mkdir(parents=True)
    try:
        with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:*") as tar:
            for member in tar:
                safe_member(member)
                tar.extract(member, str(place), set_attrs=False)
                tell("unpacks " + archive.name[: -len(".download")], min(raw.tell(), total), total)
    except (tarfile.TarError, EOFError) as error:
        shutil.rmtree(str(place), ignore_errors=True)
        discard(archive)
        raise Failed("checksum", f"{archive.name} is no whole tar archive: {error}") from error
    except BaseException:
        shutil.rmtree(str(place), ignore_errors=True)
        raise


def safe_member(member):
    """Refuse what would be written outside, or is no file, folder or link inside."""
    names = [member.name] + ([member.linkname] if member.issym() or member.islnk() else [])
    outside = any(name.startswith("/") or ".." in name.split("/") for name in names)
    if outside or not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        raise tarfile.TarError(f"{member.name} would be written outside")
