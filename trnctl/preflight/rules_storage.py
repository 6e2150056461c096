"""Rules on shared storage: what goes together, sizes and speeds, mount directories, what is deleted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from trnctl.preflight.config import SETTINGS, Config, Storage
from trnctl.preflight.place import Place
from trnctl.preflight.report import Report
from trnctl.preflight.unfilled import unfilled
from trnctl.specs import rules
from trnctl.specs.values import shown

_EXISTING_EFS = {"FileSystemId", "AccessPointId", "EncryptionInTransit", "IamAuthorization"}
_NOT_FROM_BACKUP = (
    "DeploymentType", "PerUnitStorageThroughput", "StorageCapacity", "ImportPath", "ExportPath",
    "ImportedFileChunkSize", "KmsKeyId",
)  # fmt: skip
_HDD_STEPS = {12: 6000, 40: 1800}
_RESERVED = {
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/media", "/mnt", "/opt", "/opt/intel", "/opt/parallelcluster",
    "/opt/parallelcluster/shared", "/opt/parallelcluster/shared_login_nodes", "/opt/slurm", "/proc", "/root", "/run",
    "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var",  # noqa: S108  # names, none is written to
}  # fmt: skip
_FSX_KINDS = {"FsxLustre", "FsxOpenZfs", "FsxOntap", "FileCache"}
_TAG_VALUE = re.compile(r"[\w+\-=._:@/]{0,256}")
_LINK_KEYS = ("ImportPath", "ExportPath", "ImportedFileChunkSize", "AutoImportPolicy")


def settings_fit(config: Config, report: Report) -> None:
    """Each storage has one section of settings, that of its type, and those that exist are named."""
    for item in config.root.at("SharedStorage").sections():
        kind, wanted = item.at("StorageType").text(), SETTINGS.get(item.at("StorageType").text())
        written = [name for name in SETTINGS.values() if item.at(name)]
        if len(written) > 1:
            report.say("storage-settings", item.at(written[1]), f"{' and '.join(written)} stand together")
        elif written and wanted and written != [wanted]:
            report.say("storage-settings", item.at(written[0]), f"{written[0]} does not go with StorageType {kind}")
        elif not written and kind in _FSX_KINDS:
            report.say("storage-settings", item, f"{kind} needs {wanted}", f"Add `{wanted}: …`.")


def names(config: Config, report: Report) -> None:
    """Storage has names that differ and can be a tag."""
    seen: set[str] = set()
    for storage in config.storage:
        place = storage.place.at("Name")
        if storage.name and (
            not _TAG_VALUE.fullmatch(storage.name) or len(storage.name) > 30 or storage.name == "default"
        ):
            report.say("storage-name", place, f"{shown(storage.name)} cannot name shared storage")
        if storage.name and storage.name in seen:
            report.say("duplicate-name", place, f"Two shared storages have the name {shown(storage.name)}")
        seen.add(storage.name)
    ids = Counter(storage.existing for storage in config.storage if storage.existing)
    for storage in config.storage:
        if ids[storage.existing] > 1:
            report.say("duplicate-storage", storage.settings, f"{storage.existing} is mounted twice")
            ids[storage.existing] = 1


def numbers(config: Config, report: Report) -> None:
    """ParallelCluster's limits: one new FSx, EFS and RAID each, five volumes, twenty that exist already."""
    new = {"FsxLustre": 0, "Efs": 0, "raid": 0}
    existing, volumes = Counter[str](), 0
    for storage in config.storage:
        kind = "raid" if storage.settings.at("Raid") else storage.kind
        if kind in new and not storage.existing:
            new[kind] += 1
            if new[kind] == 2:
                report.say("too-many-new-file-systems", storage.place, f"A second new {kind} stands here")
        elif storage.existing and kind != "Ebs":
            existing["fsx" if kind in _FSX_KINDS else kind] += 1
        volumes += kind == "Ebs"
    place = config.root.at("SharedStorage")
    if volumes > 5:
        report.say("too-many-volumes", place, f"There are {volumes} EBS volumes")
    if any(count > 20 for count in existing.values()):
        report.say("too-many-file-systems", place, f"{max(existing.values())} file systems of one kind exist already")


# ------------------------------------------------------------------------------------------- mount directories


def mounts(config: Config, report: Report) -> None:
    """Mount directories are not the system's, differ, and lie beside each other."""
    seen: list[str] = []
    for storage in config.storage:
        place = storage.place.at("MountDir")
        if not storage.mount:
            continue
        if storage.mount in _RESERVED or storage.mount == "/NONE":  # the latter means something to its cookbook
            report.say("mount-reserved", place, f"{shown(storage.mount)} belongs to the system or to ParallelCluster")
        if storage.kind == "FileCache" and storage.mount == "/home":
            report.say("mount-home-cache", place, "A file cache cannot hold the home directories")
        for other in seen:
            if storage.mount == other:
                report.say("mount-overlap", place, f"{shown(storage.mount)} is mounted twice")
            elif _inside(storage.mount, other):
                report.say("mount-overlap", place, f"{shown(storage.mount)} and {shown(other)} overlap")
        seen.append(storage.mount)


