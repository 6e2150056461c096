"""Every signature is tried on its own examples, and the loader refuses what could not be tried."""

from __future__ import annotations

import pytest

from tests.diagnosing import codes, diagnosed, signatures
from trnctl.diagnose.judge import Diagnosis
from trnctl.diagnose.literals import pieces, shape
from trnctl.diagnose.signatures import Example, Signature, load_signatures

KNOWN = signatures().signatures
EXAMPLES = [(one, example) for one in KNOWN for example in one.examples]
COUNTEREXAMPLES = [(one, example) for one in KNOWN for example in one.counterexamples]
# The cases of the catalogue that show as a message when a cluster is made, run or removed.
CASES = (
    45, 47, 48, 49, 50, 52, 54, 55, 56, 57, 59, 60, 61, 64, 65, 66, 68, 69, 70, 71, 72, 74, 77, 78, 80, 81, 82, 85,
    86, 88, 89, 91, 92, 94, 95, 96, 98, 99, 100, 102, 103, 104, 106, 107, 109, 110, 112, 114, 115, 117, 119, 121,
    122, 125, 127, 129, 131, 132,
)  # fmt: skip


def named(case: tuple[Signature, Example]) -> str:
    """A name for pytest's report."""
    return f"{case[0].code}-{case[0].examples.index(case[1]) if case[1] in case[0].examples else 'counter'}"


def everything(diagnosis: Diagnosis) -> str:
    """All that a person would read of it."""
    return " ".join(f"{one.message} {one.remedy} {one.cause}" for one in diagnosis.findings)


@pytest.mark.parametrize("case", EXAMPLES, ids=named)
def test_a_signature_is_first_on_its_examples(case: tuple[Signature, Example]) -> None:
    signature, example = case
    found = diagnosed(example.text, example.facts)
    if signature.kind == "benign":
        assert signature.code in [one.code for one in found.harmless]
        assert found.findings == ()
        return
    assert codes(found)[0] == signature.code
    assert found.findings[0].evidence, "a finding quotes what led to it"
    assert "?" not in everything(found), "a word was left open"


@pytest.mark.parametrize("case", COUNTEREXAMPLES, ids=named)
def test_a_signature_is_silent_on_its_counterexamples(case: tuple[Signature, Example]) -> None:
    signature, example = case
    found = diagnosed(example.text, example.facts)
    assert signature.code not in [one.code for one in (*found.findings, *found.harmless)]


@pytest.mark.parametrize("case", EXAMPLES, ids=named)
def test_what_is_looked_for_first_stands_in_what_a_pattern_matches(case: tuple[Signature, Example]) -> None:
    signature, example = case
    together = shape(example.text.replace("\n", " ").encode())
    assert any(piece in together for pattern in signature.patterns for piece in pieces(pattern))


def test_every_case_that_shows_as_a_message_has_a_signature() -> None:
    covered = {case for signature in KNOWN for case in signature.cases}
    assert [number for number in CASES if f"F{number}" not in covered] == []


def test_what_names_a_cause_says_where_it_was_seen() -> None:
    assert [one.code for one in KNOWN if one.kind != "benign" and not one.links] == []


GOOD = """
family: made
signatures:
  - code: made-up
    patterns: ['quite a message']
    message: It happened.
    cause: Because.
    remedy: Do this.
    links: ['https://example.com']
    examples: [quite a message]
    counterexamples: [another message]
"""


def test_a_good_file_is_read() -> None:
    (signature,) = load_signatures({"made.yaml": GOOD}).signatures
    assert (signature.code, signature.family, signature.level, signature.kind) == ("made-up", "made", "error", "cause")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("    examples: [quite a message]\n", "", "it has no examples"),
        ("    counterexamples: [another message]\n", "", "it has no counterexamples"),
        ("made-up", "Made_Up", "kebab-case"),
        ("quite a message'", "a (message'", "unterminated|missing|parenthesis"),
        ("['quite a message']", "['[a-z]+ [0-9]']", "no plain piece"),
        ("    cause: Because.\n", "", "it needs a cause"),
        ("    links: ['https://example.com']\n", "", "it needs a cause"),
        ("    message:", "    kind: symptom\n    message:", "a symptom says where to look"),
        ("    message:", "    level: fatal\n    message:", "level is none of"),
        ("    message:", "    explained_by: [no-such-code]\n    message:", "which nothing has"),
        ("    message:", "    requires: {nodes: 'more than 1'}\n    message:", "is no condition"),
        ("    message:", "    sources: [diary]\n    message:", "unknown sources diary"),
        ("    message:", "    colour: red\n    message:", "unknown keys colour"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused(old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    with pytest.raises(ValueError, match=complaint):
        load_signatures({"made.yaml": GOOD.replace(old, new, 1)})


def test_a_code_stands_once() -> None:
    with pytest.raises(ValueError, match="used twice: made-up"):
        load_signatures({"made.yaml": GOOD, "other.yaml": GOOD})
