"""What a cluster file names in an account, asked in one go: the records of the Account's `survey`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trnctl.ports.account import KeyPair, Subnet
from trnctl.ports.cloud import FileSystem


@dataclass(frozen=True)
class Wanted:
    """What is to be looked up: ids and names as the file has them. `quotas` are codes of EC2's quotas, `actions` what
    the caller must be allowed to do; empty ones are not asked about."""

    cluster: str
    subnets: tuple[str, ...]
    instance_types: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    key: str = ""
    reservations: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    quotas: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


@dataclass(frozen=True)
class SecurityGroup:
    """A security group: whether it allows all traffic from itself, and to itself, by name (a CIDR does not count)."""

    id: str
    from_itself: bool
    to_itself: bool


@dataclass(frozen=True)
class ReservedCapacity:
    """A capacity reservation in any state (`active`, `scheduled`, `expired`, …, as EC2 calls it)."""

    id: str
    instance_type: str
    zone: str
    total: int
    platform: str
    state: str
    block: bool = False
    ends: datetime | None = None


@dataclass(frozen=True)
class Image:
    """An image; `version`, `os` and `built` are from the tags that ParallelCluster gives ('' and False: none).
    `root_gib` is the size of its root volume."""

    id: str
    version: str = ""
    os: str = ""
    built: bool = False
    root_gib: int = 0


@dataclass(frozen=True)
class Survey:
    """What was found. What is not there is missing from the mappings; a question that AWS refused is in `refused`, by
    what it was about, with AWS's words, and its mapping is then empty.

    `zones` are those that offer each type; `dns` is by VPC; `endpoints` are the services (`s3`, `dynamodb`) that each
    VPC reaches by itself, asked only where a subnet has no way out; `denied` are the actions that the caller may not
    do; `kept` are file systems that an earlier cluster of that name left; `calls` is how often AWS was asked.
    """

    subnets: Mapping[str, Subnet] = field(default_factory=dict)
    zones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dns: Mapping[str, bool] = field(default_factory=dict)
    endpoints: Mapping[str, frozenset[str]] = field(default_factory=dict)
    security_groups: Mapping[str, SecurityGroup] = field(default_factory=dict)
    keys: Mapping[str, KeyPair] = field(default_factory=dict)
    reservations: Mapping[str, ReservedCapacity] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)
    quotas: Mapping[str, float] = field(default_factory=dict)
    denied: tuple[str, ...] = ()
    kept: tuple[FileSystem, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    calls: int = 0
