"""From where a log is read: the last lines, or those of a time; the head node's script, run here."""

from __future__ import annotations

import calendar
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trnctl.cli.words import moment
from trnctl.errors import UsageError

NODE = Path(__file__).parents[2] / "templates" / "node"
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def offset(expression: str, path: Path) -> int:
    """What the script's function says."""
    code = (
        f"import sys; sys.path.insert(0, {str(NODE)!r}); import follow; from pathlib import Path; p = Path(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(follow.{expression})", str(path)],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    return int(done.stdout)


@pytest.mark.parametrize(
    ("text", "lines", "rest"),
    [
        ("a\nb\nc\n", 1, "c\n"),
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\n", 9, "a\nb\n"),
        ("", 3, ""),
        ("x" * 200_000 + "\n" + "y" * 100_000 + "\nz\n", 2, "y" * 100_000 + "\nz\n"),
    ],
    ids=["one", "two", "unfinished", "more than there are", "empty", "longer than a block"],
)
def test_the_last_lines(tmp_path: Path, text: str, lines: int, rest: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    assert text[offset(f"offset_of_last(p, {lines})", path) :] == rest


LOG = """\
a word before any time
2026-11-29T08:00:00Z trnctl begins
LOG Sun Nov 29 09:00:00 2026 - (0, 11) step_loss : 10.9
a line without a time
2026-Nov-29 10:00:00.000001 123:456 ERROR TDRV:x
2026-11-29 11:00:00.000123:  9  INFO ||NEURON_CACHE||: hit
"""


@pytest.mark.parametrize(
    ("hour", "first"),
    [(7, "2026-11-29T08"), (9, "LOG Sun"), (10, "2026-Nov-29"), (11, "2026-11-29 11"), (12, "")],
)
def test_the_lines_of_a_time_in_every_form_that_logs_have(tmp_path: Path, hour: int, first: str) -> None:
    path = tmp_path / "log"
    path.write_text(LOG)
    since = calendar.timegm((2026, 11, 29, hour, 0, 0))
    rest = LOG[offset(f"offset_since(p, {since})", path) :]
    assert rest.startswith(first)
    assert bool(rest) == bool(first)


def test_a_log_without_times_is_taken_whole_unless_it_is_older(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("no\ntimes\n")
    os.utime(path, (1000, 1000))
    assert offset("offset_since(p, 900)", path) == 0
    assert offset("offset_since(p, 1100)", path) == 9


def test_times_as_people_write_them() -> None:
    assert moment("--since", "10m", NOW) == NOW - timedelta(minutes=10)
    assert moment("--since", "1.5h", NOW) == NOW - timedelta(minutes=90)
    assert moment("--since", "2026-11-29T09:00", NOW) == NOW - timedelta(hours=3)
    assert moment("--since", "2026-11-29T09:00+01:00", NOW) == NOW - timedelta(hours=4)
    with pytest.raises(UsageError, match="--since soon is no time"):
        moment("--since", "soon", NOW)
