"""What stands in the account from the start: fixed ids, so that the documented example file works as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

ACCOUNT = "123456789012"  # moto's own default; nothing in the sandbox uses another

PUBLIC_SUBNET = "subnet-0aa11bb22cc33dd41"
PRIVATE_SUBNET = "subnet-0aa11bb22cc33dd42"
OTHER_ZONE_SUBNET = "subnet-0aa11bb22cc33dd43"  # private, in a zone that does not offer trn1
SECOND_PRIVATE_SUBNET = "subnet-0aa11bb22cc33dd44"
SECOND_ZONE_SUBNET = "subnet-0aa11bb22cc33dd45"  # private, in the second zone that offers trn1

RESERVATION = "cr-0aa11bb22cc33dd51"
CAPACITY_BLOCK = "cr-0aa11bb22cc33dd52"
LUSTRE = "fs-0aa11bb22cc33dd61"
EFS = "fs-0aa11bb22cc33dd62"
KEYS: Mapping[str, str] = MappingProxyType({"demo-ed25519": "ed25519", "demo-rsa": "rsa"})
BUCKETS = ("my-trnctl-bucket", "my-data")


@dataclass(frozen=True)
class ReservationSeed:
    """A capacity reservation of `count` instances; `block` makes it a capacity block for ML."""

    id: str
    instance_type: str = "trn1.32xlarge"
    count: int = 16
    block: bool = False


@dataclass(frozen=True)
class Seeds:
    """What a user's own file mentions and the account must know, beside the fixed seeds.

    `private_subnets` land in the zone of the fixed ones, `public_subnets` get addresses and a way out. `keys` are
    names of ed25519 key pairs. `lustre` and `efs` are file system ids.
    """

    public_subnets: tuple[str, ...] = ()
    private_subnets: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    lustre: tuple[str, ...] = ()
    efs: tuple[str, ...] = ()
    reservations: tuple[ReservationSeed, ...] = ()
    buckets: tuple[str, ...] = ()
