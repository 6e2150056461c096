"""What `submit`, `resume` and `logs` show."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from rich.text import Text

from trnctl.cli.files import write_files
from trnctl.cli.folding import folded
from trnctl.cli.output import Screen
from trnctl.cli.words import duration, money, plural
from trnctl.errors import Interrupted, RunFailed

if TYPE_CHECKING:
    from trnctl.actions.code import Brought
    from trnctl.actions.runs import OpenCluster
    from trnctl.actions.submit import SubmitPlan
    from trnctl.ports import File, FollowEvent, Lock, Resumed, RunOver, Stage, Submitted

_FAILED = frozenset({"failed", "cancelled", "timeout", "node-fail"})


def submit_plan(screen: Screen, plan: SubmitPlan, notice: str) -> None:
    """The layout, the compile stage, the time and the money, before anything is sent."""
    layout, guess = plan.layout, plan.estimate
    screen.notice(notice)
    degrees = [f"{word} {getattr(layout, word)}" for word in ("tensor", "pipeline", "context", "shard")]
    split = ", ".join(words for words in degrees if not words.endswith(" 1"))
    screen.say(
        f"{plan.workload.name} on {layout.nodes} × {plan.instance_type} ({plan.queue.name}) — "
        f"{layout.world:,} workers, {f'{split}, data {layout.data}' if split else 'data parallel'}"
    )
    batch = f"{layout.micro_batch} × {layout.accumulation} × {layout.data:,} = {layout.global_batch:,} global"
    screen.field("batch", f"{batch} ({layout.scaling} scaling)", indent="  ")
    screen.field("compile", _compile_words(plan), indent="  ")
    time = f"about {_time_words(guess.hours)}" if guess.hours is not None else "time unknown"
    screen.field("train", f"{guess.steps:,} steps, {time}", indent="  ")
    price = f"{layout.nodes} × {money(guess.price_per_node_hour)}/h" if guess.price_per_node_hour else "no price"
    screen.field("cost", f"{f'about {money(guess.cost_usd)}' if guess.cost_usd else 'unknown'} ({price})", indent="  ")
    screen.field("cap", _cap_words(plan), indent="  ")
    screen.field("basis", guess.basis, indent="  ", style="dim")
    if not plan.risk.on_signal:
        screen.field("! at risk", f"a stop loses {plan.risk.words()}", indent="  ", style="yellow")
    doubts(screen, plan)
    if plan.check:
        words = "each job first looks at its nodes; one that fails is drained, and the job waits for another"
        screen.field("check", words, indent="  ")
    if not plan.mirror:
        words = "its results lie on the cluster's file system alone: the cluster file names no bucket to copy them to"
        screen.field("! records", words, indent="  ", style="yellow")
    screen.say()


def doubts(screen: Screen, plan: SubmitPlan) -> None:
    """The warnings of a plan, before anything is sent."""
    for finding in plan.findings:
        screen.say(f"! {finding.code}: {finding.message} — {finding.remedy}", style="yellow")


def _cap_words(plan: SubmitPlan) -> str:
    """How long the cap lets the jobs run, and what it does not cover."""
    if plan.cap is None:
        return "none (--max-cost USD)"
    return (
        f"{money(plan.cap.usd)}: after {duration(plan.cap.minutes * 60)} in all, restarts and compile job included, "
        "Slurm ends them; boot and idle minutes come on top"
    )


def _compile_words(plan: SubmitPlan) -> str:
    """What is known of the compile stage before the head node has looked into the cache."""
    wish, minutes = plan.submission.cache, plan.workload.compile_minutes
    if plan.compile == "skipped" or wish is None:
        return "skipped"
    about = f", about {minutes:g} min" if minutes else ""
    return f"as asked for{about}" if wish.mode == "force" else f"unless fingerprint {wish.fingerprint} is cached{about}"


def dry_run(screen: Screen, plan: SubmitPlan, folder: str | None, variables: Mapping[str, str]) -> None:
    """Everything that would be written and run; with a folder, written there instead of printed. Values of the user's
    `variables` may be tokens, and are printed nowhere."""
    if folder is not None:
        write_files(Path(folder), plan.submission.files)
    doubts(screen, plan)
    if screen.json:
        screen.data(
            {
                "run": plan.run, "folder": plan.submission.folder, "compile": plan.compile,
                "fingerprint": plan.submission.cache.fingerprint if plan.submission.cache else None,
                "commands": commands(plan),
                "files": {file.name: shown(file, variables) for file in plan.submission.files},
                "findings": [finding.as_json() for finding in plan.findings],
            }
        )  # fmt: skip
        return
    if folder is not None:
        screen.done({}, f"wrote {plural(len(plan.submission.files), 'file')} to {folder}")
        return
    screen.text(f"# run {plan.run} in {plan.submission.folder}; on the head node, in one connection:")
    wish = plan.submission.cache
    if wish is not None and wish.mode == "auto":
        screen.text(f"# without the compile job when {wish.url} holds every graph of fingerprint {wish.fingerprint}")
    for command in commands(plan):
        screen.text(command)
    for file in plan.submission.files:
        if PurePosixPath(file.name).suffix != ".py":
            screen.text(f"\n# ---- {file.name}\n{shown(file, variables)}")


def shown(file: File, variables: Mapping[str, str]) -> str:
    """A file's text without what may be a secret: all of it, or the values of variables."""
    if file.secret:
        return "(not shown: it may hold a token)\n"
    text = file.text
    for name, value in variables.items():  # as templates/job writes them: one word of a shell each
        text = text.replace(shlex.quote(f"{name}={value}"), shlex.quote(f"{name}=(not shown)"))
    return text


