"""The scripts that lie beside a run's jobs: they know the run's folder and nothing of trnctl."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from trnctl.ports import File, Stage
from trnctl.render import templates


def beside(stages: Sequence[Stage], *, cache_url: str, mirror: str, notify: str) -> Iterator[File]:
    """Those that a run needs. `cache_url` is '' for what is never compiled ahead, `mirror` where the records are copied
    to ('' for nowhere), `notify` who is told of the run's end ('' for nobody)."""
    names = ["job/gate.py"] if "compile" in stages else []
    if cache_url:
        names.append("node/cache.py")
    if mirror:
        names.append("job/mirror.py")
    if mirror or cache_url.startswith("s3://"):
        names.append("node/s3.py")
    if cache_url.startswith("s3://"):
        names.append("node/objects.py")
    if notify:
        names.append("job/notify.py")
        # In a file that only its owner can read: an address may hold a token.
        yield File("notify.json", json.dumps({"target": notify}) + "\n", secret=True)
    for name in (*names, "job/blame.py", "job/results.py"):
        yield File(name.partition("/")[2], templates.read(name))
