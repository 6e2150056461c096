"""What `trnctl doctor` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen
from trnctl.findings import by_severity

if TYPE_CHECKING:
    from trnctl.actions.doctor import Check
    from trnctl.findings import Level
    from trnctl.specs.cluster import ClusterFile

_NAME_WIDTH = 24


def checks(screen: Screen, found: Sequence[Check], notice: str) -> None:
    """A line for each check, with what is wrong below it and the way out."""
    screen.notice(notice)
    if screen.json:
        rows = [
            {"name": one.name, "state": (one.level or "ok") if one.done else "unchecked", "found": one.found}
            for one in found
        ]
        findings = by_severity(finding for one in found for finding in one.findings)
        screen.data({"findings": [finding.as_json() for finding in findings], "checks": rows})
        return
    for one in found:
        lead = f"{_mark(one)} {one.name:<{_NAME_WIDTH - 2}}"
        _wrapped(screen, lead, one.found, _style(one.level))
        for finding in by_severity(one.findings):
            remedy = f" — {finding.remedy}" if finding.remedy else ""
            place = f"{finding.place}: " if finding.place else ""
            _wrapped(screen, f"  {_MARKS[finding.level]} ", f"{place}{finding.message}{remedy} [{finding.code}]", "")


_MARKS: dict[Level, str] = {"error": "✗", "warning": "!", "info": "·"}
_STYLES: dict[Level, str] = {"error": "bold red", "warning": "yellow", "info": ""}


def _mark(check: Check) -> str:
    """✓ fine, ! take care, ✗ cannot work, – could not be looked at."""
    if not check.done:
        return "–"
    return _MARKS[check.level] if check.level in ("error", "warning") else "✓"


def _style(level: Level | None) -> str:
    return _STYLES[level] if level else ""


def _wrapped(screen: Screen, lead: str, words: str, style: str) -> None:
    from rich.text import Text

    from trnctl.cli.output import WIDTH, wrap

    for line in wrap(words, width=min(screen.out.width, WIDTH), lead=lead):
        screen.out.print(Text(line, style=style), soft_wrap=True)


def policy(screen: Screen, file: ClusterFile | None, region: str | None) -> None:
    """The policy as JSON, which is what IAM takes; where it comes from is said beside it."""
    from trnctl.render import policy as rendered

    made = rendered.least_policy(file.cluster if file else None, region)
    screen.data(made)
    whose = f"{file.cluster.name} as {file.path} describes it" if file else "any cluster, and trnctl network"
    screen.say(f"For {whose}: {rendered.BASIS}.", style="dim")
    length = rendered.size(made)
    if length > rendered.LONGEST:
        screen.say(
            f"It has {length:,} characters, more than a managed policy takes ({rendered.LONGEST:,}): put it in line "
            f"with a role ({rendered.LONGEST_INLINE:,}), or divide its statements among two policies.",
            style="yellow",
        )
