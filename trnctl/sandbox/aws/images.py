"""Amazon's own images: those of ParallelCluster, as `pcluster` looks them up by name, and Neuron's, to build from."""

from __future__ import annotations

import json
from pathlib import Path

VERSION = "3.16.1"

# ParallelCluster's word for an operating system -> the part of the image's name (OS_TO_IMAGE_NAME_PART_MAP in
# pcluster/constants.py). rocky8 and rocky9 are missing there too in effect: no official image is published for them.
_NAME_PARTS = {
    "alinux2023": "amzn2023-hvm",
    "ubuntu2204": "ubuntu-2204-lts-hvm",
    "ubuntu2404": "ubuntu-2404-lts-hvm",
    "rhel8": "rhel8-hvm",
    "rhel9": "rhel9-hvm",
}
_AMAZON = "247102896272"
# Neuron's own (DLAMI), each with the release that its description names: names and ids are invented after the pattern
# of the real ones, the releases and their systems are those of the reference.
_DLAMIS = (
    ("Deep Learning AMI Neuron PyTorch 2.9 (Ubuntu 24.04) 20260522", "2.30.0"),
    ("Deep Learning AMI Neuron PyTorch 2.9 (Ubuntu 24.04) 20260707", "2.31.0"),
    ("Deep Learning AMI Neuron PyTorch 2.9 (Ubuntu 24.04) 20260813", "2.31.1"),
    ("Deep Learning AMI Neuron (Ubuntu 24.04) 20260813", "2.31.1"),
    ("Deep Learning AMI Neuron (Ubuntu 24.04) 20260818", "2.32.0"),
    ("Deep Learning AMI Neuron (Amazon Linux 2023) 20260818", "2.32.0"),
)


def write_images(path: Path) -> None:
    """Write the file that MOTO_AMIS_PATH names: one image for each operating system and architecture.

    moto marks every image of this file as owned by Amazon, which an image registered through the API would not be.
    """
    names = [(os, part, arch) for os, part in _NAME_PARTS.items() for arch in ("x86_64", "arm64")]
    images = [_official(f"ami-0c1a5{number:012x}", *name) for number, name in enumerate(names, 1)]
    images += [_dlami(f"ami-0d1a5{number:012x}", *name) for number, name in enumerate(_DLAMIS, 1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(images, indent=1), encoding="utf-8")


def _official(image_id: str, os: str, part: str, architecture: str) -> dict[str, object]:
    name = f"aws-parallelcluster-{VERSION}-{part}-{architecture}-202601010000"
    return _image(image_id, name, f"AWS ParallelCluster AMI for {os}", architecture, "2026-01-01")


def _dlami(image_id: str, name: str, sdk: str) -> dict[str, object]:
    written = name.rpartition(" ")[2]
    date = f"{written[:4]}-{written[4:6]}-{written[6:]}"
    return _image(image_id, name, f"Emulated. With AWS Neuron SDK {sdk}", "x86_64", date)


def _image(image_id: str, name: str, description: str, architecture: str, date: str) -> dict[str, object]:
    return {
        "ami_id": image_id,
        "name": name,
        "description": description,
        "owner_id": _AMAZON,
        "public": True,
        "virtualization_type": "hvm",
        "architecture": architecture,
        "state": "available",
        "image_type": "machine",
        "image_location": f"amazon/{name}",
        "hypervisor": "xen",
        "root_device_type": "ebs",
        "root_device_name": "/dev/sda1",
        "sriov": "simple",
        "creation_date": f"{date}T00:00:00.000Z",
    }
