"""Figures as people read them: durations, rates, sizes and money."""

from __future__ import annotations

from datetime import datetime


def duration(seconds: float | None) -> str:
    """`47s`, `7m12s`, `3h12m`, `5d02h`; `–` when unknown."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def rate(value: float | None, unit: str) -> str:
    """`24.5k seq/s`, `812 seq/s`; `–` when unknown."""
    if value is None:
        return "–"
    if value >= 10_000:
        return f"{value / 1000:,.1f}k {unit}"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:,.1f} {unit}"


def steps(step: int | None, total: int | None) -> str:
    """`6,112/28,125`; `–` before the first step."""
    if step is None:
        return "–"
    return f"{step:,}/{total:,}" if total else f"{step:,}"


def money(usd: float) -> str:
    """`$0.91`, `$1,870`."""
    return f"${usd:,.2f}" if usd < 1000 else f"${usd:,.0f}"


def clock(at: datetime | None) -> str:
    """`09:14` today, `11-28 09:14` before, in this machine's time zone."""
    if at is None:
        return "–"
    local = at.astimezone()
    return f"{local:%H:%M}" if local.date() == datetime.now().astimezone().date() else f"{local:%m-%d %H:%M}"


def plural(count: int, word: str) -> str:
    """`1 node`, `16 nodes`."""
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def gib(size: int) -> str:
    """`1.2 TiB` for 1200 as FSx sells it, `500 GiB`."""
    return f"{size / 1000:.1f} TiB" if size >= 1000 else f"{size} GiB"
