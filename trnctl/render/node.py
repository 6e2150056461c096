"""The scripts that give nodes their Neuron software, where they lie in the cluster's bucket, and who runs them when."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from trnctl.ports import File
from trnctl.render import templates
from trnctl.render.engine import render
from trnctl.specs.cluster import Action, ClusterSpec, CustomActions, NodeActions
from trnctl.specs.instances import INSTANCES
from trnctl.specs.node_steps import LOG, STEPS, Role, steps_of
from trnctl.specs.sdk import SdkRow, row, software_of

_CODENAMES = {"ubuntu2404": "noble", "ubuntu2204": "jammy"}
_TRAINIUM = tuple(facts for facts in INSTANCES.values() if facts.kind == "trainium")
_PARTS = ("steps", "packages", "system", "environment", "run")


@dataclass(frozen=True)
class Supply:
    """Where nodes get their software, and how long they may take, in seconds: `budget_s` for all (ParallelCluster
    gives a node 2100 s, of which its own set-up takes some), `lock_s` to wait for a lock of apt or dpkg."""

    apt_repository: str = "https://apt.repos.neuron.amazonaws.com"
    apt_key: str = "https://apt.repos.neuron.amazonaws.com/GPG-PUB-KEY-AMAZON-AWS-NEURON.PUB"
    pip_repository: str = "https://pip.repos.neuron.amazonaws.com"
    budget_s: int = 1500
    lock_s: int = 600


NEURON = Supply()


def node_documents(spec: ClusterSpec, supply: Supply = NEURON) -> tuple[File, ...]:
    """What goes into the cluster's bucket: `name` is the object's key; see `own_actions` for the keys.

    Nothing without a bucket, and nothing where the scripts are not for the cluster's system (the loader has said so).
    """
    release = row(spec.neuron_sdk)
    if spec.bucket is None or spec.os not in _CODENAMES or release is None or not release.packaged:
        return ()
    head, compute = (node_script(spec, role, supply) for role in ("head", "compute"))
    folder = f"trnctl/{spec.name}"
    choices = repr(sorted(_choices(spec, release, supply).items()))
    chosen = f"{folder}/{_digest(choices)[:16]}"
    # Another ttl is another script for the head node's update alone, which needs no stopped fleet.
    updated = f"{folder}/{_digest(choices + repr(spec.ttl))[:16]}" if spec.ttl else chosen
    return (
        File(f"{folder}/head.sh", head),
        File(f"{updated}/head.sh", head),
        File(f"{chosen}/compute.sh", compute),
    )


def is_node_script(key: str, cluster: str) -> bool:
    """Whether an object in a bucket is one of these scripts, of whichever choice of software or ttl."""
    return re.fullmatch(rf"trnctl/{re.escape(cluster)}/([0-9a-f]{{16}}/)?(head|compute)\.sh", key) is not None


def own_actions(spec: ClusterSpec, supply: Supply = NEURON) -> CustomActions:
    """Who runs the scripts when; empty when there are none.

    A key holds a digest of what is installed, so that ParallelCluster sees when that changes, and then asks for the
    fleet to be stopped: no node keeps another release than its peers. It does not change with the words of the script,
    nor with other queues: a better script of a later trnctl takes the place of the old one and needs no stop.

    The head node's first run has a key that never changes: ParallelCluster refuses every update of a cluster whose
    HeadNode/CustomActions/OnNodeConfigured has changed (its schema: UpdatePolicy.UNSUPPORTED). The update's own run
    (OnNodeUpdated) brings the head node up to date.
    """
    documents = node_documents(spec, supply)
    if not documents:
        return CustomActions()
    first, updated, compute = (Action(f"s3://{spec.bucket}/{document.name}") for document in documents)
    return CustomActions(
        head=NodeActions(configured=(first,), updated=(updated,)), compute=NodeActions(configured=(compute,))
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def node_script(spec: ClusterSpec, role: Role, supply: Supply = NEURON) -> str:
    """The whole script of one kind of node: its settings, quoted, and the parts that are the same everywhere."""
    release = row(spec.neuron_sdk)
    assert release is not None  # noqa: S101  # the loader takes no other
    context = {
        "role": role,
        "cluster": spec.name,
        "log": LOG,
        "budget_s": supply.budget_s,
        "lock_s": supply.lock_s,
        "devices": {facts.type: facts.devices for facts in _TRAINIUM},
        "adapters": _adapters(spec),
        "steps": [step.name for step in steps_of(role)],
        "all_steps": STEPS,
        **_choices(spec, release, supply),
    }
    settings = render("bash", "node/settings.sh.j2", context)
    parts = [templates.read(f"node/{part}.sh") for part in _PARTS]
    if role == "head":
        parts.insert(-1, fleet_step(spec))
    # Each part says for itself what it is to shellcheck; in the whole that stands in the first line.
    return settings + "\n".join(part.removeprefix("# shellcheck shell=bash\n") for part in parts)


def fleet_step(spec: ClusterSpec) -> str:
    """The step that puts the program which counts nodes and minds the ttl among those of the head node's timer."""
    files = (
        ("fleet.json", 644, json.dumps(fleet_settings(spec), sort_keys=True) + "\n"),
        *((f"lib/{name}.py", 644, templates.read(f"node/{name}.py")) for name in ("s3", "dynamodb")),
        ("timer.d/fleet", 755, templates.read("node/fleet.py")),
    )
    puts = "".join(f"    put /opt/trnctl/{name} {mode} <<'END'\n{text}END\n" for name, mode, text in files)
    rule = "-" * 98
    return f"""\
# {rule} fleet

step_fleet() {{
    install -d -m 755 /opt/trnctl/timer.d /opt/trnctl/lib /opt/trnctl/state
{puts}}}
"""


