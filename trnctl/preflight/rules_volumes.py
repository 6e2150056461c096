"""Rules on EBS volumes, shared ones and the nodes' roots: types, sizes, speeds, keys."""

from __future__ import annotations

from collections.abc import Callable

from trnctl.preflight.config import Config
from trnctl.preflight.place import Place
from trnctl.preflight.report import Report
from trnctl.preflight.unfilled import unfilled
from trnctl.specs import rules
from trnctl.specs.values import shown

_EBS_GIB = 35  # of shared volumes, where no Size is written: ParallelCluster's own default
_IOPS = {"io1": (100, 64000, 50), "io2": (100, 256000, 1000), "gp3": (3000, 16000, 500)}  # least, most, per GiB


def volumes(config: Config, report: Report) -> None:
    """EBS volumes, roots included, have sizes and speeds that EBS sells."""
    for storage in config.storage:
        if storage.kind == "Ebs" and not storage.existing:
            _volume(storage.settings, report, _EBS_GIB)
    for queue in config.queues:  # ParallelCluster's schema leaves the type of these open, and EC2 does not
        place = queue.place.at("ComputeSettings", "LocalStorage", "RootVolume", "VolumeType")
        if place.text() and place.text() not in rules.EBS_SIZES and not unfilled(place.text()):
            known = f"Write one of: {', '.join(rules.EBS_SIZES)}."
            report.say("unknown-value", place, f"{shown(place.text())} is no type of volume", known)
    roots = [config.head, *(queue.place.at("ComputeSettings") for queue in config.queues)]
    for place in roots:
        root = place.at("LocalStorage", "RootVolume")
        if root.is_section:
            _volume(root, report, None)


def _volume(settings: Place, report: Report, default: int | None) -> None:
    """`default` is the size in GiB where none is written, None where an image decides it."""
    kind = settings.at("VolumeType").text() or "gp3"
    place, iops = settings.at("Size"), settings.at("Iops").integer()
    size = place.integer() if place else default
    smallest, largest = rules.EBS_SIZES.get(kind, (1, 65536))
    if size is not None and not smallest <= size <= largest:
        words = f"{size} GiB" if place else f"{size} GiB, the size of a volume for which none is written"
        report.say("ebs-size", place, f"A {kind} volume cannot have {words}", f"Write Size: {smallest} to {largest}.")
    if iops and kind not in _IOPS:
        report.say("ebs-iops", settings.at("Iops"), f"A {kind} volume takes no Iops", "Remove Iops, or choose gp3.")
    elif iops:
        least, most, ratio = _IOPS[kind]
        if not least <= iops <= most or (size and iops > size * ratio):
            report.say(
                "ebs-iops",
                settings.at("Iops"),
                f"A {kind} volume of this size takes {least} to {most} Iops, and {ratio} per GiB at most",
            )
    speed = settings.at("Throughput").integer()
    if speed and kind == "gp3" and (not 125 <= speed <= 1000 or speed > (iops or 3000) / 4):
        report.say("ebs-throughput", settings.at("Throughput"), f"{speed} MB/s is out of range for {iops or 3000} Iops")


def encryption(config: Config, report: Report) -> None:
    """A key of one's own needs encryption to be on."""
    for storage in config.storage:
        key = storage.settings.at("KmsKeyId")
        if storage.kind in {"Ebs", "Efs"} and key and not storage.existing:
            on = storage.settings.at("Encrypted").flag()
            if on is False or (on is None and storage.kind == "Efs"):
                report.say("kms-without-encryption", key, "A key is given, but Encrypted is not true")


def shared_volumes(config: Config, report: Report) -> None:
    """EBS is shared through the head node, whose network all nodes then wait for."""
    for storage in config.storage:
        if storage.kind == "Ebs" and config.nodes > 100:
            report.say(
                "ebs-shared-by-many", storage.place, f"{config.nodes} nodes read {storage.mount} through the head node"
            )


RULES: tuple[Callable[[Config, Report], None], ...] = (volumes, encryption, shared_volumes)
