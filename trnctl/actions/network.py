"""Make, list and take away the network of the walk-through, as a CloudFormation stack of trnctl's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trnctl import __version__
from trnctl.actions.create import failure
from trnctl.actions.stack import Progress, watch
from trnctl.errors import LeftoverError, NotFoundError, RefusedError, UsageError
from trnctl.plan.network import NetworkLayout, addresses_per_node, choose_zone, lay_out
from trnctl.ports import Account, NetworkStack, Phase, Resource, Services, Subnet
from trnctl.render.network import network_template
from trnctl.specs import known
from trnctl.specs.cluster import ClusterSpec, Pcluster

DEFAULT_NAME = "trnctl-network"
DEFAULT_CIDR = "10.0.0.0/16"
DEFAULT_TYPE = "trn1.32xlarge"
DEFAULT_NODES = 16
_STACK_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{0,127}")
# A NAT gateway takes some two minutes, all else seconds; deletion waits for the gateway's interface.
_LIMIT_S = 20 * 60
COSTS = (
    "NAT gateway and its public address: billed by the hour and by the GB that passes; "
    "their prices are not in trnctl's table (see aws.amazon.com/vpc/pricing)"
)
_FREE = "VPC, subnets, routes, internet gateway and gateway endpoints cost nothing"


@dataclass(frozen=True)
class NetworkWish:
    """What a person asks for; `zone` '' lets trnctl choose. `fleet` is instance type -> most nodes of it at once."""

    fleet: Mapping[str, int]
    name: str = DEFAULT_NAME
    cidr: str = DEFAULT_CIDR
    zone: str = ""
    pcluster_version: str = Pcluster.version
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NetworkPlan:
    """What `network create` will do. `standing` is a network of that name that is already there; `others` are the
    further zones that offer the types."""

    wish: NetworkWish
    region: str
    zone: str
    others: tuple[str, ...]
    layout: NetworkLayout
    template: str
    standing: Phase | None = None

    @property
    def asks(self) -> bool:
        """Whether something new will be made, so that a person should confirm."""
        return self.standing in {None, "create-failed"}

    @property
    def costs(self) -> tuple[str, str]:
        """What costs, and what does not, each in a sentence; a price that is not known is said to be unknown."""
        return (COSTS, _FREE)


def fleet_of(spec: ClusterSpec) -> dict[str, int]:
    """The most nodes of each type that a cluster's queues allow."""
    fleet: dict[str, int] = {}
    for queue in spec.queues:
        for resource in queue.compute_resources:
            fleet[resource.instance_type] = fleet.get(resource.instance_type, 0) + resource.max_count
    return fleet


def plan_network(wish: NetworkWish, region: str, account: Account) -> NetworkPlan:
    """The plan. RefusedError when no zone offers the types, the CIDR is too small, or a stack is in the way;
    UsageError for a name or a CIDR that AWS does not take."""
    if not _STACK_NAME.fullmatch(wish.name):
        raise UsageError(
            f"{wish.name!r} cannot name a stack", remedy="use letters, digits and hyphens, a letter first: --name"
        )
    standing = next((one.phase for one in account.networks() if one.name == wish.name), None)
    if standing in {"deleting", "delete-failed"}:
        raise RefusedError(
            f"a network named {wish.name} is still there: {standing}",
            remedy=f"finish it with trnctl network delete {wish.name}, or choose another name: --name",
        )
    zones = _zones(wish, region, account)
    needed = [(count, addresses_per_node(kind, wish.pcluster_version)) for kind, count in wish.fleet.items()]
    nodes = sum(count for count, _ in needed)
    layout = lay_out(wish.cidr, nodes=nodes, per_node=max(each for _, each in needed))
    zone = wish.zone or choose_zone(zones, account.reservations(), next(iter(wish.fleet))) or zones[0]
    return NetworkPlan(
        wish=wish,
        region=region,
        zone=zone,
        others=tuple(one for one in zones if one != zone),
        layout=layout,
        template=network_template(wish.name, zone, layout),
        standing=standing,
    )


def _zones(wish: NetworkWish, region: str, account: Account) -> list[str]:
    """The zones that offer every type of the fleet, `wish.zone` among them."""
    offers = {kind: account.zones_offering(kind) for kind in wish.fleet}
    for kind, zones in offers.items():
        if not zones:
            raise RefusedError(
                f"no zone of {region} offers {kind}",
                remedy=elsewhere(kind, region, account),
            )
    common = [zone for zone in next(iter(offers.values())) if all(zone in zones for zones in offers.values())]
    if not common:
        words = "; ".join(f"{kind}: {', '.join(zones)}" for kind, zones in offers.items())
        raise RefusedError(
            f"no zone of {region} offers all of these types ({words})",
            remedy="make a network for each: --instance-type TYPE --zone ZONE --name NAME",
        )
    if wish.zone and wish.zone not in common:
        raise RefusedError(
            f"{wish.zone} does not offer {', '.join(wish.fleet)}", remedy=f"choose one of {', '.join(common)}: --zone"
        )
    return common


