"""Folds what every rank prints for itself, so that a person who follows a run sees the run and not 32 ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trnctl.ports import FollowEvent, LogLine

_OF_A_RANK = re.compile(r"\W*(rank|worker)\W{0,2}\d+\b", re.IGNORECASE)


def folded(events: Iterator[FollowEvent]) -> Iterator[FollowEvent]:
    """The same events, but of lines in a row that begin with a rank's name only the first, and how many followed it."""
    first: LogLine | None = None
    more = 0
    for event in events:
        of_a_rank = isinstance(event, LogLine) and _OF_A_RANK.match(event.text) is not None
        if of_a_rank and first is not None and isinstance(event, LogLine) and event.log == first.log:
            more += 1
            continue
        if first is not None and more:
            yield LogLine(first.stage, first.log, f"  … and {more} more lines of other ranks")
        first, more = (event, 0) if of_a_rank and isinstance(event, LogLine) else (None, 0)
        yield event
    if first is not None and more:
        yield LogLine(first.stage, first.log, f"  … and {more} more lines of other ranks")
