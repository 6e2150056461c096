"""Which of Neuron's packages an emulated node has: those of its SDK's release, from the table that the nodes' scripts
take theirs from."""

from __future__ import annotations

from collections.abc import Mapping

from trnctl.specs.sdk import row

DRIVER = "aws-neuronx-dkms"


def packages(sdk: str) -> Mapping[str, str]:
    """Versions by package; {} for a release whose versions are not established."""
    release = row(sdk)
    if release is None:
        return {}
    named = {
        DRIVER: release.driver,
        "aws-neuronx-runtime-lib": release.runtime,
        "aws-neuronx-collectives": release.collectives,
        "aws-neuronx-tools": release.tools,
    }
    return {name: version for name, version in named.items() if version is not None}
