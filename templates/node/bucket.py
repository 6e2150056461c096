"""Fetch all objects below a prefix of S3, for the preparer. Standard library only, Python 3.6 and newer.

They come to NAME.objects beside their place, which becomes the folder when all are there with their sizes.
"""

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree
from pathlib import Path

from download import (
    TIMEOUT,
    discard,
    enough_room,
    keep_record,
    other_data,
    patiently,
    public_address,
    refusal,
    transfer,
)
from needs import Failed, short


def fetch(need, tell):
    """Bring every object that is not there yet in its size."""
    wanted, target = need["fetch"], Path(need["fetch"]["target"])
    if target.exists():
        raise other_data(need, target)
    url = wanted["url"]
    tell(f"lists {url}")
    found = listed(url)
    total = sum(size for _, size in found)
    if not found:
        raise Failed("absent", f"there is nothing below {url}")
    place = target.with_name(target.name + ".objects")
    place.mkdir(exist_ok=True)
    enough_room(place, total - sum(path.stat().st_size for path in place.rglob("*") if path.is_file()))
    done = 0
    for name, size in found:
        path = place / name
        if not path.exists() or path.stat().st_size != size:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(path.name + ".download")
            part_of_all = below(tell, done, total)
            transfer(url + name, part, f"fetches {target.name}", part_of_all)
            if part.stat().st_size != size:
                discard(part)
                raise Failed("checksum", f"{url}{name} has another size than its bucket says")
            part.rename(path)
            discard(part)
        done += size
    lacking = short(str(place), need.get("check") or {})
    if lacking:
        shutil.rmtree(str(place), ignore_errors=True)
        raise Failed("incomplete", f"{url} {lacking}")
    place.rename(target)
    keep_record(need, target)


def below(tell, done, total):
    """`tell` for one object, whose bytes count among those of all."""

    def of_all(words, have, _):
        tell(words, done + have, total)

    return of_all


def listed(url):
    """[(name below the prefix, bytes)] of every object, without the prefix itself."""
    bucket, _, prefix = url[len("s3://") :].partition("/")
    try:
        pages = public_listing(bucket, prefix, url)
    except urllib.error.HTTPError as error:
        if error.code not in (401, 403):
            raise refusal(url, error) from error
        pages = own_listing(bucket, prefix, url)
    names = [(key[len(prefix) :], size) for key, size in pages]
    for name, _ in names:
        if ".." in name.split("/") or name.startswith("/"):
            raise Failed("absent", f"{url} holds {name}, which would be written outside")
    return [(name, size) for name, size in names if name and not name.endswith("/")]


def public_listing(bucket, prefix, url):
    """[(key, bytes)] as anybody may ask for it."""
    found, token = [], ""
    while True:
        words = {"list-type": "2", "prefix": prefix}
        if token:
            words["continuation-token"] = token
        address = public_address(f"s3://{bucket}/").rstrip("/") + "/?" + urllib.parse.urlencode(words)
        text = patiently(url, lambda address=address: page(address))
        root = xml.etree.ElementTree.fromstring(text)  # noqa: S314  what S3 says
        name = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
        for one in root.findall(f"{name}Contents"):
            found.append((one.findtext(f"{name}Key"), int(one.findtext(f"{name}Size"))))
        token = root.findtext(f"{name}NextContinuationToken") or ""
        if not token:
            return found


def page(address):
    """What an address holds."""
    with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:  # noqa: S310  https, or the endpoint that is set
        return answer.read()


def own_listing(bucket, prefix, url):
    """[(key, bytes)] as the head node's own role may ask for it."""
    program = shutil.which("aws")
    if program is None:
        raise Failed("access", f"{url} is not public, and the aws command, which signs requests, is not installed")
    argv = [program, "s3api", "list-objects-v2", "--bucket", bucket, "--prefix", prefix, "--output", "json"]
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    process = subprocess.Popen(argv, stdin=null, stdout=pipe, stderr=pipe, universal_newlines=True)
    try:
        out, err = process.communicate(timeout=600)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise Failed("network", "aws s3api list-objects-v2 gave no answer within ten minutes") from error
    if process.returncode:
        raise Failed("access", f"{url} may not be listed by the head node: {err.strip()[-200:]}")
    return [(one["Key"], one["Size"]) for one in json.loads(out or "{}").get("Contents", [])]
