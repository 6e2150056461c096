"""Which of the known faults of ParallelCluster's releases (trnctl.specs.pcluster_faults) would meet a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trnctl.preflight.config import Config
from trnctl.specs.pcluster_faults import Fault, faults_of

MANY = 64  # nodes, from which on tightly coupled jobs are at scale


def _cards(config: Config) -> bool:
    return any(facts.network_cards > 1 for resource in config.resources() for facts in resource.facts)


def _lustre_or_group(config: Config) -> bool:
    lustre = any(storage.kind == "FsxLustre" and storage.managed for storage in config.storage)
    return lustre or any(resource.group.used for resource in config.resources())


def _nvidia(config: Config) -> bool:
    return any(name.startswith(("p", "g")) for resource in config.resources() for name in resource.types)


# What a fault's word `of` asks of a cluster.
MEETS: Mapping[str, Callable[[Config], bool]] = {
    "": lambda _: True,
    "cards": _cards,
    "cards by EC2's names": lambda config: (
        _cards(config) and config.settings.at("Dns", "UseEc2Hostnames").flag() is True
    ),
    "lustre or group": _lustre_or_group,
    "storage": lambda config: bool(config.storage),
    "reservation": lambda config: any(resource.reservation for resource in config.resources()),
    "static nodes": lambda config: any(resource.least for resource in config.resources()),
    "many nodes": lambda config: config.nodes >= MANY,
    "NVIDIA devices": _nvidia,
}


def issues(config: Config) -> list[Fault]:
    """The faults of its release that would meet it."""
    first, second, third = (*config.release, 0, 0)[:3]
    return [fault for fault in faults_of((first, second, third), config.os) if MEETS[fault.of](config)]
