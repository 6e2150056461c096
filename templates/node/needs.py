"""What a run needs on shared storage before nodes are paid for, and whether it lies there whole.

Travels with the head node's script, and lies in each run's folder for its preparer. Standard library only, Python 3.6.

A need is an object: {"what": in words, "path": what must be there, "remedy": how a person gets it there, "check":
{"files": at least so many, "match": whose names match}, "fetch": how the preparer gets it, or {}}.
"""

import fnmatch
import os
from pathlib import Path


class Failed(Exception):
    """Something could not be prepared; `kind` is one of KINDS, `message` what happened."""

    def __init__(self, kind, message, remedy=""):
        super().__init__(message)
        self.kind, self.message, self.remedy = kind, message, remedy or KINDS[kind]


# What can go wrong, and what to do about it.
KINDS = {
    "checksum": "What the source holds is not what the recipe was written for: ask its owner, or correct the recipe.",
    "incomplete": "What the source holds is less than the recipe says: ask its owner, or correct the recipe.",
    "space": "Free space there, or use a larger file system; then trnctl resume RUN goes on.",
    "network": "Let the head node reach it: a NAT gateway, a route, a security group; then trnctl resume RUN goes on.",
    "access": "Give the head node access: a deploy key or credentials for a repository, iam.policies for a bucket.",
    "absent": "Correct the recipe: its source does not hold what it names.",
    "tool": "Install it on the head node: trnctl ssh -- sudo apt-get install -y NAME; then trnctl resume RUN goes on.",
    "package": "Correct requirements in the recipe: each must be a version that fits the head node's Python.",
    "other-data": "Name another path in the recipe, or remove what lies there.",
    "slurm": "Look at Slurm on the head node: trnctl ssh -- sinfo; then trnctl resume RUN goes on.",
    "fault": "This is a fault in trnctl: please report it with the run's prepare.log.",
}


def lack(need):
    """Why a need is not met, in a few words; '' when it is."""
    path = Path(need["path"])
    if not path.exists():
        return "is not there"
    return short(path, need.get("check") or {})


def short(folder, check):
    """What a folder lacks of what it must hold; '' when nothing."""
    wanted = check.get("files")
    if not wanted:
        return ""
    count = counted(folder, check.get("match") or "*")
    return "" if count >= wanted else f"has {count:,} files of at least {wanted:,}"


def counted(folder, pattern):
    """How many files below a folder have such a name."""
    count = 0
    for _, _, names in os.walk(str(folder)):
        count += len(fnmatch.filter(names, pattern))
    return count


def missing(needs):
    """Those that are not met, each with the reason."""
    return [(need, why) for need, why in ((need, lack(need)) for need in needs) if why]