def commands(plan: SubmitPlan) -> list[str]:
    """What is run on the head node, in words that a shell takes: the first held, the next after it, the release."""
    submission = plan.submission
    folder, extra = shlex.quote(submission.folder), shlex.join(submission.sbatch_args)
    lines = []
    for before, stage in zip((None, *submission.stages), submission.stages, strict=False):
        gate = f"--dependency=afterok:${before} --kill-on-invalid-dep=yes" if before else "--hold"
        ours = f"--parsable --chdir={folder} --comment=trnctl:{plan.run}:{stage} {gate}"
        line = " ".join(part for part in ("sbatch", extra, ours, f"{folder}/{stage}.sbatch") if part)
        lines.append(f"{stage}=$({line})")
    if not submission.hold:
        lines.append(f"scontrol release ${submission.stages[0]}")
    return lines


def _time_words(hours: float) -> str:
    """`5.2 h`; minutes and seconds where an hour is too coarse."""
    return f"{hours:,.1f} h" if hours >= 1 else duration(hours * 3600)


def code_brought(screen: Screen, done: Brought) -> None:
    """Which state of the user's own code the run will have."""
    how = "copied" if done.fresh else "there already"
    screen.field("code", f"{plural(done.files, 'file')} as they are now, {how}: {done.path}")


def submitted(screen: Screen, plan: SubmitPlan, answer: Submitted, *, follow: bool) -> None:
    """The run's name, its jobs, its folder, and the next commands."""
    jobs = {"prepare": answer.prepare, "compile": answer.jobs.get("compile"), "train": answer.jobs.get("train")}
    freed = [{"graph": lock.graph, "age_s": lock.age_s} for lock in answer.freed]
    result = {
        "run": answer.run, "jobs": jobs, "folder": answer.folder, "compile": answer.compile, "why": answer.why,
        "unlocked": freed, "again": answer.again, "preparing": [*answer.preparing],
            "findings": [finding.as_json() for finding in plan.findings],
    }  # fmt: skip
    _freed(screen, answer.freed)
    if screen.json:
        (screen.line if follow else screen.data)(result)
        return
    if answer.why:
        screen.say(f"compile {answer.compile}: {answer.why}")
    if answer.preparing:
        screen.say(f"The head node fetches {', '.join(answer.preparing)}; the jobs are held until all is there.")
    chain = _chain(answer.prepare, answer.jobs)
    again = "   (it had been submitted already)" if answer.again else ""
    screen.field("run", f"{answer.run}   {chain}{again}", data=True)
    screen.field("folder", answer.folder, data=True)
    if not follow:
        width = len(f"trnctl logs {answer.run} -f")
        for command, words in (
            (f"trnctl logs {answer.run} -f", "follow it"),
            ("trnctl status -w", "watch the cluster"),
        ):
            screen.say(f"  {command:<{width}}   {words}", style="dim")


