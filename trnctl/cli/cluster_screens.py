"""What `trnctl cluster …` and `trnctl teardown` show."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from trnctl.cli.output import Screen
from trnctl.cli.words import clock, gib, plural
from trnctl.errors import LeftoverError

if TYPE_CHECKING:
    from trnctl.actions.teardown import Proof, TeardownPlan
    from trnctl.ports import ClusterSummary, StackEvent


def clusters(screen: Screen, found: Sequence[ClusterSummary], region: str) -> None:
    """`cluster list`."""
    if screen.json:
        screen.data({"clusters": [vars(one) for one in found], "region": region})
    elif not found:
        screen.say(f"There is no ParallelCluster cluster in {region}.")
    else:
        screen.table(["NAME", "STATUS", "VERSION"], [(one.name, one.status, one.version) for one in found])


def document(screen: Screen, text: str) -> None:
    """`cluster render`: the YAML as it will be sent, or what it says as JSON."""
    if not screen.json:
        screen.text(text)
        return
    import yaml

    screen.data(yaml.safe_load(text))


def mapping(screen: Screen, value: Mapping[str, object]) -> None:
    """A whole answer of another tool, as YAML or JSON."""
    if screen.json:
        screen.data(value)
        return
    import yaml

    screen.text(yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True))


def events(screen: Screen, found: Sequence[StackEvent]) -> None:
    """`cluster events`: what happened when to which resource, and why."""
    if screen.json:
        screen.data({"events": [vars(one) | {"at": one.at.isoformat()} for one in found]})
        return
    for one in found:
        line = Text(f"{clock(one.at)}  {one.status:<20}  {one.logical_id}")
        if one.status.endswith("FAILED"):
            line.stylize("bold red")
        screen.out.print(line, overflow="fold")
        if one.reason not in {"", "Resource creation Initiated"}:  # what CloudFormation says of every resource
            screen.out.print(Text(f"       {one.reason}", style="dim"), overflow="fold")


def teardown_plan(screen: Screen, plan: TeardownPlan, notice: str, *, delete_storage: bool | None) -> None:
    """What goes and what stays, before anything is asked; `delete_storage` is None where that is still to be said."""
    screen.notice(notice)
    if plan.stack is None:
        screen.say(f"The stack of {plan.cluster} is gone already.")
    else:
        parts = ["head node" if plan.head else "no head node", plural(plan.compute_nodes, "compute node")]
        if plan.resources:
            parts.append(plural(plan.resources, "resource"))
        screen.say(f"This will delete {plan.cluster}: {', '.join(parts)}.")
    gone, kept = (plan.lost + plan.kept, ()) if delete_storage else (plan.lost, plan.kept)
    for one in gone:
        screen.say(f"  deletes  {one.id} ({one.kind}, {gib(one.gib)}) and its data", style="yellow")
    word = "keeps" if delete_storage is False else "would keep"
    for one in kept:
        screen.say(f"  {word}  {one.id} ({one.kind}, {gib(one.gib)}), which goes on costing")
    if plan.unseen:
        screen.say(f"  ! its runs cannot be seen: {plan.unseen}", style="yellow")
    elif plan.stack is not None and not plan.runs:
        screen.say("  no run is active")
    if plan.bucket and plan.head:
        screen.say(f"  copies the records of its runs to s3://{plan.bucket}: trnctl runs and results read them there")
    elif plan.head:
        words = "the records of its runs are not copied: the cluster file names no bucket; --export s3://… copies them"
        screen.say(f"  ! {words}", style="yellow")
    for job in plan.runs:
        screen.say(f"  ! {job.run or job.id} ({job.stage or 'job'}) is {job.state}", style="yellow")


def ask_storage(screen: Screen, plan: TeardownPlan) -> bool | None:
    """Whether retained file systems are deleted; None when there is nothing to ask or no terminal to ask on."""
    if not plan.asks_about_storage:
        return False
    if not sys.stdin.isatty():
        return None
    names = ", ".join(one.id for one in plan.kept)
    screen.err.print(Text(f"Delete {names} with all data, or keep it and pay? [keep/delete] "), end="")
    return {"delete": True, "keep": False}.get(sys.stdin.readline().strip().lower())


def proof(screen: Screen, shown: Proof, cluster: str) -> None:
    """What was deleted, kept and left. LeftoverError when anything is left."""
    if screen.json:
        screen.data(shown.as_json())
    else:
        for word, things in (("deleted", shown.deleted), ("kept", shown.kept), ("left", shown.left)):
            screen.field(word, f"{len(things)}" + (f"   {'; '.join(things)}" if things else ""), data=True)
        if shown.records:
            screen.field("records", shown.records, style="dim")
        rest = "" if shown.left else " Nothing else carries this cluster's tag."
        screen.field("looked for", f"{', '.join(shown.looked_for)}.{rest}", style="dim")
    if shown.left:
        raise LeftoverError(
            f"{plural(len(shown.left), 'thing')} of {cluster} still there: {'; '.join(shown.left)}",
            remedy=f"run trnctl teardown --cluster {cluster} again in some minutes; delete by hand what stands then",
        )
