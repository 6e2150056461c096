"""Whether runs may be compared: like with like, and what a series of them lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trnctl.findings import Finding
from trnctl.plan.trials import Trial
from trnctl.plan.words import count
from trnctl.specs.workload import Scaling

# What makes two runs another experiment, and what makes them the same one under other conditions.
_MUST = ("workload", "model", "sequence", "instance_type", "unit")
_SHOULD = ("sdk", "script", "commit", "arguments", "layout")


def alike(counted: Sequence[Trial], scaling: Scaling) -> list[Finding]:
    """Errors where runs cannot be compared, so that no speed-up is told; warnings where they can, with care."""
    apart = _differing(counted, _MUST)
    apart += ["measured and emulated"] if len({trial.basis for trial in counted}) > 1 else []
    apart += _batches(counted, scaling)
    findings = []
    if apart:
        findings.append(
            Finding(
                "study-not-alike",
                "error",
                f"The {scaling} runs are not of one experiment ({'; '.join(apart)}): no speed-up is told.",
                "Run the odd ones again with the settings of the others, under the study's name.",
            )
        )
    mixed = _differing(counted, _SHOULD)
    if mixed:
        findings.append(
            Finding(
                "study-mixed-settings",
                "warning",
                f"The {scaling} runs differ in more than nodes ({'; '.join(mixed)}): a part of what the chart shows "
                "may come from that.",
                "Run the odd ones again with one setting before you publish the curve.",
            )
        )
    return findings


def _differing(trials: Sequence[Trial], names: Sequence[str]) -> list[str]:
    """`sdk 2.30.0 on 1, 2.31.1 on 2 4`."""
    told = []
    for name in names:
        values: dict[str, list[int]] = {}
        for trial in trials:
            values.setdefault(_words(trial.settings.get(name)), []).append(trial.nodes)
        if len(values) > 1:
            groups = (f"{value or 'unknown'} on {' '.join(map(str, nodes))}" for value, nodes in values.items())
            told.append(f"{name} {', '.join(groups)}")
    return told


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={inner}" for key, inner in sorted(value.items())) or "none"
    return "" if value is None else str(value)


def _batches(trials: Sequence[Trial], scaling: Scaling) -> list[str]:
    """Strong scaling keeps the global batch, weak scaling that of one node."""
    known = [trial for trial in trials if trial.global_batch]
    share = {trial.nodes: (trial.global_batch or 0) / (trial.nodes if scaling == "weak" else 1) for trial in known}
    if len(set(share.values())) < 2:
        return []
    kept = "global batch" if scaling == "strong" else "batch of one node"
    return [f"{kept} {', '.join(f'{batch:,.0f} on {nodes}' for nodes, batch in share.items())}"]


def shortcomings(trials: Sequence[Trial], counted: Sequence[Trial], scaling: Scaling) -> list[Finding]:
    """What the series lacks."""
    findings = []
    if len(counted) == 1:
        only = count(counted[0].nodes)
        findings.append(
            Finding(
                "study-one-point",
                "info",
                f"Of the {scaling} series only the run on {only} has a rate: one point tells no scaling.",
                "Run more points: trnctl study run takes up where it ended.",
            )
        )
    if len(counted) > 1 and counted[0].nodes > 1:
        findings.append(
            Finding(
                "study-baseline",
                "info",
                f"There is no run on one node: speed-up and efficiency are told against {counted[0].nodes} nodes.",
                "Add 1 to --nodes, if one node can hold the training.",
            )
        )
    lost = [trial for trial in trials if trial.state in {"failed", "node-fail"}]
    if lost:
        where = count(lost[0].nodes) if len(lost) == 1 else f"{', '.join(str(trial.nodes) for trial in lost)} nodes"
        findings.append(
            Finding(
                "study-point-failed",
                "warning",
                f"Failed on {where}: what was printed until then is left out of the curve.",
                f"trnctl why {lost[0].run} says why; trnctl study run goes on with them.",
            )
        )
    return findings
