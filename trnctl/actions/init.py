"""Find out what a new cluster file needs: what the account has that fits, what a person says, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from trnctl.actions.network import DEFAULT_NODES, elsewhere
from trnctl.errors import RefusedError, UsageError
from trnctl.ports import Account, KeyPair, NetworkStack, Reservation, Subnet, Vpc
from trnctl.render.cluster_file import Draft

DEFAULT_NAME = "ultra1"


@dataclass(frozen=True)
class Answers:
    """What has been said, by flags or by a person; None where nothing was."""

    name: str | None = None
    instance_type: str | None = None
    max_nodes: int | None = None
    compute_subnet: str | None = None
    head_subnet: str | None = None
    key_name: str | None = None
    ssh_key: str | None = None
    ssh_from: str | None = None
    ssm: bool = False
    reservation: str | None = None
    bucket: str | None = None


@dataclass(frozen=True)
class Choices:
    """What the account has in a region; `zones` are those that offer the type. `local_keys` are ed25519 keys on this
    machine, by their private halves: they are suggested, never taken unasked."""

    region: str
    instance_type: str
    zones: tuple[str, ...]
    vpcs: tuple[Vpc, ...]
    subnets: tuple[Subnet, ...]
    keys: tuple[KeyPair, ...]
    reservations: tuple[Reservation, ...]
    networks: tuple[NetworkStack, ...] = ()
    local_keys: tuple[str, ...] = ()


def look_up(account: Account, region: str, instance_type: str, local_keys: Sequence[str] = ()) -> Choices:
    """Ask the account, side by side. RefusedError when no zone offers the type, naming the regions that do."""
    zones = account.zones_offering(instance_type)
    if not zones:
        raise RefusedError(
            f"no zone of {region} offers {instance_type}", remedy=elsewhere(instance_type, region, account)
        )
    networks = account.networks()  # the clients are made before the threads begin
    with ThreadPoolExecutor(max_workers=4) as pool:
        vpcs, subnets = pool.submit(account.vpcs), pool.submit(account.subnets)
        keys, reservations = pool.submit(account.key_pairs), pool.submit(account.reservations)
        return Choices(
            region=region,
            instance_type=instance_type,
            zones=tuple(zones),
            vpcs=tuple(vpcs.result()),
            subnets=tuple(subnets.result()),
            keys=tuple(keys.result()),
            reservations=tuple(reservations.result()),
            networks=tuple(networks),
            local_keys=tuple(local_keys),
        )


def compute_choices(found: Choices, zone: str = "") -> list[Subnet]:
    """Subnets for compute nodes, the best first: private with a NAT gateway, in a zone that offers the type (in `zone`
    when a reservation says so), in a VPC with DNS. A network that trnctl made comes before others, then more room."""
    named = {one.id for one in found.vpcs if one.dns}
    ours = {stack.outputs.get("Vpc") for stack in found.networks}
    zones = (zone,) if zone else found.zones
    fitting = [
        one
        for one in found.subnets
        if one.way_out == "nat" and not one.public_ips and one.zone in zones and one.vpc in named
    ]
    return sorted(fitting, key=lambda one: (one.vpc not in ours, -one.free, one.id))


def head_choices(found: Choices, compute: Subnet) -> list[Subnet]:
    """Subnets for the head node beside those compute nodes, the best first: public, in the same VPC and zone."""
    public = [one for one in found.subnets if one.vpc == compute.vpc and one.way_out == "internet" and one.public_ips]
    return sorted(public, key=lambda one: (one.zone != compute.zone, -one.free, one.id))


def key_choices(found: Choices) -> list[KeyPair]:
    """Key pairs that Ubuntu 22.04 and newer take."""
    return sorted((one for one in found.keys if one.kind == "ed25519"), key=lambda one: one.name)


def reservation_choices(found: Choices) -> list[Reservation]:
    """Reservations of the type with something free, the largest first. None is ever taken unasked."""
    fitting = [one for one in found.reservations if one.instance_type == found.instance_type and one.free]
    return sorted(fitting, key=lambda one: (-one.free, one.id))


def private_half(found: Choices, key_name: str) -> str:
    """The key on this machine that bears the key pair's name; '' when none does."""
    names = {path.rpartition("/")[2].removesuffix(".pem"): path for path in found.local_keys}
    return names.get(key_name, "")


