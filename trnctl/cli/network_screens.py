"""What `trnctl network …` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen

if TYPE_CHECKING:
    from trnctl.actions.network import Network, NetworkPlan
    from trnctl.ports import Account, NetworkStack


def create_plan(screen: Screen, plan: NetworkPlan, notice: str) -> None:
    """The network in a few lines, and what costs before anything is spent."""
    layout, wish = plan.layout, plan.wish
    fleet = ", ".join(f"{count} × {kind}" for kind, count in wish.fleet.items())
    screen.notice(notice)
    screen.say(f"{wish.name} in {plan.zone} — for up to {fleet}, ParallelCluster {wish.pcluster_version}")
    screen.say()
    screen.field("VPC", f"{layout.vpc}   DNS support and hostnames on", indent="  ")
    screen.field("head", f"{layout.head}   public, internet gateway", indent="  ")
    screen.field(
        "compute",
        f"{layout.compute}   private, NAT gateway; {layout.addresses:,} addresses wanted "
        f"({layout.nodes:,} × {layout.per_node} for nodes)",
        indent="  ",
    )
    screen.field("endpoints", "S3 and DynamoDB, without a charge for their traffic", indent="  ")
    screen.field("EFA", "a security group that lets all its members' traffic in and out among them", indent="  ")
    if plan.others:
        screen.field("zones", f"{', '.join(plan.others)} would do as well: --zone", indent="  ", style="dim")
    screen.say()
    for word, sentence in zip(("costs", ""), plan.costs, strict=True):
        screen.field(word, f"{sentence}.", indent="  ")
    if plan.standing == "create-failed":
        screen.say(f"  ! a stack named {wish.name} that failed to be created is deleted first", style="yellow")
    elif plan.standing is not None:
        screen.say(f"  {wish.name} is already {plan.standing}: nothing new is made", style="dim")
    screen.say()


def created(screen: Screen, plan: NetworkPlan, account: Account) -> None:
    """The end of a create: the lines for the cluster file, as data."""
    stack = next(one for one in account.networks() if one.name == plan.wish.name)
    head, compute = stack.outputs["HeadSubnet"], stack.outputs["ComputeSubnet"]
    if screen.json:
        screen.data({"network": _json(stack), "region": plan.region})
        return
    screen.say(f"{stack.name} is there. These lines belong under `network:` in trnctl.yaml:")
    screen.text(f"    head_subnet: {head}\n    compute_subnet: {compute}")
    screen.say(f"  next: trnctl init --head-subnet {head} --compute-subnet {compute}", style="dim")


def networks(screen: Screen, found: Sequence[Network], region: str, notice: str) -> None:
    """`network show`."""
    screen.notice(notice)
    if screen.json:
        rows = [_json(one.stack) | _free(one) for one in found]
        screen.data({"networks": rows, "region": region})
        return
    if not found:
        screen.say(f"trnctl has made no network in {region}; trnctl network create makes one.")
    for one in found:
        outputs = one.stack.outputs
        screen.text("   ".join([one.stack.name, one.stack.phase, *(outputs.get(key, "") for key in ("Zone", "Vpc"))]))
        for word, output in (("head", "HeadSubnet"), ("compute", "ComputeSubnet")):
            subnet = one.subnet(output)
            if subnet is not None:
                words = f"{subnet.id}   {subnet.cidr}   {subnet.free:,} addresses free"
                screen.field(word, words, indent="  ", data=True)


def _json(stack: NetworkStack) -> dict[str, object]:
    """The stable keys."""
    keys = {"zone": "Zone", "vpc": "Vpc", "head_subnet": "HeadSubnet", "compute_subnet": "ComputeSubnet"}
    found = {key: stack.outputs.get(output) for key, output in keys.items()}
    return {
        "name": stack.name,
        "phase": stack.phase,
        **found,
        "efa_security_group": stack.outputs.get("EfaSecurityGroup"),
    }


def _free(network: Network) -> dict[str, object]:
    head, compute = network.subnet("HeadSubnet"), network.subnet("ComputeSubnet")
    return {"head_free": head.free if head else None, "compute_free": compute.free if compute else None}


def delete_plan(screen: Screen, network: Network, notice: str) -> None:
    """What goes."""
    screen.notice(notice)
    things = [network.stack.outputs.get("Vpc", ""), *(one.id for one in network.subnets), "gateways and endpoints"]
    screen.say(f"This will delete {network.stack.name}: {', '.join(filter(None, things))}.")
    screen.say("  nothing lives in its subnets")


def deleted(screen: Screen, network: Network) -> None:
    """The end of a delete; what is left has been raised."""
    name = network.stack.name
    screen.done({"deleted": name, "left": []}, f"{name} is deleted: nothing carries its tag any more.")
