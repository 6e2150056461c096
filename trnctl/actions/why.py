"""Why something failed: a saved file, or a stack that did not get there, judged; and what a code means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache

from trnctl.actions.evidence import Saved, ask_cloud_watch, events_of, facts_of, newest, of_fleet, of_head, of_stack
from trnctl.codes import Code, explained
from trnctl.diagnose.evidence import Facts
from trnctl.diagnose.judge import Diagnosis, fill, judge
from trnctl.diagnose.scan import Probes, Scanner
from trnctl.diagnose.signatures import Signature, Signatures, load_signatures
from trnctl.errors import ToolError, TrnctlError
from trnctl.ports import Services
from trnctl.render import templates
from trnctl.specs.cluster import ClusterSpec


@dataclass(frozen=True)
class Answer:
    """What `why` found out: about a run, a cluster or files (`about`), by name. `notes` say what could not be asked."""

    about: str
    name: str
    diagnosis: Diagnosis
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The stable JSON form, without the findings."""
        return {"about": self.about, "name": self.name, "notes": list(self.notes), **self.diagnosis.as_json()}


@cache
def known() -> Signatures:
    """All signatures that the package carries; they are as constant as its code."""
    return load_signatures({name: templates.read(name) for name in templates.names("signatures/")}, check=False)


def judged(saved: Iterable[Saved], facts: Facts, since: str = "") -> Diagnosis:
    """The diagnosis of texts, read one after the other in bounded memory; see `diagnose.judge.judge`."""
    signatures = known()
    scanner = Scanner(Probes(signatures))
    for origin, chunks in saved:
        scanner.read(chunks, origin)
    return judge(scanner.scan, signatures, facts, since)


def why_files(files: Iterable[Saved], name: str, facts: Facts | None = None) -> Answer:
    """Judge saved texts: logs, dumps, scripts."""
    return Answer("file", name, judged(files, facts or {}))


def explain_failure(name: str, verb: str, services: Services, spec: ClusterSpec | None = None) -> ToolError | None:
    """The error for a stack that did not get there, with its cause; None when the evidence does not tell one.

    It never hides the failure that it explains: what cannot be asked is left out.
    """
    try:
        seen, events = services.cloud.observe(name), events_of(name, services)
        sent, _ = ask_cloud_watch(name, services, seen, events, newest(name, events)[0].at if events else None)
        saved = [*of_stack(name, replace(seen, stack=None), events), *of_fleet(seen), *of_head(sent)]
        findings = judged(saved, facts_of(services, spec, seen)).findings
    except TrnctlError:
        return None
    if not findings:
        return None
    first = findings[0]
    return ToolError(
        f"{name} could not be {verb}: {lower(first.message)}",
        remedy=f"{first.remedy} Then run this command again; trnctl cluster events --cluster {name} lists everything.",
        findings=findings[:1],
    )


def lower(sentence: str) -> str:
    """A sentence as it reads behind a colon; names in capitals stay."""
    first = sentence.split(" ", 1)[0]
    lowered = sentence[:1].lower() + sentence[1:] if first[1:].islower() or len(first) == 1 else sentence
    return lowered.rstrip(".")


# ------------------------------------------------------------------------------------------------ codes


@dataclass(frozen=True)
class Explanation:
    """What a code means. `signature` is how it is recognised, None for codes that come from checks alone."""

    code: str
    level: str
    meaning: str
    remedy: str
    signature: Signature | None = None


def why_code(code: str) -> Explanation | None:
    """What a finding's code means; None when there is no such code."""
    row, signature = explained(code), known().by_code().get(code)
    if signature is None:
        return None if row is None else _of_row(row)
    meaning = f"{fill(signature.message, {})} {fill(signature.cause, {})}".replace("?", "…")
    meaning = f"{row.meaning} {fill(signature.cause, {})}" if row else meaning
    remedy = fill(signature.remedy, {}).replace("?", "…")
    return Explanation(code, signature.level, meaning.strip(), remedy or "Nothing needs to be done.", signature)


def near_codes(code: str) -> list[str]:
    """Codes that look like it."""
    from trnctl.codes import CODES

    return get_close_matches(code, [*CODES, *known().by_code()], n=3, cutoff=0.75)


def _of_row(row: Code) -> Explanation:
    return Explanation(row.code, row.level, row.meaning, row.remedy)
