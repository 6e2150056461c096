"""What `why` shows: each finding with cause, evidence and remedy; what is harmless; what was looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from trnctl.cli.output import LEVEL_STYLES, Screen
from trnctl.cli.words import plural

if TYPE_CHECKING:
    from trnctl.actions.why import Answer, Explanation
    from trnctl.findings import Finding

_MOST = 5  # findings that are shown in whole; the rest in one line each


def answer(screen: Screen, found: Answer) -> None:
    """The answer of one `why`."""
    diagnosis = found.diagnosis
    if screen.json:
        screen.data({"findings": [one.as_json() for one in diagnosis.findings], **found.as_json()})
        return
    for finding in diagnosis.findings[:_MOST]:
        _whole(screen, finding)
    for finding in diagnosis.findings[_MOST:]:
        screen.text(f"also {finding.level}  {finding.code}  {finding.message}")
    if not diagnosis.findings:
        screen.text(_nothing(found))
    for one in diagnosis.unexplained:
        place = ":".join(str(part) for part in (one.file, one.line) if part)
        screen.field(f"{place}  " if place else "", one.text, data=True, indent="  ")
    for finding in diagnosis.harmless:
        screen.say(f"harmless  {finding.message} ({finding.evidence[:60]})", style="dim")
    for note in found.notes:
        screen.say(f"note  {note}", style="dim")
    screen.say(f"looked at {_looked(found)}", style="dim")
    if not diagnosis.findings and found.about != "file":
        screen.say("  next: trnctl cluster events, trnctl logs RUN", style="dim")


def _nothing(found: Answer) -> str:
    """What is said when there are no findings."""
    diagnosis = found.diagnosis
    if found.about == "file" and diagnosis.seen and not sum(one.size for one in diagnosis.seen):
        return f"{_named(found)} is empty: there is nothing to judge.".capitalize()
    if diagnosis.unexplained:
        return (
            f"Undecided: nothing that trnctl knows has gone wrong with {_named(found)}, and some lines speak of an "
            "error. Look there, and at what stands above:"
        )
    return f"Nothing that trnctl knows has gone wrong with {_named(found)}."


def _named(found: Answer) -> str:
    name = "this text" if found.name == "-" else found.name
    return name if found.about == "file" else f"the {found.about} {name}"


def _whole(screen: Screen, finding: Finding) -> None:
    head = Text(f"{finding.level}  ", style=LEVEL_STYLES[finding.level])
    head.append(finding.code, style="bold")
    if finding.confidence:
        head.append(f"    [{finding.confidence} confidence]", style="dim")
    screen.out.print(head, soft_wrap=True)
    place = ":".join(str(part) for part in (finding.file, finding.line) if part)
    evidence = "  ".join(part for part in (place, finding.evidence) if part)
    for name, words in {
        "": finding.message,
        "cause": finding.cause,
        "evidence": evidence,
        "remedy": finding.remedy,
    }.items():
        if words:
            screen.field(name, words, data=True, indent="  ")
    screen.out.print()


def _looked(found: Answer) -> str:
    seen = found.diagnosis.seen
    size = sum(one.size for one in seen)
    kinds = ", ".join(sorted({one.source if one.source != "unknown" else "text" for one in seen})) or "nothing"
    return f"{plural(sum(one.lines for one in seen), 'line')} of {plural(len(seen), 'text')} ({kinds}; {size:,} bytes)"


def explanation(screen: Screen, found: Explanation) -> None:
    """What a code means."""
    if screen.json:
        signature = found.signature
        screen.data(
            {
                "findings": [], "about": "code", "code": found.code, "level": found.level, "meaning": found.meaning,
                "remedy": found.remedy, "links": list(signature.links) if signature else [],
                "recognised_by": list(signature.patterns) if signature else [],
            }
        )  # fmt: skip
        return
    screen.out.print(Text(f"{found.code}  ({found.level})", style="bold"))
    screen.field("meaning", found.meaning, data=True, indent="  ")
    screen.field("remedy", found.remedy, data=True, indent="  ")
    if found.signature is not None:
        if found.signature.look:
            screen.field("look at", "; ".join(found.signature.look), data=True, indent="  ")
        for link in found.signature.links:
            screen.field("seen in", link, data=True, indent="  ")
