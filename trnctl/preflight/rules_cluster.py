"""Rules on the cluster as a whole: system, head node, ways in, permissions, tags, accounting, directory, releases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from trnctl.preflight.config import Config
from trnctl.preflight.known_issues import issues
from trnctl.preflight.place import Place
from trnctl.preflight.report import Report
from trnctl.preflight.unfilled import unfilled
from trnctl.specs import known
from trnctl.specs.instances import instance
from trnctl.specs.pcluster_faults import way_out
from trnctl.specs.values import shown

_MOST_TAGS = 40
_BURSTABLE_GIB = {"nano": 0.5, "micro": 1, "small": 2, "medium": 4, "large": 8, "xlarge": 16, "2xlarge": 32}
_ANYWHERE = "0.0.0.0/0"
_LDAP_DN = re.compile(r"(DC|dc)=[\w-]+(,(DC|dc)=[\w-]+)*")
_DOMAIN = re.compile(r"[\w-]+(\.[\w-]+)*")
_NO_TLS = "ldap_auth_disable_tls_never_use_in_production"


def region(config: Config, report: Report) -> None:
    """The region exists, and ParallelCluster works there."""
    place, name = config.root.at("Region"), config.region
    if not name or unfilled(name):
        return
    if name not in known.REGIONS and not name.startswith("us-iso"):
        report.say("region-unknown", place, f"trnctl knows no region {shown(name)}")
    elif name in known.NOT_IN_PCLUSTER:
        report.say("region-not-in-pcluster", place, f"ParallelCluster's packaged list of regions lacks {name}")


def system(config: Config, report: Report) -> None:
    """Rocky Linux needs an image of one's own; Neuron's software needs a system that Neuron supports."""
    place = config.root.at("Image", "Os")
    if config.os.startswith("rocky") and not config.root.at("Image", "CustomAmi"):
        report.say("os-needs-image", place, "ParallelCluster has no image for Rocky Linux")
    neuron = next((resource for resource in config.resources() if resource.neuron), None)
    if neuron is None or config.os not in known.pcluster_systems("{}.{}".format(*config.version)):
        return
    trouble = known.NEURON_ON.get(config.os, f"Neuron does not support {config.os}")
    if trouble:
        report.say("os-without-neuron", place, trouble)


def cluster_name(config: Config, report: Report) -> None:
    """The cluster's name, where it is known; with accounting it is shorter, for MySQL's table names."""
    if not config.cluster:
        return
    accounting = config.settings.at("Database") or config.settings.at("ExternalSlurmdbd")
    longest = 40 if accounting else 60
    if not re.fullmatch(rf"[a-zA-Z][a-zA-Z0-9-]{{1,{longest - 1}}}", config.cluster):
        report.say(
            "cluster-name",
            config.root,
            f"{shown(config.cluster)} cannot name this cluster",
            f"Use 2 to {longest} letters, digits and hyphens, beginning with a letter.",
        )


# ------------------------------------------------------------------------------------------------- head node


def head_node_memory(config: Config, report: Report) -> None:
    """The head node has memory for the daemons that look after all nodes: 0.6 GiB and 1 GiB for 25 nodes, up to 16."""
    place = config.head.at("InstanceType")
    facts, burstable = instance(place.text()), re.fullmatch(r"t(?:2|3|3a|4g)\.(\w+)", place.text())
    has = facts.host_gib if facts else _BURSTABLE_GIB.get(burstable[1]) if burstable else None
    wanted = min(config.nodes / 25 + 0.6, 16)
    if has is not None and has < wanted and config.version >= (3, 13):
        report.say(
            "head-node-memory", place, f"{place.text()} has {has} GiB, and {config.nodes} nodes need {wanted:.1f}"
        )
    if re.search(r"\.(micro|nano)$", place.text()):
        report.say("head-node-small", place, f"{place.text()} has less memory than the system needs")


def ways_in(config: Config, report: Report) -> None:
    """Someone can reach the head node, and not everyone."""
    ssh = config.head.at("Ssh")
    policies = [item.at("Policy").text() for item in config.head.at("Iam", "AdditionalIamPolicies").items()]
    by_ssm = any("SSM" in policy for policy in policies)
    if not ssh.at("KeyName") and not by_ssm and config.head.is_section:
        report.say(
            "no-key",
            ssh if ssh else config.head,
            "Nobody can log in: neither a key pair nor Session Manager",
            level="warning",
        )
    allowed = ssh.at("AllowedIps")
    if allowed.text() in {"", _ANYWHERE} and ssh.at("KeyName"):
        place = allowed if allowed else ssh
        report.say(
            "ssh-from-anywhere",
            place,
            "ssh to the head node is open to the whole internet",
            "Write `AllowedIps` with the network that needs it.",
            level="warning",
        )
    for dcv in (config.head.at("Dcv"), *(pool.at("Dcv") for pool in config.pools)):
        if dcv.at("Enabled").flag() and dcv.at("AllowedIps").text() in {"", _ANYWHERE}:
            report.say("dcv-from-anywhere", dcv, "The remote desktop is open to the whole internet")
        if dcv.at("Enabled").flag() and config.os == "alinux2023" and config.version < (3, 14):
            report.say(
                "dcv-os",
                dcv,
                f"ParallelCluster {config.version[0]}.{config.version[1]} has no remote desktop on alinux2023",
            )


# Keys without which ParallelCluster's schema passes a section, and its code then fails with a TypeError.
_NEEDED = (("Image", "CustomAmi"), ("Dcv", "Enabled"))


def half_sections(config: Config, report: Report) -> None:
    """Sections of nodes that say nothing without one of their keys have it."""
    for _, node in node_sections(config):
        for section, key in _NEEDED:
            place = node.at(section)
            if place.is_section and place.at(key).node is None:
                report.say("missing-key", place, f"{section} needs {key}", f"Add `{key}: …`, or remove {section}.")


def shared_home(config: Config, report: Report) -> None:
    """EFS settings of the head node go with `SharedStorageType: Efs`."""
    place = config.head.at("SharedStorageEfsSettings")
    if place and config.head.at("SharedStorageType").text() != "Efs":
        report.say("head-node-efs", place, "SharedStorageEfsSettings needs SharedStorageType: Efs")


def metadata(config: Config, report: Report) -> None:
    """Instance metadata is asked with a token only."""
    place = config.root.at("Imds", "ImdsSupport")
    if place.text() == "v1.0":
        report.say("imds-v1", place, "Instance metadata is open to requests without a token")


# ----------------------------------------------------------------------------------------------- permissions


def node_sections(config: Config) -> Iterator[tuple[str, Place]]:
    """The sections of the head node, queues and pools, with what they are."""
    yield "the head node", config.head
    for queue in config.queues:
        yield f"the queue {queue.name}", queue.place
    for pool in config.pools:
        yield f"the pool {pool.at('Name').text()}", pool


def permissions(config: Config, report: Report) -> None:
    """A role of one's own stands alone."""
    for what, node in node_sections(config):
        iam = node.at("Iam")
        written = [key for key in ("InstanceRole", "InstanceProfile", "AdditionalIamPolicies") if iam.at(key)]
        if len(written) > 1:
            report.say("iam-together", iam.at(written[1]), f"{written[0]} and {written[1]} stand together at {what}")
        elif written and written[0] != "AdditionalIamPolicies" and iam.at("S3Access"):
            report.say("iam-together", iam.at("S3Access"), f"S3Access and {written[0]} stand together at {what}")
    place = config.root.at("Iam", "ResourcePrefix")
    prefix = place.text()
    name = prefix.rpartition("/")[2]
    path = prefix.removesuffix(name)
    fits = re.fullmatch(r"((/[\w.,+@=-]+)+/)?", path) and re.fullmatch(r"[\w.,+@=-]{0,30}", name) and len(path) <= 512
    if prefix and not fits:
        report.say("resource-prefix", place, f"{shown(prefix)} is not a prefix of IAM names")


