"""The forms of a report: on stdout, or as files in a folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen
from trnctl.errors import UsageError

if TYPE_CHECKING:
    from trnctl.actions.study_report import Curve, Report

_DRAWN = frozenset({"svg", "png", "html"})


def check(forms: Sequence[str], write: str | None) -> None:
    """What can be known before the cluster is asked: whether pictures can be drawn, and a place for a PNG."""
    if _DRAWN.intersection(forms):
        from trnctl.cli.study_pictures import require

        require()
    if "png" in forms and not write and sys.stdout.isatty():
        raise UsageError("a PNG is not for a terminal", remedy="add --write DIR, or send it into a file with > FILE")


def show(screen: Screen, found: Report | Curve, form: str) -> None:
    """One form on stdout."""
    if form == "table":
        from trnctl.cli.study_report_screens import show as show_table

        show_table(screen, found)
    else:
        sys.stdout.buffer.write(_made(found, form))
        sys.stdout.flush()


def write(screen: Screen, found: Report | Curve, forms: Sequence[str], folder: str) -> None:
    """A file for each form, named after the study or the run. UsageError when they cannot be written."""
    from trnctl.actions.study_report import Report

    name = found.name if isinstance(found, Report) else found.run
    paths = []
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for form in forms:
            path = Path(folder) / f"{name}.{'txt' if form == 'table' else form}"
            path.write_bytes(_made(found, form))
            paths.append(str(path))
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {folder}: {error.strerror}", remedy="name another with --write DIR"
        ) from error
    names = ", ".join(Path(path).name for path in paths)
    screen.done({"written": paths, "headline": found.headline}, f"{found.headline}\nwrote to {folder}: {names}")


def _made(found: Report | Curve, form: str) -> bytes:
    from trnctl.actions.study_report import Report
    from trnctl.cli import study_report_screens as screens

    if form in {"svg", "png"}:
        from trnctl.cli.study_pictures import picture

        return picture(found, form)
    if form == "html":
        from trnctl.cli.study_page import page

        return page(found).encode()
    if form == "json":
        return (json.dumps(found.as_json(), indent=2, ensure_ascii=False) + "\n").encode()
    if form == "csv":
        return screens.csv_text(found).encode()
    lines = screens.report_text(found) if isinstance(found, Report) else screens.curve_text(found)
    findings = [str(finding) for finding in found.findings] if isinstance(found, Report) else []
    return "\n".join([*lines, *findings, ""]).encode()
