"""What trnctl knows of the world as tables: regions, operating systems by ParallelCluster version."""

from __future__ import annotations

import re
from collections.abc import Mapping

REGIONS = (
    "af-south-1", "ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-south-2",
    "ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5", "ap-southeast-7",
    "ca-central-1", "ca-west-1", "cn-north-1", "cn-northwest-1", "eu-central-1", "eu-central-2", "eu-north-1",
    "eu-south-1", "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3", "il-central-1", "me-central-1", "me-south-1",
    "mx-central-1", "sa-east-1", "us-east-1", "us-east-2", "us-gov-east-1", "us-gov-west-1", "us-west-1", "us-west-2",
)  # fmt: skip

# The regions that ParallelCluster's packaged list lacks (every wheel from 3.11.1 to 3.16.1); the command reads a live
# list first, which may know them.
NOT_IN_PCLUSTER = frozenset({
    "ap-northeast-3", "ap-south-2", "ap-southeast-4", "ca-west-1", "eu-central-2", "eu-south-2", "me-central-1",
    "mx-central-1",
})  # fmt: skip

_RED_HAT = ("rhel8", "rhel9", "rocky8", "rocky9")
# From which ParallelCluster version on which systems are accepted (read in its wheels 3.11.1 to 3.16.1), newest first.
_SYSTEMS: tuple[tuple[tuple[int, int], tuple[str, ...]], ...] = (
    ((3, 16), ("ubuntu2404", "ubuntu2204", "alinux2023", *_RED_HAT)),
    ((3, 14), ("ubuntu2404", "ubuntu2204", "alinux2023", "alinux2", *_RED_HAT)),
    ((3, 13), ("ubuntu2404", "ubuntu2204", "ubuntu2004", "alinux2023", "alinux2", *_RED_HAT)),
    ((3, 11), ("ubuntu2204", "ubuntu2004", "alinux2023", "alinux2", *_RED_HAT)),
)
# Before that, where only files of other people are judged (read in the wheels 3.0.0 to 3.10.1).
_OLDER_SYSTEMS: tuple[tuple[tuple[int, int], tuple[str, ...]], ...] = (
    ((3, 10), ("ubuntu2204", "ubuntu2004", "alinux2023", "alinux2", *_RED_HAT)),
    ((3, 9), ("ubuntu2204", "ubuntu2004", "alinux2", "centos7", *_RED_HAT)),
    ((3, 8), ("ubuntu2204", "ubuntu2004", "alinux2", "centos7", "rhel8", "rocky8")),
    ((3, 7), ("ubuntu2204", "ubuntu2004", "alinux2", "centos7", "rhel8")),
    ((3, 6), ("ubuntu2004", "ubuntu1804", "alinux2", "centos7", "rhel8")),
    ((3, 0), ("ubuntu2004", "ubuntu1804", "alinux2", "centos7")),
)
ALL_SYSTEMS = tuple(dict.fromkeys(system for _, systems in _SYSTEMS for system in systems))

# What Neuron's setup pages say of each system (SDK 2.28 to 2.33); those that are not named are not supported at all.
NEURON_ON: Mapping[str, str] = {
    "ubuntu2404": "",
    "ubuntu2204": "Neuron ended its support of Ubuntu 22.04, whose Python 3.10 is too old for PyTorch 2.9",
    "alinux2023": "PyTorch 2.9 does not run on Amazon Linux 2023 (its glibc is too old): only JAX and the tools do",
}


def systems(pcluster_version: str) -> tuple[str, ...]:
    """The operating systems that a ParallelCluster version accepts; () when trnctl makes no clusters with it."""
    return _accepted(pcluster_version, _SYSTEMS)


def pcluster_systems(pcluster_version: str) -> tuple[str, ...]:
    """The same for every ParallelCluster 3; () for other versions."""
    return _accepted(pcluster_version, (*_SYSTEMS, *_OLDER_SYSTEMS))


def _accepted(pcluster_version: str, table: tuple[tuple[tuple[int, int], tuple[str, ...]], ...]) -> tuple[str, ...]:
    found = re.match(r"(\d+)\.(\d+)", pcluster_version)
    if found is None:
        return ()
    version = (int(found[1]), int(found[2]))
    return next((accepted for since, accepted in table if version >= since), ())


def partition(region: str) -> str:
    """The AWS partition of a region, the second part of every ARN there."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
