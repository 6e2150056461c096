"""The official ParallelCluster images, as `pcluster` looks them up by name among Amazon's own."""

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


def write_images(path: Path) -> None:
    """Write the file that MOTO_AMIS_PATH names: one image for each operating system and architecture.

    moto marks every image of this file as owned by Amazon, which an image registered through the API would not be.
    """
    names = [(os, part, arch) for os, part in _NAME_PARTS.items() for arch in ("x86_64", "arm64")]
    images = [_image(f"ami-0c1a5{number:012x}", *name) for number, name in enumerate(names, 1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(images, indent=1), encoding="utf-8")


def _image(image_id: str, os: str, part: str, architecture: str) -> dict[str, object]:
    name = f"aws-parallelcluster-{VERSION}-{part}-{architecture}-202601010000"
    return {
        "ami_id": image_id,
        "name": name,
        "description": f"AWS ParallelCluster AMI for {os}",
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
        "creation_date": "2026-01-01T00:00:00.000Z",
    }