def ephemeral_mounts(config: Config, report: Report) -> None:
    """Shared storage does not lie where an instance's own disks are mounted (by default /scratch)."""
    disks = {queue.disks for queue in config.queues if any(f.local_gb for r in queue.resources for f in r.facts)}
    for storage in config.storage:
        for disk in disks:
            own = disk if disk.startswith("/") else f"/{disk}"
            place = storage.place.at("MountDir")
            if storage.mount == own:
                report.say("ephemeral-clash", place, f"{shown(own)} is also where the nodes' own disks are mounted")
            elif storage.mount and _inside(storage.mount, own):
                report.say(
                    "mount-overlap", place, f"{shown(storage.mount)} overlaps {shown(own)}, the nodes' own disks"
                )


def _inside(one: str, other: str) -> bool:
    return one.startswith(f"{other}/") or other.startswith(f"{one}/")


# --------------------------------------------------------------------------------------- FSx for Lustre and EFS


def existing_file_systems(config: Config, report: Report) -> None:
    """What describes a new file system does not stand beside the id of one that exists, or of a backup."""
    for storage in config.storage:
        settings = storage.settings
        if not settings.at("FileSystemId"):
            if settings.at("BackupId"):
                for key in _NOT_FROM_BACKUP:
                    if settings.at(key):
                        report.say("storage-exists", settings.at(key), f"A backup decides {key}", f"Remove {key}.")
            continue
        allowed = _EXISTING_EFS if storage.kind == "Efs" else {"FileSystemId"}
        for key in settings.keys():  # noqa: SIM118  # a Place is no mapping
            if key not in allowed and settings.at(key):
                report.say("storage-exists", settings.at(key), f"{key} describes a new file system", f"Remove {key}.")


