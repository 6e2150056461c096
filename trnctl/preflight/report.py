"""Collects the findings of one file; level and remedy come from the table of codes where a rule names none."""

from __future__ import annotations

from dataclasses import dataclass, field

from trnctl.codes import CODES
from trnctl.findings import Finding, Level
from trnctl.preflight.place import Place


@dataclass
class Report:
    """The findings so far. `file` is only named in them."""

    file: str
    findings: list[Finding] = field(default_factory=list)

    def say(
        self,
        code: str,
        place: Place,
        message: str,
        remedy: str = "",
        *,
        evidence: str = "",
        level: Level | None = None,
    ) -> None:
        """Add a finding at a place. KeyError for a code that the table does not have."""
        row = CODES[code]
        self.findings.append(
            Finding(
                code,
                level or row.level,
                message,
                remedy or row.remedy,
                path=place.path,
                line=place.line,
                file=self.file,
                evidence=evidence,
                column=place.column,
            )
        )