def _chain(prepare: int | None, jobs: Mapping[Stage, str]) -> str:
    """`compile 4711 → train 4712`, after `prepare` and its process where there is one."""
    words = [f"prepare (process {prepare})"] if prepare else []
    return " → ".join([*words, *(f"{stage} {job}" for stage, job in jobs.items())])


def _freed(screen: Screen, locks: Sequence[Lock]) -> None:
    """Why locks in the cache were removed before anything waits for them."""
    for lock in locks:
        screen.say(
            f"! {lock.graph} was locked by a compiler that no longer runs, {duration(lock.age_s)} ago; no living job "
            "uses it, and the lock is removed: the run would have waited for it without end",
            style="yellow",
        )


def resumed(screen: Screen, answer: Resumed, *, follow: bool) -> None:
    """From where a run goes on, with which jobs, and without which nodes."""
    _freed(screen, answer.freed)
    excluded = ", ".join(answer.excluded)
    jobs: dict[str, object] = {} if answer.prepare is None else {"prepare": answer.prepare}
    jobs.update({str(stage): job for stage, job in answer.jobs.items()})
    if screen.json:
        result = {
            "run": answer.run, "jobs": jobs, "folder": answer.folder, "checkpoint": answer.checkpoint,
            "excluded": [*answer.excluded], "waits_for_nodes": answer.short,
        }  # fmt: skip
        (screen.line if follow else screen.data)(result)
        return
    if excluded:
        screen.say(f"without {excluded}: down or drained")
    if answer.short:
        screen.say("the partition has no other nodes than those that are down: the run waits until they are back")
    chain = _chain(answer.prepare, answer.jobs)
    start = PurePosixPath(answer.checkpoint).name or "the beginning: there is no whole checkpoint"
    screen.out.print(Text(f"run {answer.run}   {chain}   goes on from {start}"), overflow="fold")
    if not follow:
        screen.say(f"  trnctl logs {answer.run} -f      follow it", style="dim")


def follow_run(
    screen: Screen,
    run: str,
    events: Iterator[FollowEvent],
    *,
    judge: bool = True,
    opened: OpenCluster | None = None,
) -> RunOver | None:
    """Print log lines and state changes as they come. RunFailed when a stage failed; Ctrl-C leaves the run alone.

    With the cluster that the run is on, the failure gets its cause, where one can be found.
    """
    over: RunOver | None = None
    try:
        for event in folded(events) if screen.out.is_terminal and not screen.json else events:
            over = _show_event(screen, event) or over
    except KeyboardInterrupt:
        raise Interrupted(
            "you stopped following; the run goes on",
            remedy=f"trnctl logs {run} -f follows it again; trnctl cancel {run} ends it",
        ) from None
    if over is not None and judge:
        if screen.json:
            screen.line({"run": run, "states": dict(over.states)})
        _raise_if_failed(run, over, opened)
    return over


def _show_event(screen: Screen, event: FollowEvent) -> RunOver | None:
    from trnctl.ports import LineLost, LogLine, RunOver, StageState

    if isinstance(event, LogLine):
        if screen.json:
            screen.line({"stage": event.stage, "log": event.log, "line": event.text})
        else:
            screen.text(event.text)
            sys.stdout.flush()
    elif isinstance(event, StageState):
        if screen.json:
            screen.line({"stage": event.stage, "job": event.job, "state": event.state, "reason": event.reason})
        else:
            reason = f" ({event.reason})" if event.reason else ""
            screen.say(f"— {event.stage} {event.job}: {event.state}{reason}", style="bold")
    elif isinstance(event, LineLost):
        screen.say(f"— {event.why} Trying again in {event.pause_s:g} s; no line is lost.", style="yellow")
    elif isinstance(event, RunOver):
        return event
    return None


def _raise_if_failed(run: str, over: RunOver, opened: OpenCluster | None) -> None:
    failed = [(stage, state) for stage, state in over.states.items() if state in _FAILED]
    if failed:
        stage, state = next(((s, w) for s, w in failed if w != "cancelled"), failed[0])
        rest = ", ".join(f"{s} {w}" for s, w in failed if s != stage)
        error = RunFailed(
            f"{run}: {stage} {state}" + (f", {rest}" if rest else ""),
            remedy=f"trnctl logs {run} --stage {stage} shows why; trnctl results {run} shows what it reached",
        )
        if opened is None or state == "cancelled":
            raise error
        from trnctl.actions.why_now import explain_run

        raise explain_run(error, run, opened)
