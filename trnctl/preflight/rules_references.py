"""Rules on what a file only points at: secrets, and files that ParallelCluster or its nodes fetch."""

from __future__ import annotations

import re
from collections.abc import Callable

from trnctl.preflight.config import Config
from trnctl.preflight.report import Report
from trnctl.preflight.unfilled import unfilled
from trnctl.specs.values import shown

_SECRET = re.compile(r"arn:[^:]*:secretsmanager:[^:]*:[^:]*:secret:.+")
_PARAMETERS_IN = "us-isob-east-1"  # the one region in which a password may still be an SSM parameter
_FETCHED = (
    ("Scheduling", "SlurmSettings", "CustomSlurmSettingsIncludeFile"),
    ("DevSettings", "ClusterTemplate"),
    ("DevSettings", "NodePackage"),
    ("DevSettings", "Cookbook", "ChefCookbook"),
)


def secrets(config: Config, report: Report) -> None:
    """Passwords and keys lie in Secrets Manager."""
    places = [config.settings.at("MungeKeySecretArn")]
    if config.region != _PARAMETERS_IN:
        places.append(config.root.at("DirectoryService", "PasswordSecretArn"))
    for place in places:
        text = place.text()
        if (
            text
            and not unfilled(text)
            and not _SECRET.fullmatch(text)
            and (text.startswith("arn:") or place is places[0])
        ):
            report.say(
                "arn",
                place,
                f"{shown(text)} is not the ARN of a secret",
                "Put it into Secrets Manager, and write `arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME`.",
            )


def fetched(config: Config, report: Report) -> None:
    """What is fetched lies on a web server or in S3."""
    for keys in _FETCHED:
        place = config.root.at(*keys)
        if place.text() and not unfilled(place.text()) and not re.match(r"https://[^/]|s3://[^/]+/.", place.text()):
            report.say("url", place, f"{shown(place.text())} cannot be fetched")


RULES: tuple[Callable[[Config, Report], None], ...] = (secrets, fetched)
