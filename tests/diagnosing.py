"""Diagnoses of texts, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from trnctl.actions.why import known
from trnctl.diagnose.evidence import Origin
from trnctl.diagnose.judge import Diagnosis, judge
from trnctl.diagnose.scan import Probes, Scanner
from trnctl.diagnose.signatures import Signatures, load_signatures
from trnctl.render import templates

CATALOGUE = Path(__file__).parent / "recorded" / "failures" / "catalogue.yaml"


@cache
def signatures() -> Signatures:
    """All that the package knows, checked."""
    found = load_signatures({name: templates.read(name) for name in templates.names("signatures/")})
    assert found == known()
    return found


@cache
def probes() -> Probes:
    """Their patterns, compiled."""
    return Probes(signatures())


def diagnosed(text: str, facts: Mapping[str, str] | None = None, *, name: str = "saved.log") -> Diagnosis:
    """The diagnosis of one saved text."""
    return diagnosed_all({name: text}, facts)


def diagnosed_all(texts: Mapping[str, str], facts: Mapping[str, str] | None = None) -> Diagnosis:
    """The diagnosis of several, by file name."""
    scanner = Scanner(probes())
    for name, text in texts.items():
        scanner.read([text.encode()], Origin(file=name))
    return judge(scanner.scan, signatures(), facts)


def codes(diagnosis: Diagnosis) -> list[str]:
    """The codes of its findings, in their order."""
    return [finding.code for finding in diagnosis.findings]


def catalogue() -> list[dict[str, Any]]:
    """The recorded messages: case, text, facts, and the code that must come first (`none`: harmless)."""
    return list(yaml.safe_load(CATALOGUE.read_text()))