def elsewhere(instance_type: str, region: str, account: Account) -> str:
    """The remedy for a region without the type: which others have it, of the same partition."""
    same = [one for one in known.REGIONS if known.partition(one) == known.partition(region) and one != region]
    found = account.regions_offering(instance_type, same)
    if not found:
        return "check the type's spelling; no other region that this account may use offers it either"
    return f"choose a region that does: --region {found[0]}" + (f" (or {', '.join(found[1:])})" if found[1:] else "")


def create_network(plan: NetworkPlan, services: Services) -> Iterator[Progress]:
    """Carry the plan out, yielding progress to the end; can be run again. ToolError names the event that failed."""
    name = plan.wish.name
    if plan.standing == "create-failed":
        services.account.delete_network(name)
        yield from watch(name, services, until=frozenset({None, "delete-failed"}), limit_s=_LIMIT_S)
    if plan.asks:
        tags = {**plan.wish.tags, "trnctl:version": __version__}
        services.account.create_network(name, plan.template, tags)
    phase: Phase | None = None
    ends: frozenset[Phase | None] = frozenset({"running", "create-failed", "update-failed", "delete-failed", None})
    for step in watch(name, services, until=ends, limit_s=_LIMIT_S):
        phase = step.phase
        yield step
    if phase != "running":
        raise failure(name, "created", services)


@dataclass(frozen=True)
class Network:
    """A network as it stands: its stack, and its subnets with the addresses that are free ([] while it is made)."""

    stack: NetworkStack
    subnets: tuple[Subnet, ...]

    def subnet(self, output: str) -> Subnet | None:
        """The subnet of an output (`HeadSubnet`, `ComputeSubnet`)."""
        return next((one for one in self.subnets if one.id == self.stack.outputs.get(output)), None)


def show_networks(account: Account) -> list[Network]:
    """All networks of the region that trnctl made."""
    stacks = account.networks()
    subnets = account.subnets() if stacks else []
    return [
        Network(stack, tuple(one for one in subnets if one.vpc == stack.outputs.get("Vpc")))
        for stack in stacks
    ]  # fmt: skip


def chosen_network(name: str | None, region: str, account: Account) -> Network:
    """The network of that name; without one, the only one. NotFoundError, or RefusedError when there are several."""
    found = show_networks(account)
    if name is None and len(found) > 1:
        raise RefusedError(
            f"there are {len(found)} networks in {region}: {', '.join(one.stack.name for one in found)}",
            remedy="name the one that is meant",
        )
    matching = [one for one in found if name is None or one.stack.name == name]
    if not matching:
        raise NotFoundError(
            f"trnctl has made no network{f' named {name}' if name else ''} in {region}",
            remedy="trnctl network show lists them; trnctl network create makes one",
        )
    return matching[0]


def check_empty(network: Network, account: Account) -> None:
    """RefusedError while something lives in the network's subnets, naming the clusters that it belongs to."""
    living = account.inhabitants([one.id for one in network.subnets])
    if not living:
        return
    clusters = sorted({one.detail.removeprefix("cluster ") for one in living if one.detail.startswith("cluster ")})
    users = f"cluster {', '.join(clusters)}" if clusters else "something that is no cluster of ParallelCluster"
    shown = ", ".join(f"{one.kind} {one.id}" for one in living[:5]) + (" …" if len(living) > 5 else "")
    stored = any(one.kind.endswith("file system") for one in living)
    away = " and ".join(f"trnctl teardown --cluster {one}{' --delete-storage' * stored}" for one in clusters)
    kept = "; a file system that was kept keeps its network as well" if stored else ""
    raise RefusedError(
        f"{network.stack.name} is in use by {users}: {shown}",
        remedy=f"take that away first{f': {away}' if away else ''}{kept}",
    )


def delete_network(network: Network, services: Services) -> Iterator[Progress]:
    """Delete the stack, wait until it is gone, and prove it. ToolError names what would not go, LeftoverError what is
    still there although the stack is gone."""
    name = network.stack.name
    services.account.delete_network(name)
    phase: Phase | None = None
    for step in watch(name, services, until=frozenset({None, "delete-failed"}), limit_s=_LIMIT_S):
        phase = step.phase
        yield step
    if phase is not None:
        raise failure(name, "deleted", services)
    _prove(name, services.account.network_remains(name))


def _prove(name: str, remains: Sequence[Resource]) -> None:
    if remains:
        words = ", ".join(f"{one.kind} {one.id}" for one in remains)
        raise LeftoverError(
            f"the stack of {name} is gone, and this is left: {words}",
            remedy="delete it in the VPC console; what carries the tag trnctl:network was made by this stack",
        )
