"""ParallelCluster's own command line, unmodified, behind a Shell.

It prints JSON on stdout and noise on stderr (node.js banners); it exits 1 for every failure and for a dry run that
would succeed, so that only the JSON tells them apart.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trnctl.adapters.pcluster_answers import changes_of, findings_of, image_of, refusal_of
from trnctl.errors import NotFoundError, RefusedError, ToolError, ToolMissing, TrnctlError
from trnctl.findings import Finding
from trnctl.ports import BuiltImage, Change, ClusterSummary, Completed, Shell, StackEvent

_LOG = logging.getLogger("trnctl.pcluster")
_QUICK = 120.0  # seconds; one question takes 1 to 2, more when AWS throttles
_SLOW = 900.0  # create and update build a template and upload it: 6 to 10 s at best
# What a successful dry run says (HTTP 412 in pcluster's own API), with exit code 1.
_DRY_RUN_PASSED = "Request would have succeeded"
_NO_CHANGES = "No changes found"


class PclusterProvisioner:
    """The Provisioner that runs `pcluster`.

    `executable` is a name on the Shell's PATH or a path. `version`, when given, is what create and update insist on: a
    cluster belongs to the version that made it. Credentials, profile and endpoint are in the Shell's environment.
    """

    def __init__(self, shell: Shell, *, region: str, executable: str = "pcluster", version: str = "") -> None:
        self._shell = shell
        self._region = region
        self._executable = executable
        self._wanted = version
        self._found = ""

    def version(self) -> str:
        """The version of the pcluster that is found; asked once."""
        if not self._found:
            self._found = str(self._call(["version"], regional=False).get("version", ""))
        return self._found

    def create(self, name: str, document: str, *, keep_failed: bool = False) -> None:
        """Start creating; see `ports.Provisioner.create`. Raises RefusedError, also when the name is taken."""
        self._require_version()
        rollback = ["--rollback-on-failure", "false"] if keep_failed else []
        self._with_document(document, ["create-cluster", "--cluster-name", name, *rollback])

    def check(self, name: str, document: str) -> list[Finding]:
        """A dry run of create; findings of every level ([] = it would pass in silence)."""
        self._require_version()
        try:
            answer = self._with_document(document, ["create-cluster", "--cluster-name", name], dry=True)
        except RefusedError as error:
            if error.findings:
                return list(error.findings)
            raise
        return findings_of(answer)

    def update(self, name: str, document: str) -> list[Change]:
        """Start updating; see `ports.Provisioner.update`. RefusedError carries what forbids it, change by change."""
        self._require_version()
        answer = self._with_document(document, ["update-cluster", "--cluster-name", name])
        return changes_of(answer)

    def check_update(self, name: str, document: str) -> tuple[list[Change], list[Finding]]:
        """A dry run of update: the changes, and the findings on them."""
        self._require_version()
        answer = self._with_document(document, ["update-cluster", "--cluster-name", name], dry=True)
        return changes_of(answer), findings_of(answer)

    def clusters(self) -> list[ClusterSummary]:
        """All clusters of the region."""
        rows = self._pages(["list-clusters"], "clusters")
        return [
            ClusterSummary(row["clusterName"], row["region"], row["clusterStatus"], row.get("version") or "")
            for row in rows
        ]

    def describe(self, name: str) -> Mapping[str, object]:
        """`describe-cluster` as it is."""
        return self._call(["describe-cluster", "--cluster-name", name])

    def events(self, name: str) -> list[StackEvent]:
        """Stack events, oldest first; pcluster gives the newest first."""
        rows = self._pages(["get-cluster-stack-events", "--cluster-name", name], "events")
        return [_event(row) for row in reversed(rows)]

    def set_fleet(self, name: str, running: bool) -> None:
        """Ask the compute fleet to start or to stop."""
        status = "START_REQUESTED" if running else "STOP_REQUESTED"
        self._call(["update-compute-fleet", "--cluster-name", name, "--status", status])

    def delete(self, name: str) -> None:
        """Start deleting the stack; silent if it is gone or going."""
        try:
            self._call(["delete-cluster", "--cluster-name", name])
        except NotFoundError:
            return

    def build_image(self, name: str, document: str) -> list[Finding]:
        """Start building; see `ports.Provisioner.build_image`. An image belongs to the version that built it."""
        self._require_version()
        words = ["build-image", "--image-id", name]
        return findings_of(self._with_document(document, words, option="--image-configuration"))

    def describe_image(self, name: str) -> BuiltImage:
        """The image of that name."""
        return image_of(self._call(["describe-image", "--image-id", name]))

    def images(self) -> list[BuiltImage]:
        """All images: pcluster lists those of one state at a time, so it is asked three times side by side."""

        def ask(state: str) -> list[dict[str, Any]]:
            return self._pages(["list-images", "--image-status", state], "images")

        with ThreadPoolExecutor(max_workers=3) as pool:
            return [image_of(row) for rows in pool.map(ask, ("AVAILABLE", "PENDING", "FAILED")) for row in rows]

    def delete_image(self, name: str) -> None:
        """Start deleting; silent if it is gone."""
        try:
            self._call(["delete-image", "--image-id", name])
        except NotFoundError:
            return

    def _require_version(self) -> None:
        if self._wanted and self.version() != self._wanted:
            raise ToolError(
                f"{self._executable} is version {self.version()}, but trnctl.yaml asks for {self._wanted}.",
                remedy=f"Install it (pip install aws-parallelcluster=={self._wanted}), point"
                " cluster.pcluster.executable to it, or change cluster.pcluster.version.",
            )

    def _with_document(
        self,
        document: str,
        arguments: Sequence[str],
        *,
        dry: bool = False,
        option: str = "--cluster-configuration",
    ) -> dict[str, Any]:
        """Run a command that reads a configuration; a dry run returns its verdict, whatever that is."""
        with tempfile.TemporaryDirectory(prefix="trnctl-") as folder:
            path = Path(folder, "cluster.yaml")
            path.write_text(document, encoding="utf-8")
            words = [*arguments, option, str(path), *(["--dryrun", "true"] if dry else [])]
            return self._call(words, timeout=_SLOW, dry=dry)

    def _pages(self, arguments: Sequence[str], key: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        token: list[str] = []
        while True:
            answer = self._call([*arguments, *token])
            rows += answer.get(key, [])
            if not answer.get("nextToken"):
                return rows
            token = ["--next-token", str(answer["nextToken"])]

    def _call(
        self, arguments: Sequence[str], *, timeout: float = _QUICK, regional: bool = True, dry: bool = False
    ) -> dict[str, Any]:
        argv = [self._executable, *arguments, *(["--region", self._region] if regional else [])]
        try:
            done = self._shell.run(argv, timeout=timeout)
        except ToolMissing as error:
            raise _not_installed(error, self._wanted) from error
        if done.stderr.strip():
            _LOG.debug("%s: %s", arguments[0], done.stderr.strip())
        answer = parse_answer(done)
        if answer is None:
            raise no_answer(done)
        if done.returncode == 0 or _passed(answer, dry):
            return answer
        raise refusal_of(answer, self._region)


def _passed(answer: Mapping[str, Any], dry: bool) -> bool:
    """Failures by exit code that are none: a dry run's verdict, and an update that has nothing to do."""
    message = str(answer.get("message", ""))
    if _NO_CHANGES in message:
        return True
    verdict = "configurationValidationErrors" in answer or "updateValidationErrors" in answer
    return dry and (verdict or message.startswith(_DRY_RUN_PASSED))


