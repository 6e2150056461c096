"""Fetch a model from the Hugging Face hub once, for the preparer, into a cache that all workers read.

The cache is laid out as the hub's documentation says (huggingface.co/docs/hub/local-cache), under the name that the
script asks for, so that a run with HF_HUB_OFFLINE=1 asks nobody: hundreds of workers at once would be turned away, or
wait for each other's locks. Standard library only, Python 3.6 and newer.
"""

import os
import re
from pathlib import Path

from download import discard, sha256, transfer
from folder import write
from needs import Failed

ENDPOINT = "https://huggingface.co"


def fetch(need, tell):
    """Every file of the model that is named, then `refs/main`, by which the script finds its revision."""
    wanted = need["fetch"]
    place, revision = Path(wanted["target"]), wanted["revision"]
    root = os.environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/") + "/{}/resolve/{}".format(wanted["model"], revision)
    for name in wanted["files"]:
        path = place / "snapshots" / revision / name
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".download")
        etag = transfer(f"{root}/{name}", part, "fetches {} of {}".format(name, wanted["model"]), tell, headers=token())
        digest = (etag or "").strip('W/"')
        # What the hub keeps as a large file has its SHA-256 for a tag.
        if re.match(r"[0-9a-f]{64}$", digest) and sha256(part, tell) != digest:
            discard(part)
            raise Failed("checksum", "{} of {} is not what the hub says it is".format(name, wanted["model"]))
        part.rename(path)
        discard(part)
    write(place / "refs" / "main", revision)
    write(Path(need["path"]), revision)


def token():
    """The head node user's own access token, where there is one: some models are given to known people only."""
    found = os.environ.get("HF_TOKEN", "")
    if not found:
        try:
            found = Path("~/.cache/huggingface/token").expanduser().read_text(encoding="utf-8").strip()
        except OSError:
            return {}
    return {"Authorization": f"Bearer {found}"}
