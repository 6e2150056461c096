"""The door to what makes and unmakes clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from trnctl.findings import Finding


@dataclass(frozen=True)
class StackEvent:
    """One CloudFormation event; `resource_type` is the CloudFormation name, `reason` is '' when none."""

    at: datetime
    logical_id: str
    resource_type: str
    status: str
    reason: str = ""
    physical_id: str = ""


@dataclass(frozen=True)
class Change:
    """One line of an update's change set: what is different from the running cluster."""

    path: str
    current: str
    requested: str


@dataclass(frozen=True)
class ClusterSummary:
    """One row of `cluster list`."""

    name: str
    region: str
    status: str
    version: str


ImageState = Literal["building", "available", "failed", "deleting", "delete-failed"]


@dataclass(frozen=True)
class BuiltImage:
    """An image that ParallelCluster builds or has built, under the name that it was asked for. `ami` is '' until there
    is one. `began` is when its stack (or, once that is gone, its AMI) was made. `builder` is Image Builder's word for
    what it does, `reason` what it or CloudFormation says of a failure, `log` the log group of the build; '' where
    nobody says. A list tells no more than name, state, ami and version."""

    name: str
    state: ImageState
    version: str
    ami: str = ""
    began: datetime | None = None
    builder: str = ""
    reason: str = ""
    log: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


class Provisioner(Protocol):
    """Makes and unmakes clusters and images (ParallelCluster's CLI). `document` is a whole YAML file of it."""

    def create(self, name: str, document: str, *, keep_failed: bool = False) -> None:
        """Start creating; returns when CloudFormation has accepted. RefusedError carries validation findings. What a
        failure leaves is taken back, unless `keep_failed`: then it stays, the head node among it, and costs."""

    def check(self, name: str, document: str) -> list[Finding]:
        """The provisioner's own dry run: nothing is created; its verdicts as findings (empty = it would pass)."""

    def update(self, name: str, document: str) -> list[Change]:
        """Start updating; the change set that was accepted ([] = nothing to change)."""

    def check_update(self, name: str, document: str) -> tuple[list[Change], list[Finding]]:
        """What an update would change, and what forbids it."""

    def clusters(self) -> list[ClusterSummary]:
        """All clusters of the region."""

    def describe(self, name: str) -> Mapping[str, object]:
        """The provisioner's own description, as it gives it. NotFoundError when there is none."""

    def events(self, name: str) -> list[StackEvent]:
        """Stack events, oldest first. NotFoundError when there is no such cluster."""

    def set_fleet(self, name: str, running: bool) -> None:
        """Ask the compute fleet to start or to stop; returns at once."""

    def delete(self, name: str) -> None:
        """Start deleting the stack; silent if it is already gone or going."""

    def build_image(self, name: str, document: str) -> list[Finding]:
        """Start building an image; returns what was noticed when CloudFormation has accepted. `document` is a build
        configuration. RefusedError carries validation findings, and is raised too when the name is taken."""

    def describe_image(self, name: str) -> BuiltImage:
        """The image of that name, building or built. NotFoundError when there is none."""

    def images(self) -> list[BuiltImage]:
        """All images of the region that ParallelCluster has built, builds, or failed to build."""

    def delete_image(self, name: str) -> None:
        """Start deleting what a build has made, the AMI too; silent if it is already gone."""
