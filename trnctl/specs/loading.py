"""Turns the text of a cluster file into a ClusterFile, or reports every problem in it at once."""

from __future__ import annotations

from ipaddress import IPv4Network, collapse_addresses

from trnctl.specs import known, rules
from trnctl.specs.cluster import (
    Action,
    ClusterFile,
    ClusterSpec,
    CustomActions,
    HeadNode,
    Iam,
    Network,
    NodeActions,
    Pcluster,
    Queue,
)
from trnctl.specs.instances import instance
from trnctl.specs.lifetime_loading import check_ttl, read_idle_alert, read_ttl
from trnctl.specs.queue_loading import plain_settings, read_queues, refuse_settings
from trnctl.specs.reading import Section, read, shown
from trnctl.specs.software_loading import check_software, read_neuron_sdk
from trnctl.specs.storage_loading import check_managed_fsx, check_mounts, read_storage

_TO_START = "`trnctl init` writes one to start from."
_LONGEST_ADDRESS = 63  # characters of host name and port that the Neuron runtime takes


def load_cluster_file(text: str | bytes, path: str) -> ClusterFile:
    """The cluster file of that text; `path` is only named in findings.

    Raises UsageError whose `findings` hold everything that is wrong, each with file, line and remedy; its message has
    one line for each error. Warnings of a good file are in the result's `findings`.
    """
    root = read(text, path, to_start=_TO_START)
    if not root.has("cluster"):
        root.problem("missing-key", "The file describes no cluster", f"Begin with `cluster:`; {_TO_START}")
    cluster = _cluster(root.section("cluster")) if root.has("cluster") else None
    workloads = root.mapping("workloads", multiline=False)
    findings = root.finish()
    assert cluster is not None  # noqa: S101  # without one, finish has raised
    return ClusterFile(path, cluster, workloads, findings)


def _cluster(section: Section) -> ClusterSpec:
    pcluster = _pcluster(section.section("pcluster"))
    region = section.choice("region", known.REGIONS)
    network = _network(section.section("network"))
    queues = read_queues(section)
    storage = read_storage(section)
    check_mounts(section, storage, queues)
    check_managed_fsx(section, storage, {queue.subnet or network.compute_subnet for queue in queues})
    settings = section.scalars("custom_settings")
    refuse_settings(section, settings, rules.SLURM_CONF_DENIED)
    spec = ClusterSpec(
        name=section.text("name", rule=rules.CLUSTER_NAME),
        region=region,
        network=network,
        queues=queues,
        head_node=_head_node(section, queues),
        storage=storage,
        platform=section.choice("platform", ("parallelcluster", "hyperpod", "sagemaker"), "parallelcluster"),
        pcluster=pcluster,
        os=section.choice("os", known.ALL_SYSTEMS, "ubuntu2404"),
        neuron_sdk=read_neuron_sdk(section),
        ami=section.section("image").text("ami", None, rule=rules.AMI_ID),
        bucket=section.text("bucket", None, rule=rules.BUCKET),
        notify=section.text("notify", "") or "",
        iam=_iam(section.section("iam")),
        custom_actions=_custom_actions(section.section("custom_actions")),
        ttl=read_ttl(section),
        idle_alert_hours=read_idle_alert(section),
        scaledown_idletime=section.integer("scaledown_idletime", 10, minimum=-1),
        custom_settings=plain_settings(settings),
        tags=_tags(section),
        extra=section.data("extra"),
    )
    check_software(section, spec)
    check_ttl(section, spec)
    _check_addresses(section, spec)
    return spec


def _pcluster(section: Section) -> Pcluster:
    return Pcluster(
        version=section.text("version", Pcluster.version, rule=rules.PCLUSTER_VERSION),
        executable=section.text("executable", Pcluster.executable),
    )


def _network(section: Section) -> Network:
    made = Network(
        head_subnet=section.text("head_subnet", rule=rules.SUBNET_ID),
        compute_subnet=section.text("compute_subnet", rule=rules.SUBNET_ID),
        security_groups=section.texts("security_groups", rule=rules.SECURITY_GROUP_ID),
        additional_security_groups=section.texts("additional_security_groups", rule=rules.SECURITY_GROUP_ID),
    )
    if made.security_groups and made.additional_security_groups:
        section.problem(
            "security-groups",
            "`security_groups` replace ParallelCluster's own, `additional_security_groups` stand beside them",
            "Keep one of the two.",
            key="additional_security_groups",
        )
    return made


# ---------------------------------------------------------------------------------------------- head node


def _head_node(cluster: Section, queues: tuple[Queue, ...]) -> HeadNode:
    section = cluster.section("head_node")
    made = HeadNode(
        instance_type=section.text("instance_type", HeadNode.instance_type, rule=rules.INSTANCE_TYPE),
        key_name=section.text("key_name", None, rule=rules.KEY_NAME),
        ssh_key=section.text("ssh_key", None),
        ssh_from=_ssh_from(section),
        ssm=section.flag("ssm", False),
        root_gib=section.integer("root_gib", HeadNode.root_gib, minimum=50, maximum=16384),
        elastic_ip=section.flag("elastic_ip", False),
    )
    if not made.ssm and section.shape("ssh_from") != "scalar" and not section.count("ssh_from"):
        section.problem(
            "no-way-in",
            "Nobody could reach the head node: neither `ssh_from` nor `ssm` is set",
            "Write `ssh_from: [YOUR.ADDRESS/32]`, or `ssm: true`.",
            key="ssh_from",
        )
    if not section.has("key_name"):
        way = "Session Manager only carries ssh, and ssh" if made.ssm else "ssh"
        section.problem(
            "no-key",
            f"{way} needs a key pair",
            "Write `key_name:` with an ed25519 key pair's name.",
            key="key_name",
            level="warning" if made.ssm else "error",  # the cluster itself can be made without one
        )
    _check_head_memory(section, made, sum(one.max_count for queue in queues for one in queue.compute_resources))
    return made