def security_groups(config: Config, report: Report) -> None:
    """Groups replace ParallelCluster's own or stand beside them; nodes with and without them must reach each other."""
    replaced = []
    for what, node in node_sections(config):
        networking = node.at("Networking")
        if networking.at("SecurityGroups") and networking.at("AdditionalSecurityGroups"):
            report.say(
                "security-groups",
                networking.at("AdditionalSecurityGroups"),
                f"Both kinds of security groups stand at {what}",
            )
        if node in {queue.place for queue in config.queues} or what == "the head node":
            replaced.append(bool(networking.at("SecurityGroups")))
    if any(replaced) and not all(replaced):
        report.say(
            "security-groups-mixed",
            config.root.at("Scheduling"),
            "Some nodes have ParallelCluster's security groups, others only yours",
        )
    for queue in config.queues:
        groups = queue.networking.at("AdditionalSecurityGroups")
        if groups and any(resource.efa for resource in queue.resources):
            report.say(
                "efa-additional-groups", groups, f"The queue {queue.name} has EFA and additional security groups"
            )


# ------------------------------------------------------------------------------------------------------ tags


def tags(config: Config, report: Report) -> None:
    """Tags are not reserved, stand once, and are 40 at most on any node."""
    for place in (config.root.at("Tags"), *_inner_tags(config)):
        seen: set[str] = set()
        for item in place.sections():
            key = item.at("Key").text()
            own = key.startswith("parallelcluster:") and key != "parallelcluster:custom_resource"
            if own or key.lower().startswith("aws:"):
                report.say("tag-reserved", item.at("Key"), f"The tag {shown(key)} has a reserved prefix")
            if key and key in seen:
                report.say("duplicate-tag", item.at("Key"), f"The tag {shown(key)} stands twice")
            seen.add(key)
    top = _keys(config.root.at("Tags"))
    for queue in config.queues or ():
        for resource in queue.resources:
            count = len(top | _keys(queue.place.at("Tags")) | _keys(resource.place.at("Tags")))
            if count > _MOST_TAGS:
                report.say("tag-limit", resource.place, f"{resource.name} would carry {count} tags")


