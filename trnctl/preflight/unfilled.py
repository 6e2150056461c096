"""Values that a template, a tutorial or a report leaves for its reader to fill in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from trnctl.findings import Finding
from trnctl.specs.nodes import Entries, Node, Scalar

# `<subnet id>`, `${SUBNET}`, `{SUBNET}`, `__SUBNET__`, `%SUBNET%`, `$SUBNET`, `subnet-xxx`, `sg-0****`, `x.x.x.x`.
_MARKS = re.compile(
    r"<[^<>]*>|\$\{[^}]*\}|\{\{.*\}\}|^\{[a-z_]\w*\}$|__[a-z]\w*?__|^\$[a-z_]\w*$|^%+\w+%+$|^x{4,}$"
    r"|^[a-z]+-[0-9a-f]*[x*.…]{3,}[0-9a-f]*$|\bx+(?:\.x+){3}\b|\*{4,}"
    r"|\b(?:REPLACE|PLACE_?HOLDER|CHANGE_?ME|REDACTED|YOUR[_ -])",
    re.IGNORECASE,
)
_CAPITALS = re.compile(r"[A-Z][A-Z0-9]*(?:[_-][A-Z0-9]+)*")


def unfilled(text: str) -> bool:
    """Whether a text bears a mark of what is still to be filled in."""
    return _MARKS.search(text) is not None


def stands_for(form: str, text: str) -> bool:
    """Whether a word in capitals, as `SUBNETID`, stands where an id, an ARN or an address is wanted (`form` is the
    code of its form): none of those is written so."""
    return form.endswith(("-id", "arn", "cidr")) and _CAPITALS.fullmatch(text) is not None


def braced(node: Node | None) -> str:
    """`{SUBNET}` as it was written without quotes, where YAML reads a mapping; '' for anything else."""
    if not isinstance(node, Entries) or len(node.entries) != 1:
        return ""
    ((name, entry),) = node.entries.items()
    empty = isinstance(entry.node, Scalar) and entry.node.kind == "null" and not entry.node.text
    return f"{{{name}}}" if empty and entry.line == node.line else ""


def settled(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, of which a value that is still to be filled in keeps one: whatever else is wrong with it will be
    another matter then. It is as bad as the worst of those that it stands for."""
    found = list(findings)
    open_places = {finding.path for finding in found if finding.code == "placeholder"}
    refused = {finding.path for finding in found if finding.level == "error"} & open_places
    return [
        replace(finding, level="error") if finding.path in refused else finding
        for finding in found
        if finding.path not in open_places or finding.code == "placeholder"
    ]
