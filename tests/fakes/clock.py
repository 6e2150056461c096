"""Time that tests wind by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 29, 9, 0, tzinfo=UTC)


class HandWoundClock:
    """Time that moves only when somebody sleeps. `slept` lists the sleeps in seconds."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._alarms: list[tuple[datetime, Callable[[], None]]] = []
        self.slept: list[float] = []

    def now(self) -> datetime:
        """The time that was wound to."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Move the time on, and let happen what was due in between."""
        self.slept.append(seconds)
        self.wind(seconds)

    def wind(self, seconds: float) -> None:
        """Move the time on without anybody sleeping."""
        self._now += timedelta(seconds=max(0.0, seconds))
        due = [alarm for alarm in self._alarms if alarm[0] <= self._now]
        self._alarms = [alarm for alarm in self._alarms if alarm[0] > self._now]
        for _, happen in sorted(due, key=lambda alarm: alarm[0]):
            happen()

    def after(self, seconds: float, happen: Callable[[], None]) -> None:
        """Let something happen once that much time has passed."""
        self._alarms.append((self._now + timedelta(seconds=seconds), happen))
