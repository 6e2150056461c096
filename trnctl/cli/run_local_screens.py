"""What `run-local` shows: the layout, the training's own lines, and what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trnctl.actions.run_local import run_folder as new_folder
from trnctl.cli.files import write_files
from trnctl.cli.output import Screen
from trnctl.cli.words import plural
from trnctl.errors import Interrupted
from trnctl.plan.progress import parse_progress

if TYPE_CHECKING:
    from trnctl.actions.run_local import LocalPlan

GRACE = 40.0  # seconds to save after Ctrl-C; torchrun itself gives its workers 30


def run_folder(workload: str, wished: str | None) -> Path:
    """The wished folder, or a new one below the working folder; absolute."""
    return Path(wished or new_folder(workload, datetime.now(UTC))).expanduser().absolute()


def train(screen: Screen, plan: LocalPlan, lines: Generator[str]) -> None:
    """Write the run's files, show its lines as they come, and its results. Ctrl-C ends the training, which saves."""
    folder = Path(plan.folder)
    for sentence in plan.said:
        screen.say(f"! {sentence}", style="yellow")
    write_files(folder, plan.files)
    layout = plan.layout
    screen.field(
        "run", f"{plan.workload.name} on {plural(layout.world, 'rank')} of this machine, {plural(plan.steps, 'step')}"
    )
    batch = f"{layout.micro_batch} × {layout.accumulation} × {layout.data} = {layout.global_batch} global"
    screen.field("batch", f"{batch}   shard {layout.shard} × replicas {layout.replicas} × tensor {layout.tensor}")
    screen.field("folder", plan.folder)
    try:
        with closing(lines):  # which ends the training
            for line in lines:
                _show(screen, plan, line)
    except KeyboardInterrupt:
        raise Interrupted(
            "the training was ended, and no process of it is left",
            remedy=f"it goes on with trnctl run-local {plan.workload.name} --ranks {layout.world} --write {folder}",
        ) from None
    _ended(screen, plan, json.loads((folder / "output" / "results.json").read_text(encoding="utf-8")))


def _show(screen: Screen, plan: LocalPlan, line: str) -> None:
    if not screen.json:
        screen.text(line)
        sys.stdout.flush()
        return
    manifest = {"log_pattern": plan.workload.log.step, "steps": plan.steps, "log_first": plan.workload.log.first}
    seen = parse_progress(manifest, f"{line}\n")
    if seen.step is not None:
        screen.line({"step": seen.step, "steps": seen.steps, "loss": seen.loss, "throughput": seen.throughput})
    else:
        screen.say(line)


def _ended(screen: Screen, plan: LocalPlan, results: dict[str, object]) -> None:
    if screen.json:
        screen.line({"run": plan.workload.name, "folder": plan.folder, "results": results})
        return
    loss, rate = results.get("final_loss"), results.get("average_throughput")
    told = f"{results.get('steps_done')} of {plan.steps} steps"
    told += f", loss {loss:.4f}" if isinstance(loss, float) else ""
    told += f", {rate:,.1f} {results.get('unit')}, measured on this machine" if isinstance(rate, float) else ""
    screen.field("done", told, data=True)
    screen.say(f"  next: trnctl plan {plan.workload.name}, trnctl submit {plan.workload.name}", style="dim")
