"""Reads how long a cluster may cost: `ttl`, after which its head node stops the fleet, and `idle_alert`."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime

from trnctl.specs.cluster import ClusterSpec, Ttl
from trnctl.specs.reading import Section, matching, shown
from trnctl.specs.sdk import row

_UNITS = {"m": 1 / 60, "h": 1.0, "d": 24.0}
_DURATION = r"(\d+(?:\.\d+)?)(m|h|d)"
_HOURS = matching("duration", _DURATION, "is no duration", "Write minutes, hours or days, as in 12h, 90m or 2d.")
_WAYS = "Write a duration after the last job, as in 12h, or a moment with its zone, as in 2026-12-01T18:00Z."


def hours(text: str) -> float:
    """`90m` is 1.5; 0 for a text that is no duration."""
    found = re.fullmatch(_DURATION, text)
    return float(found[1]) * _UNITS[found[2]] if found else 0.0


def moment(text: str) -> datetime | None:
    """An ISO 8601 moment with its zone, in UTC; None for any other text."""
    with suppress(ValueError):
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo is not None else None
    return None


def read_ttl(cluster: Section) -> Ttl | None:
    """`12h`, a moment, or a mapping of `idle`, `at` and `end_jobs`."""
    shape = cluster.shape("ttl")
    if shape == "absent":
        return None
    if shape == "scalar":
        text = cluster.text("ttl")
        if re.fullmatch(_DURATION, text):
            return Ttl(idle_hours=hours(text))
        return Ttl(at=_moment(cluster, "ttl", text, _WAYS))
    section = cluster.section("ttl")
    idle, at = section.text("idle", None, rule=_HOURS), section.text("at", None)
    made = Ttl(
        idle_hours=hours(idle) if idle else None,
        at=_moment(section, "at", at, "Write a moment with its zone, as in 2026-12-01T18:00Z.") if at else None,
        end_jobs=section.flag("end_jobs", False),
    )
    if idle is None and at is None:
        cluster.problem("ttl", "The ttl says neither `idle` nor `at`", _WAYS, key="ttl")
    return made


def read_idle_alert(cluster: Section) -> float:
    """Hours; 0 for `never`."""
    text = cluster.text("idle_alert", "4h")
    if text != "never" and not re.fullmatch(_DURATION, text):
        cluster.problem("duration", f"{shown(text)} is no duration", "Write one, as in 4h, or never.", key="idle_alert")
    return 0.0 if text == "never" else hours(text)


def check_ttl(section: Section, spec: ClusterSpec) -> None:
    """The program that obeys it comes with the node scripts, which lie in the cluster's bucket."""
    release = row(spec.neuron_sdk)
    installed = spec.bucket is not None and spec.os.startswith("ubuntu") and release is not None and release.packaged
    if spec.ttl is not None and not installed:
        section.problem(
            "ttl-without-scripts",
            "Nothing on the head node would obey the ttl: it comes with trnctl's node scripts",
            "Name a `bucket` for them, with ubuntu2404 and a packaged neuron_sdk, or leave the ttl out.",
            key="ttl",
        )


def _moment(section: Section, key: str, text: str, remedy: str) -> datetime | None:
    found = moment(text)
    if found is None:
        section.problem("ttl", f"{shown(text)} is neither a duration nor a moment with its zone", remedy, key=key)
    return found
