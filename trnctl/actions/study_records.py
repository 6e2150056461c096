"""Runs' records as a scaling study sees them: run.json and results.json, with nothing for what they do not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trnctl.actions.status import current_stage
from trnctl.plan.trials import Claim, PublishedRow, Trial
from trnctl.ports import Job, RunRecord


def trial_of(record: RunRecord, jobs: Mapping[str, Job]) -> Trial:
    """A run's record as a study sees it."""
    manifest, results = record.manifest, record.results or {}
    layout, whole = mapping(manifest.get("layout")), mapping(manifest.get("whole"))
    now = current_stage(record, jobs)
    unit, sequence = str(manifest.get("unit") or ""), _whole(manifest.get("sequence"))
    return Trial(
        nodes=_whole(manifest.get("nodes")) or 0,
        scaling="weak" if layout.get("scaling") == "weak" else "strong",
        run=record.run,
        state=now.state,
        reason=now.reason,
        basis="emulated" if results.get("emulated") or manifest.get("notice") else "measured",
        rate=_number(results.get("average_throughput")),
        global_batch=_whole(layout.get("global_batch")),
        steps=_whole(manifest.get("steps")),
        steps_done=_whole(results.get("steps_done")),
        final_loss=_number(results.get("final_loss")),
        train_seconds=_number(results.get("time_to_train_s")),
        whole_steps=_whole(whole.get("steps")),
        whole_sequences=_whole(whole.get("sequences")),
        sequences_per_unit=_sequences_per_unit(unit, sequence),
        price=_number(manifest.get("price_per_node_hour_usd")),
        price_source=str(manifest.get("price_source") or "") if manifest.get("price_per_node_hour_usd") else "",
        submitted_at=str(manifest.get("submitted_at") or ""),
        settings=_settings(manifest, layout),
    )


def _settings(manifest: Mapping[str, object], layout: Mapping[str, object]) -> dict[str, object]:
    """What must, or should, be alike."""
    alike = {name: manifest.get(name) for name in ("workload", "model", "sequence", "instance_type", "unit")}
    degrees = ("tensor", "pipeline", "context", "expert", "micro_batch")
    alike.update(sdk=manifest.get("sdk"), script=manifest.get("script"), arguments=manifest.get("arguments") or {})
    alike["commit"] = mapping(manifest.get("source")).get("commit")
    alike["layout"] = {name: layout[name] for name in degrees if name in layout}
    return alike


def _sequences_per_unit(unit: str, sequence: int | None) -> float | None:
    """What one of the rate's units is in sequences; None for a unit that tells none."""
    if unit == "seq/s":
        return 1.0
    return 1 / sequence if unit in {"tok/s", "tokens/s"} and sequence else None


def published_of(manifest: Mapping[str, object]) -> list[PublishedRow]:
    """The published rows of the recipe, as they were known when the run was submitted."""
    rows = (mapping(row) for row in listing(manifest.get("published")))
    return [
        PublishedRow(
            nodes=_whole(row.get("nodes")) or 0,
            rate=_number(row.get("rate")) or 0.0,
            scaling=str(row.get("scaling") or ""),
            source=str(row.get("source") or ""),
            note=str(row.get("note") or ""),
            instance_type=str(row.get("instance_type") or ""),
        )
        for row in rows
        if _whole(row.get("nodes")) and _number(row.get("rate"))
    ]


def claims_of(manifest: Mapping[str, object]) -> list[Claim]:
    """What others say of the length of the training."""
    told = (mapping(one) for one in listing(manifest.get("claims")))
    return [
        Claim(_whole(one.get("nodes")) or 0, _number(one.get("hours_under")) or 0.0, str(one.get("source") or ""))
        for one in told
    ]


def curve_points(results: Mapping[str, object]) -> tuple[tuple[int, float | None, float | None], ...]:
    """(step, loss, throughput) of the steps that results.json keeps."""
    rows = (row for row in listing(results.get("curve")) if isinstance(row, list) and len(row) == 3)
    return tuple(
        (int(step), _number(loss), _number(rate)) for step, loss, rate in rows if isinstance(step, int | float)
    )


def mapping(value: object) -> Mapping[str, object]:
    """What a record holds by name; nothing where it holds something else."""
    return value if isinstance(value, Mapping) else {}


def listing(value: object) -> list[Any]:
    """What a record lists; nothing where it holds something else."""
    return list(value) if isinstance(value, (list, tuple)) else []


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
