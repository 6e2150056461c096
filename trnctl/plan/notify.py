"""Where the end of a run can be told."""

from __future__ import annotations

import re

from trnctl.errors import UsageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def check_notify(target: str) -> None:
    """UsageError for an address that is none of the web: as a command, it would fail when the run is over. Only its
    scheme is repeated: the rest may hold a token."""
    found = _SCHEME.match(target)
    if found and found[1].lower() not in {"http", "https"}:
        raise UsageError(
            f"{found[1]}://… is neither a web address nor a command, so that nobody would be told of the run's end",
            remedy="give --notify (or notify: in the cluster file) an http:// or https:// address, or a command",
        )
