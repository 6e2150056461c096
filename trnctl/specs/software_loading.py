"""What a cluster file says of software: operating system, ParallelCluster, Neuron SDK and image must go together."""

from __future__ import annotations

from trnctl.specs import known, sdk
from trnctl.specs.cluster import ClusterSpec, Pcluster
from trnctl.specs.reading import Section


def read_neuron_sdk(section: Section) -> str:
    """A release of the table; the default stands in for one that is not there."""
    version = section.text("neuron_sdk", sdk.DEFAULT)
    if sdk.row(version) is not None:
        return version
    unknown = sdk.unknown_sdk(version)
    section.problem(unknown.code, unknown.message, unknown.remedy, key="neuron_sdk")
    return sdk.DEFAULT


def check_software(section: Section, spec: ClusterSpec) -> None:
    """Report what does not go together. Recipes, which know their PyTorch, are judged where they are read."""
    accepted = known.systems(spec.pcluster.version)
    if not accepted:
        section.problem(
            "pcluster-old", f"trnctl does not know ParallelCluster {spec.pcluster.version}",
            f"Use {Pcluster.version}.", key="pcluster", level="warning",
        )  # fmt: skip
    if spec.os.startswith("rocky") and spec.ami is None:
        section.problem(
            "os-needs-image", "ParallelCluster has no image for Rocky Linux", "Write `image: {ami: ami-…}`.", key="os"
        )
    if accepted and spec.os not in accepted:
        section.problem(
            "os-not-supported",
            f"ParallelCluster {spec.pcluster.version} does not take {spec.os}",
            _other_system(spec, accepted),
            key="os",
        )
    else:
        _check_system(section, spec)
    _check_torch(section, spec)
    _check_node_software(section, spec)


def _other_system(spec: ClusterSpec, accepted: tuple[str, ...]) -> str:
    """The pair that works, where this ParallelCluster has it."""
    if sdk.PROVEN_OS in accepted:
        others = ", ".join(name for name in accepted if name != sdk.PROVEN_OS)
        return f'Write `os: {sdk.PROVEN_OS}`: it goes with `neuron_sdk: "{spec.neuron_sdk}"`. Also accepted: {others}.'
    return f'Write `pcluster: {{version: "{Pcluster.version}"}}`, which takes {sdk.PROVEN_OS}.'


def _check_system(section: Section, spec: ClusterSpec) -> None:
    """On Ubuntu, where trnctl's own scripts install it, what Neuron does not support is refused; elsewhere an image or
    a script of the user's own may bring it."""
    refused = sdk.pairing(spec.os, spec.neuron_sdk, torch_xla=False)
    mismatch = next((finding for finding in refused if finding.level == "error"), None)
    trouble = known.NEURON_ON.get(spec.os, f"Neuron does not support {spec.os}")
    if mismatch is not None and spec.os.startswith("ubuntu") and spec.ami is None:
        section.problem(mismatch.code, mismatch.message, mismatch.remedy, key="os")
    elif trouble:
        section.problem("os-without-neuron", trouble, f"Write `os: {sdk.PROVEN_OS}`.", key="os", level="warning")


def _check_torch(section: Section, spec: ClusterSpec) -> None:
    """Trn1 trains with PyTorch/XLA, or with JAX: so that a release without the former is no error yet."""
    types = [resource.instance_type for queue in spec.queues for resource in queue.compute_resources]
    first_generation = next((name for name in types if name.startswith("trn1")), None)
    if first_generation is None:
        return
    for finding in sdk.pairing(sdk.PROVEN_OS, spec.neuron_sdk, types, torch_xla=True):
        if finding.code == "sdk-no-torch-xla":
            section.problem(
                "sdk-without-xla-training",
                f"Neuron SDK {spec.neuron_sdk} has no PyTorch training for {first_generation}",
                finding.remedy,
                key="neuron_sdk",
                level="warning",
            )
        elif finding.code == "sdk-unproven":
            section.problem(finding.code, finding.message, finding.remedy, key="neuron_sdk", level="warning")


def _check_node_software(section: Section, spec: ClusterSpec) -> None:
    """Whether something gives the nodes their Neuron software: trnctl's scripts (Ubuntu, a bucket) or the image."""
    release = sdk.row(spec.neuron_sdk)
    scripts = spec.bucket is not None and spec.os.startswith("ubuntu")
    if scripts and release is not None and not release.packaged:
        section.problem(
            "sdk-not-established",
            f"trnctl's node scripts cannot install Neuron SDK {release.version}: {release.doubt}",
            f'Write `neuron_sdk: "{sdk.nearest_sure(release).version}"`, or leave `bucket` out and bring an image.',
            key="neuron_sdk",
        )
    if scripts or spec.ami is not None:
        return
    if spec.bucket is None:
        what = "Without `bucket` and without `image.ami` the nodes start without Neuron software"
        remedy = "Name a bucket for trnctl's node scripts, or an image that has the software."
    else:
        what = f"trnctl's node scripts are for Ubuntu: nodes with {spec.os} start without Neuron software"
        remedy = f"Write `os: {sdk.PROVEN_OS}`, or name an image that has the software."
    section.problem("no-node-software", what, remedy, level="warning")
