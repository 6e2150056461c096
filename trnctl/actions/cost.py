"""What a cluster has cost and costs: by what was on, by run, or by day, from the records that its nodes keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from trnctl.actions.books import Books, read_books
from trnctl.actions.runs import OpenCluster
from trnctl.findings import Finding
from trnctl.plan.cost import FRESH_S, Price, Spent, living, moment, node_hours, price_of_kind, run_usage, spent, upto
from trnctl.ports import FleetLedger, RunRecord
from trnctl.specs.prices import TABLE, Prices

By = Literal["kind", "run", "day"]


@dataclass(frozen=True)
class CostRow:
    """One line. `hours` are node-hours (of the head node: its hours); `usd` is None when no price is known."""

    name: str
    what: str
    hours: float | None
    usd: float | None
    nodes: int | None = None
    state: str = ""
    cap_usd: float | None = None

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {
            "name": self.name, "what": self.what, "node_hours": _rounded(self.hours), "usd": _rounded(self.usd),
            "nodes": self.nodes, "state": self.state, "max_cost_usd": self.cap_usd,
        }  # fmt: skip


@dataclass(frozen=True)
class CostReport:
    """The answer of `trnctl cost`. `per_hour` is None when nothing of the cluster is on; `not_priced` names what costs
    and has no known price."""

    cluster: str
    region: str
    by: By
    rows: tuple[CostRow, ...]
    so_far_usd: float
    per_hour: Price | None
    known_from: datetime | None
    basis: str
    not_priced: tuple[str, ...] = ()
    alerts: tuple[Finding, ...] = ()
    notice: str = ""

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {
            "cluster": self.cluster,
            "region": self.region,
            "by": self.by,
            "rows": [row.as_json() for row in self.rows],
            "so_far_usd": _rounded(self.so_far_usd),
            "per_hour_usd": _rounded(self.per_hour.usd) if self.per_hour else 0.0,
            "known_from": self.known_from.isoformat(timespec="seconds") if self.known_from else None,
            "basis": self.basis,
            "not_priced": [*self.not_priced],
            "alerts": [alert.as_json() for alert in self.alerts],
            "notice": self.notice,
        }


def cost(opened: OpenCluster, by: By, prices: Prices = TABLE) -> CostReport:
    """Read the books and add them up. NotFoundError when neither a cluster nor a record of one is there."""
    books = read_books(opened)
    total = _spent(books, prices)
    rows = {"kind": _by_kind, "run": _by_run, "day": _by_day}[by](books, prices)
    return CostReport(
        cluster=opened.cluster,
        region=opened.region,
        by=by,
        rows=tuple(rows),
        so_far_usd=total.so_far_usd,
        per_hour=total.per_hour if books.seen else None,
        known_from=total.known_from,
        basis=total.basis,
        not_priced=(*(f"{name} (no price is known: --price {name}=USD)" for name in total.unknown), *books.storage),
        alerts=books.alerts,
        notice=opened.services.notice,
    )


# ---------------------------------------------------------------------------------------------- adding up


def _spent(books: Books, prices: Prices) -> Spent:
    """The cluster that stands, and those of its name that stood before it."""
    instances = books.seen.instances if books.seen else ()
    total = spent(instances, books.now, books.ledger, prices)
    so_far, known_from, unknown = total.so_far_usd, total.known_from, set(total.unknown)
    for ledger in books.earlier:
        for row in _rows_of(ledger, ledger.updated_at, None, prices):
            so_far += row.usd or 0.0
            unknown |= {row.what.partition(" ")[0]} if row.usd is None and row.hours else set()
        known_from = min(ledger.known_from, known_from or ledger.known_from)
    source = total.source
    if books.ledger is None and not books.earlier:
        runs = [run_usage(one, books.now, living(one, books.jobs), prices) for one in books.runs]
        nodes = spent([one for one in instances if one.role != "head"], books.now, None, prices).so_far_usd
        paid = sum(usd or 0.0 for _, usd in runs)
        if paid > nodes:  # nodes that are gone by now have cost too: their runs know how much
            so_far, source = so_far - nodes + paid, "the head node since its launch, and the node-seconds of its runs"
            source += ", without boot and idle nodes" if books.seen else ""
        begun = [moment(one.manifest.get("submitted_at")) for one in books.runs]
        known_from = min((one for one in [known_from, *begun] if one is not None), default=None)
    if books.earlier and books.seen is None:
        source = "the node-seconds and the hours of its head node that it counted while it stood"
    elif books.earlier:
        source += "; with earlier clusters of this name"
    return replace(total, so_far_usd=so_far, known_from=known_from, source=source, unknown=tuple(sorted(unknown)))


def _rows_of(
    ledger: FleetLedger, now: datetime, launched: datetime | None, prices: Prices, name: str = ""
) -> list[CostRow]:
    """The head node and the kinds of nodes of one ledger, up to `now`."""
    hours = (now - (launched or ledger.known_from)).total_seconds() / 3600
    rows = [_row(f"{name}head node", ledger.head_type, hours, prices)] if ledger.head_type else []
    return rows + [
        _row(f"{name}nodes", kind, seconds / 3600, prices) for kind, seconds in sorted(upto(ledger, now).items())
    ]


def _row(name: str, kind: str, hours: float, prices: Prices) -> CostRow:
    usd = price_of_kind(kind, prices)
    return CostRow(name, kind, hours, None if usd is None else usd * hours)


def _by_kind(books: Books, prices: Prices) -> list[CostRow]:
    """What was on: the head node, the nodes by type; those of earlier clusters of this name after them."""
    rows: list[CostRow] = []
    if books.ledger is not None:
        rows += _rows_of(books.ledger, books.now, books.head_launched, prices)
    elif books.seen is not None:
        for one in books.seen.instances:
            if one.launched is not None and one.state in {"pending", "running"}:
                hours = (books.now - one.launched).total_seconds() / 3600
                kind = one.type if one.capacity == "on-demand" else f"{one.type} {one.capacity}"
                name = "head node" if one.role == "head" else f"node {one.id}"
                rows.append(_row(name, kind, hours, prices))
    for ledger in books.earlier:
        rows += _rows_of(ledger, ledger.updated_at, None, prices, f"{ledger.known_from:%m-%d} ")
    return rows


def _by_run(books: Books, prices: Prices) -> list[CostRow]:
    """What each run used, its restarts and compile jobs included, and what was on outside of runs."""
    rows = [_run_row(record, books, prices) for record in books.runs]
    every = _by_kind(books, prices)
    if books.ledger is None and books.earlier == ():
        return rows
    used = sum(row.hours or 0.0 for row in rows)
    nodes = [row for row in every if not row.name.endswith("head node")]
    heads = [row for row in every if row.name.endswith("head node")]
    idle = sum(row.hours or 0.0 for row in nodes) - used
    paid = sum(row.usd or 0.0 for row in nodes) - sum(row.usd or 0.0 for row in rows)
    outside = CostRow("outside runs", "boot, idle nodes, other jobs", max(idle, 0.0), max(paid, 0.0))
    return [*rows, outside, *heads]


def _run_row(record: RunRecord, books: Books, prices: Prices) -> CostRow:
    """One run, from the ledger in its results; what goes on is counted until now."""
    told = record.results or {}
    hours, usd = run_usage(record, books.now, living(record, books.jobs), prices)
    return CostRow(
        name=record.run,
        what=str(record.manifest.get("workload", "")),
        hours=hours,
        usd=usd,
        nodes=_whole(record.manifest.get("nodes")),
        state="complete" if told.get("complete") else "running" if living(record, books.jobs) else "ended",
        cap_usd=_number(record.manifest.get("max_cost_usd")),
    )


def _by_day(books: Books, prices: Prices) -> list[CostRow]:
    """What was on on each day (UTC): the head node's hours and the nodes'."""
    days: dict[str, list[CostRow]] = {}
    ledgers = [(one, one.updated_at, None) for one in books.earlier]
    current = [(books.ledger, books.now, books.head_launched)] if books.ledger else []
    for ledger, until, launched in [*ledgers, *current]:
        for day, seconds in days_of(launched or ledger.known_from, until):
            if ledger.head_type:
                days.setdefault(day, []).append(_row(day, ledger.head_type, seconds / 3600, prices))
        for day, kinds in ledger.days.items():
            days.setdefault(day, []).extend(_row(day, kind, s / 3600, prices) for kind, s in kinds.items())
        if ledger is books.ledger and ledger.on:
            since = min(max(0.0, (until - ledger.updated_at).total_seconds()), FRESH_S) / 3600
            day = f"{until:%Y-%m-%d}"
            days.setdefault(day, []).extend(_row(day, k, n * since, prices) for k, n in ledger.on.items())
    return [_day_row(day, rows) for day, rows in sorted(days.items())] or _days_of_runs(books, prices)


def _day_row(day: str, rows: Sequence[CostRow]) -> CostRow:
    hours: dict[str, float] = {}
    for row in rows:
        hours[row.what] = hours.get(row.what, 0.0) + (row.hours or 0.0)
    words = ", ".join(f"{kind} {count:,.2f} h" for kind, count in sorted(hours.items()) if count)
    usd = None if any(row.usd is None and row.hours for row in rows) else sum(row.usd or 0.0 for row in rows)
    return CostRow(day, words, sum(hours.values()), usd)


def _days_of_runs(books: Books, prices: Prices) -> list[CostRow]:
    """Without a ledger of the head node's: the days of the runs' own ledgers."""
    days: dict[str, list[CostRow]] = {}
    for record in books.runs:
        rows = (record.results or {}).get("ledger")
        for day, kind, hours in node_hours(rows):
            days.setdefault(day, []).append(_row(day, kind, hours, prices))
    return [_day_row(day, found) for day, found in sorted(days.items())]


def days_of(began: datetime, ended: datetime) -> list[tuple[str, float]]:
    """The stretch between two moments as (2026-11-29, seconds) of each day (UTC) that it touches."""
    parts: list[tuple[str, float]] = []
    while began < ended:
        midnight = began.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        until = min(ended, midnight)
        parts.append((f"{began:%Y-%m-%d}", (until - began).total_seconds()))
        began = until
    return parts


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
