"""Preflight: what the file, the account and ParallelCluster say of a cluster before it is made or changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trnctl.errors import NameTaken, RefusedError
from trnctl.findings import Finding, by_severity, errors_among
from trnctl.preflight.judge import DEFAULT_VERSION, Verdict, judge

if TYPE_CHECKING:  # a file is judged alone in less time than it takes to load these
    from trnctl.ports import Services
    from trnctl.specs.cluster import ClusterSpec

# What ParallelCluster's validators say that our rules have said: theirs is left out where one of ours is there.
_SAME: dict[str, tuple[str, ...]] = {
    "pcluster-key-pair": ("key-type", "key-not-found", "no-key"),
    "pcluster-efa": ("efa-unsupported", "efa-off", "efa-off-multi-node", "gdr-without-efa"),
    "pcluster-efa-security-group": ("efa-group-no-self",),
    "pcluster-efa-placement-group": ("placement-group-unstated", "placement-group-off"),
    "pcluster-efa-multi-az": ("efa-several-subnets",),
    "pcluster-fsx-storage-capacity": ("fsx-capacity",),
    "pcluster-fsx-persistent-options": ("fsx-throughput", "fsx-key"),
    "pcluster-fsx-storage-type-options": ("fsx-throughput", "fsx-disk-type"),
    "pcluster-multi-network-interfaces-instances": ("public-ip-multi-nic", "subnet-gives-public-ips"),
    "pcluster-subnets": ("subnet-not-found", "subnets-of-several-vpcs", "vpc-dns-off"),
    "pcluster-deletion-policy": ("storage-deleted-with-cluster", "storage-kept"),
    "pcluster-capacity-reservation": ("reservation-mismatch", "reservation-not-found"),
    "pcluster-capacity-reservation-size": ("reservation-small",),
    "pcluster-placement-group-capacity-reservation": ("placement-group-with-reservation",),
    "pcluster-placement-group-capacity-type": ("placement-group-with-reservation",),
    "pcluster-custom-ami-tag": ("image-untagged", "image-version", "image-not-ready"),
    "pcluster-ami-os-compatible": ("image-os", "image-untagged"),
    "pcluster-head-node-memory-size": ("head-node-memory",),
    "pcluster-detailed-monitoring": ("detailed-monitoring",),
    "pcluster-log-rotation": ("logs-rotated-away",),
    "pcluster-compute-resource-launch-template": ("zone-without-type", "zone-type-nowhere", "subnet-not-found"),
    "pcluster-head-node-launch-template": ("zone-without-type", "zone-type-nowhere", "subnet-not-found"),
    "pcluster-instance-type": ("zone-type-nowhere",),
    "pcluster-shared-ebs-performance-bottle-neck": ("ebs-shared-by-many",),
}


NOBODYS = "preflight"  # the name of what is only judged


@dataclass(frozen=True)
class Preflight:
    """What was found, suppressed codes left out, and how many checks were made."""

    findings: tuple[Finding, ...]
    checks: int
    suppressed: tuple[str, ...] = ()

    @property
    def errors(self) -> list[Finding]:
        """What forbids going on."""
        return errors_among(self.findings)

    def as_json(self) -> dict[str, object]:
        """What stands beside the findings in JSON."""
        return {"checks": self.checks, "suppressed": list(self.suppressed)}


def without(findings: Iterable[Finding], suppressed: Collection[str]) -> tuple[Finding, ...]:
    """The findings in order of severity, those of suppressed codes left out."""
    return tuple(by_severity(one for one in dict.fromkeys(findings) if one.code not in suppressed))


def of_text(
    text: str,
    file: str,
    *,
    version: str = DEFAULT_VERSION,
    cluster: str = "",
    suppressed: Collection[str] = (),
    services: Callable[[str], Services] | None = None,
) -> Preflight:
    """Preflight of any ParallelCluster configuration. `services` opens the doors of a region ('': the default one)
    when the account and ParallelCluster are to be asked too; they are not asked about a file with errors.

    ValueError when `version` is no version.
    """
    verdict = judge(text, file, version=version, cluster=cluster)
    found, checks = list(verdict.findings), verdict.checks
    left = errors_among(without(found, suppressed))
    if services is not None and verdict.config is not None and not left:
        doors = services(verdict.config.region)
        more, asked = _online(verdict, text, cluster or NOBODYS, file, doors)
        found, checks = _merged(found, [_of_no_cluster_file(one) for one in more]), checks + asked
    return Preflight(without(found, suppressed), checks, _used(found, suppressed))


def of_cluster(
    spec: ClusterSpec,
    source: str,
    file: str,
    *,
    said: Iterable[Finding] = (),
    suppressed: Collection[str] = (),
    services: Services | None = None,
    version: str = "",
    stands: bool = False,
    may_stand: bool = False,
) -> Preflight:
    """Preflight of a cluster file that has loaded: the rules on what it renders to, with findings at the lines of
    `source`. `said` is what the loader found; with `services` the account and ParallelCluster are asked, but not about
    trnctl's own node scripts, which create puts in place. `stands` says that the cluster is there already:
    ParallelCluster's dry run of its update is then asked elsewhere. With `may_stand` it may be there or not.
    """
    from trnctl.preflight.mapped import mapped
    from trnctl.render.cluster import cluster_document

    document = cluster_document(spec)
    verdict = judge(document, file, version=version or spec.pcluster.version, cluster=spec.name)
    earlier = list(said)
    codes = {finding.code for finding in earlier}
    here = [one for one in mapped(verdict.findings, source, file) if one.code not in codes]
    found, checks = [*earlier, *here], verdict.checks
    if services is not None and not errors_among(without(found, suppressed)):
        more, asked = _online(verdict, document, spec.name, file, services, stands=stands, may_stand=may_stand)
        found, checks = _merged(found, mapped(more, source, file)), checks + asked
    return Preflight(without(found, suppressed), checks, _used(found, suppressed))


def refuse(preflight: Preflight, cluster: str) -> None:
    """RefusedError with the errors when preflight found any."""
    errors = preflight.errors
    if errors:
        count = f"{len(errors)} error{'s' if len(errors) != 1 else ''}"
        raise RefusedError(
            f"preflight refused {cluster}: {count}, so nothing was made or changed",
            remedy="mend them, or pass --suppress CODE for what you know to be right",
            findings=errors,
        )


def _online(
    verdict: Verdict,
    document: str,
    cluster: str,
    file: str,
    doors: Services,
    *,
    stands: bool = False,
    may_stand: bool = False,
) -> tuple[list[Finding], int]:
    """What the account and ParallelCluster's own dry run say, and how many checks that was. ParallelCluster is asked
    about one that turns out to stand as about another of its kind."""
    from trnctl.preflight.account import compare, wanted
    from trnctl.preflight.report import Report

    config = verdict.config
    assert config is not None  # noqa: S101  # the callers have looked
    report = Report(file)
    seen = doors.account.survey(wanted(replace(config, cluster=cluster)))
    checks = compare(replace(config, cluster=cluster), seen, report, doors.clock.now(), stands=stands)
    if stands:
        return report.findings, checks
    try:
        said = doors.provisioner.check(cluster, document)
    except NameTaken:
        if not may_stand:
            raise
        report = Report(file)
        checks = compare(replace(config, cluster=cluster), seen, report, doors.clock.now(), stands=True)
        said = doors.provisioner.check(NOBODYS, document)
    dry = [replace(one, file=one.file or file) for one in said]
    return [*report.findings, *dry], checks + 1


def _of_no_cluster_file(finding: Finding) -> Finding:
    """A remedy that does not speak of `trnctl.yaml`, where there is none."""
    if "trnctl.yaml" not in finding.remedy:
        return finding
    return replace(finding, remedy="Change in the file what it names.")


def _merged(ours: list[Finding], more: list[Finding]) -> list[Finding]:
    """All findings, without those of ParallelCluster's validators that say what one of ours has said."""
    codes = {finding.code for finding in (*ours, *more)}
    kept = [one for one in more if not any(code in codes for code in _SAME.get(one.code, ()))]
    return [*ours, *kept]


def _used(findings: Iterable[Finding], suppressed: Collection[str]) -> tuple[str, ...]:
    """The suppressed codes that were indeed found."""
    return tuple(sorted({finding.code for finding in findings} & set(suppressed)))
