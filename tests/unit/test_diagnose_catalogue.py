"""Messages as people have met them, plain and as logs, terminals and tools hand them on."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from tests.diagnosing import catalogue, codes, diagnosed

CATALOGUE = catalogue()
# Texts whose form is a part of what they say: tables, scripts, JSON, lines that begin with their node.
FORMED = re.compile(r"^(?:#!|\{|\d)|^node\d: ", re.MULTILINE)
FORMED_CASES = {"F72", "F86", "F119"}


def each_line(change: Callable[[str], str]) -> Callable[[str], str]:
    """The change made to each line."""
    return lambda text: "\n".join(change(line) for line in text.split("\n"))


def hard(line: str) -> str:
    """As a terminal of 80 columns breaks it, copied."""
    return "\n".join(line[at : at + 80] for at in range(0, len(line), 80))


def soft(line: str) -> str:
    """As a mail breaks it, at blanks."""
    return "\n    ".join(textwrap.wrap(line, 60, break_on_hyphens=False, break_long_words=False)) or line


PREFIXED: dict[str, Callable[[str], str]] = {
    "syslog": each_line(lambda line: f"Oct  1 09:12:01 ip-10-0-0-12 cloud-init[1893]: {line}"),
    "clustermgtd": each_line(
        lambda line: f"2026-10-01 09:12:01,123 - [slurm_plugin.clustermgtd:main] - ERROR - {line}"
    ),
    "cfn-init": each_line(lambda line: f"2026-10-01 09:12:01,123 [ERROR] Command output: {line}"),
    "srun": each_line(lambda line: f"12: {line}"),
    "JSON": lambda text: json.dumps({"events": [{"timestamp": 1, "message": line} for line in text.split("\n")]}),
    "JSON lines": each_line(lambda line: json.dumps({"datetime": "2026-10-01T09:12:01", "message": line})),
    "capitals": str.upper,
}
KEPT: dict[str, Callable[[str], str]] = {
    "colour": each_line(lambda line: "\x1b[31m" + line.replace(" ", " \x1b[1m", 1) + "\x1b[0m"),
    "Windows": lambda text: text.replace("\n", "\r\n") + "\r\n",
    "terminal": each_line(hard),
    "mail": each_line(soft),
    "blanks": lambda text: text.replace(" ", "  "),
}


def first(entry: dict[str, Any], text: str) -> str:
    """The first code of a text; `none` when there is no finding."""
    facts = {name: str(value) for name, value in entry.get("facts", {}).items()}
    return next(iter(codes(diagnosed(text, facts))), "none")


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: f"{entry['case']}-{entry['code']}")
def test_a_message_gets_its_code(entry: dict[str, Any]) -> None:
    facts = {name: str(value) for name, value in entry.get("facts", {}).items()}
    found = diagnosed(entry["text"], facts)
    assert (codes(found) or ["none"])[0] == entry["code"]
    if "node" in entry:
        assert found.findings[0].node == entry["node"], "the wrong node is blamed"


@pytest.mark.parametrize("form", PREFIXED)
def test_a_prefix_changes_nothing(form: str) -> None:
    plain = [one for one in CATALOGUE if not FORMED.search(one["text"]) and one["case"] not in FORMED_CASES]
    assert len(plain) > 100
    wrong = {one["text"][:60]: got for one in plain if (got := first(one, PREFIXED[form](one["text"]))) != one["code"]}
    assert wrong == {}


@pytest.mark.parametrize("form", KEPT)
def test_a_text_that_was_bent_on_its_way_is_still_known(form: str) -> None:
    plain = [one for one in CATALOGUE if not one["text"].startswith(("#!", "{"))]
    wrong = {one["text"][:60]: got for one in plain if (got := first(one, KEPT[form](one["text"]))) != one["code"]}
    assert wrong == {}


def test_precision_and_recall(capsys: pytest.CaptureFixture[str]) -> None:
    """Over the whole catalogue, every finding counted, not only the first."""
    right = wrong = missed = 0
    for entry in CATALOGUE:
        found = codes(diagnosed(entry["text"], {name: str(value) for name, value in entry.get("facts", {}).items()}))
        wanted = [] if entry["code"] == "none" else [entry["code"]]
        right += len(set(found) & set(wanted))
        wrong += len(set(found) - set(wanted))
        missed += len(set(wanted) - set(found))
    precision, recall = right / (right + wrong), right / (right + missed)
    with capsys.disabled():
        print(f"\n{len(CATALOGUE)} recorded messages: precision {precision:.3f}, recall {recall:.3f}")
    assert recall == 1
    assert precision > 0.97
