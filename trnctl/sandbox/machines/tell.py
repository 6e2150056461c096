"""Tell the world something, from a program that Slurm runs: `tell.py URL KEY=VALUE…` posts one JSON object.

Run by its path with `python -I -S`, so it imports nothing of trnctl and starts in a few milliseconds.
"""

from __future__ import annotations

import http.client
import json
import sys
from urllib.parse import urlsplit


def main(arguments: list[str]) -> int:
    """Exit code 0 when the world took it."""
    url = urlsplit(arguments[0])
    body = dict(argument.split("=", 1) for argument in arguments[1:])
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
    try:
        connection.request("POST", url.path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except OSError as problem:
        print(f"the sandbox's world does not answer at {arguments[0]}: {problem}", file=sys.stderr)
        return 1
    if answer.status != http.client.OK:
        print(f"{arguments[0]} answered {answer.status}: {text[:500]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
