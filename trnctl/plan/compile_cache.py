"""Where a run's compiled graphs lie, whether its nodes share them, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trnctl.plan.fingerprint import FLAGS, cache_dir, chip

VARIABLE = "NEURON_COMPILE_CACHE_URL"
# Neuron's release notes: the locks of the cache were made anew in 2.20, which hung in waits until 2.20.1; many readers
# of one graph failed on FSx for Lustre (error 61) until 2.23.
_SHARES_SINCE = (2, 23)


@dataclass(frozen=True)
class CachePlace:
    """`url` is a folder or s3://…; `shared` False: each node has a folder of its own in it. `why` says so in words;
    `own` is True for one that the user named."""

    url: str
    shared: bool
    why: str
    own: bool = False


def cache_root(mount: str) -> str:
    """The folder of all compile caches, CHIP/SDK below it."""
    return f"{mount}/trnctl/cache"


def cache_place(
    *, mount: str, instance_type: str, sdk: str, recipe: Mapping[str, str], environment: Mapping[str, str]
) -> CachePlace:
    """The cache of a run: the one that the user's variables name, or the recipe's, else one for each chip and SDK."""
    variables = {**recipe, **environment}
    named = cache_dir(variables.get(FLAGS, "")) or variables.get(VARIABLE, "")
    shared, why = sharing(sdk)
    if named:
        why = "named by --env or by the recipe"
        if named.startswith("s3://"):
            # Objects in S3 are whole or absent, and the trouble with shared locks is that of file systems: Neuron's
            # troubleshooting page names s3:// as the way out of it. So one for all nodes, whatever the release.
            why += ": in S3, one for all nodes under every release"
        return CachePlace(named.removeprefix("file://"), True, why, own=True)
    return CachePlace(f"{cache_root(mount)}/{chip(instance_type)}/{sdk}", shared, why)


def sharing(sdk: str) -> tuple[bool, str]:
    """Whether the nodes may share one cache under this release, and why."""
    numbers = tuple(map(int, re.findall(r"\d+", sdk)[:2]))
    if numbers >= _SHARES_SINCE:
        return True, f"shared by all nodes: Neuron {sdk} locks a cache on shared storage well (since 2.20.1, FSx 2.23)"
    return False, f"one for each node: Neuron {sdk} is before 2.23, and corrupts or stalls a cache that nodes share"
