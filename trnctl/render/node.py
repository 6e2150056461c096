"""The scripts that give nodes their Neuron software, where they lie in the cluster's bucket, and who runs them when."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from trnctl.ports import File
from trnctl.render import templates
from trnctl.render.engine import render
from trnctl.specs.cluster import Action, ClusterSpec, CustomActions, NodeActions
from trnctl.specs.instances import instance
from trnctl.specs.node_steps import LOG, STEPS, Role, steps_of
from trnctl.specs.sdk import SdkRow, row, software_of

_CODENAMES = {"ubuntu2404": "noble", "ubuntu2204": "jammy"}
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
    """What goes into the cluster's bucket: `name` is the object's key. Nothing without a bucket, and nothing where the
    scripts are not for the cluster's system (the loader has said so)."""
    release = row(spec.neuron_sdk)
    if spec.bucket is None or spec.os not in _CODENAMES or release is None or not release.packaged:
        return ()
    head, compute = (node_script(spec, role, supply) for role in ("head", "compute"))
    return (
        File(_fixed_key(spec), head),
        File(_key(spec, "head", head), head),
        File(_key(spec, "compute", compute), compute),
    )


def own_actions(spec: ClusterSpec, supply: Supply = NEURON) -> CustomActions:
    """Who runs the scripts when; empty when there are none.

    Keys hold a digest of the text, so that ParallelCluster sees a change. The head node's first run is the exception:
    ParallelCluster refuses every update of a cluster whose HeadNode/CustomActions/OnNodeConfigured has changed
    (its schema: UpdatePolicy.UNSUPPORTED), so that its key stays, and the update's own run (OnNodeUpdated, which may
    change) brings the head node up to date.
    """
    documents = node_documents(spec, supply)
    if not documents:
        return CustomActions()
    first, updated, compute = (Action(f"s3://{spec.bucket}/{document.name}") for document in documents)
    return CustomActions(
        head=NodeActions(configured=(first,), updated=(updated,)), compute=NodeActions(configured=(compute,))
    )


def _fixed_key(spec: ClusterSpec) -> str:
    return f"trnctl/{spec.name}/head.sh"


def _key(spec: ClusterSpec, role: Role, text: str) -> str:
    return f"trnctl/{spec.name}/{_digest(text)}/{role}.sh"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def node_script(spec: ClusterSpec, role: Role, supply: Supply = NEURON) -> str:
    """The whole script of one kind of node: its settings, quoted, and the parts that are the same everywhere.

    It holds nothing that changes without need (as trnctl's own version): a changed script means new compute nodes.
    """
    settings = render("bash", "node/settings.sh.j2", _settings(spec, role, supply))
    parts = (templates.read(f"node/{part}.sh") for part in _PARTS)
    # Each part says for itself what it is to shellcheck; in the whole that stands in the first line.
    return settings + "\n".join(part.removeprefix("# shellcheck shell=bash\n") for part in parts)


def _settings(spec: ClusterSpec, role: Role, supply: Supply) -> dict[str, object]:
    release = row(spec.neuron_sdk)
    assert release is not None  # noqa: S101  # the loader takes no other
    packages, link = pip_packages(spec, release)
    pins = _digest("\n".join(packages))[:8]
    return {
        "role": role,
        "cluster": spec.name,
        "log": LOG,
        "budget_s": supply.budget_s,
        "lock_s": supply.lock_s,
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
        "devices": _devices(spec),
        "adapters": _adapters(spec),
        "steps": [step.name for step in steps_of(role)],
        "all_steps": STEPS,
    }


def pip_packages(spec: ClusterSpec, release: SdkRow) -> tuple[tuple[str, ...], str]:
    """What is installed for training, each with its exact version, and the place where AWS's images have it.

    PyTorch/XLA where the release has it; TorchNeuron where all of a cluster's Trainium is of a generation that it runs
    on. Nothing where the release has neither, or where the system's Python cannot run it.
    """
    families = {name.partition(".")[0].rstrip("nu") for name in _trainium_types(spec)}
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


def _types(spec: ClusterSpec) -> Iterable[str]:
    yield spec.head_node.instance_type
    for queue in spec.queues:
        yield from (resource.instance_type for resource in queue.compute_resources)


def _trainium_types(spec: ClusterSpec) -> list[str]:
    known = {name: instance(name) for name in _types(spec)}
    return [name for name, facts in known.items() if facts is not None and facts.kind == "trainium"]


def _devices(spec: ClusterSpec) -> dict[str, int]:
    """How many Neuron devices each type has; types that trnctl does not know are not checked."""
    return {name: facts.devices for name in _trainium_types(spec) if (facts := instance(name)) is not None}


def _adapters(spec: ClusterSpec) -> dict[str, int]:
    """How many EFA adapters a node of each type must have: none where a compute resource of that type has EFA off."""
    resources = [resource for queue in spec.queues for resource in queue.compute_resources]
    off = {resource.instance_type for resource in resources if resource.efa is False}
    known = {resource.instance_type: instance(resource.instance_type) for resource in resources}
    return {name: facts.efa_interfaces for name, facts in known.items() if facts and facts.efa and name not in off}
