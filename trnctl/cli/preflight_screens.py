"""What `cluster validate` checks, and the line that create and update show of their preflight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen
from trnctl.cli.words import plural
from trnctl.errors import UsageError

if TYPE_CHECKING:
    from trnctl.actions.preflight import Preflight
    from trnctl.cli.session import Session
    from trnctl.ports import Services
    from trnctl.specs.cluster import ClusterSpec

# A cluster file of trnctl's own has this key outermost; no section of ParallelCluster's is called so.
_OURS = re.compile(r"^(cluster|\"cluster\"|'cluster') *:", re.MULTILINE)


def check(session: Session, path: str | None, *, online: bool, version: str, suppress: Sequence[str]) -> Preflight:
    """Preflight of the file that is named, of either kind, or of the cluster file. UsageError when it cannot be read,
    and for a code or version that is none."""
    from trnctl.cli.files import read_cluster_file, read_own_workloads, read_text

    _require_version(version)
    _require_codes(suppress)
    text = read_text(path, "cluster file") if path is not None else ""
    if path is not None and not _OURS.search(text):
        return _any_file(session, text, path, online=online, version=version, suppress=suppress)
    from trnctl.actions.validate import validate

    return validate(
        session.file if path is None else partial(read_cluster_file, path),
        read_own_workloads,
        (lambda spec: session.services(spec.region, spec.name, spec)) if online else None,
        source=_source(session) if path is None else text,
        suppressed=suppress,
        version=version,
    )


def _any_file(
    session: Session, text: str, path: str, *, online: bool, version: str, suppress: Sequence[str]
) -> Preflight:
    """Preflight of a ParallelCluster file; `--cluster` tells the name that its cluster will have."""
    from trnctl.actions.preflight import of_text
    from trnctl.preflight.judge import DEFAULT_VERSION

    def services(region: str) -> Services:
        from trnctl.targets import default_region

        wanted = session.region or region or default_region(session.target, session.profile)
        return session.services(wanted, session.cluster or "preflight", None)

    return of_text(
        text,
        path,
        version=version or DEFAULT_VERSION,
        cluster=session.cluster or "",
        suppressed=suppress,
        services=services if online else None,
    )


def before(
    screen: Screen,
    session: Session,
    services: Services,
    suppress: Sequence[str],
    *,
    stands: bool = False,
    spec: ClusterSpec | None = None,
) -> None:
    """Run preflight before a cluster is made or changed, and show what it says. RefusedError when it finds an error.
    `spec` is the cluster where it is not quite what the file says: with what it adopts."""
    from trnctl.actions.preflight import of_cluster, refuse

    _require_codes(suppress)
    file = session.file()
    checked = of_cluster(
        spec or file.cluster,
        _source(session),
        file.path,
        said=file.findings,
        suppressed=suppress,
        services=services,
        stands=stands,
    )
    mark, style = ("✗", "red") if checked.errors else ("✓", "green")
    screen.say(f"  {mark} {plural(checked.checks, 'check')}", style=style)
    for finding in checked.findings:
        if finding.level == "warning":
            screen.field("", f"! {finding.code}: {finding.message} — {finding.remedy}", style="yellow", indent="")
    if checked.suppressed:
        screen.say(f"  suppressed: {', '.join(checked.suppressed)}", style="dim")
    refuse(checked, file.cluster.name)


def _source(session: Session) -> str:
    """The text of the cluster file that the session means."""
    from trnctl.cli.files import read_text

    path = session.path()
    if session.edited is not None:
        return session.edited
    return read_text(path, "cluster file") if path else ""


def _require_version(version: str) -> None:
    if version and not re.fullmatch(r"3\.\d{1,2}(\.\d{1,2})?", version):
        raise UsageError(
            f"{version} is no version of ParallelCluster 3", remedy="write one as in --pcluster-version 3.14.0"
        )


def _require_codes(codes: Sequence[str]) -> None:
    """A code that does not exist would suppress nothing, silently."""
    if not codes:
        return
    from difflib import get_close_matches

    from trnctl.codes import CODES, explained

    for code in codes:
        if explained(code) is None:
            near = get_close_matches(code, CODES, n=1)
            hint = f"did you mean {near[0]}?" if near else "findings name their codes"
            raise UsageError(f"there is no finding with the code {code}", remedy=hint)
