"""How far a run is, read from the end of its log with the pattern of its manifest."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

_LONGEST_LINE = 2000  # a step line is short; a pattern must not search in a dumped tensor


@dataclass(frozen=True)
class Progress:
    """The last step that the log tells of; None for what is not known (yet). `throughput` is in the recipe's unit."""

    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    throughput: float | None = None
    rate_steps_per_s: float | None = None
    recent: tuple[float, ...] = ()  # the throughput of the last steps that the tail tells, oldest first


def parse_progress(manifest: Mapping[str, object], log_tail: str) -> Progress:
    """The last whole step line of a log's end. `manifest` is run.json: its `log_pattern`, `steps`, `unit` and `layout`.

    The tail may begin and end in the middle of a line; a line without its end is not read, since a number in it may be
    cut. Lines that do not match, and a manifest without a usable pattern, are no error.
    """
    steps = _whole(manifest.get("steps"))
    try:
        pattern = re.compile(str(manifest.get("log_pattern") or r"(?!)"))
    except re.error:
        return Progress(steps=steps)
    for line in reversed(re.split(r"[\r\n]", log_tail)[:-1]):  # a progress bar ends its lines with a return
        match = pattern.search(line[:_LONGEST_LINE])
        if match is None:
            continue
        found = match.groupdict()
        throughput = _number(found.get("throughput"))
        step, first = _whole(_number(found.get("step"))), _whole(manifest.get("log_first"))
        return Progress(
            step=step if step is None or first is None else step + 1 - first,
            steps=steps,
            loss=_number(found.get("loss")),
            throughput=throughput,
            rate_steps_per_s=_steps_per_second(manifest, throughput),
            recent=_recent(pattern, log_tail),
        )
    return Progress(steps=steps)


_RECENT = 64


def _recent(pattern: re.Pattern[str], log_tail: str) -> tuple[float, ...]:
    """The throughput of the last steps, oldest first."""
    lines = log_tail.split("\n")[:-1][-10 * _RECENT :]
    found = (pattern.search(line[:_LONGEST_LINE]) for line in lines)
    rates = (_number(match.groupdict().get("throughput")) for match in found if match is not None)
    return tuple(rate for rate in rates if rate is not None)[-_RECENT:]


def _steps_per_second(manifest: Mapping[str, object], throughput: float | None) -> float | None:
    """Sequences a second by the sequences of a step; only for rates that count sequences."""
    layout = manifest.get("layout")
    batch = _whole(layout.get("global_batch")) if isinstance(layout, Mapping) else None
    if not throughput or not batch or manifest.get("unit") != "seq/s":
        return None
    return throughput / batch


def _number(text: str | None) -> float | None:
    """A finite number, or None: a loss that is `nan` is not a number that JSON can carry."""
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
