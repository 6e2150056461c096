"""Which of Neuron's packages an emulated node has, by SDK release; a test compares them with what nodes are given."""

from __future__ import annotations

from collections.abc import Mapping

from trnctl.sandbox.neuron.devices import sdk_at_least

DRIVER = "aws-neuronx-dkms"
_NAMES = (DRIVER, "aws-neuronx-runtime-lib", "aws-neuronx-collectives", "aws-neuronx-tools")
_RELEASES = {
    "2.28": ("2.26.5.0", "2.30.51.0", "2.30.59.0", "2.28.23.0"),
    "2.29": ("2.27.4.0", "2.31.24.0", "2.31.24.0", "2.29.22.0"),
    "2.30": ("2.28.0.0", "2.32.31.0", "2.32.28.0", "2.30.10.0"),
    "2.31": ("2.29.0.0", "2.33.10.0", "2.33.10.0", "2.31.15.0"),
    "2.32": ("2.30.2.0", "2.34.10.0", "2.34.10.0", "2.32.28.0"),
    "2.33": ("2.31.7.0", "2.35.30.0", "2.35.43.0", "2.33.38.0"),
}


def packages(sdk: str) -> Mapping[str, str]:
    """Versions by package; a release that the table lacks has those of its newest older one."""
    older = [release for release in _RELEASES if sdk_at_least(sdk, release)]
    return dict(zip(_NAMES, _RELEASES[older[-1] if older else "2.28"], strict=True))