def _ssh_from(section: Section) -> tuple[str, ...]:
    """Where ssh may come from. ParallelCluster takes one CIDR or prefix list: CIDRs that are one network are joined
    into it, others are refused, because a wider network would admit strangers."""
    sources = section.texts("ssh_from", rule=rules.SSH_SOURCE)
    if "0.0.0.0/0" in sources:
        section.problem(
            "ssh-from-anywhere",
            "ssh to the head node is open to the whole internet",
            "Write the addresses that need it.",
            key="ssh_from",
            level="warning",
        )
    if len(sources) < 2:
        return sources
    if not any(source.startswith("pl-") for source in sources):
        joined = list(collapse_addresses(IPv4Network(source, strict=False) for source in sources))
        if len(joined) == 1:
            return (str(joined[0]),)
    section.problem(
        "ssh-from-several",
        "ParallelCluster opens ssh to one network only, and these are not one",
        "Make a managed prefix list of them (`aws ec2 create-managed-prefix-list`) and write its id: [pl-…].",
        key="ssh_from",
    )
    return sources[:1]


def _check_head_memory(section: Section, head: HeadNode, nodes: int) -> None:
    """ParallelCluster's own rule (HeadNodeMemorySizeValidator): 0.6 GiB and 1 GiB for 25 nodes, up to 16."""
    facts = instance(head.instance_type)
    if facts is None:
        if head.instance_type:
            section.problem(
                "instance-type-unknown",
                f"trnctl does not know the instance type {shown(head.instance_type)}: its price is not counted",
                "Check its spelling, or choose c5.4xlarge.",
                key="instance_type",
                level="warning",
            )
        return
    wanted = min(nodes / 25 + 0.6, 16)
    if facts.host_gib < wanted:
        section.problem(
            "head-node-memory",
            f"{facts.type} has {facts.host_gib} GiB, and a head node of {nodes} nodes needs {wanted:.1f}",
            "Choose a larger type, as in c5.4xlarge.",
            key="instance_type",
        )


# ------------------------------------------------------------------------------------- iam, actions, tags


def _iam(section: Section) -> Iam:
    return Iam(
        permissions_boundary=section.text("permissions_boundary", None, rule=rules.POLICY_ARN),
        resource_prefix=section.text("resource_prefix", None, rule=rules.RESOURCE_PREFIX),
        policies=section.texts("policies", rule=rules.POLICY_ARN),
    )


def _custom_actions(section: Section) -> CustomActions:
    head, compute = section.section("head"), section.section("compute")
    return CustomActions(
        head=NodeActions(_actions(head, "start"), _actions(head, "configured"), _actions(head, "updated")),
        compute=NodeActions(_actions(compute, "start"), _actions(compute, "configured")),
    )


def _actions(section: Section, moment: str) -> tuple[Action, ...]:
    return tuple(
        Action(one.text("script", rule=rules.SCRIPT), one.texts("args", multiline=True))
        for one in section.sections(moment)
    )


_MOST_TAGS = 40


def _tags(section: Section) -> dict[str, str]:
    tags = section.mapping("tags")
    if len(tags) > _MOST_TAGS:
        section.problem("tag-limit", f"There are {len(tags)} tags", f"Keep at most {_MOST_TAGS}.", key="tags")
    for key, value in tags.items():
        if key.lower().startswith(("aws:", "parallelcluster:")):
            section.problem(
                "tag-reserved", f"The tag {shown(key)} has a reserved prefix", "Rename it.", key="tags", item=key
            )
        if not 0 < len(key) <= 128 or len(value) > 256 or any(c in key for c in "\n\t"):
            section.problem(
                "tag-length",
                f"The tag {shown(key)} does not fit: a key has 1 to 128 characters in one line, a value at most 256",
                "Shorten it.",
                key="tags",
                item=key,
            )
    return tags


# ---------------------------------------------------------------------------- what belongs to several sections


def _check_addresses(section: Section, spec: ClusterSpec) -> None:
    """Neuron's bootstrap cannot resolve a node whose name and port are longer than 63 characters."""
    for number, queue in enumerate(spec.queues):
        for resource in queue.compute_resources:
            node = f"{queue.name}-dy-{resource.name}-{resource.max_count}.{spec.name}.pcluster"
            if len(f"{node}:48620") > _LONGEST_ADDRESS:
                section.problem(
                    "node-name-long",
                    f"A node will be called `{node}` ({len(node)} characters): with a port it is longer than 63",
                    "Shorten the name of the cluster, the queue or the compute resource; "
                    "trnctl's own jobs use addresses and are not affected.",
                    key="queues",
                    item=number,
                    level="warning",
                )