def fleet_settings(spec: ClusterSpec) -> dict[str, object]:
    """What templates/node/fleet.py reads: times in seconds, `at` since 1970."""
    settings: dict[str, object] = {
        "cluster": spec.name,
        "region": spec.region,
        "bucket": spec.bucket,
        "head_type": spec.head_node.instance_type,
        "capacity": {queue.name: queue.capacity.type for queue in spec.queues if queue.capacity.type != "on-demand"},
    }
    if spec.ttl is not None:
        settings["ttl"] = {
            "idle_s": spec.ttl.idle_hours * 3600 if spec.ttl.idle_hours is not None else None,
            "at": spec.ttl.at.timestamp() if spec.ttl.at is not None else None,
            "end_jobs": spec.ttl.end_jobs,
        }
    return settings


def _choices(spec: ClusterSpec, release: SdkRow, supply: Supply) -> dict[str, object]:
    """What is installed, and from where."""
    packages, link = pip_packages(spec, release)
    pins = _digest("\n".join(packages))[:8]
    return {
        "sdk": release.version,
        "codename": _CODENAMES[spec.os],
        "apt_repository": supply.apt_repository,
        "apt_key": supply.apt_key,
        "driver": release.driver,
        "runtime": release.runtime,
        "collectives": release.collectives,
        "tools": release.tools,
        "pip_repository": supply.pip_repository,
        "pip_packages": packages,
        "pythons": release.python,
        "environment": f"{spec.shared_mount}/trnctl/environments/neuron-{release.version}-{pins}" if packages else "",
        "environment_link": link,
    }


def pip_packages(spec: ClusterSpec, release: SdkRow) -> tuple[tuple[str, ...], str]:
    """What is installed for training, each with its exact version, and the place where AWS's images have it.

    PyTorch/XLA where the release has it; TorchNeuron where all of a cluster's Trainium is of a generation that it runs
    on. Nothing where the release has neither, or where the system's Python cannot run it.
    """
    types = {resource.instance_type for queue in spec.queues for resource in queue.compute_resources}
    families = {facts.type.partition(".")[0].rstrip("nu") for facts in _TRAINIUM if facts.type in types}
    system = software_of(spec.os)
    if system is None or system.python not in release.python:
        return (), ""
    compiler = f"neuronx-cc=={release.compiler}"
    if release.native and families and families <= set(release.native_devices):
        newest = release.native[-1]
        link = "_".join(["/opt/aws_neuronx_venv_torch_neuronx", *newest.split(".")[:2], "0"])
        return (compiler, f"torch-neuronx=={newest}"), link
    if release.torch_xla is None or release.compiler is None:
        return (), ""
    wanted = [compiler, f"torch-neuronx=={release.torch_xla}"]
    if release.nxd is not None:
        wanted.append(f"neuronx_distributed=={release.nxd}")
    return tuple(wanted), "_".join(["/opt/aws_neuronx_venv_pytorch", *release.torch_xla.split(".")[:2]])


def _adapters(spec: ClusterSpec) -> dict[str, int]:
    """How many EFA adapters a node of each type must have: none where a compute resource of that type has EFA off."""
    resources = [resource for queue in spec.queues for resource in queue.compute_resources]
    off = {resource.instance_type for resource in resources if resource.efa is False}
    return {facts.type: facts.efa_interfaces for facts in _TRAINIUM if facts.efa and facts.type not in off}
