"""A person who follows a run sees the run, not every rank."""

from __future__ import annotations

from trnctl.cli.folding import folded
from trnctl.ports import LogLine, RunOver, StageState


def line(text: str, log: str = "train/node-0.log") -> LogLine:
    """A log line."""
    return LogLine("train", log, text)


def test_what_every_rank_says_is_said_once() -> None:
    ranks = [line(f"Rank {number} working on shard x_{number}.hdf5") for number in range(32)]
    step = line("LOG now - (0, 1) step_loss : 11.2 learning_rate : 1e-7 throughput : 24000.00 ")
    shown = list(folded(iter([*ranks, step, StageState("train", "2", "completed"), RunOver({})])))
    assert shown[:3] == [ranks[0], line("  … and 31 more lines of other ranks"), step]
    assert len(shown) == 5


def test_steps_are_never_folded_and_logs_are_not_mixed() -> None:
    steps = [line(f"LOG now - (0, {number}) step_loss : 11.2") for number in range(5)]
    assert list(folded(iter(steps))) == steps
    two = [line("Rank 0 ready"), line("Rank 0 ready", "train/node-1.log")]
    assert list(folded(iter(two))) == two


def test_a_row_at_the_end_is_counted_too() -> None:
    last = list(folded(iter([line("[rank0]: bye"), line("[rank1]: bye")])))[-1]
    assert last == line("  … and 1 more lines of other ranks")