def _inner_tags(config: Config) -> Iterator[Place]:
    for queue in config.queues:
        yield queue.place.at("Tags")
        for resource in queue.resources:
            yield resource.place.at("Tags")


def _keys(place: Place) -> set[str]:
    return {item.at("Key").text() for item in place.sections()}


# ---------------------------------------------------------------------------- accounting, directory, monitoring


def accounting(config: Config, report: Report) -> None:
    """Accounting goes to one database, whose address has no scheme."""
    database, external = config.settings.at("Database"), config.settings.at("ExternalSlurmdbd")
    if database and external:
        report.say("accounting-twice", external, "Database and ExternalSlurmdbd stand together")
    if external and not config.settings.at("MungeKeySecretArn"):
        report.say(
            "munge-key-missing", external, "An external slurmdbd needs the munge key that it shares with the cluster"
        )
    uri = database.at("Uri")
    if re.match(r"/|[a-zA-Z][\w+.-]*://", uri.text()):
        report.say("database-uri", uri, f"{shown(uri.text())} is no address of a database server")


def directory(config: Config, report: Report) -> None:
    """Users are looked up over an encrypted connection, in a domain that is written as one."""
    place = config.root.at("DirectoryService")
    if not place:
        return
    name, address = place.at("DomainName"), place.at("DomainAddr")
    if name.text() and not (_DOMAIN.fullmatch(name.text()) or _LDAP_DN.fullmatch(name.text())):
        report.say("domain-name", name, f"{shown(name.text())} is no domain")
    if address.text().startswith("ldap://"):
        report.say("ldap-unencrypted", address, "Passwords would cross the network unencrypted")
    if place.at("LdapTlsReqCert").text() in {"never", "allow", "try"}:
        report.say("ldap-certificate", place.at("LdapTlsReqCert"), "The server's certificate would not be checked")
    sssd = place.at("AdditionalSssdConfigs")
    if sssd.at("id_provider") and sssd.at("id_provider").text() != "ldap":
        report.say("sssd-reserved", sssd.at("id_provider"), "id_provider must be ldap")
    provider = sssd.at("access_provider")
    if provider and provider.text() != "ldap" and place.at("LdapAccessFilter"):
        report.say("sssd-reserved", provider, "With LdapAccessFilter, access_provider must be ldap")


def monitoring(config: Config, report: Report) -> None:
    """Logs that are rotated away are kept in CloudWatch; detailed monitoring costs."""
    place = config.root.at("Monitoring")
    logs = place.at("Logs", "CloudWatch", "Enabled")
    if logs.flag() is False and place.at("Logs", "Rotation", "Enabled").flag() is not False:
        report.say("logs-rotated-away", logs, "Logs are rotated away on the nodes and kept nowhere")
    if place.at("DetailedMonitoring").flag():
        report.say("detailed-monitoring", place.at("DetailedMonitoring"), "Detailed monitoring of every node costs")


def packages(config: Config, report: Report) -> None:
    """Intel's packages were for CentOS 7, which is gone."""
    place = config.root.at("AdditionalPackages", "IntelSoftware", "IntelHpcPlatform")
    if place.flag() and config.os != "centos7":
        report.say("intel-packages", place, "Intel's HPC platform needs CentOS 7, which ParallelCluster no longer has")


def batch(config: Config, report: Report) -> None:
    """Queues are those of the scheduler (AWS Batch left with 3.16)."""
    place = config.root.at("Scheduling")
    other = {"slurm": "AwsBatchQueues", "awsbatch": "SlurmQueues"}.get(place.at("Scheduler").text())
    own = {"slurm": "SlurmQueues", "awsbatch": "AwsBatchQueues"}.get(place.at("Scheduler").text())
    if other is None or own is None or config.version >= (3, 16):
        return
    if place.at(other):
        report.say("queues-of-another-scheduler", place.at(other), f"{other} are not read with this Scheduler")
    if place.at(own).node is None:
        report.say("missing-key", place.at(own), f"Scheduling needs {own}", f"Add `{own}: …`.")


def releases(config: Config, report: Report) -> None:
    """Known faults of the release that would meet this cluster."""
    release = ".".join(map(str, config.release))
    for fault in issues(config):
        source = f"aws-parallelcluster {fault.source}"
        words = f"ParallelCluster {release}: {fault.words}"
        report.say("pcluster-known-issue", config.root, words, way_out(fault), evidence=source)


RULES: tuple[Callable[[Config, Report], None], ...] = (
    region, system, cluster_name, head_node_memory, ways_in, half_sections, shared_home, metadata, permissions,
    security_groups, tags, accounting, directory, monitoring, packages, batch, releases,
)  # fmt: skip
