"""JSON of pcluster and of AWS as lines of evidence: stack events in order of time, all else leaf by leaf."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

LARGEST = 32 * 1024 * 1024  # bytes of a JSON document that is parsed; a larger one is read as text


def parse(text: str) -> object | None:
    """The JSON value of a whole file, also behind some words of a tool; None when it is none."""
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0 or len(text[:start].strip().splitlines()) > 5:
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(text[start:])
    except ValueError:
        return None
    rest = text[start + end :].strip()
    return value if isinstance(value, (dict, list)) and not rest else None


def lines_of(value: object) -> list[str]:
    """The document as lines; events come oldest first, whichever way round they were listed."""
    events: list[tuple[str, str]] = []
    others: list[str] = []
    for event, line in _walk(value, ""):
        if event is None:
            others.append(line)
        else:
            events.append((event, line))
    return [line for _, line in sorted(events, key=lambda one: one[0])] + others


def _walk(value: object, name: str) -> Iterator[tuple[str | None, str]]:
    """(time of a stack event or None, line)."""
    if isinstance(value, Mapping):
        event = _event(value)
        if event is not None:
            yield event
            return
        for key, inner in value.items():
            yield from _walk(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner, name)
    elif value is not None:
        for line in str(value).splitlines() or [""]:
            yield None, f"{name}: {line}" if name else line


def _event(value: Mapping[str, object]) -> tuple[str, str] | None:
    """A stack event as `time STATUS type id: reason`, in CloudFormation's spelling, pcluster's or ours."""
    named = {key.lower().replace("_", ""): found for key, found in value.items() if isinstance(key, str)}
    status = named.get("resourcestatus") or named.get("status")
    identity = named.get("logicalresourceid") or named.get("logicalid")
    if not status or not identity:
        return None
    at = str(named.get("timestamp") or named.get("at") or "")
    kind = str(named.get("resourcetype") or "")
    reason = " ".join(str(named.get("resourcestatusreason") or named.get("reason") or "").split())
    return at, " ".join(part for part in (at, str(status), kind, f"{identity}:", reason) if part)
