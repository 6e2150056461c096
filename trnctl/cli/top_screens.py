"""What `trnctl top` shows: a table of nodes that is redrawn, folded where there are more than a screen holds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from trnctl.actions.top import LostSight, TopPicture, busy, idle
from trnctl.cli.output import LEVEL_STYLES, Screen
from trnctl.cli.words import duration, plural
from trnctl.errors import Interrupted

if TYPE_CHECKING:
    from trnctl.actions.top import RunLoad
    from trnctl.ports import NodeLoad

BLOCKS = "▁▂▃▄▅▆▇█"
ROWS = 32  # of nodes, where no terminal says how many there is room for
NOTES = 8
STALE_S = 15.0


def top(screen: Screen, pictures: Iterator[TopPicture | LostSight], *, once: bool) -> None:
    """Show every picture until the run's job ends, or Ctrl-C; nothing on the cluster changes."""
    try:
        if screen.json:
            _lines(screen, pictures, once=once)
        elif once:
            for picture in pictures:
                if isinstance(picture, TopPicture):
                    screen.out.print(drawn(picture, ROWS), overflow="fold")
        else:
            _redraw(screen, pictures)
    except KeyboardInterrupt:
        raise Interrupted("you stopped watching; the runs go on", remedy="trnctl top looks again") from None


def _lines(screen: Screen, pictures: Iterator[TopPicture | LostSight], *, once: bool) -> None:
    for picture in pictures:
        if isinstance(picture, LostSight):
            screen.say(f"! {picture.why} Trying again in {picture.pause_s:g} s.", style="yellow")
        elif once:
            screen.data(picture.as_json())
        else:
            screen.line(picture.as_json())


class _Shown:
    """The last picture, with its age, which grows while nothing comes."""

    def __init__(self, rows: int) -> None:
        self.picture: TopPicture | None = None
        self.taken = time.monotonic()
        self.lost = ""
        self._rows = rows

    def take(self, step: TopPicture | LostSight) -> None:
        """What has come: a new picture, or the news that none comes for a while."""
        if isinstance(step, LostSight):
            self.lost = step.why
            return
        self.picture, self.taken, self.lost = step, time.monotonic(), ""

    def __rich__(self) -> Group | Text:
        if self.picture is None:
            return Text("looking …", style="dim")
        age = time.monotonic() - self.taken
        if not self.lost and age < STALE_S:
            return drawn(self.picture, self._rows)
        why = f": {self.lost} Trying again." if self.lost else ""
        return Group(
            drawn(self.picture, self._rows), Text(f"! this picture is {duration(age)} old{why}", style="yellow")
        )


def _redraw(screen: Screen, pictures: Iterator[TopPicture | LostSight]) -> None:
    from rich.live import Live

    shown = _Shown(max(4, screen.out.size.height - 10))
    with Live(shown, console=screen.out, refresh_per_second=2) as live:
        for step in pictures:
            shown.take(step)
            live.refresh()
    screen.say("The run's job has ended: trnctl status says how.", style="dim")


