"""JSON and YAML of pcluster and of AWS as lines of evidence: stack events in order of time, all else leaf by leaf."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

LARGEST = 32 * 1024 * 1024  # bytes of a JSON document that is parsed; a larger one is read as text
_STATUS = re.compile(r"[A-Z]+(?:_ROLLBACK)?_(?:FAILED|COMPLETE|IN_PROGRESS)")
_RECORD = frozenset(
    {"timestamp", "@timestamp", "time", "datetime", "ingestionTime", "__REALTIME_TIMESTAMP", "_HOSTNAME", "stream"}
)
_LARGEST_YAML = 4 * 1024 * 1024
_YAML = re.compile(r"\A(?:---\s*\n)?(?:StackEvents|events|failures|Reservations|Instances):\s*\n[-\s]")


def may_be_document(head: bytes) -> bool:
    """Whether a file that begins like this may be JSON, JSON line by line, or the YAML of a tool's answer."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] in (b"{", b"["):
        return not start.startswith((b"[20", b"[ ", b"[slurm", b"[INFO", b"[WARN", b"[ERROR", b"[DEBUG"))
    return bool(_YAML.match(start[:200].decode("utf-8", "replace")))


def parse(text: str) -> object | None:
    """The value of a whole file: JSON, also behind some words of a tool, JSON line by line, or YAML; None when it is
    none of them."""
    if _YAML.match(text.lstrip("\ufeff \t\r\n")):
        return _yaml(text)
    value = _json(text)
    return _json_lines(text) if value is None else value


def _json_lines(text: str) -> object | None:
    """JSON whose every line is a mapping of its own, as `jq -c` writes it."""
    values = []
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError:
            return None
        if not isinstance(value, dict):
            return None
        values.append(value)
    return values if len(values) > 1 and any(_event(value) or _record(value) for value in values) else None


def _yaml(text: str) -> object | None:
    """What `aws … --output yaml` writes."""
    import yaml

    if len(text) > _LARGEST_YAML:
        return None
    try:
        value = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # it is the safe one
    except yaml.YAMLError:
        return None
    return value if isinstance(value, dict) else None


def _json(text: str) -> object | None:
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
        yield from _mapping(value)
    elif isinstance(value, list) and _is_row(value):
        yield None, " ".join(str(inner) for inner in value if inner is not None)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner, name)
    elif value is not None:
        for line in str(value).splitlines() or [""]:
            yield None, f"{name}: {line}" if name else line


def _mapping(value: Mapping[str, object]) -> Iterator[tuple[str | None, str]]:
    if (event := _event(value)) is not None:
        yield event
    elif (record := _record(value)) is not None:
        yield from ((None, line) for line in record)
    elif (said := _verdict(value)) is not None:
        yield None, said
    else:
        for key, inner in value.items():
            yield from _walk(inner, str(key))


def _record(value: Mapping[str, object]) -> list[str] | None:
    """The lines of a log record as CloudWatch, journald and Docker write them, behind the node and daemon that it
    names; None when the mapping is none."""
    if not _RECORD.intersection(value):
        return None
    message = next((value[name] for name in ("MESSAGE", "message", "log", "msg") if name in value), None)
    if isinstance(message, list) and all(isinstance(code, int) and 0 <= code < 256 for code in message):
        message = bytes(message).decode("utf-8", "replace")  # how journald writes what is not printable
    if not isinstance(message, str) or ("level" in value and "type" in value):
        return None
    host, daemon, process = (str(value.get(name, "")) for name in ("_HOSTNAME", "SYSLOG_IDENTIFIER", "_PID"))
    writer = f"{host} {daemon}[{process}]: " if host and daemon else ""
    said = message.splitlines() or [""]
    if "event-type" in value:  # an event of pcluster's own, whose details hold what the command wrote
        said += [line for _, line in _walk(value.get("detail"), "")]
    return [writer + line for line in said]


def _is_row(value: list[object]) -> bool:
    """Whether a list is a row of a table, as `--query 'StackEvents[].[A, B]'` makes it."""
    plain = all(inner is None or isinstance(inner, (str, int, float)) for inner in value)
    return plain and len(value) > 1 and any(isinstance(inner, str) and _STATUS.fullmatch(inner) for inner in value)


def _verdict(value: Mapping[str, object]) -> str | None:
    """What pcluster says of a file, an update or a failed creation, on one line, so that it keeps its name."""
    message = value.get("message") or value.get("failureReason")
    if not isinstance(message, str):
        return None
    words = " ".join(message.split())
    if isinstance(value.get("level"), str) and (kind := value.get("type") or value.get("id")):
        return f"validation {value['level']} {kind}: {words}"
    if isinstance(value.get("failureCode"), str):
        return f"failure {value['failureCode']}: {words}"
    if isinstance(value.get("parameter"), str):
        return f"update of {value['parameter']} refused: {words}"
    return None


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
