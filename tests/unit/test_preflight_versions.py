"""The schema of every minor version of ParallelCluster 3, against what its wheels say (tests/recorded)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trnctl.preflight.judge import judge
from trnctl.preflight.schema import NEWEST, OLDEST, Key, Version, shape
from trnctl.preflight.sections import ROOT, SECTIONS, keys_of

RECORDED = json.loads((Path(__file__).parents[1] / "recorded" / "pcluster_schemas.json").read_text())
CHANGES: dict[str, list[tuple[str, dict[str, Any] | None]]] = RECORDED["changes"]
VERSIONS: list[Version] = [(int(one.split(".")[0]), int(one.split(".")[1])) for one in RECORDED["versions"]]


def recorded(path: str, version: Version) -> dict[str, Any] | None:
    """What the wheel of a version has at a path; None for nothing."""
    found = None
    for since, row in CHANGES[path]:
        if tuple(map(int, since.split("."))) <= version:
            found = row
    return found


def written_down(path: str, version: Version) -> Key | None:
    """What our tables have there in that version; None also where the section around it is not known."""
    section, key = ROOT, None
    for name in path.split("."):
        key = keys_of(section, version).get(name) if section else None
        if key is None:
            return None
        section = key.section
    return key


def test_the_tables_reach_as_far_as_the_wheels() -> None:
    assert (VERSIONS[0], VERSIONS[-1]) == (OLDEST, NEWEST)
    assert len(CHANGES) > 80


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: "{}.{}".format(*version))
def test_keys_come_and_go_with_their_version(version: Version) -> None:
    wrong: list[tuple[object, ...]] = []
    for path in CHANGES:
        theirs, mine = recorded(path, version), written_down(path, version)
        if (theirs is None) != (mine is None):
            wrong.append((path, theirs, mine))
        elif theirs is not None and mine is not None and theirs["kind"] != mine.kind:
            wrong.append((path, theirs["kind"], mine.kind))
    assert wrong == []


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: "{}.{}".format(*version))
def test_values_are_those_of_the_version(version: Version) -> None:
    """Where a word came late, an older version must not take it; where a bound moved, it must not stand elsewhere."""
    # A plugin could be named from 3.1 on, by a validator of its own; `custom` was in 3.0's list and in no document.
    # Queues were counted by the schema in 3.0, and by a rule since.
    apart = {"Scheduling.Scheduler", "Scheduling.SlurmQueues", "Scheduling.SlurmQueues.ComputeResources"}
    wrong: list[tuple[object, ...]] = []
    for path in CHANGES.keys() - apart:
        theirs, mine = recorded(path, version), written_down(path, version)
        if theirs is None or mine is None:
            continue
        if "choices" in theirs and set(theirs["choices"]) != set(map(str, mine.choices)):
            wrong.append((path, "choices", theirs["choices"], mine.choices))
        bounds: dict[str, tuple[int | None, int | None]] = {
            "range": (mine.minimum, mine.maximum),
            "length": (mine.fewest, mine.most),
        }
        for word, bound in bounds.items():
            by_form = path.endswith("DatabaseName")
            if word in theirs and tuple(theirs[word]) != bound and not by_form:
                wrong.append((path, word, theirs[word], bound))
        if bool(theirs.get("required")) != mine.required:
            wrong.append((path, "required", theirs.get("required"), mine.required))
    assert wrong == []


def test_what_never_changed_is_known_to_every_version() -> None:
    """A key that no row of the recorded changes names has one shape from the first version to the last."""
    changed = {path.rpartition(".")[2] for path in CHANGES}
    for section, keys in SECTIONS.items():
        for name, key in keys.items():
            if name not in changed:
                known = [version for version in VERSIONS if shape(key, version)]
                assert known == VERSIONS, f"{section}.{name}"


MINIMAL = """\
Region: eu-west-1
Image: {Os: OS}
HeadNode:
  InstanceType: t3.micro
  Networking: {SubnetId: subnet-0aa11bb22cc33dd41}
  Ssh: {KeyName: demo, AllowedIps: 203.0.113.0/24}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
  - Name: q1
    ComputeResources:
    - {Name: c1, InstanceType: c5.xlarge, MinCount: 0, MaxCount: 4}
    Networking: {SubnetIds: [subnet-0aa11bb22cc33dd41]}
"""


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: "{}.{}".format(*version))
@pytest.mark.parametrize("system", ["alinux2", "centos7", "ubuntu1804", "ubuntu2004", "rhel9", "alinux2023"])
def test_a_system_is_taken_by_the_versions_that_had_it(version: Version, system: str) -> None:
    takes = system in (recorded("Image.Os", version) or {})["choices"]
    found = judge(MINIMAL.replace("OS", system), "old.yaml", version="{}.{}.0".format(*version)).findings
    errors = [finding.code for finding in found if finding.level == "error"]
    assert errors == ([] if takes else ["os-not-supported"])
