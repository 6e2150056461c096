"""What the story of a fault asks of the product: `trnctl why` names the cause that the fault's own table promises, with
evidence and remedy. Which faults happened, and which `why` was asked about, is remembered for the marker `fault`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.cli.trnctl_runner import Ended, Trnctl, eventually
from trnctl.sandbox.faults import FAULTS

STRUCK: set[str] = set()
TOLD: set[str] = set()


@contextlib.contextmanager
def fault(trnctl: Trnctl, name: str, *options: str) -> Iterator[None]:
    """Something fails while the block runs."""
    strike(trnctl, name, *options)
    try:
        yield
    finally:
        trnctl("sandbox", "fault", "clear", timeout=90)


def strike(trnctl: Trnctl, name: str, *options: str) -> None:
    """Let it happen; nothing ends it."""
    trnctl("sandbox", "fault", name, *options)
    STRUCK.add(name)


def told(
    trnctl: Trnctl, name: str, *words: str, node: str = "", first: bool = True, within: float = 30
) -> dict[str, Any]:
    """The finding of `trnctl why WORDS` on what this fault has done: the first that is no mere notice, unless the fault
    promises a notice (`first` False: any). It has cause, evidence and remedy, and the screen shows them in 100 columns.
    It is waited for."""
    code, seen = FAULTS[name].why, list[dict[str, Any]]()

    def found() -> bool:
        findings = trnctl.json("why", *words, timeout=120)["findings"]
        wanted = [one for one in findings if one["level"] != "info" or one["code"] == code]
        seen[:] = [one for one in (wanted[:1] if first else wanted) if one["code"] == code]
        return bool(seen)

    eventually(found, f"why {' '.join(words)} says {code} of {name}", timeout=within)
    [finding] = seen
    assert finding["cause"], finding
    assert finding["evidence"], finding
    assert finding["remedy"], finding
    assert node in finding["node"], finding
    shown = trnctl("why", *words, timeout=120).out
    for word in (code, "cause", "evidence", "remedy"):
        assert word in shown, shown
    for line in shown.splitlines():  # a path or a URL may be longer than a line
        assert len(line) <= 100 or " " not in line.strip(), line
    TOLD.add(name)
    return finding


def said(ended: Ended, finding: dict[str, Any]) -> None:
    """What the failed command printed by itself is what `why` says afterwards."""
    words = " ".join(ended.err.split())
    assert f"[{finding['code']}, " in words, ended
    assert " ".join(finding["cause"].split()) in words, ended
    assert " ".join(finding["remedy"].split()) in words, ended


def nothing_left(trnctl: Trnctl, name: str, *words: str) -> None:
    """Of a fault that leaves nothing to find: `why` names no failure."""
    assert FAULTS[name].why == ""
    findings = trnctl.json("why", *words, timeout=120)["findings"]
    assert [one["code"] for one in findings if one["level"] != "info"] == []
    TOLD.add(name)


def over(trnctl: Trnctl, *words: str, within: float = 60) -> None:
    """What was wrong is mended: `why` names no failure any more, or says that it is over."""

    def well() -> bool:
        findings = trnctl.json("why", *words, timeout=120)["findings"]
        return [one["code"] for one in findings if one["level"] != "info"] == []

    eventually(well, f"why {' '.join(words)} finds nothing that is still wrong", timeout=within)
