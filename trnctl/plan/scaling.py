"""What runs tell of how a workload scales: throughput, speed-up, efficiency, time and money, each with its ground.

The definitions, used everywhere in a report (n nodes, n0 the fewest nodes of the series that count):

    rate          sequences (or tokens) a second: the average over the step lines that the run printed
    step time     t(n) = global batch / rate
    speed-up      strong: t(n0) / t(n), the same batch in less time; weak: rate(n) / rate(n0), more in the same time
    efficiency    speed-up / (n / n0); in weak scaling that is the rate of one node against that of one node at n0
    time to train of the sequences of the whole training (the recipe's steps x its global batch), also in weak scaling
    cost          time to train x n x the price of a node and hour; without compiling, the head node and storage
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trnctl.findings import Finding
from trnctl.plan.alike import alike, shortcomings
from trnctl.plan.trials import Basis, Figure, PublishedRow, Trial
from trnctl.specs.workload import Scaling

DEFINITIONS: Mapping[str, str] = {
    "throughput": "the average over the step lines that the run printed",
    "speed_up": "strong: time of a step on the fewest nodes / time of a step; weak: rate / rate on the fewest nodes",
    "efficiency": "speed-up / (nodes / the fewest nodes); weak: the rate of one node against that on the fewest nodes",
    "time_to_train_hours": "of the sequences of the whole training, at this rate; measured where a run did them all",
    "cost_usd": "time to train x nodes x the list price of a node; without compiling, the head node and storage",
}


@dataclass(frozen=True)
class Point:
    """A run in its series, with what follows from the rates of both."""

    trial: Trial
    rate: Figure | None = None
    step_seconds: Figure | None = None
    speed_up: Figure | None = None
    efficiency: Figure | None = None
    hours: Figure | None = None
    cost: Figure | None = None
    cost_per_million: Figure | None = None
    cost_per_epoch: Figure | None = None
    published: PublishedRow | None = None

    @property
    def nodes(self) -> int:
        """How many."""
        return self.trial.nodes

    @property
    def of_published(self) -> float | None:
        """The rate against the published one of as many nodes."""
        return self.rate.value / self.published.rate if self.rate and self.published else None

    def as_json(self) -> dict[str, object]:
        """The stable JSON form: null for what is not known."""
        trial = self.trial
        figures = {
            "throughput": self.rate, "step_seconds": self.step_seconds, "speed_up": self.speed_up,
            "efficiency": self.efficiency, "time_to_train_hours": self.hours, "cost_usd": self.cost,
            "cost_per_million_sequences_usd": self.cost_per_million, "cost_per_epoch_usd": self.cost_per_epoch,
        }  # fmt: skip
        return {
            "nodes": trial.nodes, "run": trial.run or None, "state": trial.state, "reason": trial.reason,
            "counts": trial.counts, "global_batch": trial.global_batch, "steps_done": trial.steps_done,
            "steps": trial.steps, "final_loss": trial.final_loss,
            **{name: figure.as_json() if figure else None for name, figure in figures.items()},
            "published": self.published.as_json() if self.published else None,
            "of_published": self.of_published,
        }  # fmt: skip


@dataclass(frozen=True)
class Series:
    """The points of one kind of scaling on one instance type, by nodes. `base` is what speed-up is told against."""

    scaling: Scaling
    instance_type: str
    points: tuple[Point, ...]
    published: tuple[PublishedRow, ...] = ()
    base: int | None = None

    @property
    def counted(self) -> tuple[Point, ...]:
        """The points whose rates are compared."""
        return tuple(point for point in self.points if point.rate is not None)

    @property
    def basis(self) -> Basis:
        """The ground of its rates."""
        return next((point.rate.basis for point in self.counted if point.rate), "measured")

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {
            "scaling": self.scaling, "instance_type": self.instance_type, "baseline_nodes": self.base,
            "points": [point.as_json() for point in self.points],
            "published": [row.as_json() for row in self.published],
        }  # fmt: skip


def series_of(
    trials: Sequence[Trial],
    *,
    scaling: Scaling,
    published: Sequence[PublishedRow] = (),
    epoch: float | None = None,
) -> tuple[Series, list[Finding]]:
    """The series of runs of one scaling on one instance type, and what a reader of it should know. `epoch` is the
    number of sequences in an epoch. At most one run for each number of nodes: see `newest_each`."""
    ordered = sorted(trials, key=lambda trial: trial.nodes)
    counted = [trial for trial in ordered if trial.counts]
    findings = alike(counted, scaling)
    instance_type = next((str(t.settings.get("instance_type") or "") for t in ordered if t.settings), "")
    rows = tuple(row for row in published if row.scaling == scaling or row.nodes == 1)
    comparable = len(counted) > 1 and not any(finding.level == "error" for finding in findings)
    base = counted[0] if comparable else None
    points = tuple(_point(trial, base, _row_of(trial, instance_type, rows), epoch) for trial in ordered)
    return Series(scaling, instance_type, points, rows, base.nodes if base else None), [
        *findings,
        *shortcomings(ordered, counted, scaling),
    ]


def newest_each(trials: Sequence[Trial]) -> list[Trial]:
    """One run for each number of nodes: the newest that counts, else the newest."""
    chosen: dict[int, Trial] = {}
    for trial in sorted(trials, key=lambda one: (one.counts, one.submitted_at)):
        chosen[trial.nodes] = trial
    return sorted(chosen.values(), key=lambda trial: trial.nodes)


def _row_of(trial: Trial, instance_type: str, rows: Sequence[PublishedRow]) -> PublishedRow | None:
    alike_rows = (row for row in rows if row.nodes == trial.nodes and row.instance_type == instance_type)
    return next(alike_rows, None)


def _point(trial: Trial, base: Trial | None, row: PublishedRow | None, epoch: float | None) -> Point:
    if not trial.counts or trial.rate is None:
        return Point(trial, published=row)
    step = _step_seconds(trial)
    hours = _hours(trial)
    point = Point(
        trial,
        rate=Figure(trial.rate, trial.basis),
        step_seconds=Figure(step, trial.basis) if step is not None else None,
        hours=hours,
        cost=Figure(hours.value * trial.nodes * trial.price, hours.basis) if hours and trial.price else None,
        cost_per_million=_price_of(1e6, trial),
        cost_per_epoch=_price_of(epoch, trial) if epoch else None,
        published=row,
    )
    if base is None or not base.rate:
        return point
    speed_up = _speed_up(trial, base)
    return replace(
        point,
        speed_up=Figure(speed_up, trial.basis),
        efficiency=Figure(speed_up * base.nodes / trial.nodes, trial.basis),
    )


def _speed_up(trial: Trial, base: Trial) -> float:
    """See the definitions; where no batch is told, a step is taken to be the same work."""
    mine, theirs = _step_seconds(trial), _step_seconds(base)
    if trial.scaling == "strong" and base.scaling == "strong" and mine and theirs:
        return theirs / mine
    return (trial.rate or 0.0) / (base.rate or 1.0)


def _step_seconds(trial: Trial) -> float | None:
    """Seconds of an optimizer step at the run's rate."""
    each = _sequences_per_second(trial)
    return trial.global_batch / each if each and trial.global_batch else None


def _sequences_per_second(trial: Trial) -> float | None:
    return trial.rate * trial.sequences_per_unit if trial.rate and trial.sequences_per_unit else None


def _hours(trial: Trial) -> Figure | None:
    """Time to train: as it took where the run did all of it, else at its rate."""
    did_all = trial.whole_steps and trial.steps_done and trial.steps_done >= trial.whole_steps
    if did_all and trial.train_seconds and trial.scaling == "strong":
        return Figure(trial.train_seconds / 3600, trial.basis)
    each = _sequences_per_second(trial)
    if not each or not trial.whole_sequences:
        return None
    return Figure(trial.whole_sequences / each / 3600, _derived(trial.basis))


def _derived(basis: Basis) -> Basis:
    """The ground of what is computed from a rate for work that was not done."""
    return "modelled" if basis == "measured" else basis


def _price_of(sequences: float, trial: Trial) -> Figure | None:
    """What so many sequences cost on the nodes of a run, at its rate."""
    each = _sequences_per_second(trial)
    if not each or not trial.price:
        return None
    return Figure(sequences / each / 3600 * trial.nodes * trial.price, _derived(trial.basis))
