"""A cluster spec and a parent image as the configuration that `pcluster build-image` takes."""

from __future__ import annotations

from trnctl import __version__
from trnctl.render.engine import render
from trnctl.specs.cluster import ClusterSpec

SDK_TAG = "trnctl:neuron-sdk"


def image_document(
    spec: ClusterSpec, *, name: str, parent: str, instance_type: str, subnet: str = "", security_group: str = ""
) -> str:
    """The whole YAML text. With a subnet ParallelCluster wants a security group too; without one the build happens in
    the region's default VPC."""
    context = {
        "version": __version__,
        "spec": spec,
        "name": name,
        "parent": parent,
        "instance_type": instance_type,
        "subnet": subnet,
        "security_group": security_group,
        "tags": {**spec.tags, SDK_TAG: spec.neuron_sdk},
    }
    return render("yaml", "image/image.yaml.j2", context)
