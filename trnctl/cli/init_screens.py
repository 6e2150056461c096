"""What `trnctl init` asks and shows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from trnctl.cli.output import Screen
from trnctl.cli.session import Session
from trnctl.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from trnctl.actions.init import Answers, Choices
    from trnctl.ports import Reservation, Subnet
    from trnctl.render.cluster_file import Draft
    from trnctl.specs.values import Rule

_FIRST_REGION = "us-west-2"


def require_room(path: str, *, yes: bool) -> None:
    """UsageError before anything is asked: for a file that is there, and without a terminal to ask on."""
    if Path(path).exists():
        raise UsageError(
            f"{path} is there already, and init overwrites nothing", remedy="name another with --output-file FILE"
        )
    if not yes and not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask on", remedy="add --yes to take the best choice for whatever no option says"
        )


def region_of(screen: Screen, session: Session, *, yes: bool) -> str:
    """The region: by option, by environment or profile, or asked for."""
    from trnctl.specs import known
    from trnctl.targets import default_region

    if session.region:
        return session.region
    try:
        return default_region(session.target, session.profile)
    except UsageError:
        if yes:
            raise
    wrong = "trnctl knows no such region"
    return ask(screen, "Region", _FIRST_REGION, lambda text: "" if text in known.REGIONS else wrong)


def ask_size(screen: Screen, said: Answers) -> Answers:
    """Name, type and size, where no option has said them."""
    from trnctl.actions.init import DEFAULT_NAME
    from trnctl.actions.network import DEFAULT_TYPE
    from trnctl.specs import rules

    name = said.name or ask(screen, "Name of the cluster", DEFAULT_NAME, _by_rule(rules.CLUSTER_NAME))
    kind = said.instance_type or ask(screen, "Instance type", DEFAULT_TYPE, _by_rule(rules.INSTANCE_TYPE))
    return replace(said, name=name, instance_type=kind)


def ask_rest(screen: Screen, said: Answers, found: Choices) -> Answers:
    """What the account offers, where no option has chosen."""
    from trnctl.actions import init
    from trnctl.specs import rules

    said = _ask_capacity(screen, said, found)
    held = next((one for one in found.reservations if one.id == said.reservation), None)
    if said.compute_subnet is None and (subnets := init.compute_choices(found, held.zone if held else "")):
        chosen = choose(screen, "Subnet of the compute nodes", [(one.id, _subnet_words(one)) for one in subnets])
        said = replace(said, compute_subnet=chosen)
    compute = next((one for one in found.subnets if one.id == said.compute_subnet), None)
    if said.head_subnet is None and compute and (subnets := init.head_choices(found, compute)):
        chosen = choose(screen, "Subnet of the head node", [(one.id, _subnet_words(one)) for one in subnets])
        said = replace(said, head_subnet=chosen)
    if said.key_name is None and (keys := init.key_choices(found)):
        said = replace(said, key_name=choose(screen, "Key pair", [(one.name, one.kind) for one in keys]))
    if said.ssh_key is None and said.key_name and found.local_keys:
        suggested = init.private_half(found, said.key_name)
        screen.say(f"  ed25519 keys on this machine: {', '.join(found.local_keys)}", style="dim")
        said = replace(said, ssh_key=ask(screen, "Private half of that key (empty: ssh's own)", suggested) or None)
    if said.ssh_from is None and not said.ssm:
        question = "From which network may ssh come, as in 203.0.113.7/32 (empty: Session Manager instead)"
        source = ask(screen, question, "", _by_rule(rules.SSH_SOURCE, optional=True))
        said = replace(said, ssh_from=source or None, ssm=not source)
    if said.bucket is None:
        question = "Bucket for the nodes' scripts (empty: none)"
        said = replace(said, bucket=ask(screen, question, "", _by_rule(rules.BUCKET, optional=True)) or None)
    return said


def _ask_capacity(screen: Screen, said: Answers, found: Choices) -> Answers:
    """On demand, or out of a reservation; and how many nodes."""
    from trnctl.actions.init import reservation_choices
    from trnctl.actions.network import DEFAULT_NODES

    held = reservation_choices(found)
    if said.reservation is None and held:
        rows = [("on-demand", "as they are wanted"), *((one.id, _reservation_words(one)) for one in held)]
        chosen = choose(screen, "Capacity", rows)
        said = replace(said, reservation=None if chosen == "on-demand" else chosen)
    if said.max_nodes is None:
        total = next((one.total for one in held if one.id == said.reservation), DEFAULT_NODES)
        said = replace(said, max_nodes=int(ask(screen, "Most nodes at once", str(total), _no_count)))
    return said


def _no_count(text: str) -> str:
    return "" if text.isdecimal() and int(text) > 0 else "a number above zero is wanted"


def _subnet_words(subnet: Subnet) -> str:
    words = [subnet.zone, subnet.cidr, f"{subnet.free:,} free", subnet.vpc, subnet.name]
    return "   ".join(word for word in words if word)


def _reservation_words(one: Reservation) -> str:
    ends = f", until {one.ends:%Y-%m-%d %H:%M} UTC" if one.ends else ""
    return f"{'capacity block' if one.block else 'reservation'} in {one.zone}, {one.free} of {one.total} free{ends}"


def _by_rule(rule: Rule, *, optional: bool = False) -> Callable[[str], str]:
    """The complaint of a rule about a text, '' when it holds."""
    return lambda text: "" if (optional and not text) or rule.holds(text) else f"`{text}` {rule.message}. {rule.remedy}"


def ask(screen: Screen, question: str, default: str, wrong: Callable[[str], str] = lambda _: "") -> str:
    """One line from the terminal; Enter takes the default. Asked again while `wrong` complains."""
    while True:
        screen.err.print(Text(f"{question}{f' [{default}]' if default else ''}: "), end="")
        line = sys.stdin.readline()
        if not line:
            raise Interrupted("nothing was written", remedy="run it again, or give options and --yes")
        answer = line.strip() or default
        complaint = wrong(answer)
        if not complaint:
            return answer
        screen.say(f"  {complaint}", style="yellow")


def choose(screen: Screen, question: str, rows: Sequence[tuple[str, str]]) -> str:
    """One of several by its number or itself, the best one first. What is the only one is taken and said."""
    if len(rows) == 1:
        screen.say(f"{question}: {rows[0][0]}   {rows[0][1]}")
        return rows[0][0]
    screen.say(f"{question}:")
    for number, (value, words) in enumerate(rows, 1):
        screen.say(f"  {number}  {value}   {words}")
    values = [value for value, _ in rows]
    picks = {**{str(number): value for number, value in enumerate(values, 1)}, **{value: value for value in values}}
    return picks[ask(screen, "Which", "1", lambda text: "" if text in picks else f"1 to {len(rows)}, please")]


def checked_text(draft: Draft, path: str) -> str:
    """The file's text, which must load. UsageError, before anything is written, names what an answer got wrong."""
    from trnctl.render.cluster_file import cluster_file
    from trnctl.specs.loading import load_cluster_file

    text = cluster_file(draft)
    load_cluster_file(text, path)
    return text


def written(screen: Screen, draft: Draft, path: str) -> None:
    """The end: what was chosen, and what to do next."""
    chosen = {
        "file": path,
        "cluster": draft.name,
        "region": draft.region,
        "instance_type": draft.instance_type,
        "max_nodes": draft.max_count,
        "head_subnet": draft.head_subnet,
        "compute_subnet": draft.compute_subnet,
        "key_name": draft.key_name or None,
        "reservation": draft.reservation or None,
        "bucket": draft.bucket or None,
    }
    config = "" if Path(path).name == "trnctl.yaml" else f" -c {path}"
    if not draft.bucket and not screen.json:
        screen.say("  ! without a bucket nothing gives the nodes their Neuron software: --bucket", style="yellow")
    words = f"{draft.max_count} × {draft.instance_type} in {draft.compute_subnet}, head node in {draft.head_subnet}"
    screen.done(
        chosen,
        f"{path} describes {draft.name}: 0…{words}.",
        after=f"trnctl{config} cluster validate --online, then trnctl{config} cluster create",
    )
