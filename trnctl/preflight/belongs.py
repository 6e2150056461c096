"""Where a key that ParallelCluster does not look for belongs, or what it was meant to be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from trnctl.preflight.schema import Key, Version, shapes
from trnctl.preflight.sections import SECTIONS, keys_of, places

_NEAR = 0.82  # the likeness of two spellings of one key


@dataclass(frozen=True)
class Verdict:
    """Why a key is refused: `code`, what is wrong in words, and the way out."""

    code: Literal["unknown-key", "misplaced-key", "key-too-new", "key-removed"]
    message: str
    remedy: str


def judge_key(name: str, section: str, path: tuple[str, ...], version: Version) -> Verdict:
    """The verdict on a key of a section that this version does not know; `path` are the names above it, lists with
    `[]`."""
    other = SECTIONS[section].get(name)
    here = ".".join(path) or "the top level"
    if other is not None:
        return _of_another_version(name, shapes(other), version)
    near = _nearest(name, keys_of(section, version))
    if near is not None:
        return Verdict("unknown-key", f"{name} is no key of {here}", f"Did you mean {near}?")
    found = _elsewhere(name, path, version)
    if found:
        return Verdict("misplaced-key", f"{name} does not belong under {here}", f"Move it to {' or '.join(found)}.")
    known = ", ".join(keys_of(section, version))
    remedy = f"Known here: {known}." if known else "Remove it: nothing is expected here."
    return Verdict("unknown-key", f"ParallelCluster has no key {name}", remedy)


def _of_another_version(name: str, keys: tuple[Key, ...], version: Version) -> Verdict:
    ended = next((key.until for key in keys if key.until is not None and key.until <= version), None)
    if ended is not None:
        return Verdict(
            "key-removed", f"ParallelCluster {_words(ended)} removed {name}", _INSTEAD.get(name, "Remove it.")
        )
    since = min(key.since for key in keys)
    return Verdict(
        "key-too-new",
        f"{name} came with ParallelCluster {_words(since)}, and the file is for {_words(version)}",
        f"Remove it, or use ParallelCluster {_words(since)} or newer.",
    )


# What takes the place of a key that was removed.
_INSTEAD = {
    "AwsBatchQueues": "Use Slurm: Scheduler: slurm with SlurmQueues, or stay on ParallelCluster 3.15.",
    "AwsBatchSettings": "Remove it: AWS Batch is no longer a scheduler of ParallelCluster.",
    "KeyName": "Remove it: login nodes take the head node's users and keys.",
}


def _words(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _nearest(name: str, keys: Iterable[str]) -> str | None:
    from difflib import SequenceMatcher  # wanted only where something is wrong

    likeness = {key: SequenceMatcher(None, _plain(name), _plain(key)).ratio() for key in keys}
    best = max(likeness, key=lambda key: likeness[key], default=None)
    if best is None or likeness[best] < _NEAR:
        return next((key for key in keys if _ends_with(key, name) or _ends_with(name, key)), None)
    return best


def _ends_with(longer: str, shorter: str) -> bool:
    return len(_plain(shorter)) > 5 and _plain(longer).endswith(_plain(shorter))


@cache
def _all_places(version: Version) -> tuple[tuple[str, ...], ...]:
    return tuple(path for path, _ in places(version))


def _elsewhere(name: str, path: tuple[str, ...], version: Version) -> list[str]:
    """The nearest places of a key of that name: those that share most of the way with `path`, two at most."""
    wanted = [place for place in _all_places(version) if _plain(place[-1]) == _plain(name)]
    ranked = sorted(wanted, key=lambda place: (-_shared(place, path), len(place)))
    if not ranked:
        return []
    best = [place for place in ranked if _shared(place, path) == _shared(ranked[0], path)]
    return [".".join(place) for place in best[:2]]


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    shared = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        shared += 1
    return shared
