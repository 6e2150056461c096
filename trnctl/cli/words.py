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


def moment(option: str, text: str, now: datetime) -> datetime:
    """`10m` or `2h` ago (s, m, h, d), or a time such as 2026-11-29T09:00 (UTC unless it says otherwise). UsageError."""
    import re
    from datetime import UTC, timedelta

    from trnctl.errors import UsageError

    ago = re.fullmatch(r"(\d+(?:\.\d+)?) ?([smhd])", text)
    if ago:
        return now - timedelta(seconds=float(ago[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[ago[2]])
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text} is no time", remedy="write 30s, 10m, 2h or 1d, or a time as in 2026-11-29T09:00"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def plural(count: int, word: str) -> str:
    """`1 node`, `16 nodes`."""
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def gib(size: int) -> str:
    """`1.2 TiB` for 1200 as FSx sells it, `500 GiB`."""
    return f"{size / 1000:.1f} TiB" if size >= 1000 else f"{size} GiB"
