"""What the runs of a cluster tell of scaling: a study's report, a workload's, or the curve of one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from trnctl.actions.mirror import Mirror, all_records
from trnctl.actions.runs import OpenCluster
from trnctl.actions.study_records import claims_of, curve_points, listing, mapping, published_of, trial_of
from trnctl.errors import NotFoundError, UsageError
from trnctl.findings import Finding
from trnctl.plan.scaling import DEFINITIONS, Point, Series, newest_each, series_of
from trnctl.plan.trials import MISSING, Basis, Claim, Trial
from trnctl.ports import Job, QueuePicture, RunRecord
from trnctl.specs.workload import Scaling


@dataclass(frozen=True)
class Report:
    """A study, or all runs of a workload. `emulated` is the notice of what is not AWS, '' where all is."""

    name: str
    workload: str
    title: str
    unit: str
    cluster: str
    series: tuple[Series, ...]
    findings: tuple[Finding, ...] = ()
    claims: tuple[Claim, ...] = ()
    emulated: str = ""
    price_source: str = ""
    epoch: float | None = None

    @property
    def basis(self) -> Basis:
        """The ground of its rates, for the title of a chart."""
        return "emulated" if self.emulated else "measured"

    @property
    def headline(self) -> str:
        """What the chart shows, in one line, with its ground."""
        kinds = " and ".join(dict.fromkeys(series.scaling for series in self.series))
        types = ", ".join(dict.fromkeys(series.instance_type for series in self.series if series.instance_type))
        where = f" on {types}" if types else ""
        return f"{self.workload}: {kinds} scaling{where} — {self.basis.upper() if self.emulated else self.basis}"

    def judged_claims(self) -> list[tuple[Claim, Point]]:
        """What others say of the length of the training, beside the point of as many nodes."""
        points = [point for series in self.series if series.scaling == "strong" for point in series.counted]
        return [(claim, point) for claim in self.claims for point in points if claim.nodes == point.nodes]

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {
            "kind": "study", "name": self.name, "workload": self.workload, "title": self.title,
            "headline": self.headline, "cluster": self.cluster, "basis": self.basis, "notice": self.emulated,
            "unit": self.unit, "series": [series.as_json() for series in self.series],
            "claims": [
                {
                    "nodes": claim.nodes, "hours_under": claim.hours_under, "source": claim.source,
                    "time_to_train_hours": point.hours.as_json(), "holds": point.hours.value < claim.hours_under,
                }
                for claim, point in self.judged_claims() if point.hours
            ],
            "definitions": dict(DEFINITIONS), "price_source": self.price_source, "epoch_sequences": self.epoch,
            "findings": [finding.as_json() for finding in self.findings],
        }  # fmt: skip


@dataclass(frozen=True)
class Curve:
    """Loss and throughput of one run by step, thinned to some hundred; None where a step told none."""

    run: str
    workload: str
    unit: str
    state: str
    nodes: int
    instance_type: str
    points: tuple[tuple[int, float | None, float | None], ...]
    emulated: str = ""
    steps: int | None = None

    @property
    def basis(self) -> Basis:
        """The ground of its figures."""
        return "emulated" if self.emulated else "measured"

    @property
    def headline(self) -> str:
        """What the chart shows, in one line, with its ground."""
        where = f"{self.nodes} × {self.instance_type}"
        return f"{self.run}: {self.workload} on {where} — {self.basis.upper() if self.emulated else self.basis}"

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {
            "kind": "run", "run": self.run, "workload": self.workload, "headline": self.headline, "state": self.state,
            "nodes": self.nodes, "instance_type": self.instance_type, "basis": self.basis, "notice": self.emulated,
            "unit": self.unit, "steps": self.steps,
            "curve": [{"step": step, "loss": loss, "throughput": rate} for step, loss, rate in self.points],
        }  # fmt: skip


def report(
    opened: OpenCluster, wanted: str | None = None, *, epoch: float | None = None
) -> tuple[Report | Curve, Mirror | None]:
    """What is asked for by name: a study, a workload or a run; without a name, the newest study. The mirror comes
    along when the runs were read in the bucket. NotFoundError lists what there is."""
    picture, mirror = all_records(opened)
    return report_of(picture, wanted, cluster=opened.cluster, epoch=epoch), mirror


def report_of(
    picture: QueuePicture, wanted: str | None, *, cluster: str = "", epoch: float | None = None
) -> Report | Curve:
    """The same, of records that are at hand."""
    look = _Look({job.id: job for job in picture.jobs}, cluster, epoch)
    studies = known_studies(picture.runs)
    name = wanted or next(iter(studies), None)
    if name in studies:
        return _of_study(name, studies[name], look)
    runs = [record for record in picture.runs if record.manifest.get("workload") == name]
    if runs:
        return _of_workload(str(name), runs, look)
    matches = [one for one in picture.runs if name and (one.run == name or one.run.endswith(f"-{name}"))]
    exact = [one for one in matches if one.run == name] or matches
    if len(exact) == 1:
        return curve_of(exact[0], look.jobs)
    if exact:
        raise UsageError(f"{name} could be {' or '.join(one.run for one in exact)}", remedy="give the whole name")
    there = ", ".join([*studies, *dict.fromkeys(str(one.manifest.get("workload")) for one in picture.runs)][:8])
    what = f"no study, workload or run {name}" if name else "no study yet"
    making = "trnctl study run WORKLOAD --nodes 1,2,4,8,16 makes a study"
    raise NotFoundError(
        f"{cluster or 'the cluster'} has {what}",
        remedy=f"name what there is: {there}; {making}" if there else making,
    )


def known_studies(runs: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    """The runs of each study by its name, the newest study first."""
    found: dict[str, list[RunRecord]] = {}
    for record in sorted(runs, key=lambda one: str(one.manifest.get("submitted_at")), reverse=True):
        name = str(mapping(record.manifest.get("study")).get("name") or "")
        if name:
            found.setdefault(name, []).append(record)
    return found


@dataclass(frozen=True)
class _Look:
    """What a report needs besides the runs."""

    jobs: Mapping[str, Job]
    cluster: str
    epoch: float | None


def _of_study(name: str, runs: Sequence[RunRecord], look: _Look) -> Report:
    """Every point that the study ever asked for, those that were never submitted among them."""
    newest = runs[0].manifest
    scaling: Scaling = "weak" if mapping(newest.get("study")).get("scaling") == "weak" else "strong"
    trials = [replace(trial_of(record, look.jobs), scaling=scaling) for record in runs]
    asked = {int(n) for one in runs for n in listing(mapping(one.manifest.get("study")).get("nodes"))}
    missing = asked - {trial.nodes for trial in trials}
    trials += [Trial(nodes, scaling, "", MISSING) for nodes in sorted(missing)]
    rows = published_of(newest)
    series, findings = series_of(newest_each(trials), scaling=scaling, published=rows, epoch=look.epoch)
    return _report(name, newest, [series], findings, look)


def _of_workload(name: str, runs: Sequence[RunRecord], look: _Look) -> Report:
    """All runs of a workload, one for each number of nodes: a series a scaling and instance type."""
    newest = max(runs, key=lambda one: str(one.manifest.get("submitted_at"))).manifest
    trials = [trial_of(record, look.jobs) for record in runs]
    rows, made, findings = published_of(newest), [], []
    for instance_type in dict.fromkeys(str(trial.settings["instance_type"]) for trial in trials):
        own = [trial for trial in trials if trial.settings["instance_type"] == instance_type]
        kinds = list(dict.fromkeys(trial.scaling for trial in own if trial.nodes > 1)) or [own[0].scaling]
        for scaling in sorted(kinds):
            # On one node strong and weak scaling are the same thing.
            of_kind = [replace(t, scaling=scaling) for t in own if t.scaling == scaling or t.nodes == 1]
            series, found = series_of(newest_each(of_kind), scaling=scaling, published=rows, epoch=look.epoch)
            made.append(series)
            findings += found
    return _report(name, newest, made, findings, look)


def _report(
    name: str, newest: Mapping[str, object], series: Sequence[Series], findings: Sequence[Finding], look: _Look
) -> Report:
    shown = [point.trial for one in series for point in one.points]
    used = [trial for trial in shown if trial.counts]
    emulated = any(trial.basis == "emulated" for trial in used) or (not used and bool(newest.get("notice")))
    return Report(
        name=name,
        workload=str(newest.get("workload") or name),
        title=str(newest.get("title") or ""),
        unit=str(newest.get("unit") or "seq/s"),
        cluster=look.cluster or str(newest.get("cluster") or ""),
        series=tuple(series),
        findings=tuple(findings),
        claims=tuple(claims_of(newest)),
        emulated=str(newest.get("notice") or "emulated") if emulated else "",
        price_source="; ".join(dict.fromkeys(trial.price_source for trial in shown if trial.price_source)),
        epoch=look.epoch,
    )


def curve_of(record: RunRecord, jobs: Mapping[str, Job]) -> Curve:
    """Loss and throughput of one run, as its results tell them."""
    manifest, results, trial = record.manifest, record.results or {}, trial_of(record, jobs)
    return Curve(
        run=record.run,
        workload=str(manifest.get("workload") or ""),
        unit=str(manifest.get("unit") or ""),
        state=trial.state,
        nodes=trial.nodes,
        instance_type=str(manifest.get("instance_type") or ""),
        points=curve_points(results),
        emulated=str(results.get("emulated") or manifest.get("notice") or ""),
        steps=trial.steps,
    )
