"""What `trnctl cluster update` shows and asks, from the difference to the fleet that runs again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trnctl.cli import preflight_screens
from trnctl.cli.output import Screen, finding_line
from trnctl.cli.progress import follow, follow_stack, stack_words
from trnctl.cli.session import Session
from trnctl.errors import UsageError

if TYPE_CHECKING:
    from trnctl.actions.stack import Progress
    from trnctl.actions.update import UpdatePlan
    from trnctl.ports import Fleet

AGAIN = "run the same command again: it goes on where this ended, and starts a fleet that it has stopped"


def update(
    screen: Screen, session: Session, counts: list[str], *, requeue: bool, yes: bool, suppress: Sequence[str]
) -> None:
    """The whole command: the difference, what it takes, a yes, and then progress to the end."""
    from trnctl.actions.adopt import adopt
    from trnctl.actions.stack import require_stack
    from trnctl.actions.update import check, plan_update, settle
    from trnctl.actions.update import update as carry_out

    if counts:
        session.edited = edited(session, counts)
    opened = session.open()
    services = opened.services
    spec, _ = adopt(session.spec(), services)
    require_stack(spec.name, spec.region, services)
    follow_stack(screen, settle(spec.name, services), AGAIN)
    plan = plan_update(spec, services, opened.runs_folder)
    difference(screen, plan)
    if plan.nothing:
        written = _write(screen, session)
        told = f"{spec.name} is as its file says: nothing to change." + (" The file says so now." if written else "")
        screen.done({"updated": None}, told)
        return
    check(plan, requeue=requeue)
    if plan.changes:
        preflight_screens.before(screen, session, services, suppress, stands=True, spec=spec)
    screen.confirm("Update it?", yes=yes)
    follow_update(screen, carry_out(plan, services, lambda: _accepted(screen, session)))
    screen.done({"updated": spec.name}, f"{spec.name} is updated.", after="trnctl status")


def edited(session: Session, counts: list[str]) -> str:
    """The cluster file's text with other counts; nothing is written yet."""
    from trnctl.cli.files import read_text
    from trnctl.specs.editing import read_counts, with_counts

    path = session.path()
    if path is None:
        raise UsageError("there is no cluster file whose counts could be changed", remedy="name one with -c FILE")
    return with_counts(read_text(path, "cluster file"), read_counts(counts))


def _accepted(screen: Screen, session: Session) -> None:
    """ParallelCluster has taken the update on: now the file may say it too."""
    if _write(screen, session):
        screen.say(f"  the counts stand in {session.path()} now")


def _write(screen: Screen, session: Session) -> bool:
    from trnctl.cli.files import read_text, replace_text

    path = session.path()
    if session.edited is None or path is None or session.edited == read_text(path, "cluster file"):
        return False
    replace_text(path, session.edited)
    return True


def difference(screen: Screen, plan: UpdatePlan) -> None:
    """What differs, what it takes, and what forbids it."""
    for change in plan.changes:
        screen.say(f"  {change.path}: {change.current or '–'} → {change.requested or '–'}")
    for finding in plan.refused:
        screen.err.print(finding_line(finding))
    if plan.stops:
        paths = ", ".join(dict.fromkeys(one.path for one in plan.stops if one.path))
        screen.say(f"  needs a stopped fleet: {paths}")
        if not plan.refused:
            screen.say("  so the fleet is stopped, the cluster updated, and the fleet started again")
        for job in plan.busy:
            screen.say(f"  ! {job.run or f'job {job.id}'} ({job.stage or 'job'}) is {job.state}", style="yellow")
    elif plan.restarts:
        screen.say("  an update that was interrupted has stopped the fleet: it is started again at the end")


def follow_update(screen: Screen, steps: Iterator[Progress | Fleet]) -> None:
    """Follow the fleet and the stack in their turns."""
    from trnctl.ports import Fleet

    def words(step: Progress | Fleet) -> str:
        return f"compute fleet: {step.status}" if isinstance(step, Fleet) else stack_words(step)

    def state(step: Progress | Fleet) -> str | None:
        return step.status if isinstance(step, Fleet) else step.phase

    follow(screen, steps, words, AGAIN, state)
