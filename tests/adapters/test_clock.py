"""The real clock and the hand-wound one."""

from __future__ import annotations

import pytest

from tests.contracts.clock import ClockContract
from tests.fakes import HandWoundClock
from trnctl.adapters.clock import SystemClock
from trnctl.ports import Clock


class TestSystemClock(ClockContract):
    """Time as it is."""

    @pytest.fixture
    def clock(self) -> Clock:
        return SystemClock()


class TestHandWoundClock(ClockContract):
    """Time as tests wind it."""

    @pytest.fixture
    def clock(self) -> Clock:
        return HandWoundClock()

    def test_what_is_due_happens_while_sleeping(self) -> None:
        clock, happened = HandWoundClock(), list[str]()
        clock.after(10, lambda: happened.append("late"))
        clock.after(5, lambda: happened.append("soon"))
        clock.sleep(4)
        assert happened == []
        clock.sleep(20)
        assert happened == ["soon", "late"]
        assert clock.slept == [4, 20]
