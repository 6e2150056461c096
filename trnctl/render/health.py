"""The files of a check of nodes: what they should have, the scripts that look, and the job that runs them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from trnctl.errors import UsageError
from trnctl.ports import File
from trnctl.render import templates
from trnctl.render.engine import render
from trnctl.specs.instances import InstanceFacts, instance
from trnctl.specs.sdk import row

PATIENCE_S = 120  # for one all-reduce: it takes seconds, and a compiler's start before it
_SCRIPTS = ("health.py", "judge_health.py", "node_health.py")
# What each step may take besides its all-reduce; as in health.py.
_STEP_S = 95
_ROUNDS = 3  # of pairs, at most
# Bus bandwidth of an all-reduce of 1 GB (fp32) over two nodes, by instance type. Inside one node none is published for
# all of its workers.
_PUBLISHED = {"trn1.32xlarge": (47.09, "an old sample of two nodes in AWS's nccom-test guide")}


def expected(
    instance_type: str, disks: Sequence[str], *, sdk: str, efa: bool, collectives: bool, patience_s: float = PATIENCE_S
) -> dict[str, object]:
    """What a node of that type should have; `efa` False where the queue has it off. UsageError for a type that has no
    Neuron device, or that the table does not know."""
    facts = instance(instance_type)
    if facts is None or facts.kind != "trainium":
        raise UsageError(
            f"{instance_type} has no Neuron device that could be checked", remedy="choose a queue of trn1 or trn2: -p"
        )
    published = _PUBLISHED.get(instance_type)
    return {
        "instance_type": instance_type,
        "devices": facts.devices,
        "ranks": facts.ranks,
        "efa": facts.efa_interfaces if efa else 0,
        "disks": list(disks),
        "collectives": collectives,
        "links": efa and facts.efa,
        "patience_s": patience_s,
        "versions": _versions(sdk),
        "reference": {"busbw": published[0], "basis": published[1]} if published else None,
    }


def limit_s(expect: dict[str, object]) -> float:
    """How long a check takes at most, in seconds, all its steps hanging until they are ended."""
    patience = float(str(expect["patience_s"])) if expect["collectives"] else 0.0
    return patience + _STEP_S + (_ROUNDS * (patience + _STEP_S) if expect["collectives"] and expect["links"] else 0)


def check_files(expect: dict[str, object], folder: str) -> tuple[File, ...]:
    """What a check needs, below `folder` of a run's: its expectations, in the folder it writes to."""
    return (File(f"{folder}/expect.json", json.dumps(expect, indent=2, sort_keys=True) + "\n"),)


def scripts() -> tuple[File, ...]:
    """The scripts, which lie beside each other."""
    return tuple(File(name, templates.read(f"job/{name}")) for name in _SCRIPTS)


def health_job(name: str, folder: str, partition: str, expect: dict[str, object], constraint: str) -> tuple[File, ...]:
    """All files of a check that is a job of its own, in `folder`."""
    facts = instance(str(expect["instance_type"]))
    script = render(
        "bash",
        "job/health.sbatch.j2",
        {
            "name": name,
            "folder": folder,
            "partition": partition,
            "minutes": math.ceil(limit_s(expect) / 60) + 1,
            "batch_log": f"{folder.replace('%', '%%')}/health.log",
            "constraint": constraint,
            "cpus": facts.vcpus if isinstance(facts, InstanceFacts) else None,
        },
    )
    expectation = File("expect.json", json.dumps(expect, indent=2, sort_keys=True) + "\n")
    return (File("health.sbatch", script), expectation, *scripts())


def _versions(sdk: str) -> dict[str, str]:
    """What the release has, to tell who is right where half of the nodes say otherwise; {} where it is not known."""
    release = row(sdk)
    if release is None or not release.packaged:
        return {}
    named = {
        "driver": release.driver,
        "driver package": release.driver,
        "runtime": release.runtime,
        "collectives": release.collectives,
        "tools": release.tools,
    }
    return {name: version for name, version in named.items() if version}