def complete(said: Answers, found: Choices) -> Draft:
    """The answers, with the best choice for what was not said. UsageError names all that is missing, with its flag."""
    reservation = _reservation(said, found)
    compute = _compute(said, found, reservation.zone if reservation else "")
    head = said.head_subnet or next((one.id for one in head_choices(found, compute)), None) if compute else None
    head = said.head_subnet or head
    key = said.key_name or next((one.name for one in key_choices(found)), None)
    missing = _missing(said, found, compute, head, key)
    if missing or compute is None or head is None:
        raise UsageError("; ".join(missing), remedy="give what is missing, or answer the questions on a terminal")
    nodes = said.max_nodes or (reservation.total if reservation else DEFAULT_NODES)
    return Draft(
        name=said.name or DEFAULT_NAME,
        region=found.region,
        instance_type=found.instance_type,
        max_count=nodes,
        head_subnet=head,
        compute_subnet=compute.id,
        key_name=key or "",
        ssh_key=said.ssh_key or (private_half(found, key) if key else ""),
        ssh_from=(said.ssh_from,) if said.ssh_from else (),
        ssm=said.ssm,
        reservation=reservation.id if reservation else "",
        block=bool(reservation and reservation.block),
        bucket=said.bucket or "",
    )


def _reservation(said: Answers, found: Choices) -> Reservation | None:
    if not said.reservation:
        return None
    named = next((one for one in found.reservations if one.id == said.reservation), None)
    if named is None or named.instance_type != found.instance_type:
        known = ", ".join(one.id for one in reservation_choices(found)) or "none"
        raise UsageError(
            f"there is no active reservation {said.reservation} of {found.instance_type} in {found.region}",
            remedy=f"those that fit: {known} (--reservation)",
        )
    return named


def _compute(said: Answers, found: Choices, zone: str) -> Subnet | None:
    """The compute subnet that was said, which must exist, or the best."""
    if not said.compute_subnet:
        return next(iter(compute_choices(found, zone)), None)
    named = next((one for one in found.subnets if one.id == said.compute_subnet), None)
    if named is None:
        raise UsageError(
            f"there is no subnet {said.compute_subnet} in {found.region}",
            remedy="check --compute-subnet and --region; trnctl network show lists those that trnctl made",
        )
    return named


def _missing(
    said: Answers, found: Choices, compute: Subnet | None, head: str | None, key: str | None
) -> list[str]:  # fmt: skip
    """What neither was said nor can be chosen, in sentences with the flag that says it."""
    lacks = []
    if compute is None:
        lacks.append(
            f"--compute-subnet: no private subnet with a NAT gateway is in {' or '.join(found.zones)} "
            "(trnctl network create makes one)"
        )
    elif head is None:
        lacks.append(f"--head-subnet: {compute.vpc} has no public subnet that gives addresses")
    if not said.ssm and not said.ssh_from:
        lacks.append("--ssh-from ADDRESS/32, or --ssm: nobody could reach the head node")
    if key is None and not said.ssm:
        lacks.append(f"--key-name: {found.region} has no ed25519 key pair{_suggested(found)}")
    return lacks


def _suggested(found: Choices) -> str:
    if not found.local_keys:
        return " (make one: aws ec2 create-key-pair --key-type ed25519)"
    key = found.local_keys[0]
    name = key.rpartition("/")[2]
    return f" (this machine's: aws ec2 import-key-pair --key-name {name} --public-key-material fileb://{key}.pub)"
