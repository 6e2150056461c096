"""What was hit, weighed against the rest: causes before symptoms, victims left out, each thing said once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trnctl.diagnose.conditions import holds
from trnctl.diagnose.evidence import Evidence, Facts, Hit, Seen
from trnctl.diagnose.scan import Scan
from trnctl.diagnose.signatures import Confidence, Signature, Signatures
from trnctl.findings import Finding

_LEVELS = {"error": 0, "warning": 1, "info": 2}
_KINDS = {"cause": 0, "symptom": 1, "fallback": 2, "benign": 3}
_CONFIDENCE: tuple[Confidence, ...] = ("high", "medium", "low")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_MOST_NODES = 6
_MOST_UNEXPLAINED = 3
_GO_ON = frozenset({"clustermgtd", "slurm-resume", "slurmctld", "compute-console"})
_OF_THE_JOB = frozenset({"job-log", "kernel"})


@dataclass(frozen=True)
class Diagnosis:
    """What the evidence says. `harmless` are lines that look bad and are not; `seen` is what was looked at.

    `unexplained` are the first lines that speak of an error, where no finding does: nobody knows what they mean.
    """

    findings: tuple[Finding, ...]
    harmless: tuple[Finding, ...] = ()
    unexplained: tuple[Evidence, ...] = ()
    seen: tuple[Seen, ...] = ()
    facts: Facts = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """The stable JSON form, without the findings."""
        return {
            "harmless": [finding.as_json() for finding in self.harmless],
            "unexplained": [
                {"file": one.file, "line": one.line, "evidence": one.text, "source": one.source, "node": one.node}
                for one in self.unexplained
            ],
            "looked_at": [one.as_json() for one in self.seen],
            "facts": dict(self.facts),
        }


@dataclass(frozen=True)
class _Case:
    """A signature that applies, with its hits; `met` counts the expectations that are known to hold."""

    signature: Signature
    hits: tuple[Hit, ...]
    confidence: Confidence
    met: int

    @property
    def order(self) -> tuple[object, ...]:
        """The worst first, then the surest, then the earliest."""
        first = self.hits[0].evidence
        return (
            _KINDS[self.signature.kind],
            _LEVELS[self.signature.level],
            _CONFIDENCE.index(self.confidence),
            # What a run itself has said, then what is now, then what daemons wrote at some time.
            first.source not in _OF_THE_JOB,
            first.source in _GO_ON,
            -self.met,
            first.at or "9",
            first.line or 0,
            self.signature.code,
        )


def judge(scan: Scan, known: Signatures, facts: Facts | None = None, since: str = "") -> Diagnosis:
    """The findings of everything that was scanned. `facts` are known besides, and win over what the text says.

    Lines of daemons that go on for months count only from `since` on (`2026-10-01T09:12:01`, in the nodes' UTC).
    """
    found = Hits(scan, since)
    facts = {**found.facts(), **(facts or {})}
    benign = [case for case in _cases(known, found, facts, frozenset()) if case.signature.kind == "benign"]
    harmless = frozenset(_place(hit.evidence) for case in benign for hit in case.hits)
    cases = [case for case in _cases(known, found, facts, harmless) if case.signature.kind != "benign"]
    kept = sorted(_without_victims(_best_of_rivals(cases)), key=lambda case: case.order)
    findings = [finding for case in kept for finding in _findings(case, facts)]
    noise = [_finding(case, case.hits, facts) for case in benign]
    said = any(finding.level != "info" for finding in findings)
    unexplained = [] if said else [one for one in found.loud() if _place(one) not in harmless][:_MOST_UNEXPLAINED]
    return Diagnosis(tuple(findings), tuple(noise), tuple(unexplained), tuple(scan.seen), facts)


class Hits:
    """The hits of a scan, by who asked for them."""

    def __init__(self, scan: Scan, since: str = "") -> None:
        self._found: dict[tuple[str, str, int], list[Hit]] = {}
        for number, hits in scan.hits.items():
            probe = scan.probes[number]
            recent = [hit for hit in hits if not _is_past(hit.evidence, since)]
            self._found.setdefault((probe.owner, probe.role, probe.index), []).extend(recent)

    def of(self, owner: str, role: str, index: int) -> list[Hit]:
        """The hits of one pattern."""
        return self._found.get((owner, role, index), [])

    def loud(self) -> list[Evidence]:
        """Lines that speak of an error, each once, the earliest first."""
        lines = {
            _place(hit.evidence): hit.evidence
            for (_, role, _), hits in self._found.items()
            if role == "loud"
            for hit in hits
        }
        return sorted(lines.values(), key=lambda one: (one.at or "9", one.file, one.line or 0))

    def facts(self) -> dict[str, str]:
        """What the text itself says: of several values the first."""
        found: dict[str, str] = {}
        for (owner, role, _), hits in sorted(self._found.items()):
            if role == "fact" and hits:
                found.setdefault(owner, hits[0].groups.get("value", "yes"))
        return found


def _is_past(evidence: Evidence, since: str) -> bool:
    """Whether a daemon wrote the line before the time that counts."""
    return evidence.source in _GO_ON and bool(evidence.at) and evidence.at < since[: len(evidence.at)]


def _cases(known: Signatures, found: Hits, facts: Facts, harmless: frozenset[object]) -> list[_Case]:
    cases = []
    for signature in known.signatures:
        hits = _hits(signature, found, harmless)
        if not hits or not _context_fits(signature, found, facts):
            continue
        expectations = [holds(want, facts[fact]) for fact, want in signature.expects.items() if fact in facts]
        if not all(expectations):
            continue
        unknown = len(signature.expects) - len(expectations)
        step = min(len(_CONFIDENCE) - 1, _CONFIDENCE.index(signature.confidence) + (unknown > 0))
        cases.append(_Case(signature, hits, _CONFIDENCE[step], len(expectations)))
    return cases


def _hits(signature: Signature, found: Hits, harmless: frozenset[object]) -> tuple[Hit, ...]:
    hits = [hit for index in range(len(signature.patterns)) for hit in found.of(signature.code, "pattern", index)]
    hits = [hit for hit in hits if _place(hit.evidence) not in harmless]
    return tuple(sorted(hits, key=lambda hit: (hit.evidence.at or "9", hit.evidence.file, hit.evidence.line or 0)))


def _context_fits(signature: Signature, found: Hits, facts: Facts) -> bool:
    """Whether what must stand beside it is there, what must not is not, and the facts that it needs are known."""
    return (
        all(found.of(signature.code, "also", index) for index in range(len(signature.also)))
        and not any(found.of(signature.code, "without", index) for index in range(len(signature.without)))
        and all(fact in facts and holds(want, facts[fact]) for fact, want in signature.requires.items())
    )


def _place(evidence: Evidence) -> object:
    return evidence.file, evidence.line, evidence.text if evidence.line is None else ""


def _best_of_rivals(cases: Iterable[_Case]) -> list[_Case]:
    """Of the signatures that explain the same line in different ways, those whose expectations hold best."""
    listed = list(cases)
    best: dict[str, int] = {}
    for case in listed:
        if case.signature.rivals:
            best[case.signature.rivals] = max(best.get(case.signature.rivals, 0), case.met)
    return [case for case in listed if case.met >= best.get(case.signature.rivals, 0)]


def _without_victims(cases: Sequence[_Case]) -> list[_Case]:
    """Without what another finding explains, and without fallbacks where anything better was found."""
    codes = {case.signature.code for case in cases}
    kept = [case for case in cases if not codes.intersection(case.signature.explained_by)]
    better = [case for case in kept if case.signature.kind != "fallback" and case.signature.level != "info"]
    return [case for case in kept if case.signature.kind != "fallback" or not better]


def _findings(case: _Case, facts: Facts) -> list[Finding]:
    if not case.signature.each_node:
        return [_finding(case, case.hits, facts)]
    by_node: dict[str, list[Hit]] = {}
    for hit in case.hits:
        by_node.setdefault(hit.evidence.node, []).append(hit)
    if len(by_node) == 2 and "" in by_node:  # what names no node is of the only one that is named
        return [_finding(case, case.hits[-1:] if case.signature.newest else case.hits, facts)]
    return [_finding(case, hits[-1:] if case.signature.newest else hits, facts) for hits in by_node.values()]


def _finding(case: _Case, hits: Sequence[Hit], facts: Facts) -> Finding:
    signature, first = case.signature, hits[0].evidence
    nodes = list(dict.fromkeys(hit.evidence.node for hit in hits if hit.evidence.node))
    groups: dict[str, str] = {}
    for hit in hits:
        for name, value in hit.groups.items():
            groups.setdefault(name, value)
    words = {**facts, **groups, "node": nodes[0] if nodes else "", "nodes": _listed(nodes)}
    remedy = fill(signature.remedy, words)
    if signature.look:
        remedy = f"{remedy} Look at: {'; '.join(signature.look)}."
    return Finding(
        code=signature.code,
        level=signature.level,
        message=fill(signature.message, words),
        remedy=remedy,
        line=first.line,
        file=first.file,
        evidence=first.text,
        cause=fill(signature.cause, words),
        confidence=case.confidence,
        node=_listed(nodes),
        source=first.source,
    )


def _listed(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
    return ", ".join(nodes[:_MOST_NODES]) + more


def fill(text: str, words: Mapping[str, str]) -> str:
    """The text with its {names} filled in; a part in brackets is left out when one of its names is unknown."""

    def optional(found: re.Match[str]) -> str:
        names = re.findall(r"\{(\w+)\}", found[1])
        return _filled(found[1], words) if all(words.get(name) for name in names) else ""

    return " ".join(_filled(_OPTIONAL.sub(optional, text), words).split())


def _filled(text: str, words: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: words.get(found[1]) or "?", text)
