"""The form that single values of a cluster file must have, as a table of rules.

Names and ids follow ParallelCluster 3.16.1's schema and validators, tightened where it lets through what AWS or a
shell on the nodes would refuse later.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from trnctl.specs.reading import Rule, matching

CLUSTER_NAME = matching(
    "cluster-name",
    r"[a-zA-Z][a-zA-Z0-9-]{1,59}",
    "is not a cluster name",
    "Use letters, digits and hyphens, beginning with a letter, 2 to 60 characters.",
)
QUEUE_NAME = matching(
    "queue-name",
    r"(?!default$)[a-z][a-z0-9-]{0,24}",
    "cannot name a queue or a compute resource",
    "Use small letters, digits and hyphens, beginning with a letter, at most 25 characters, and not `default`.",
)
STORAGE_NAME = matching(
    "storage-name",
    r"(?!default$)[a-zA-Z0-9][a-zA-Z0-9_-]{0,29}",
    "cannot name a file system",
    "Use letters, digits, hyphens and underscores, at most 30 characters, and not `default`.",
)
INSTANCE_TYPE = matching(
    "instance-type-form", r"[a-z0-9-]+\.[a-z0-9-]+", "is not an instance type", "Write it as in `trn1.32xlarge`."
)
PCLUSTER_VERSION = matching(
    "pcluster-version", r"3\.\d{1,3}\.\d{1,3}", "is not a ParallelCluster 3 version", 'Write it as in "3.16.1".'
)
KEY_NAME = matching("key-name", r"[\x20-\x7e]{1,255}", "is not a key pair's name", "Use at most 255 ASCII characters.")
PLACEMENT_GROUP = matching(
    "placement-group",
    r"[\x21-\x7e][\x20-\x7e]{0,254}",
    "is not a placement group's name",
    "Write true, false, or the name of an existing placement group.",
)


def _id(prefix: str, what: str) -> Rule:
    return matching(
        f"{prefix}-id",
        rf"{prefix}-([0-9a-z]{{8}}|[0-9a-z]{{17}})",
        f"is not {what}'s id",
        f"Write the whole id: `{prefix}-` and 17 (in old accounts 8) characters.",
    )


SUBNET_ID = _id("subnet", "a subnet")
SECURITY_GROUP_ID = _id("sg", "a security group")
AMI_ID = _id("ami", "an image")
FILE_SYSTEM_ID = _id("fs", "a file system")
VOLUME_ID = _id("vol", "a volume")
RESERVATION_ID = matching(
    "cr-id",
    r"cr-[0-9a-z]{8,17}",
    "is not a capacity reservation's id",
    "Write the whole id, `cr-…`: a capacity block has one too, once it is bought.",
)

_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
BUCKET = matching(
    "bucket-name",
    _BUCKET,
    "is not a bucket's name",
    "Write the bare name, without `s3://` and without a path: small letters, digits, dots and hyphens.",
)
S3_URI = matching("s3-uri", rf"s3://{_BUCKET}(/.*)?", "is not an S3 place", "Write it as in `s3://bucket/prefix`.")
SCRIPT = matching(
    "script-url",
    rf"s3://{_BUCKET}/[^/].*|https://[^\s/]+/\S+",
    "cannot be fetched by a node",
    "Put the script into a bucket (`s3://bucket/script.sh`) or on a web server (`https://…`).",
)
_ARN = r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+"
POLICY_ARN = matching(
    "policy-arn",
    _ARN,
    "is not a policy's ARN",
    "Write it in full, as in `arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess`.",
)
RESOURCE_PREFIX = matching(
    "resource-prefix",
    r"(?=.{1,512}$)(/[\w.,+@=-]+)+/[\w.,+@=-]{0,30}|[\w.,+@=-]{1,30}",
    "is not a prefix of IAM names",
    "Write a name prefix of at most 30 characters, a path as in `/team/`, or both as in `/team/prefix-`.",
)
MOUNT = matching(
    "mount-directory",
    r"(?!/NONE$)(/[A-Za-z0-9_@+-][A-Za-z0-9_.@+-]*)+",
    "is not a mount directory",
    "Write an absolute path of letters, digits and `_ - . + @`, without spaces, as in `/fsx`.",
)


def _is_source(text: str) -> bool:
    if re.fullmatch(r"pl-[0-9a-f]{8,17}", text):
        return True
    try:
        return "/" in text and ipaddress.IPv4Network(text, strict=False) is not None
    except ValueError:
        return False


SSH_SOURCE = Rule(
    "cidr",
    _is_source,
    "is not an IPv4 CIDR",
    "Write an address with its prefix length, as in `203.0.113.7/32`, or a managed prefix list's id (`pl-…`).",
)

# ParallelCluster refuses exactly these; what lies below the second list would shadow or upset the system as well.
_RESERVED = {
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/media", "/mnt", "/opt", "/opt/intel", "/opt/parallelcluster",
    "/opt/slurm", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var",  # noqa: S108  # names, none is written to
}  # fmt: skip
_RESERVED_BELOW = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt/aws", "/opt/intel", "/opt/parallelcluster", "/opt/slurm",
    "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr/bin", "/usr/lib", "/usr/sbin",  # noqa: S108  # the same
)  # fmt: skip


def reserved_mount(mount: str) -> bool:
    """Whether the directory belongs to the operating system or to ParallelCluster."""
    return mount in _RESERVED or any(mount.startswith(f"{parent}/") for parent in _RESERVED_BELOW)


def overlapping(mounts: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of mount directories of which one lies in the other, or that are the same."""
    known: list[str] = []
    pairs = []
    for mount in mounts:
        pairs += [
            (other, mount)
            for other in known
            if mount == other or mount.startswith(f"{other}/") or other.startswith(f"{mount}/")
        ]
        known.append(mount)
    return pairs


# Slurm settings that ParallelCluster owns (CustomSlurmSettingsValidator of 3.16.1), in lower case.
SLURM_CONF_DENIED = {
    "epilog", "grestypes", "launchparameters", "prolog", "reconfigflags", "resumefailprogram", "resumeprogram",
    "resumetimeout", "slurmctldhost", "slurmctldlogfile", "slurmctldparameters", "slurmdlogfile", "slurmuser",
    "suspendexcnodes", "suspendprogram", "suspendtime", "taskplugin", "treewidth",
}  # fmt: skip
SLURM_QUEUE_DENIED = {"nodes", "partitionname", "resumetimeout", "state", "suspendtime", "oversubscribe"}

# FSx for Lustre: legal sizes (GiB) besides multiples of the step, and throughputs (MB/s per TiB) that must be chosen.
FSX_SIZES = {
    "SCRATCH_1": ((1200, 2400), 3600),
    "SCRATCH_2": ((1200,), 2400),
    "PERSISTENT_1": ((1200,), 2400),
    "PERSISTENT_2": ((1200,), 2400),
}
FSX_THROUGHPUTS: dict[str, tuple[int, ...]] = {
    "SCRATCH_1": (),
    "SCRATCH_2": (),
    "PERSISTENT_1": (50, 100, 200),
    "PERSISTENT_2": (125, 250, 500, 1000),
}
# EBS: smallest and largest size in GiB.
EBS_SIZES = {
    "gp3": (1, 16384), "gp2": (1, 16384), "io1": (4, 16384), "io2": (4, 65536),
    "st1": (500, 16384), "sc1": (500, 16384), "standard": (1, 1024),
}  # fmt: skip
