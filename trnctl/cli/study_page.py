"""A report as one HTML page that needs nothing else: the picture and the tables are in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnctl.cli.study_pictures import picture, subtitle
from trnctl.cli.study_report_screens import EMULATED, WORDS, columns, curve_words, notes, row_of
from trnctl.findings import by_severity

if TYPE_CHECKING:
    from trnctl.actions.study_report import Curve, Report


def page(found: Report | Curve) -> str:
    """The page. ToolMissing when matplotlib, which draws its picture, is not installed."""
    from trnctl.actions.study_report import Report
    from trnctl.render.engine import render

    drawing = picture(found, "svg").decode()
    context: dict[str, object] = {
        "headline": found.headline,
        "emulated": f"{found.emulated}. {EMULATED}" if found.emulated else "",
        "picture": drawing[drawing.index("<svg") :],  # without the declarations of a document of its own
        "subtitle": subtitle(found) if isinstance(found, Report) else curve_words(found),
        "tables": _tables(found) if isinstance(found, Report) else [],
        "notes": [*notes(found), *(str(one) for one in by_severity(found.findings))]
        if isinstance(found, Report)
        else [],
    }
    return render("html", "report/report.html.j2", context)


def _tables(report: Report) -> list[dict[str, object]]:
    return [
        {
            "caption": f"{series.scaling} scaling on {series.instance_type}; rates {series.basis}",
            "columns": _cells(columns(report.unit)),
            "rows": [_cells(row_of(point)) for point in series.points],
        }
        for series in report.series
    ]


def _cells(texts: tuple[str, ...]) -> list[dict[str, object]]:
    return [{"text": text, "words": index in WORDS} for index, text in enumerate(texts)]
