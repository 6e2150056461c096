"""How far a run is, from the end of its log."""

from __future__ import annotations

import pytest

from tests.recipes import layout, recipe, request
from trnctl.plan.progress import Progress, parse_progress
from trnctl.render.job import manifest

MANIFEST = manifest(recipe(), layout(16), request())
LINE = "LOG Thu Sep 29 22:30:10 2022 - (0, {step}) step_loss : {loss}  learning_rate : 1.56e-05  throughput : {rate} \n"


def line(step: int, loss: str = "9.1875", rate: str = "24000.50") -> str:
    return LINE.format(step=step, loss=loss, rate=rate)


def test_the_last_whole_step_line_counts() -> None:
    seen = parse_progress(MANIFEST, line(77) + line(78) + "Rank 3 working on shard x\n")
    assert (seen.step, seen.steps, seen.loss, seen.throughput) == (78, 28_125, 9.1875, 24_000.5)
    assert seen.rate_steps_per_s == pytest.approx(24_000.5 / 16_384)
    assert seen.recent == (24_000.5, 24_000.5)


@pytest.mark.parametrize("cut", range(1, len(line(1_179)) - 1))
def test_a_line_that_is_cut_is_not_misread(cut: int) -> None:
    whole = line(1_178) + line(1_179)
    assert parse_progress(MANIFEST, whole[:-cut]).step == 1_178
    assert parse_progress(MANIFEST, whole[cut:]).step == 1_179


@pytest.mark.parametrize("log", ["", "\n", "nothing\nof\ninterest\n", line(3)[:-1]])
def test_without_a_step_line_only_the_total_is_known(log: str) -> None:
    assert parse_progress(MANIFEST, log) == Progress(steps=28_125)


def test_a_loss_that_is_no_number_is_left_out() -> None:
    seen = parse_progress(MANIFEST, line(5, loss="nan"))
    assert (seen.step, seen.loss) == (5, None)


@pytest.mark.parametrize("broken", [{}, {"log_pattern": "("}, {"log_pattern": None, "steps": "many"}])
def test_a_foreign_manifest_is_no_error(broken: dict[str, object]) -> None:
    assert parse_progress(broken, line(5)) == Progress()


def test_steps_a_second_need_a_rate_of_sequences() -> None:
    assert parse_progress({**MANIFEST, "unit": "tokens/s"}, line(5)).rate_steps_per_s is None
    assert parse_progress({**MANIFEST, "layout": {}}, line(5)).rate_steps_per_s is None
    assert parse_progress(MANIFEST, line(5, rate="0.00")).rate_steps_per_s is None


def test_a_script_that_counts_from_nought_has_done_one_step_more() -> None:
    assert parse_progress({**MANIFEST, "log_first": 0}, line(77)).step == 78
    assert MANIFEST["log_first"] == 1


def test_a_progress_bar_is_read_as_it_is_drawn() -> None:
    bar = {**MANIFEST, "log_pattern": r"global_step=(?P<step>[\d.]+)"}
    assert parse_progress(bar, "x\rEpoch 0: global_step=7.0, a]\rEpoch 0: global_step=8.0, a]\rEpoch 0: glob").step == 8
