"""What `trnctl results` shows: a run's results.json in the order of a reader's questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trnctl.cli.mirror_screens import from_the_mirror
from trnctl.cli.output import Screen
from trnctl.cli.words import duration, money

if TYPE_CHECKING:
    from trnctl.actions.mirror import Mirror
    from trnctl.ports import RunRecord


def results(
    screen: Screen, found: Mapping[str, object], record: RunRecord, notice: str, mirror: Mirror | None = None
) -> None:
    """results.json, in the order of a reader's questions; `-o json` has it whole. `mirror` when it is from there."""
    if mirror:
        from_the_mirror(screen, mirror)
    if screen.json:
        screen.data(found)
        return
    screen.notice(notice)
    unit = str(found.get("unit") or "")
    lines = {
        "run": f"{record.run}   {record.folder}",
        "model": _joined(found, "model", "dataset", "sdk"),
        "nodes": f"{found.get('nodes')} × {found.get('instance_type')}, {_count(found, 'world_size')} workers   "
        f"{found.get('node_list') or ''}",
        "batch": f"{found.get('micro_batch')} × {found.get('accumulation')} × {_data(found, record)} = "
        f"{_count(found, 'global_batch')} global ({found.get('scaling')} scaling)",
        "steps": f"{_count(found, 'steps_done')} of {_count(found, 'total_steps')}",
        "final loss": _figure(found, "final_loss", "{:.4f}"),
        "throughput": f"{_figure(found, 'average_throughput', '{:,.0f}')} {unit} on average, "
        f"{_figure(found, 'peak_throughput', '{:,.0f}')} at its peak",
        "time": f"compile {_time(found, 'compile_s')}, train {_time(found, 'time_to_train_s')}, "
        f"{_count(found, 'node_seconds')} node-seconds",
        "cost": _cost_words(found, record),
        "restarts": _count(found, "restarts"),
        "stages": "; ".join(f"{name} {_end_words(end)}" for name, end in _pairs(found.get("stages"))),
        "checkpoints": ", ".join(_checkpoint_words(one) for one in _items(found.get("checkpoints"))) or "none",
        "emulated": str(found.get("emulated") or ""),
    }
    for name, words in lines.items():
        if words:
            screen.field(name, words, data=True)


def _data(found: Mapping[str, object], record: RunRecord) -> str:
    """The workers that see different data: fewer than all where some share a model."""
    layout = record.manifest.get("layout")
    if isinstance(layout, Mapping) and "data" in layout:
        return _count(layout, "data")
    return _count(found, "world_size")


def _cost_words(found: Mapping[str, object], record: RunRecord) -> str:
    """`$12.30 of at most $500.00 (prices of 2026-07-20)`."""
    usd, cap = found.get("cost_usd"), found.get("max_cost_usd")
    if not isinstance(usd, int | float):
        return ""
    most = f" of at most {money(float(cap))} (--max-cost)" if isinstance(cap, int | float) else ""
    return f"{money(float(usd))}{most}, at the prices of {record.manifest.get('price_date', 'its submission')}"


def _joined(found: Mapping[str, object], *keys: str) -> str:
    return ", ".join(f"Neuron {found[key]}" if key == "sdk" else str(found[key]) for key in keys if found.get(key))


def _count(found: Mapping[str, object], key: str) -> str:
    value = found.get(key)
    return f"{value:,.0f}" if isinstance(value, int | float) else "–"


def _figure(found: Mapping[str, object], key: str, form: str) -> str:
    value = found.get(key)
    return form.format(value) if isinstance(value, int | float) else "–"


def _time(found: Mapping[str, object], key: str) -> str:
    value = found.get(key)
    return duration(value) if isinstance(value, int | float) else "–"


def _pairs(value: object) -> list[tuple[str, Mapping[str, object]]]:
    if not isinstance(value, Mapping):
        return []
    return [(str(name), inner) for name, inner in value.items() if isinstance(inner, Mapping)]


def _items(value: object) -> list[Mapping[str, object]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _end_words(end: Mapping[str, object]) -> str:
    """`completed`, `cancelled`, or `exit code 70, failed graphs MODULE_…`."""
    if end.get("exit_code") == 0:
        return "completed"
    if end.get("slurm_state") == "CANCELLED":
        return "cancelled"
    graphs = end.get("failed_graphs")
    names = (
        [str(one.get("graph", one)) if isinstance(one, Mapping) else str(one) for one in graphs or []]
        if isinstance(graphs, list)
        else []
    )
    if end.get("reason"):
        return f"failed: {end['reason']}"
    return f"exit code {end.get('exit_code')}" + (f", failed graphs {', '.join(names)}" if names else "")


def _checkpoint_words(one: Mapping[str, object]) -> str:
    return str(one.get("name", "")) + ("" if one.get("complete", True) else " (half written)")