def parse_answer(done: Completed) -> dict[str, Any] | None:
    """The JSON object on stdout, also behind other lines; None when there is none."""
    text = done.stdout
    start = 0 if text.startswith("{") else text.find("\n{") + 1
    if start == 0 and not text.startswith("{"):
        return None
    try:
        found = json.loads(text[start:])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def no_answer(done: Completed) -> TrnctlError:
    """pcluster ended without JSON: a crash, a usage error, or not a pcluster at all."""
    said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()] or ["(nothing)"]
    last = said[-1]
    if "Traceback (most recent call last)" in done.stderr:
        return ToolError(
            f"pcluster crashed: {last}",
            remedy="Its installation is broken (often a newer Flask or Python than it knows): install"
            " aws-parallelcluster into a virtual environment of its own, and run trnctl doctor.",
        )
    if done.returncode == 2:
        return ToolError(
            f"pcluster does not understand its arguments. It said: {last[:300]}",
            remedy="It may be an older version (2.x, or another program of that name): run trnctl doctor.",
        )
    return ToolError(
        f"pcluster ended with exit code {done.returncode} and no answer. It said: {last[:300]}",
        remedy="Look at ~/.parallelcluster/pcluster-cli.log, and run trnctl doctor.",
    )


def _not_installed(error: ToolMissing, version: str) -> ToolMissing:
    package = f"aws-parallelcluster=={version}" if version else "aws-parallelcluster"
    return ToolMissing(
        error.message,
        remedy=f"Install it with node.js 20 or newer beside it: pip install {package} (or trnctl[pcluster]);"
        " or set cluster.pcluster.executable.",
        program=error.program,
    )


def _event(row: Mapping[str, Any]) -> StackEvent:
    return StackEvent(
        at=datetime.fromisoformat(row["timestamp"]).astimezone(UTC),
        logical_id=row["logicalResourceId"],
        resource_type=row["resourceType"],
        status=row["resourceStatus"],
        reason=row.get("resourceStatusReason") or "",
        physical_id=row.get("physicalResourceId") or "",
    )
