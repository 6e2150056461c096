"""Long waits that are never silent: one redrawn line on a terminal, a line every 30 seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from rich.text import Text

from trnctl.cli.output import Screen
from trnctl.cli.words import duration, plural
from trnctl.errors import Interrupted

if TYPE_CHECKING:
    from rich.live import Live

    from trnctl.actions import teardown
    from trnctl.actions.stack import Progress
    from trnctl.actions.teardown import Proof
    from trnctl.ports import ExportStep, Fleet

QUIET_SECONDS = 30.0
_BAR = 24
_LINE = 98  # columns, after the indent
Step = TypeVar("Step")


def follow(
    screen: Screen,
    steps: Iterator[Step],
    words: Callable[[Step], str],
    goes_on: str,
    state: Callable[[Step], object] = lambda step: None,
) -> Step | None:
    """Show each step in words; the last step. On Ctrl-C the work goes on, and `goes_on` says how to look again.

    Off a terminal a new `state` is told at once, other news every QUIET_SECONDS.
    """
    last: Step | None = None
    said, said_at = "", -QUIET_SECONDS
    said_of: object = None
    try:
        with _live(screen) as live:
            for step in steps:
                last, text = step, words(step)
                if live is not None:
                    live.update(Text(f"  {text}"))
                elif text != said and (state(step) != said_of or time.monotonic() - said_at >= QUIET_SECONDS):
                    screen.say(f"  {text}")
                    said, said_at, said_of = text, time.monotonic(), state(step)
    except KeyboardInterrupt:
        raise Interrupted("you stopped watching; the work goes on", remedy=goes_on) from None
    if last is not None and words(last) != said and not screen.live:
        screen.say(f"  {words(last)}")
    return last


def _live(screen: Screen) -> AbstractContextManager[Live | None]:
    if not screen.live:
        return nullcontext(None)
    from rich.live import Live

    return Live(Text(""), console=screen.err, refresh_per_second=8, transient=False)


def stack_words(step: Progress) -> str:
    """`━━━━━━╸──── 41/58  7m12s  creating  now: FSx file system (6m03s), head node (1m10s)`."""
    total = step.total or 0
    done = total if step.phase is None and total else min(step.done, total) if total else step.done
    filled = _BAR * done // total if total else 0
    bar = "━" * filled + "─" * (_BAR - filled) + "  " if total else ""
    count = f"{done}/{total}" if total else plural(done, "resource")
    line = f"{bar}{count}  {duration(step.elapsed_s)}  {step.phase or 'gone'}"
    lead = "  now: "
    for name, seconds in step.current[:2]:
        word = f"{lead}{readable(name)} ({duration(seconds)})"
        if len(line) + len(word) > _LINE:  # one line is redrawn, and must stay one
            break
        line, lead = line + word, ", "
    return line


# ParallelCluster's logical ids, without the hash that it appends, in words.
_READABLE = {
    "HeadNodeWaitCondition": "head node boots",
    "HeadNode": "head node",
    "FSX": "FSx file system",
    "EFS": "EFS file system",
    "EBS": "EBS volume",
    "CloudWatchDashboard": "dashboard",
}


def readable(logical_id: str) -> str:
    """A logical id in words where we have them, the longest prefix first."""
    for prefix in sorted(_READABLE, key=len, reverse=True):
        if logical_id.startswith(prefix):
            return _READABLE[prefix]
    return logical_id


def follow_stack(screen: Screen, steps: Iterator[Progress], goes_on: str) -> Progress | None:
    """Follow a stack to where it is wanted."""
    return follow(screen, steps, stack_words, goes_on, lambda step: step.phase)


def follow_fleet(screen: Screen, steps: Iterator[Fleet]) -> str:
    """Follow the compute fleet; its last status."""
    words, again = (lambda fleet: f"compute fleet: {fleet.status}"), "trnctl status shows the fleet"
    last = follow(screen, steps, words, again, lambda fleet: fleet.status)
    return last.status if last else "unknown"


def export_words(step: ExportStep) -> str:
    """`export 12/40 files, 3.1 of 9.2 GB  a3f/checkpoints/ckpt_900.pt`."""
    done, whole = step.done_bytes / 1e9, step.bytes / 1e9
    return f"export {step.done_files}/{step.files} files, {done:,.1f} of {whole:,.1f} GB  {step.name[-60:]}"


def follow_teardown(screen: Screen, steps: Iterator[teardown.Step], cluster: str) -> Proof:
    """Follow a teardown; its proof is the last thing that it yields."""
    from trnctl.actions.removal import Waiting
    from trnctl.actions.teardown import Proof
    from trnctl.ports import ExportStep

    def words(step: teardown.Step) -> str:
        if isinstance(step, ExportStep):
            return export_words(step)
        if isinstance(step, Waiting):
            return f"{step.what}  {duration(step.elapsed_s)}"
        return "looking for what is left" if isinstance(step, Proof) else stack_words(step)

    def state(step: teardown.Step) -> object:
        return type(step) if isinstance(step, ExportStep | Waiting | Proof) else step.phase

    last = follow(screen, steps, words, f"trnctl teardown --cluster {cluster} takes it up again", state)
    assert isinstance(last, Proof)  # noqa: S101  # a teardown either raises or ends with its proof
    return last
