"""Configurations in the style of those that people publish: none is refused, and ParallelCluster takes them too."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.oracles import load_in_pcluster
from trnctl.findings import errors_among
from trnctl.preflight.judge import DEFAULT_VERSION, RULES, judge
from trnctl.preflight.sections import places

ROOT = Path(__file__).parent.parent
CORPUS = sorted((ROOT / "corpus").glob("*.yaml"))
SNAPSHOTS = sorted((ROOT / "snapshots" / "clusters").glob("*.yaml"))
NEWEST = [path for path in CORPUS if not path.read_text().startswith("# version: ")]


def version_of(path: Path) -> str:
    """The version for which a file of the corpus was written: its first line says so when it is not the newest."""
    found = re.match(r"# version: (\S+)", path.read_text())
    return found[1] if found else DEFAULT_VERSION


def test_the_corpus_is_there() -> None:
    assert len(CORPUS) > 30
    assert len(SNAPSHOTS) > 8


@pytest.mark.parametrize("path", [*CORPUS, *SNAPSHOTS], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_error_is_found(path: Path) -> None:
    verdict = judge(path.read_text(), path.name, version=version_of(path), cluster="demo")
    assert list(map(str, errors_among(verdict.findings))) == []
    assert verdict.checks == len(RULES) + 1


@pytest.mark.parametrize("path", NEWEST, ids=lambda path: path.stem)
def test_parallelcluster_takes_it_too(path: Path) -> None:
    assert load_in_pcluster("demo", path.read_text()) is not None


# What the newest version must say of files that were written for an older one, and nothing else.
@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("batch-3-15", {"os-not-supported", "unknown-value", "key-removed", "missing-key"}),
        ("login-nodes-3-14", {"os-not-supported", "key-removed"}),
        ("ubuntu2004-3-12", {"os-not-supported"}),
    ],
)
def test_what_was_removed_is_told_at_3_16(name: str, codes: set[str]) -> None:
    path = ROOT / "corpus" / f"{name}.yaml"
    assert {one.code for one in errors_among(judge(path.read_text(), path.name).findings)} == codes


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("desktop", {"key-too-new"}),  # SharedStorageEfsSettings came with 3.14
        ("developer", {"key-too-new"}),
        ("storage-all", {"out-of-range"}),  # backups were kept for 35 days at most
        ("spot-flexible", {"unknown-value"}),  # `prioritized` came with 3.14
    ],
)
def test_what_came_later_is_told_at_3_12(name: str, codes: set[str]) -> None:
    path = ROOT / "corpus" / f"{name}.yaml"
    found = {one.code for one in errors_among(judge(path.read_text(), path.name, version="3.12.0").findings)}
    assert found - {"os-not-supported"} == codes


# ---------------------------------------------------------------------- changed at random, against ParallelCluster


VALUES: tuple[Any, ...] = (
    None, "", 0, -1, 3, "1", "abc", "yes", True, [], {}, ["a"], {"a": 1}, [1], [{}], "subnet-0aa11bb22cc33dd42",
    "arn:aws:iam::1:policy/x", "10.0.0.0/8", 99999999, "SPOT", "Delete", [None], {"Script": "https://x/y"},
)  # fmt: skip
NAMES = sorted({path[-1].removesuffix("[]") for path, _ in places((3, 16))} | {"Foo", "subnetid"})
# Codes of what ParallelCluster's schema refuses too; others are of rules that its schema does not have.
OF_THE_SCHEMA = {
    "unknown-key", "misplaced-key", "key-removed", "empty-value", "wrong-type", "not-text", "unknown-value",
    "out-of-range", "too-long", "list-length", "subnet-id", "sg-id", "ami-id", "fs-id", "vol-id", "arn", "cidr",
    "bucket-name", "mount-directory", "os-not-supported", "script-and-sequence", "security-groups", "duplicate-tag",
}  # fmt: skip


def inner_paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value below one."""
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from inner_paths(inner, (*path, key))


def changed(document: Any, dice: random.Random) -> str:
    """The document with one value set, removed, added or renamed."""
    document = deepcopy(document)
    *way, last = dice.choice(list(inner_paths(document)))
    around = document
    for key in way:
        around = around[key]
    what = dice.choice(["set", "remove", "add", "rename"])
    if what == "remove":
        del around[last]
    elif what == "add" and isinstance(around[last], dict):
        around[last][dice.choice(NAMES)] = dice.choice(VALUES)
    elif what == "rename" and isinstance(around, dict):
        around[dice.choice(NAMES)] = around.pop(last)
    else:
        around[last] = dice.choice(VALUES)
    return yaml.safe_dump(document)


@pytest.mark.parametrize("seed", range(2))
def test_verdicts_agree_with_parallelcluster_on_changed_files(seed: int) -> None:
    """What its schema refuses has an error here, and what has an error of the schema's kind is refused there."""
    dice = random.Random(seed)  # noqa: S311  # no secret hangs on it
    documents = [yaml.safe_load(path.read_text()) for path in NEWEST]
    disputed = []
    for _ in range(50):
        text = changed(dice.choice(documents), dice)
        errors = {one.code for one in errors_among(judge(text, "changed.yaml", cluster="demo").findings)}
        try:
            load_in_pcluster("demo", text)
            refused = False
        except Exception:  # noqa: BLE001  # its schema raises ValidationError, and its code behind it whatever it meets
            refused = True
        if (refused and not errors) or (not refused and errors & OF_THE_SCHEMA):
            disputed.append((refused, errors, text))
    assert disputed == []
