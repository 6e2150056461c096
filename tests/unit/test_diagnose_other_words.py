"""Failures in other words than the catalogue's, harmless lines, and the ones in the midst of the others."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import yaml

from tests.diagnosing import CATALOGUE, codes, diagnosed

OTHERS: list[dict[str, Any]] = yaml.safe_load((CATALOGUE.parent / "other_words.yaml").read_text())
SEEN: list[dict[str, Any]] = yaml.safe_load((CATALOGUE.parent / "seen.yaml").read_text())
HARMLESS: list[str] = yaml.safe_load((CATALOGUE.parent / "harmless.yaml").read_text())
# Words that decide between causes, and those that are told only where nothing else is wrong: not to be mixed at random.
DECIDING = (
    "Waiting for static fleet capacity", "No candidate found", "retrieve compute node info", "Call compiler",
    "Compiler status PASS", "not responding, still trying",
)  # fmt: skip


def found(entry: dict[str, Any], text: str = "") -> list[str]:
    """The codes of an entry, or of another text with its facts."""
    return codes(diagnosed(text or entry["text"], {name: str(one) for name, one in entry.get("facts", {}).items()}))


def test_other_words_have_their_code_and_harmless_ones_none(capsys: pytest.CaptureFixture[str]) -> None:
    """Precision counts every finding, not only the first."""
    missed, right, more = [], 0, 0
    for entry in (*OTHERS, *SEEN):
        codes_found = found(entry)
        if codes_found[:1] != [entry["code"]]:
            missed.append((entry["code"], codes_found, entry["text"][:80]))
        right += entry["code"] in codes_found
        more += len(set(codes_found) - {entry["code"]})
    alarms = [(codes_found, line[:80]) for line in HARMLESS if (codes_found := codes(diagnosed(line)))]
    precision = right / (right + more + len(alarms))
    with capsys.disabled():
        print(
            f"\n{len(OTHERS)} messages in other words, {len(SEEN)} of other clusters, {len(HARMLESS)} harmless: "
            f"precision {precision:.3f}, recall {right / (len(OTHERS) + len(SEEN)):.3f}"
        )
    assert missed == []
    assert alarms == []
    assert precision > 0.95


def test_a_failure_is_found_among_hundreds_of_harmless_lines() -> None:
    noise = [line for text in HARMLESS for line in text.split("\n") if not any(word in line for word in DECIDING)]
    dice = random.Random(7)  # noqa: S311  # no secret hangs on it
    wrong = []
    for entry in dice.sample([one for one in OTHERS if not one["text"].startswith(("{", "["))], 40):
        before, after = dice.choices(noise, k=250), dice.choices(noise, k=250)
        codes_found = found(entry, "\n".join([*before, entry["text"], *after]))
        if codes_found[:1] != [entry["code"]]:
            wrong.append((entry["code"], codes_found))
    assert wrong == []


EVENTS = (
    ("demo", "AWS::CloudFormation::Stack", "CREATE_IN_PROGRESS", "User Initiated", "2026-10-01T09:00:00+00:00"),
    ("HeadNodeENI", "AWS::EC2::NetworkInterface", "CREATE_COMPLETE", "", "2026-10-01T09:01:00+00:00"),
    ("X1", "TYPE", "CREATE_FAILED", "REASON", "2026-10-01T09:02:00+00:00"),
    ("FSX1", "AWS::FSx::FileSystem", "CREATE_FAILED", "Resource creation cancelled", "2026-10-01T09:02:01+00:00"),
    (
        "demo", "AWS::CloudFormation::Stack", "ROLLBACK_IN_PROGRESS",
        "The following resource(s) failed to create: [X1, FSX1].", "2026-10-01T09:02:02+00:00",
    ),
)  # fmt: skip
NAMES = ("LogicalResourceId", "ResourceType", "ResourceStatus", "ResourceStatusReason", "Timestamp")
REASONS = [
    ("AWS::EC2::EIP", "The maximum number of addresses has been reached. (Service: Ec2)", "eip-limit"),
    (
        "AWS::IAM::Role",
        "User: arn:aws:iam::1:user/jo is not authorized to perform: iam:CreateRole",
        "permission-denied",
    ),
    ("AWS::Route53::HostedZone", "A conflicting domain is already associated with the VPC", "stack-resource-failed"),
]


def events(kind: str, reason: str) -> list[dict[str, str]]:
    """The events of a creation that failed with that reason, the newest first, as AWS lists them."""
    filled = [[part.replace("TYPE", kind).replace("REASON", reason) for part in event] for event in EVENTS]
    return [{name: part for name, part in zip(NAMES, event, strict=True) if part} for event in reversed(filled)]


def _lowered(row: dict[str, str]) -> dict[str, str]:
    return {name[0].lower() + name[1:]: part for name, part in row.items()}


FORMS = {
    "json": lambda rows: json.dumps({"StackEvents": rows}, indent=4),
    "pcluster": lambda rows: json.dumps({"events": [_lowered(row) for row in rows]}),
    "yaml": lambda rows: yaml.safe_dump({"StackEvents": rows}),
    "json lines": lambda rows: "\n".join(map(json.dumps, rows)),
    "text": lambda rows: "\n".join(
        "STACKEVENTS\te1\t{LogicalResourceId}\t\t{ResourceStatus}\t{0}\t{ResourceType}\tarn\tdemo\t{Timestamp}".format(
            row.get("ResourceStatusReason", ""), **{name: row[name] for name in NAMES if name in row}
        )
        for row in rows
    ),
    "table": lambda rows: "\n".join(f"|  {'  |  '.join(row.get(name, 'None') for name in NAMES)}  |" for row in rows),
    "query": lambda rows: json.dumps([[row.get(name) for name in (NAMES[4], *NAMES[:1], *NAMES[2:4])] for row in rows]),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kind", "reason", "code"), REASONS, ids=[row[2] for row in REASONS])
def test_events_are_read_in_every_form_that_tools_print(form: str, kind: str, reason: str, code: str) -> None:
    assert codes(diagnosed(FORMS[form](events(kind, reason)))) == [code]
