"""The arithmetic of a cluster's network: how many addresses a fleet needs, and the subnets that hold them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from trnctl.errors import RefusedError, UsageError
from trnctl.ports import Reservation
from trnctl.specs.instances import instance

# AWS keeps the first four addresses of each subnet and the last one for itself.
RESERVED = 5
# Besides the nodes: a node that is being replaced stands beside its successor; FSx for Lustre, EFS and endpoints have
# interfaces of their own.
_HEADROOM = 32
_WIDEST, _NARROWEST = 16, 28  # AWS's limits for VPCs and subnets alike
_ROOMY_COMPUTE, _ROOMY_HEAD = 20, 24  # 4091 and 251 addresses: they cost nothing where the VPC has them


@dataclass(frozen=True)
class NetworkLayout:
    """The VPC and its two subnets, as CIDRs. `addresses` is what `nodes` of the type and what stands beside them need
    in the compute subnet; `per_node` of them are each node's."""

    vpc: str
    head: str
    compute: str
    nodes: int
    per_node: int
    addresses: int


def addresses_per_node(instance_type: str, pcluster_version: str) -> int:
    """How many addresses of its subnet a compute node takes.

    ParallelCluster up to 3.14 gives every network card an interface with an address. From 3.15 on only card 0 has one;
    the others, and card 0's second, are `efa-only` (read in the launch templates of its wheels), which have none.
    """
    facts = instance(instance_type)
    if facts is None or version_of(pcluster_version) >= (3, 15):
        return 1
    return facts.network_cards


def version_of(text: str) -> tuple[int, ...]:
    """`3.16.1` as numbers."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def lay_out(cidr: str, *, nodes: int, per_node: int) -> NetworkLayout:
    """Divide a VPC: the lower half holds the head node's subnet, the upper half that of the compute nodes.

    UsageError for a CIDR that AWS does not take; RefusedError when it is too small, naming one that is not.
    """
    vpc = _vpc(cidr)
    wanted = nodes * per_node + _HEADROOM
    least = _prefix(wanted)
    if vpc.prefixlen + 1 > least:
        raise _too_small(vpc, nodes, per_node, wanted)
    lower, upper = vpc.subnets(1)
    head = max(lower.prefixlen, _ROOMY_HEAD)
    compute = max(upper.prefixlen, min(least, _ROOMY_COMPUTE))
    return NetworkLayout(
        vpc=str(vpc),
        head=str(_first(lower, head)),
        compute=str(_first(upper, compute)),
        nodes=nodes,
        per_node=per_node,
        addresses=wanted,
    )


def choose_zone(offering: Sequence[str], reservations: Sequence[Reservation], instance_type: str) -> str | None:
    """The zone for nodes of a type: where a reservation of this account has most instances free, else the first that
    offers the type; None when none does."""
    held = [one for one in reservations if one.instance_type == instance_type and one.zone in offering and one.free]
    if held:
        return max(held, key=lambda one: one.free).zone
    return offering[0] if offering else None


def _vpc(cidr: str) -> IPv4Network:
    try:
        vpc = IPv4Network(cidr)
    except ValueError as error:
        raise UsageError(
            f"{cidr} is not an IPv4 network: {error}", remedy="give one as in --cidr 10.0.0.0/16"
        ) from error
    if not _WIDEST <= vpc.prefixlen <= _NARROWEST:
        raise UsageError(
            f"{cidr} cannot be a VPC: AWS takes /{_WIDEST} to /{_NARROWEST}", remedy="give one as in --cidr 10.0.0.0/16"
        )
    return vpc


def _prefix(addresses: int) -> int:
    """The prefix length of the smallest subnet that has so many addresses to give."""
    return min(_NARROWEST, 32 - (addresses + RESERVED - 1).bit_length())


def _first(network: IPv4Network, prefix: int) -> IPv4Network:
    return next(network.subnets(new_prefix=prefix))


def _too_small(vpc: IPv4Network, nodes: int, per_node: int, wanted: int) -> RefusedError:
    prefix = _prefix(wanted) - 1  # half of the VPC is the compute nodes'
    need = (
        f"{wanted:,} addresses are wanted in one subnet: {nodes:,} × {per_node} for the nodes, "
        f"{_HEADROOM} for what stands beside them"
    )
    if prefix < _WIDEST:
        return RefusedError(
            f"{need}; half of the largest VPC has fewer",
            remedy="ask for fewer nodes, or use ParallelCluster 3.15 or newer, which takes one address a node",
        )
    return RefusedError(
        f"{need}; half of {vpc} has {vpc.num_addresses // 2 - RESERVED:,}",
        remedy=f"give a larger network: --cidr {vpc.supernet(new_prefix=prefix)} or wider",
    )
