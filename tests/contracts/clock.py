"""What every Clock must do."""

from __future__ import annotations

from datetime import timedelta

from trnctl.ports import Clock


class ClockContract:
    """Give a fixture `clock`."""

    def test_now_is_utc(self, clock: Clock) -> None:
        assert clock.now().utcoffset() == timedelta(0)

    def test_sleep_moves_time_on(self, clock: Clock) -> None:
        before = clock.now()
        clock.sleep(0.05)
        assert clock.now() - before >= timedelta(seconds=0.05)

    def test_sleeping_no_time_is_no_error(self, clock: Clock) -> None:
        before = clock.now()
        clock.sleep(0)
        clock.sleep(-5)
        assert clock.now() - before < timedelta(seconds=1)
