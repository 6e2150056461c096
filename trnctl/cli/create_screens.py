"""What `trnctl cluster create` shows and asks, from the plan with its price to the cluster that runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trnctl.cli import preflight_screens
from trnctl.cli.output import Screen
from trnctl.cli.progress import follow_stack
from trnctl.cli.session import Session
from trnctl.cli.words import duration, gib

if TYPE_CHECKING:
    from trnctl.actions.create import CreatePlan
    from trnctl.actions.stack import Progress
    from trnctl.ports import FileSystem
    from trnctl.specs.cluster import ClusterSpec, Queue, Storage
    from trnctl.specs.prices import Prices


def prices(session: Session, given: Sequence[str], *, online: bool) -> Prices:
    """The prices of the plan: the person's own, AWS's price list when asked for, the table's."""
    from trnctl.cli.cost_screens import asked_prices, types_of

    opened = session.open()
    return asked_prices(opened.services, given, types_of(opened) if online else ())


def create(
    screen: Screen,
    session: Session,
    prices: Prices,
    *,
    adopts: bool,
    yes: bool,
    suppress: Sequence[str],
    keep_failed: bool,
) -> None:
    """The whole command."""
    from trnctl.actions.adopt import MENDED, adopt
    from trnctl.actions.create import create as carry_out
    from trnctl.actions.create import plan_create
    from trnctl.actions.stack import standing_phase

    spec = session.spec()
    services = session.services(spec.region, spec.name, spec)
    standing = standing_phase(spec.name, services)
    spec, adopted = adopt(spec, services) if adopts else (spec, ())
    plan = plan_create(spec, standing, prices=prices, adopted=adopted)
    create_plan(screen, plan, services.notice)
    if plan.asks:
        # What is left of a creation that failed holds the name: ParallelCluster's dry run would refuse it.
        stands = plan.standing is not None
        mended = [MENDED] if adopted else []
        preflight_screens.before(screen, session, services, [*suppress, *mended], stands=stands, spec=spec)
        screen.confirm("Create it?", yes=yes)
    steps = carry_out(plan, services, keep_failed=keep_failed)
    last = follow_stack(screen, steps, "trnctl status shows it; trnctl cluster create goes on")
    created(screen, plan, last)


def create_plan(screen: Screen, plan: CreatePlan, notice: str) -> None:
    """The cluster in a few lines, and its price before anything is spent."""
    spec = plan.spec
    screen.notice(notice)
    screen.say(
        f"{spec.name} in {spec.region} — ParallelCluster {spec.pcluster.version}, {spec.os}, Neuron {spec.neuron_sdk}"
    )
    screen.say()
    screen.say(f"  {'head':<10}1 × {spec.head_node.instance_type:<18}{_ssh_words(spec)}")
    for queue in spec.queues:
        for row in _queue_rows(queue):
            screen.say(f"  {row}")
    for storage in spec.storage:
        adopted = next((one for one in plan.adopted if one.id == storage.file_system_id), None)
        screen.say(f"  {storage.mount:<10}{_adopted_words(adopted) if adopted else _storage_words(storage)}")
    screen.say()
    screen.say(f"  idle {plan.idle}   full {plan.full}")
    screen.say(f"  {plan.full.basis}", style="dim")
    if spec.ttl is not None:
        screen.say(f"  the head node stops the fleet {spec.ttl} (ttl)")
    for kind in sorted({*plan.idle.unknown, *plan.full.unknown}):
        screen.say(f"  ! the price of {kind} is not known and not counted", style="yellow")
    if plan.standing == "create-failed":
        screen.say(f"  ! a stack named {spec.name} that failed to be created is deleted first", style="yellow")
    elif plan.standing is not None:
        screen.say(f"  {spec.name} is already {plan.standing}: nothing new is made", style="dim")
    screen.say()


def _adopted_words(found: FileSystem) -> str:
    size = f", {gib(found.gib)}" if found.gib else ""
    return f"{found.id}{size} with the earlier cluster's data (or --new-storage)"


def _ssh_words(spec: ClusterSpec) -> str:
    ways = []
    if spec.head_node.ssh_from:
        ways.append(f"ssh from {', '.join(spec.head_node.ssh_from)}")
    if spec.head_node.ssm:
        ways.append("Session Manager")
    return " and ".join(ways) or "no way in"


def _queue_rows(queue: Queue) -> list[str]:
    from trnctl.specs.instances import instance

    rows = []
    for index, resource in enumerate(queue.compute_resources):
        facts = instance(resource.instance_type)
        cards = facts.efa_interfaces if facts else 0
        words = [queue.capacity.type.replace("-", " ")]
        if cards and resource.efa is not False:
            words.append(f"EFA ×{cards}")
        if queue.placement_group:
            words.append("one placement group" if queue.placement_group is True else f"group {queue.placement_group}")
        count = f"{resource.min_count}…{resource.max_count} × {resource.instance_type}"
        rows.append(f"{queue.name if index == 0 else '':<10}{count:<22}  {', '.join(words)}")
    return rows


def _storage_words(storage: Storage) -> str:
    if not storage.managed:
        return f"{storage.kind} {storage.file_system_id}, yours"
    size = f" {gib(storage.gib)}" if storage.gib else ""
    kind = {"fsx": f"FSx for Lustre {storage.deployment}", "efs": "EFS", "ebs": f"EBS {storage.volume_type}"}[
        storage.kind
    ]
    return f"{kind}{size}   {'kept on teardown' if storage.on_delete == 'retain' else 'deleted with the cluster'}"


def created(screen: Screen, plan: CreatePlan, last: Progress | None) -> None:
    """The end of a create."""
    took = duration(last.elapsed_s) if last else "–"
    screen.done(
        {"cluster": plan.spec.name, "region": plan.spec.region, "phase": "running"},
        f"{plan.spec.name} is running."
        if plan.standing == "running"
        else f"{plan.spec.name} is running, after {took}.",
        after=f"{first_submit(plan.spec)}, trnctl status, trnctl ssh",
    )


def first_submit(spec: ClusterSpec) -> str:
    """How a first run could look on these queues: on as many nodes as there are and bert-large divides its batch by."""
    types = ("trn1.32xlarge", "trn1n.32xlarge")
    most = [one.max_count for queue in spec.queues for one in queue.compute_resources if one.instance_type in types]
    return f"trnctl submit bert-large -N {2 ** (max(most).bit_length() - 1)}" if most else "trnctl workloads list"
