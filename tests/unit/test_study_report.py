"""What a study's report tells, and does not: from runs' records, by the definitions that it prints."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import World
from tests.studies import NOTICE, picture, record
from trnctl.actions.runs import OpenCluster
from trnctl.actions.study_report import Curve, Report, report_of
from trnctl.actions.study_report import report as collect
from trnctl.cli.study_report_screens import csv_text, curve_text, report_text
from trnctl.errors import NotFoundError, UsageError
from trnctl.plan.scaling import Point, newest_each
from trnctl.plan.trials import Trial
from trnctl.specs.study import Study

STRONG = Study("bert-large-strong", "strong", (1, 2, 4))
WEAK = Study("bert-large-weak", "weak", (1, 2, 4))


def reported(*records: Any, wanted: str | None = None, epoch: float | None = None) -> Report:
    found = report_of(picture(*records), wanted, cluster="ultra1", epoch=epoch)
    assert isinstance(found, Report)
    return found


def points(report: Report) -> dict[int, Point]:
    (series,) = report.series
    return {point.nodes: point for point in series.points}


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def strong(**changed: Any) -> list[Any]:
    return [record(n, rate, study=STRONG, **changed) for n, rate in ((1, 4000.0), (2, 6000.0), (4, 8000.0))]


def test_strong_scaling_is_told_by_the_time_of_a_step() -> None:
    found = points(reported(*strong()))
    assert [found[n].speed_up.value for n in (1, 2, 4)] == [1.0, 1.5, 2.0]  # type: ignore[union-attr]
    assert [found[n].efficiency.value for n in (1, 2, 4)] == [1.0, 0.75, 0.5]  # type: ignore[union-attr]
    assert found[4].step_seconds is not None
    assert found[4].step_seconds.value == pytest.approx(16384 / 8000)


def test_weak_scaling_is_told_by_the_rate_of_a_node() -> None:
    runs = [record(n, rate, study=WEAK) for n, rate in ((1, 4000.0), (2, 7600.0), (4, 14400.0))]
    report = reported(*runs)
    found = points(report)
    assert [found[n].speed_up.value for n in (1, 2, 4)] == [1.0, 1.9, 3.6]  # type: ignore[union-attr]
    assert [found[n].efficiency.value for n in (1, 2, 4)] == pytest.approx([1.0, 0.95, 0.9])  # type: ignore[union-attr]
    assert [found[n].trial.global_batch for n in (1, 2, 4)] == [16384, 32768, 65536]
    # Of as many sequences, however large the batch: the time falls with the rate.
    assert found[4].hours is not None
    assert found[4].hours.value == pytest.approx(28125 * 16384 / 14400 / 3600)
    assert not report.findings


def test_time_and_cost_are_modelled_where_a_run_was_shorter_than_the_training() -> None:
    point = points(reported(*strong()))[2]
    assert point.rate is not None
    assert point.hours is not None
    assert point.cost is not None
    assert (point.rate.basis, point.hours.basis, point.cost.basis) == ("measured", "modelled", "modelled")
    assert point.cost.value == pytest.approx(28125 * 16384 / 6000 / 3600 * 2 * 21.50)


def test_time_is_measured_where_a_run_did_the_whole_training() -> None:
    whole = record(2, 6000.0, study=STRONG, steps_done=28125)
    point = points(reported(whole))[2]
    assert point.hours is not None
    assert (point.hours.basis, point.hours.value) == ("measured", 90 / 3600)


def test_a_run_that_is_emulated_has_no_figure_that_says_otherwise() -> None:
    report = reported(*strong(notice=NOTICE), epoch=1_000_000)
    figures = [
        figure
        for point in points(report).values()
        for figure in (
            point.rate, point.step_seconds, point.speed_up, point.efficiency, point.hours, point.cost,
            point.cost_per_million, point.cost_per_epoch,
        )
    ]  # fmt: skip
    assert {figure.basis for figure in figures if figure} == {"emulated"}
    assert None not in figures
    assert report.headline == "bert-large: strong scaling on trn1.32xlarge — EMULATED"
    assert report.as_json()["basis"] == "emulated"
    assert "means nothing" in " ".join(report_text(report))


def test_published_rows_stand_beside_with_their_sources() -> None:
    report = reported(*strong())
    found = points(report)
    assert found[1].of_published == pytest.approx(4000 / 3826.61)
    assert found[2].published is None
    (series,) = report.series
    assert [(row.nodes, row.scaling) for row in series.published] == [(1, "strong"), (16, "strong")]
    assert any("24,518 seq/s on 16" in line and "2.14.0" in line for line in report_text(report))
    weak = reported(record(1, 4000.0, study=WEAK), record(2, 7600.0, study=WEAK))
    assert [row.rate for row in weak.series[0].published] == [3826.61, 57407.92]


def test_what_others_say_of_the_length_is_held_against_it() -> None:
    study = replace(STRONG, nodes=(1, 16))
    runs = [record(1, 4000.0, study=study), record(16, 24000.0, study=study)]
    told: dict[str, Any] = reported(*runs).as_json()
    (claim,) = told["claims"]
    assert (claim["nodes"], claim["hours_under"], claim["holds"]) == (16, 8, True)
    slow = [record(1, 1000.0, study=study), record(16, 9000.0, study=study)]
    assert "does not hold" in " ".join(report_text(reported(*slow)))


def test_points_that_failed_or_were_never_submitted_are_shown_and_not_compared() -> None:
    runs = [record(1, 4000.0, study=STRONG), record(4, 100.0, study=STRONG, exit_code=1)]
    report = reported(*runs)
    found = points(report)
    assert [found[n].trial.state for n in (1, 2, 4)] == ["completed", "missing", "failed"]
    assert found[4].rate is None
    assert codes(report) == ["study-one-point", "study-point-failed"]
    text = report_text(report)
    assert any("not run" in line and "✕" in line for line in text)
    assert any(line.split()[:2] == ["4", "failed"] for line in text)


def test_a_run_that_was_cancelled_after_some_steps_counts() -> None:
    ended: dict[str, dict[str, object]] = {"train": {"state": "cancelled", "by": "slurm"}, "compile": {"exit_code": 0}}
    runs = [record(1, 4000.0, study=STRONG), replace(record(2, 6000.0, study=STRONG), ended=ended)]
    found = points(reported(*runs))
    assert found[2].trial.state == "cancelled"
    assert found[2].efficiency is not None


def test_one_point_tells_no_scaling() -> None:
    report = reported(record(1, 4000.0, study=STRONG))
    point = points(report)[1]
    assert point.rate is not None
    assert (point.speed_up, point.efficiency) == (None, None)
    assert "study-one-point" in codes(report)


def test_without_one_node_the_fewest_are_the_base_and_that_is_said() -> None:
    report = reported(record(2, 6000.0, study=STRONG), record(4, 9000.0, study=STRONG))
    found = points(report)
    assert found[4].efficiency is not None
    assert found[4].efficiency.value == pytest.approx(0.75)
    assert report.series[0].base == 2
    assert "study-baseline" in codes(report)


def test_no_runs_have_no_figures_and_break_nothing() -> None:
    report = reported(record(1, None, study=STRONG, exit_code=None))
    assert all(point.rate is None for point in points(report).values())
    assert any("not run" in line for line in report_text(report))
    assert csv_text(report).count("\n") >= 4


def test_mixed_software_is_flagged_and_told_all_the_same() -> None:
    runs = [record(1, 4000.0, study=STRONG), record(2, 6000.0, study=STRONG, sdk="2.30.0")]
    report = reported(*runs)
    (finding,) = (one for one in report.findings if one.code == "study-mixed-settings")
    assert "sdk 2.31.1 on 1, 2.30.0 on 2" in finding.message
    assert points(report)[2].efficiency is not None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"model": "another"}, "model"),
        ({"sequence": 512}, "sequence"),
        ({"instance_type": "trn1n.32xlarge"}, "instance_type"),
        ({"notice": NOTICE}, "measured and emulated"),
        ({"layout": {"global_batch": 32768, "scaling": "strong"}}, "global batch 16,384 on 1, 32,768 on 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_experiment_is_not_compared(changed: dict[str, Any], told: str) -> None:
    report = reported(record(1, 4000.0, study=STRONG), record(2, 6000.0, study=STRONG, **changed))
    (finding,) = (one for one in report.findings if one.code == "study-not-alike")
    assert told in finding.message
    assert points(report)[2].efficiency is None
    assert points(report)[2].rate is not None


def test_all_runs_of_a_workload_make_a_series_for_each_scaling() -> None:
    runs = [
        record(1, 4000.0), record(4, 8000.0), record(4, 14400.0, scaling="weak", run="w4"),
        record(2, 7600.0, scaling="weak", run="w2"),
    ]  # fmt: skip
    report = reported(*runs, wanted="bert-large")
    assert [(one.scaling, [p.nodes for p in one.points]) for one in report.series] == [
        ("strong", [1, 4]), ("weak", [1, 2, 4]),
    ]  # fmt: skip
    shares = [[round(p.efficiency.value, 3) for p in one.points if p.efficiency] for one in report.series]
    assert shares == [[1.0, 0.5], [1.0, 0.95, 0.9]]
    assert "strong and weak scaling" in report.headline


def test_of_several_runs_on_as_many_nodes_the_newest_that_counts_is_taken() -> None:
    old = Trial(2, "strong", "old", "completed", rate=1.0, submitted_at="2026-11-01")
    new = replace(old, run="new", submitted_at="2026-11-02")
    failed = replace(old, run="failed", state="failed", submitted_at="2026-11-03")
    assert [one.run for one in newest_each([new, failed, old])] == ["new"]
    assert [one.run for one in newest_each([failed])] == ["failed"]


def test_without_a_name_the_newest_study_is_meant() -> None:
    later = Study("later", "strong", (1,))
    runs = [record(1, 4000.0, study=later, submitted_at="2026-12-01"), *strong()]
    assert reported(*runs).name == "later"
    assert reported(*runs, wanted="bert-large-strong").name == "bert-large-strong"


def test_a_runs_name_or_its_end_means_its_curve() -> None:
    curve: list[list[float | None]] = [[1, 11.0, 3000.0], [2, None, 4000.0]]
    runs = [record(1, 4000.0, study=STRONG, curve=curve, notice=NOTICE), record(2, 6000.0, study=STRONG)]
    found = report_of(picture(*runs), "n1")
    assert isinstance(found, Curve)
    assert found.points == ((1, 11.0, 3000.0), (2, None, 4000.0))
    assert found.headline == "bert-large-strong-n1: bert-large on 1 × trn1.32xlarge — EMULATED"
    assert any("loss, emulated" in line for line in curve_text(found))
    assert (
        csv_text(found).splitlines()[1]
        == "bert-large-strong-n1,bert-large,1,trn1.32xlarge,emulated,1,11.0,3000.0,seq/s"
    )
    unborn = report_of(picture(*runs), "bert-large-strong-n2")
    assert isinstance(unborn, Curve)
    assert "no curve yet" in " ".join(curve_text(unborn))


def test_what_is_not_there_names_what_is() -> None:
    with pytest.raises(NotFoundError) as caught:
        report_of(picture(*strong()), "nope", cluster="ultra1")
    assert "bert-large-strong" in caught.value.remedy
    with pytest.raises(NotFoundError, match="no study yet"):
        report_of(picture(), None)
    twins = [record(1, 1.0, run="a-twin"), record(2, 2.0, run="b-twin")]
    with pytest.raises(UsageError, match="a-twin or b-twin"):
        report_of(picture(*twins), "twin")


def test_csv_has_a_row_for_each_point_and_published_figure_with_its_ground() -> None:
    report = reported(*strong(notice=NOTICE), epoch=1e6)
    rows = list(csv.DictReader(io.StringIO(csv_text(report))))
    assert [row["basis"] for row in rows] == ["emulated"] * 3 + ["published"] * 2
    assert float(rows[2]["efficiency"]) == 0.5
    assert float(rows[0]["cost_per_epoch_usd"]) == pytest.approx(1e6 / 4000 / 3600 * 21.5)
    assert "Neuron 2.14.0" in rows[4]["source"]
    assert None not in rows[0]
    assert all(None not in row.values() for row in rows)


def test_rates_in_tokens_are_counted_as_sequences() -> None:
    runs = [record(n, rate, study=STRONG, unit="tok/s") for n, rate in ((1, 128 * 4000.0), (2, 128 * 6000.0))]
    found = points(reported(*runs))
    assert found[2].step_seconds is not None
    assert found[2].step_seconds.value == pytest.approx(16384 / 6000)
    odd = points(reported(*[record(n, 5.0 * n, study=STRONG, unit="frobs") for n in (1, 2)]))
    assert odd[2].hours is None
    assert odd[2].efficiency is not None
    assert odd[2].efficiency.value == 1.0


def test_the_report_outlives_the_cluster_in_its_bucket() -> None:
    world = World()
    world.cloud.buckets["records"] = {}
    opened = OpenCluster("ultra1", "us-west-2", world.services(), "/fsx/trnctl/runs", "records")
    with pytest.raises(NotFoundError, match="no cluster ultra1"):
        collect(opened)
    for one in strong():
        files = {"run.json": one.manifest, "submitted.json": {"jobs": one.jobs}, "results.json": one.results}
        files |= {f"ended/{stage}.json": note for stage, note in one.ended.items()}
        prefix = f"trnctl/ultra1/runs/{one.run}/"
        world.cloud.put_objects("records", {f"{prefix}{name}": json.dumps(value) for name, value in files.items()})
    found, mirror = collect(opened)
    assert mirror is not None
    assert mirror.bucket == "records"
    assert found == reported(*strong())


def test_the_report_keeps_within_a_hundred_columns() -> None:
    study = Study("a-name-that-is-long-" + "x" * 30, "strong", (1, 2, 4, 8, 16))
    runs = [record(n, 123_456.7 * n, study=study, notice=NOTICE) for n in study.nodes]
    assert max(map(len, report_text(reported(*runs)))) <= 100
