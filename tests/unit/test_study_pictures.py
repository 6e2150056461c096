"""The pictures of a report: each says what its figures are, and the page needs nothing from outside."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from tests.studies import NOTICE, picture, record
from trnctl.actions.study_report import Curve, Report, report_of
from trnctl.cli.study_page import page
from trnctl.cli.study_pictures import picture as draw
from trnctl.specs.study import Study

STRONG = Study("bert-large-strong", "strong", (1, 2, 4, 8))


def study(*, notice: str = "", title: str = "BERT") -> Report | Curve:
    """Three points, of which one failed, and one that was never submitted."""
    runs = [
        record(1, 4000.0, study=STRONG, notice=notice, title=title),
        record(2, 6000.0, study=STRONG, notice=notice, title=title),
        record(4, None, study=STRONG, notice=notice, exit_code=1, title=title),
    ]
    return report_of(picture(*runs), None, cluster="ultra1")


def curve() -> Curve:
    points: list[list[float | None]] = [[step, 11 - step / 10, 4000.0 + step] for step in range(1, 21)]
    found = report_of(picture(record(1, 4000.0, study=STRONG, notice=NOTICE, curve=points)), "n1")
    assert isinstance(found, Curve)
    return found


def said(svg: bytes) -> str:
    """What the picture says: letters are drawn as shapes, and matplotlib notes beside them what they are."""
    return "\n".join(re.findall(r"<!-- (.*?) -->", svg.decode()))


def test_the_title_and_every_panel_say_that_figures_are_emulated() -> None:
    told = said(draw(study(notice=NOTICE), "svg"))
    assert "bert-large: strong scaling on trn1.32xlarge — EMULATED" in told
    assert "seq/s, emulated; both axes logarithmic" in told
    assert "against 1 node, emulated" in told
    assert "emulated; on-demand list price of us-east-1, 2026-07-20" in told
    assert "measured" not in told


def test_what_is_measured_says_so_and_what_follows_from_it_is_modelled() -> None:
    told = said(draw(study(), "svg"))
    assert "strong scaling on trn1.32xlarge — measured" in told
    assert "modelled; on-demand list price of us-east-1, 2026-07-20" in told
    assert "emulated" not in told.lower()


def test_published_failed_and_missing_points_are_in_the_picture() -> None:
    told = said(draw(study(), "svg"))
    for word in ("published", "ideal", "failed", "not run", "4,000", "6,000", "strong", "100%", "75%"):
        assert word in told.split("\n"), word
    assert "Neuron 2.14.0" in told


@pytest.mark.parametrize("found", [study(notice=NOTICE), curve()], ids=["study", "run"])
def test_the_same_report_makes_the_same_svg_and_it_is_xml(found: Report | Curve) -> None:
    first = draw(found, "svg")
    assert ET.fromstring(first).tag.endswith("svg")  # noqa: S314  our own picture
    assert draw(found, "svg") == first


def test_a_png_is_large_enough_to_print() -> None:
    data = draw(curve(), "png")
    assert data.startswith(b"\x89PNG")
    assert struct.unpack(">II", data[16:24])[0] >= 2000


def test_the_curve_of_a_run_has_loss_and_throughput() -> None:
    told = said(draw(curve(), "svg")).split("\n")
    assert {"Loss", "Throughput", "seq/s, emulated", "9", "4,020", "step"} <= set(told)


def test_no_rates_and_no_curve_are_drawn_as_empty() -> None:
    empty = report_of(picture(record(1, None, study=STRONG, exit_code=None)), None)
    assert "there is no rate yet" in said(draw(empty, "svg"))
    silent = report_of(picture(record(1, 4000.0, study=STRONG)), "n1")
    assert "log tells none" in said(draw(silent, "svg"))


class Outside(HTMLParser):
    """Everything that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links and scripts."""
        for name, value in attrs:
            if name in {"src", "href", "xlink:href", "srcset", "data"} and not (value or "").startswith("#"):
                self.found.append(f"{tag} {name}={value}")
        if tag in {"script", "link", "iframe", "object", "img"}:
            self.found.append(tag)


@pytest.mark.parametrize("found", [study(notice=NOTICE), curve()], ids=["study", "run"])
def test_the_page_needs_nothing_from_outside(found: Report | Curve) -> None:
    text = page(found)
    looked = Outside()
    looked.feed(text)
    assert looked.found == []
    assert "@import" not in text
    assert "url(http" not in text
    assert "<strong>EMULATED.</strong>" in text


def test_the_page_says_names_as_they_are() -> None:
    text = page(study(title='<script>alert("1")</script> & more'))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "24.5k" not in text  # no run on 16 nodes, so no row of the table
    assert "24,518 seq/s on 16" in text


WITHOUT = "import sys; sys.modules['matplotlib'] = None; from trnctl.cli.main import run; sys.exit(run(sys.argv[1:]))"


def test_without_matplotlib_the_extra_is_named_before_anything_is_asked() -> None:
    words = [sys.executable, "-c", WITHOUT, "study", "report", "--write", "somewhere"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert "matplotlib, which is not installed" in done.stderr
    assert "pip install 'trnctl[charts]'" in done.stderr
