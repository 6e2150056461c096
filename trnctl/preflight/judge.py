"""The verdict on a configuration: a text in, all findings out, as far as the text alone tells."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from trnctl.errors import UsageError
from trnctl.findings import Finding
from trnctl.preflight import (
    rules_actions,
    rules_cluster,
    rules_fabric,
    rules_queues,
    rules_references,
    rules_storage,
    rules_types,
    rules_volumes,
)
from trnctl.preflight.config import Config
from trnctl.preflight.foreign import of_another_kind, of_version_2, template_of, within_another_text
from trnctl.preflight.place import Place
from trnctl.preflight.reading import SchemaCheck
from trnctl.preflight.report import Report
from trnctl.preflight.schema import version_of
from trnctl.preflight.unfilled import settled
from trnctl.specs.nodes import Entries, Node, parse

Rule = Callable[[Config, Report], None]
RULES: tuple[Rule, ...] = (
    *rules_cluster.RULES,
    *rules_queues.RULES,
    *rules_types.RULES,
    *rules_fabric.RULES,
    *rules_storage.RULES,
    *rules_volumes.RULES,
    *rules_actions.RULES,
    *rules_references.RULES,
)
DEFAULT_VERSION = "3.16.1"


@dataclass(frozen=True)
class Verdict:
    """What was found. `checks` is the number of rules that ran; `config` is None when the text could not be read."""

    findings: tuple[Finding, ...]
    checks: int
    config: Config | None


def judge(text: str, file: str, *, version: str = DEFAULT_VERSION, cluster: str = "") -> Verdict:
    """All findings on the text of a ParallelCluster configuration. `file` is only named in them; `cluster` is the name
    that the cluster will have, where it is known; `version` is ParallelCluster's.

    ValueError when `version` is no version.
    """
    wanted = version_of(version)
    root, early = _root(text, file)
    if root is not None and (foreign := of_another_kind(root, file)):
        return Verdict((foreign,), 1, None)
    if root is None:
        return Verdict(tuple(early), 1, None)
    release = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    config = Config(root, wanted, release, cluster)
    report = Report(file, early)
    SchemaCheck(report, wanted).run(root)
    for rule in RULES:
        rule(config, report)
    return Verdict(tuple(_once(settled(report.findings))), len(RULES) + 1, config)


def _root(text: str, file: str) -> tuple[Place | None, list[Finding]]:
    """The outermost mapping, or what is wrong with the text as a whole."""
    try:
        node, findings = parse(text, file)
    except UsageError as error:
        other = of_version_2(text, file) or template_of(text, file) or within_another_text(text, file)
        return None, [other] if other else list(error.findings)
    if any(finding.code == "key-not-text" for finding in findings) and (template := template_of(text, file)):
        return None, [template]
    if isinstance(node, Entries):
        return Place("", node.line, node.column, node), findings
    return None, [_no_mapping(node, file)]


def _no_mapping(node: Node | None, file: str) -> Finding:
    if node is None:
        return Finding("file-empty", "error", "The file is empty", "Write a ParallelCluster configuration.", file=file)
    remedy = "Begin it with a key, as in `Image:`."
    return Finding("wrong-type", "error", "The file has no keys with values", remedy, file=file, line=node.line)


def _once(findings: list[Finding]) -> list[Finding]:
    """Findings in the file's order, each once."""
    return sorted(dict.fromkeys(findings), key=lambda finding: (finding.line or 0, finding.column or 0, finding.code))