def drawn(picture: TopPicture, rows: int) -> Group:
    """The whole screen, of at most `rows` lines of nodes."""
    parts: list[Text | Table] = []
    if picture.notice:
        parts.append(Text(picture.notice, style="dim"))
    if not picture.runs:
        parts.append(Text("No run is running now: trnctl status shows what waits, and for what.", style="dim"))
    each = max(2, rows // max(1, len(picture.runs)))
    for run in picture.runs:
        parts += [_head(run, picture), *_nodes(run, each), *_notes(run)]
    return Group(*parts)


def _head(run: RunLoad, picture: TopPicture) -> Text:
    """`bert-large-1129-a3f  train 4712  16 of 16 nodes  512 cores 94 % busy  1h04m   14:03:07`."""
    job, share = run.load, busy(run.cores)
    line = Text()
    line.append(job.run, style="bold")
    line.append(f"  {job.stage} {job.job}   {len(job.loads):,} of {plural(len(job.names), 'node')}")
    if share is not None:
        line.append(f"   {len(run.cores):,} cores {share:.0f} % busy")
        line.append(f", {idle(run.cores):,} idle" if idle(run.cores) else "")
    line.append(f"   {duration(job.elapsed_s)}   at {picture.at.astimezone():%H:%M:%S}")
    if any(load.emulated for load in job.loads):
        line.append("   figures emulated", style="dim")
    return line


def _nodes(run: RunLoad, rows: int) -> list[Table | Text]:
    """Nodes with something to note first where there are too many; the others are summed up."""
    loads = [load for load in run.load.loads if not load.problem]
    if len(loads) > rows:
        loads.sort(key=lambda load: not run.of(load.node))
    shown, rest = loads[:rows], loads[rows:]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("NODE", "DEVICES", "BUSY", "IDLE", "DEVICE MEMORY", "HOST", "CPU", "NOTE"):
        right = column in {"BUSY", "IDLE", "DEVICE MEMORY", "HOST", "CPU"}
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for load in shown:
        table.add_row(*_row(run, load))
    parts: list[Table | Text] = [table] if shown else []
    if rest:
        parts.append(_rest(run, rest))
    if run.silent:
        names = ", ".join(run.silent[:4]) + (", …" if len(run.silent) > 4 else "")
        parts.append(Text(f"{plural(len(run.silent), 'node')} not heard of yet: {names}", style="dim"))
    return parts


def _row(run: RunLoad, load: NodeLoad) -> list[Text]:
    notes = run.of(load.node)
    style = LEVEL_STYLES[notes[0].level] if notes else ""
    share = busy(load.cores)
    lazy = idle(load.cores)
    return [
        Text(load.node, style=style),
        Text(blocks(by_device(load))),
        Text(f"{share:.0f} %" if share is not None else "–"),
        Text(f"{lazy}" if lazy else "", style="yellow"),
        Text(_of(load.device_used, load.device_total)),
        Text(gib(load.host_used)),
        Text(f"{load.cpu:.0f} %" if load.cpu is not None else "–"),
        Text(", ".join(dict.fromkeys(_WORDS.get(note.code, note.code) for note in notes)), style=style),
    ]


_WORDS = {
    "cores-idle": "idle", "straggler": "lags", "ecc-uncorrected": "memory errors", "execution-errors": "errors",
    "device-memory-full": "memory full", "load-stale": "silent",
}  # fmt: skip


def _rest(run: RunLoad, rest: Sequence[NodeLoad]) -> Text:
    shares = [busy(load.cores) or 0.0 for load in rest]
    noted = sum(bool(run.of(load.node)) for load in rest)
    words = f"{plural(len(rest), 'more node')}: {min(shares):.0f} to {max(shares):.0f} % busy"
    return Text(f"{words}, {noted:,} of them with something to note" if noted else words, style="dim")


def _notes(run: RunLoad) -> list[Text]:
    lines = [Text(f"! {note.message} — {note.remedy}", style=LEVEL_STYLES[note.level]) for note in run.findings]
    more = len(lines) - NOTES
    return lines[:NOTES] + ([Text(f"and {more:,} more: trnctl top -o json --once", style="dim")] if more > 0 else [])


def by_device(load: NodeLoad) -> list[float]:
    """The least busy core of each device: what idles must be seen."""
    each = len(load.cores) // load.devices if load.devices else 0
    if not each:
        return list(load.cores)
    return [min(load.cores[at : at + each]) for at in range(0, len(load.cores), each)]


def blocks(percents: Sequence[float]) -> str:
    """A bar a figure; an empty place for nothing at all."""
    return "".join(" " if one < 1 else BLOCKS[min(7, int(one * 8 / 100))] for one in percents)


def gib(size: int) -> str:
    """`36 GiB`; `–` when unknown."""
    return f"{size / 1024**3:,.0f} GiB" if size else "–"


def _of(used: int, total: int) -> str:
    return f"{used / 1024**3:,.0f} of {total / 1024**3:,.0f} GiB" if total else gib(used)
