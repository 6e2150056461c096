"""One line of any log: cleaned of colour, escapes and needless blanks; the node that wrote it and the time it names."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-_])")
_ESCAPES = re.compile(r'\\([nrt"\\/])')
_STAMP = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}")
# Slurm's names in ParallelCluster, `queue1-dy-i1-16`; EC2's, `ip-10-0-1-5`; and what people call nodes in a report.
_NODE = r"[a-z][a-z0-9-]*-(?:st|dy)-[a-z0-9-]*?\d+|ip-\d+-\d+-\d+-\d+"
_WRITERS = (
    re.compile(rf"\bhostname=(?P<node>{_NODE}|[\w-]+)"),
    re.compile(rf"^(?:\S+ +){{0,4}}?\[?(?P<node>{_NODE}|node[-_ ]?\d+)\]?(?=[:\s]|$)", re.IGNORECASE),
)
_STARTS_ANEW = re.compile(
    r"""\s*(?:\[?\d{4}-|\[?\d\d:\d\d|\[(?:\d|\w+\])|\{|\}|"\w+"\s*:|<\d+>|[|]|\#|-\s|[A-Z][a-z]{2}\s+\d+\s|(?:ERROR|WARN|INFO|FATAL|DEBUG)\b"""
    r"""|Traceback\b|\w+:\s\S+\s|[A-Za-z]+=|\w+Error\b|$)"""
)
# What stands before a message: times, host and daemon, the number or name of a task, the bars of a table.
_PREFIX = re.compile(
    r"""(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s+(?:-\s+)?          # an ISO time, as CloudWatch exports it
    |[A-Z][a-z]{2}\s+\d+\s\d\d:\d\d:\d\d\s+\S+\s+[\w./-]+(?:\[\d+\])?:\s+  # syslog
    |[\w.-]+\s[\w./-]+\[\d+\]:\s+                                   # journald: host daemon[pid]:
    |\[\d+,\d+\]<std(?:out|err)>:\s*                                # mpirun
    |\[(?:rank|default)?\d+\]:\s*|\d+:\s+                           # torchrun, srun --label
    |\(\w+\spid=\d+[^)]*\)\s*                                       # ray
    |(?:ERROR|INFO|WARNING)\s[\d-]+\s[\d:]+\s\[[\w./]+:\d+\]\s      # vLLM
    |\|\s+|(?:Stdout|Stderr|stdout|stderr):\s+                      # a table; EC2 Image Builder
    |\[(?:ERROR|INFO|WARN\w*|DEBUG)\]\s+(?:Command\soutput:\s+)?    # cfn-init
    )+""",
    re.VERBOSE,
)
EVIDENCE_WIDTH = 240
_SHORTEST_BROKEN = 40  # characters: nobody breaks shorter lines
_WIDEST_TERMINAL = 250


def without_colour(text: str) -> str:
    """The text without terminal escape sequences."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def clean(line: str) -> str:
    """A line as its patterns expect it: no colour, JSON's escapes undone, blanks single, no line end."""
    line = without_colour(line)
    if "\\" in line:
        line = _ESCAPES.sub(lambda found: " " if found[1] in "nrt" else found[1], line)
    return " ".join(line.split())


def bare(line: str) -> str:
    """A clean line without what log writers put before a message; the same text when there is nothing."""
    found = _PREFIX.match(line)
    return line[found.end() :] if found else line


def node_of(line: str) -> str:
    """The node that a line says it is from, '' when it says none."""
    for pattern in _WRITERS:
        found = pattern.search(line[:200]) if pattern is not _WRITERS[0] else pattern.search(line)
        if found:
            return re.sub(r"[-_ ]", "", found["node"]) if found["node"].lower().startswith("node") else found["node"]
    return ""


def stamp_of(line: str) -> str:
    """The first date and time in a line, as `2026-10-01T09:12:01`; '' when there is none."""
    found = _STAMP.search(line)
    return found[0].replace(" ", "T") if found else ""


def goes_on(line: str, before: str, width: int) -> bool:
    """Whether a line may be the rest of the one before it, broken by a terminal or a mail. `width` is the length of the
    longest line of the whole text.

    A mail indents what goes on, a terminal breaks at its width, which no line is then longer than; elsewhere lines
    that follow each other have nothing to do with each other, however they read together.
    """
    if not line.strip() or _STARTS_ANEW.match(line):
        return False
    length, indented = len(before), line.startswith("  ")
    if indented and length + len(line.split(maxsplit=1)[0]) >= _SHORTEST_BROKEN:
        return True  # it is so long, or its next word would have made it so
    if width > _WIDEST_TERMINAL:
        return False
    return length >= width - 1 >= _SHORTEST_BROKEN or (length >= _SHORTEST_BROKEN and line[:1].islower())


def around(text: str, start: int, end: int) -> str:
    """The part of a line that a match stands in, short enough to be read."""
    if len(text) <= EVIDENCE_WIDTH:
        return text
    spare = max(0, EVIDENCE_WIDTH - (end - start))
    first = max(0, start - spare // 2)
    last = min(len(text), first + EVIDENCE_WIDTH)
    return ("…" if first else "") + text[first:last] + ("…" if last < len(text) else "")
