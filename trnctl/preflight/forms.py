"""How ids, names and paths of a ParallelCluster configuration must look: what its own schema accepts, no less."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_OCTET = r"(\d|[1-9]\d|1\d{2}|2[0-4]\d|25[0-5])"


@dataclass(frozen=True)
class Form:
    """A test of one text: the finding's code, what is wrong after the quoted value, and what to write."""

    code: str
    holds: Callable[[str], object]
    wrong: str
    remedy: str


def _id(code: str, prefix: str, what: str, *, digits: str = r"[0-9a-z]{8}|[0-9a-z]{17}") -> Form:
    return Form(
        code,
        re.compile(rf"{prefix}-({digits})").fullmatch,
        f"is not {what}'s id",
        f"Write the whole id, as in `{prefix}-0aa11bb22cc33dd44`.",
    )


def _arn(what: str, pattern: str, example: str) -> Form:
    return Form("arn", re.compile(pattern).match, f"is not the ARN of {what}", f"Write it in full, as in `{example}`.")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _matching(code: str, pattern: str, wrong: str, remedy: str) -> Form:
    return Form(code, re.compile(pattern).fullmatch, wrong, remedy)


FORMS: Mapping[str, Form] = {
    "subnet": _id("subnet-id", "subnet", "a subnet"),
    "security-group": _id("sg-id", "sg", "a security group"),
    "ami": _id("ami-id", "ami", "an image"),
    "snapshot": _id("snap-id", "snap", "a snapshot"),
    "volume": _id("vol-id", "vol", "a volume"),
    "file-system": _id("fs-id", "fs", "a file system"),
    "lustre-file-system": _id("fs-id", "fs", "an FSx file system", digits="[0-9a-z]{17}"),
    "access-point": _id("access-point-id", "fsap", "an access point", digits="[0-9a-z]{17}"),
    "fsx-volume": _id("fsx-volume-id", "fsvol", "an FSx volume", digits="[0-9a-f]{17}"),
    "file-cache": _id("file-cache-id", "fc", "a file cache", digits="[0-9a-f]{8,18}"),
    "backup": _id("backup-id", "backup", "a backup", digits="[0-9a-f]{8,}"),
    "role": _arn("a role", r"arn:.*:role/", "arn:aws:iam::111122223333:role/demo"),
    "instance-profile": _arn(
        "an instance profile", r"arn:.*:instance-profile/", "arn:aws:iam::111122223333:instance-profile/demo"
    ),
    "policy": _arn("a policy", r"arn:.*:policy/", "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"),
    "secret-manager": _arn(
        "a secret", r"arn:.*:secret", "arn:aws:secretsmanager:us-west-2:111122223333:secret:demo-AbCdEf"
    ),
    "secret": _arn(
        "a secret",
        r"arn:.*:(secretsmanager:.*:.*:secret:|ssm:.*:.*:parameter/)",
        "arn:aws:secretsmanager:us-west-2:111122223333:secret:demo-AbCdEf",
    ),
    "bucket": _matching(
        "bucket-name",
        r"[*a-z0-9.-]+",
        "is not a bucket's name",
        "Write the bare name: no `s3://`, no path; small letters, digits, dots and hyphens.",
    ),
    "cidr": Form(
        "cidr",
        re.compile(rf"({_OCTET}\.){{3}}{_OCTET}/([0-9]|[12][0-9]|3[0-2])\Z|pl-[a-zA-Z0-9]").match,
        "is neither an IPv4 CIDR nor a prefix list",
        "Write an address with its prefix length, as in `203.0.113.7/32`, or a managed prefix list's id (`pl-…`).",
    ),
    "mount": Form(
        "mount-directory",
        re.compile(r"/?[^/.\\][^/\\]*(/[^/.\\][^/]*)*").fullmatch,
        "cannot be a mount directory",
        "Write an absolute path without a slash at its end and without parts that begin with a dot, as in `/fsx`.",
    ),
    "file-system-path": _matching(
        "file-system-path",
        r"[^\u0000\u0085\u2028\u2029\r\n]{1,4096}",
        "is not a path in a file system",
        "Write an absolute path, as in `/data`.",
    ),
    "database-name": _matching(
        "database-name", r"[0-9a-z_]{1,64}", "is not a database's name", "Use small letters, digits and underscores."
    ),
    "weekly-time": _matching(
        "time-of-week", r"[1-7]:([01]\d|2[0-3]):([0-5]\d)", "is not a time of the week", "Write d:HH:MM, as in 1:05:00."
    ),
    "daily-time": _matching(
        "time-of-day", r"([01]\d|2[0-3]):([0-5]\d)", "is not a time of day", "Write HH:MM in quotes, as in '05:00'."
    ),
    "json": Form("json", _is_json, "is not JSON", "Write one JSON object in quotes or as a block (`|`)."),
}