def fsx_capacity(config: Config, report: Report) -> None:
    """A new FSx for Lustre has a size that FSx sells."""
    for storage in _new_lustre(config):
        settings = storage.settings
        size, place = settings.at("StorageCapacity").integer(), settings.at("StorageCapacity")
        if settings.at("BackupId"):
            continue
        if not place:
            report.say("fsx-capacity", settings, "StorageCapacity is missing", "Add `StorageCapacity: 1200`.")
            continue
        fixed, step = _sizes(settings)
        if size is not None and (size <= 0 or (size not in fixed and size % step)):
            above = max(step, (max(size, 0) // step + 1) * step)
            nearest = min([*fixed, above], key=lambda one: abs(one - (size or 0)))
            sold = " or ".join(map(str, (*fixed, f"a multiple of {step}")))
            report.say(
                "fsx-capacity",
                place,
                f"FSx sells no {size} GiB of this kind",
                f"Write {sold}; the nearest is {nearest}.",
            )


def _sizes(settings: Place) -> tuple[tuple[int, ...], int]:
    """Sizes that stand alone, and the step of all others (FsxStorageCapacityValidator of 3.16.1)."""
    deployment = settings.at("DeploymentType").text() or "SCRATCH_1"  # FSx's own default
    if deployment == "PERSISTENT_1" and settings.at("StorageType").text() == "HDD":
        return (), _HDD_STEPS.get(settings.at("PerUnitStorageThroughput").integer() or 0, 600)
    return rules.FSX_SIZES.get(deployment, ((1200,), 2400))


def _new_lustre(config: Config) -> list[Storage]:
    return [one for one in config.storage if one.kind == "FsxLustre" and one.settings.is_section and not one.existing]


def fsx_throughput(config: Config, report: Report) -> None:
    """Persistent file systems have a throughput of the list, scratch ones none; their disks go with it."""
    for storage in _new_lustre(config):
        settings = storage.settings
        deployment = settings.at("DeploymentType").text() or "SCRATCH_1"
        place, hdd = settings.at("PerUnitStorageThroughput"), settings.at("StorageType").text() == "HDD"
        if settings.at("BackupId") or deployment not in rules.FSX_THROUGHPUTS:
            continue
        allowed = tuple(_HDD_STEPS) if hdd else rules.FSX_THROUGHPUTS[deployment]
        if hdd and deployment != "PERSISTENT_1":
            report.say("fsx-disk-type", settings.at("StorageType"), f"FSx {deployment} has no HDD")
        elif allowed and place.integer() not in allowed:
            report.say(
                "fsx-throughput",
                place,
                f"FSx {deployment} needs a throughput, in MB/s per TiB",
                f"Write PerUnitStorageThroughput with one of {', '.join(map(str, allowed))}.",
            )
        elif not allowed and place:
            report.say("fsx-throughput", place, f"FSx {deployment} has a fixed throughput")
        if settings.at("DriveCacheType") and not hdd:
            report.say("fsx-disk-type", settings.at("DriveCacheType"), "Only HDD file systems have a drive cache")
        if settings.at("KmsKeyId") and deployment.startswith("SCRATCH"):
            report.say("fsx-key", settings.at("KmsKeyId"), f"FSx {deployment} takes no key of yours")


def fsx_links(config: Config, report: Report) -> None:
    """Links to S3 are either associations (eight at most) or one import path with its options; backups need none."""
    for storage in _new_lustre(config):
        settings = storage.settings
        links = settings.at("DataRepositoryAssociations")
        imports = settings.at("ImportPath")
        if len(links.sections()) > 8:
            report.say("fsx-links", links, f"{len(links.sections())} associations are too many")
        for key in ("ImportPath", "ExportPath"):
            if links and settings.at(key):
                report.say("fsx-links", settings.at(key), f"{key} and DataRepositoryAssociations stand together")
        if imports and settings.at("DeploymentType").text() == "PERSISTENT_2":
            words = "FSx links PERSISTENT_2 to S3 by associations, and has refused ImportPath"
            report.say("fsx-links", imports, words, "Write DataRepositoryAssociations instead.", level="warning")
        for key in ("ExportPath", "ImportedFileChunkSize", "AutoImportPolicy"):
            if settings.at(key) and not imports:
                report.say("fsx-links", settings.at(key), f"{key} needs ImportPath", "Add `ImportPath: s3://…`.")


def s3_places(config: Config, report: Report) -> None:
    """What is linked to a file system lies in S3."""
    for storage in _new_lustre(config):
        links = storage.settings.at("DataRepositoryAssociations").sections()
        places = [storage.settings.at("ImportPath"), storage.settings.at("ExportPath")]
        for place in (*places, *(link.at("DataRepositoryPath") for link in links)):
            if place.text() and not place.text().startswith("s3://") and not unfilled(place.text()):
                report.say("s3-uri", place, f"{shown(place.text())} is not an S3 place")


def fsx_backups(config: Config, report: Report) -> None:
    """Automatic backups go with persistent file systems without links to S3."""
    for storage in _new_lustre(config):
        settings = storage.settings
        days, place = settings.at("AutomaticBackupRetentionDays").integer(), settings.at("AutomaticBackupRetentionDays")
        for key in ("DailyAutomaticBackupStartTime", "CopyTagsToBackups"):
            if settings.at(key) and not days:
                report.say("fsx-backups", settings.at(key), f"{key} needs AutomaticBackupRetentionDays")
        if not days:
            continue
        if not settings.at("DeploymentType").text().startswith("PERSISTENT"):
            report.say("fsx-backups", place, "Scratch file systems have no backups")
        if any(settings.at(key) for key in _LINK_KEYS):
            report.say("fsx-backups", place, "File systems that are linked to S3 have no backups")


def fsx_place(config: Config, report: Report) -> None:
    """A new FSx lives in one subnet."""
    subnets = config.compute_subnets
    for storage in _new_lustre(config):
        if len(subnets) > 1:
            report.say("fsx-several-subnets", storage.place, f"The queues are in {len(subnets)} subnets")


def efs(config: Config, report: Report) -> None:
    """EFS: throughput goes with its mode, authorization and access points with encryption on the way."""
    for storage in config.storage:
        if storage.kind != "Efs":
            continue
        settings = storage.settings
        provisioned = settings.at("ThroughputMode").text() == "provisioned"
        if provisioned != bool(settings.at("ProvisionedThroughput")):
            place = settings.at("ProvisionedThroughput") or settings.at("ThroughputMode")
            report.say("efs-throughput", place, "ThroughputMode: provisioned and ProvisionedThroughput go together")
        if not settings.at("EncryptionInTransit").flag():
            for key in ("IamAuthorization", "AccessPointId"):
                if settings.at(key).flag() or settings.at(key).text():
                    report.say("efs-encryption", settings.at(key), f"{key} needs EncryptionInTransit: true")
        if settings.at("AccessPointId") and not settings.at("FileSystemId"):
            report.say("efs-access-point", settings.at("AccessPointId"), "An access point belongs to an existing EFS")


def deletion(config: Config, report: Report) -> None:
    """People know what goes with the cluster, what stays and costs, and what no second copy exists of."""
    for storage in config.storage:
        if not storage.managed or not storage.settings:
            continue
        policy = storage.settings.at("DeletionPolicy").text() or "Delete"
        if policy == "Delete" and storage.kind in {"FsxLustre", "Efs"}:
            report.say(
                "storage-deleted-with-cluster", storage.place, f"{storage.mount} and its data go with the cluster"
            )
        elif policy == "Retain":
            report.say(
                "storage-kept", storage.place, f"{storage.mount} stays when the cluster goes, and goes on costing"
            )
        scratch = storage.settings.at("DeploymentType").text() or "SCRATCH_1"
        if storage.kind == "FsxLustre" and scratch.startswith("SCRATCH"):
            report.say("fsx-scratch-no-replication", storage.place, f"{scratch} data is lost if a file server fails")


RULES: tuple[Callable[[Config, Report], None], ...] = (
    settings_fit, names, numbers, mounts, ephemeral_mounts, existing_file_systems, fsx_capacity, fsx_throughput,
    fsx_links, s3_places, fsx_backups, fsx_place, efs, deletion,
)  # fmt: skip
