"""Which of Neuron's own images (DLAMI) fits a cluster's system and Neuron release; pure.

Names follow one pattern, as in `Deep Learning AMI Neuron PyTorch 2.9 (Ubuntu 24.04) 20260813`; the release stands in
the description, if anywhere (trainium-facts 3.3). Neither is promised by AWS, so that what cannot be read is a doubt
and no refusal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trnctl.findings import Finding
from trnctl.ports.account import MachineImage
from trnctl.specs.cluster import ClusterSpec

OWNER, NAMES = "amazon", "Deep Learning AMI Neuron*"
_SYSTEMS = {"ubuntu2204": "Ubuntu 22.04", "ubuntu2404": "Ubuntu 24.04", "alinux2023": "Amazon Linux 2023"}
# Images for inference (vLLM) and JAX have the same driver, but not the Python environment that training wants.
_TRAINING = re.compile(r"Deep Learning AMI Neuron( PyTorch [\d.]+)? \(")
_RELEASE = re.compile(r"(?<![\d.])2\.[2-9]\d\.\d+(?!\.?\d)")  # 2.20.0 and later, and no version of torch


def releases(image: MachineImage) -> frozenset[str]:
    """The Neuron releases that an image names."""
    return frozenset(_RELEASE.findall(f"{image.name} {image.description}"))


def os_of(image: MachineImage) -> str:
    """ParallelCluster's word for the system that an image names, '' when it names none."""
    return next((word for word, written in _SYSTEMS.items() if written in image.name), "")


def has_dlami(os: str) -> bool:
    """Whether Neuron's images come for this system."""
    return os in _SYSTEMS


def candidates(images: Sequence[MachineImage], os: str) -> list[MachineImage]:
    """The images for training on this system, those with PyTorch last and the newest of them last of all."""
    found = [one for one in images if os_of(one) == os and _TRAINING.match(one.name) and one.architecture != "arm64"]
    return sorted(found, key=lambda one: ("PyTorch" in one.name, str(one.created), one.name))


def parent_of(images: Sequence[MachineImage], spec: ClusterSpec) -> MachineImage | None:
    """The newest image that names the cluster's system and its Neuron release; None when there is none."""
    fitting = [one for one in candidates(images, spec.os) if spec.neuron_sdk in releases(one)]
    return fitting[-1] if fitting else None


def parent_findings(image: MachineImage, spec: ClusterSpec) -> list[Finding]:
    """What speaks against this image as a parent."""
    found: list[Finding] = []
    os, named = os_of(image), releases(image)
    if image.architecture == "arm64":
        found.append(
            Finding(
                "image-parent-architecture", "error", f"{image.id} is for arm64, and Trainium nodes are x86_64",
                "Name an image for x86_64.", evidence=image.name,
            )
        )  # fmt: skip
    if os and os != spec.os:
        found.append(
            Finding(
                "image-parent-os", "error", f"{image.id} is for {os}, and the cluster file says os: {spec.os}",
                f"Name an image for {spec.os}, or write os: {os}.", path="cluster.os", evidence=image.name,
            )
        )  # fmt: skip
    if named and spec.neuron_sdk not in named:
        words = ", ".join(sorted(named))
        found.append(
            Finding(
                "image-parent-sdk", "error",
                f"{image.id} has Neuron {words}, and the cluster file says neuron_sdk: {spec.neuron_sdk}",
                f'Name an image with {spec.neuron_sdk}, or write neuron_sdk: "{sorted(named)[-1]}".',
                path="cluster.neuron_sdk", evidence=image.description or image.name,
            )
        )  # fmt: skip
    unread = [word for word, known in (("its system", os), ("its Neuron release", named)) if not known]
    if unread:
        found.append(
            Finding(
                "image-parent-unproven", "warning", f"{image.id} does not name {' and '.join(unread)}",
                f"Make sure that it is {spec.os} with Neuron {spec.neuron_sdk}: one node with the image shows it.",
                evidence=image.description or image.name,
            )
        )  # fmt: skip
    return found
