"""All sections of a ParallelCluster configuration, by name; the outermost is `Cluster`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from trnctl.preflight.schema import Key, Section, Version, shape, shapes
from trnctl.preflight.sections_cluster import CLUSTER
from trnctl.preflight.sections_nodes import NODES
from trnctl.preflight.sections_scheduling import SCHEDULING, STORAGE

ROOT = "Cluster"
SECTIONS: Mapping[str, Section] = {**CLUSTER, **NODES, **SCHEDULING, **STORAGE}


@cache
def keys_of(section: str, version: Version) -> dict[str, Key]:
    """What stands in a section in that version."""
    found = ((name, shape(keys, version)) for name, keys in SECTIONS[section].items())
    return {name: key for name, key in found if key is not None}


def places(version: Version, section: str = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Key]]:
    """Every key of the whole configuration with the names above it; a list adds `[]` to its name."""
    for name, keys in SECTIONS[section].items():
        key = shape(keys, version) or shapes(keys)[-1]
        here = (*path, name + ("[]" if key.kind == "sections" else ""))
        yield here, key
        if key.section:
            yield from places(version, key.section, here)
