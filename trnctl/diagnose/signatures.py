"""What is known of failures, read from data: one YAML file a family, each signature with the examples that test it.

    family: capacity
    signatures:
      - code: insufficient-capacity     # kebab-case, never used for anything else
        level: error                    # error | warning | info
        kind: cause                     # cause | symptom | fallback | benign: see below
        confidence: high                # high | medium | low
        patterns: ['…']                 # regular expressions, without case; any of them is a hit
        also: ['…']                     # each of these must stand somewhere in the evidence too
        without: ['…']                  # none of these may
        sources: [sbatch-script]        # only files of these kinds (`kinds.SOURCES`)
        requires: {nodes: '>1'}         # facts that must be known and hold
        expects: {version: '<3.11'}     # facts that must not be known otherwise; unknown ones cost confidence
        rivals: fsx-security-group      # of the signatures with this word, those stay whose expectations hold best
        explained_by: [invalid-ami]     # dropped when one of these is found: it was their victim
        each_node: true                 # one finding a node instead of one for all
        newest: true                    # the last line tells, as each takes the place of those before it
        message: '{type} is not to be had[ in {az}]'    # {groups}, {facts}, {node}, {nodes}; [left out when unknown]
        cause: '…'
        remedy: '…'
        look: ['…']                     # where to look, when the evidence does not decide
        cases: [F49]                    # numbers in the catalogue of failures
        links: ['…']                    # where it was seen or documented
        examples: ['…', {text: '…', facts: {nodes: '4'}}]
        counterexamples: ['…']

A cause stands for itself. A symptom has several causes: one of `explained_by` replaces it, else it is told as undecided
with `look`. A fallback is told only when nothing else is found. A benign line is harmless, and no other signature
sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from trnctl.diagnose.conditions import check_condition
from trnctl.diagnose.kinds import SOURCES
from trnctl.diagnose.literals import pieces
from trnctl.findings import Level

Confidence = Literal["high", "medium", "low"]
Kind = Literal["cause", "symptom", "fallback", "benign"]
_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_WORDS = {"level": ("error", "warning", "info"), "kind": ("cause", "symptom", "fallback", "benign"),
          "confidence": ("high", "medium", "low")}  # fmt: skip
_TUPLES = ("patterns", "also", "without", "sources", "explained_by", "look", "cases", "links")


@dataclass(frozen=True)
class Example:
    """A text that must, or must not, bring a signature's code; `facts` are known besides."""

    text: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Signature:
    """One failure that can be recognised; the module's docstring says what each field means."""

    code: str
    family: str
    message: str
    remedy: str
    patterns: tuple[str, ...]
    examples: tuple[Example, ...]
    counterexamples: tuple[Example, ...]
    level: Level = "error"
    kind: Kind = "cause"
    confidence: Confidence = "high"
    also: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    requires: Mapping[str, str] = field(default_factory=dict)
    expects: Mapping[str, str] = field(default_factory=dict)
    rivals: str = ""
    explained_by: tuple[str, ...] = ()
    each_node: bool = False
    newest: bool = False
    cause: str = ""
    look: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


@dataclass(frozen=True)
class FactPattern:
    """How a fact stands in a text: the group `value`, or `yes` where there is no group."""

    fact: str
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class Signatures:
    """All that is known, in the order of the files. `loud` are patterns of lines that speak of an error at all; they
    are shown where nothing is known."""

    signatures: tuple[Signature, ...]
    facts: tuple[FactPattern, ...]
    loud: tuple[str, ...] = ()

    def by_code(self) -> dict[str, Signature]:
        """Each signature by its code."""
        return {signature.code: signature for signature in self.signatures}


def load_signatures(texts: Mapping[str, str], *, check: bool = True) -> Signatures:
    """From the texts of the YAML files by name. ValueError names the file and what is wrong in it.

    A signature without an example and a counterexample is refused: nobody could tell whether it works. The package's
    own files are checked by its tests; to check them at each start would double the time to load them.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    signatures: list[Signature] = []
    facts: list[FactPattern] = []
    loud: list[str] = []
    for name, text in sorted(texts.items()):
        content = yaml.load(text, Loader=loader)  # noqa: S506  # it is the safe loader, in C where that was built
        family = str(content["family"])
        facts += [FactPattern(str(one["fact"]), _strings(one["patterns"])) for one in content.get("facts", ())]
        loud += _strings(content.get("loud", []))
        for entry in content.get("signatures", ()):
            try:
                signatures.append(_signature(entry, family, check))
            except (KeyError, TypeError, ValueError, re.error) as error:
                raise ValueError(f"{name}: {entry.get('code', entry)}: {error}") from error
    if check:
        _check_whole(signatures)
    return Signatures(tuple(signatures), tuple(facts), tuple(loud))


def _signature(entry: Mapping[str, Any], family: str, check: bool) -> Signature:
    values: dict[str, Any] = dict(entry)
    unknown = set(values) - set(Signature.__dataclass_fields__)
    if unknown:
        raise ValueError(f"unknown keys {', '.join(sorted(unknown))}")
    values.update({name: _strings(values[name]) for name in _TUPLES if name in values})
    for name in ("requires", "expects"):
        values[name] = {str(fact): str(condition) for fact, condition in values.get(name, {}).items()}
    for name in ("examples", "counterexamples"):
        values[name] = tuple(_example(one) for one in values.get(name, ()))
        if not values[name]:
            raise ValueError(f"it has no {name}")
    found = Signature(family=family, **values)
    if check:
        _check(found)
    return found


def _check(signature: Signature) -> None:
    if not _CODE.fullmatch(signature.code):
        raise ValueError("its code is not kebab-case")
    for name, words in _WORDS.items():
        if getattr(signature, name) not in words:
            raise ValueError(f"{name} is none of {', '.join(words)}")
    if not signature.patterns or not signature.message:
        raise ValueError("it needs patterns and a message")
    if signature.kind != "benign" and not (signature.remedy and signature.cause and signature.cases + signature.links):
        raise ValueError("it needs a cause, a remedy, and cases or links")
    if signature.kind == "symptom" and not signature.look:
        raise ValueError("a symptom says where to look")
    if strange := set(signature.sources) - set(SOURCES):
        raise ValueError(f"unknown sources {', '.join(sorted(strange))}")
    for pattern in (*signature.patterns, *signature.also, *signature.without):
        re.compile(pattern)
        pieces(pattern)
    for condition in (*signature.requires.values(), *signature.expects.values()):
        check_condition(condition)


def _check_whole(signatures: Iterable[Signature]) -> None:
    codes = [signature.code for signature in signatures]
    twice = sorted({code for code in codes if codes.count(code) > 1})
    if twice:
        raise ValueError(f"used twice: {', '.join(twice)}")
    for signature in signatures:
        if missing := sorted(set(signature.explained_by) - set(codes)):
            raise ValueError(f"{signature.code} is explained by {', '.join(missing)}, which nothing has")


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{value!r} is not a list of texts")
    return tuple(cast("list[str]", value))


def _example(value: object) -> Example:
    if isinstance(value, str):
        return Example(value)
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        return Example(value["text"], {str(key): str(fact) for key, fact in value.get("facts", {}).items()})
    raise ValueError(f"{value!r} is no example")
