"""Cluster files: what a good one means, and every way in which one can be wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from trnctl.errors import UsageError
from trnctl.findings import Finding
from trnctl.specs.cluster import Action, Capacity, ClusterSpec, ComputeResource, S3Link, Ttl
from trnctl.specs.loading import load_cluster_file

SMALLEST = """\
cluster:
  name: small1
  region: us-west-2
  network: {head_subnet: subnet-0aa11bb22cc33dd41, compute_subnet: subnet-0aa11bb22cc33dd42}
  head_node: {key_name: demo-ed25519, ssh_from: [203.0.113.0/24]}
"""


def load(more: str = "", base: str = SMALLEST) -> ClusterSpec:
    """The spec of the smallest file with more lines under `cluster:`."""
    return load_cluster_file(base + indented(more), "t.yaml").cluster


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def findings(more: str = "", base: str = SMALLEST) -> list[Finding]:
    """What the loader says, of whatever level, but for the notice that every file without software gets."""
    try:
        found = load_cluster_file(base + indented(more), "t.yaml").findings
    except UsageError as error:
        found = tuple(error.findings)
    return [finding for finding in found if finding.code != "no-node-software"]


def changed(**replaced: Any) -> str:
    """The smallest file with other values; None removes a key."""
    document = yaml.safe_load(SMALLEST)
    document["cluster"].update(replaced)
    document["cluster"] = {key: value for key, value in document["cluster"].items() if value is not None}
    return yaml.safe_dump(document)


def queue(**replaced: Any) -> str:
    """A file with one queue that is different from a good one."""
    good = {"name": "q", "compute_resources": [{"name": "i1", "instance_type": "trn1.32xlarge"}]}
    return changed(queues=[{**good, **replaced}])


def resource(**replaced: Any) -> str:
    return queue(compute_resources=[{"name": "i1", "instance_type": "trn1.32xlarge", **replaced}])


def test_the_smallest_file_has_the_defaults_of_a_trainium_engineer() -> None:
    file = load_cluster_file(SMALLEST, "t.yaml")
    spec = file.cluster
    (default,) = spec.queues
    assert (default.name, default.compute_resources) == ("compute1", (ComputeResource("i1", "trn1.32xlarge", 0, 16),))
    assert (default.placement_group, default.job_exclusive, default.capacity) == (True, True, Capacity("on-demand"))
    assert (spec.os, spec.neuron_sdk, spec.pcluster.version) == ("ubuntu2404", "2.31.1", "3.16.1")
    assert (spec.head_node.instance_type, spec.head_node.ssh_from) == ("c5.4xlarge", ("203.0.113.0/24",))
    assert (spec.storage, spec.shared_mount) == ((), "/home/ubuntu")
    assert [finding.code for finding in file.findings] == ["no-node-software"]


def test_a_whole_file() -> None:
    spec = load("""\
pcluster: {version: "3.15.0", executable: /opt/pcluster}
bucket: my-bucket
image: {ami: ami-0aa11bb22cc33dd49}
queues:
- name: a
  capacity: {reservation: cr-0aa11bb22cc33dd45}
  placement_group: mine
  subnet: subnet-0aa11bb22cc33dd44
  ephemeral_mount: false
  custom_settings: {PriorityTier: 3, Hidden: true}
  compute_resources: [{name: n1, instance_type: trn1n.32xlarge, min_count: 2, max_count: 20, efa: true}]
storage:
- fsx: {mount: /fsx, file_system_id: fs-0aa11bb22cc33dd48}
- efs: {mount: /data/efs, on_delete: delete}
- ebs: {mount: /ebs, size_gib: 30, volume_type: gp2, name: tools}
custom_actions: {head: {configured: [{script: "s3://b-1/h.sh", args: ["a b"]}]}}
scaledown_idletime: 5
tags: {team: research}
extra: {Monitoring: {DetailedMonitoring: true}}
""")
    (one,) = spec.queues
    assert (one.capacity, one.placement_group) == (Capacity("reservation", "cr-0aa11bb22cc33dd45"), "mine")
    assert (one.subnet, one.ephemeral_mount) == ("subnet-0aa11bb22cc33dd44", None)
    assert one.custom_settings == {"PriorityTier": 3, "Hidden": "YES"}
    assert one.compute_resources == (ComputeResource("n1", "trn1n.32xlarge", 2, 20, True),)
    assert [(s.kind, s.name, s.mount, s.managed, s.gib) for s in spec.storage] == [
        ("fsx", "fsx", "/fsx", False, 0),
        ("efs", "data-efs", "/data/efs", True, 0),
        ("ebs", "tools", "/ebs", True, 30),
    ]
    assert spec.custom_actions.head.configured == (Action("s3://b-1/h.sh", ("a b",)),)
    assert (spec.ami, spec.bucket, spec.pcluster.executable) == ("ami-0aa11bb22cc33dd49", "my-bucket", "/opt/pcluster")
    assert spec.extra == {"Monitoring": {"DetailedMonitoring": True}}


def test_workloads_stand_beside_the_cluster() -> None:
    file = load_cluster_file(SMALLEST + "workloads: {mine: ./mine.yaml}\n", "t.yaml")
    assert file.workloads == {"mine": "./mine.yaml"}


def test_every_problem_is_reported_at_once_with_file_and_line() -> None:
    text = """\
cluster:
  name: 1st
  regin: us-west-2
  network: {head_subnet: subnet-1, compute_subnet: subnet-0aa11bb22cc33dd42}
  head_node: {key_name: demo, ssh_from: [203.0.113.0]}
  tags: {keep: true}
"""
    with pytest.raises(UsageError) as raised:
        load_cluster_file(text, "t.yaml")
    assert raised.value.exit_code == 2
    assert [(f.line, f.code) for f in raised.value.findings if f.level == "error"] == [
        (1, "missing-key"), (2, "cluster-name"), (3, "unknown-key"), (4, "subnet-id"), (5, "cidr"), (6, "not-text"),
    ]  # fmt: skip
    assert raised.value.message.splitlines()[-1] == (
        't.yaml:6: cluster.tags.keep: YAML reads `true` as true, but text is wanted — Put it in quotes: "true".'
    )


def test_a_file_without_a_cluster() -> None:
    with pytest.raises(UsageError, match="describes no cluster"):
        load_cluster_file("workloads: {}\n", "t.yaml")


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        (changed(name="a"), "cluster-name", "name"),
        (changed(name="a" * 61), "cluster-name", "name"),
        (changed(name="my_cluster"), "cluster-name", "name"),
        (changed(region="us-wst-2"), "unknown-value", "region"),
        (changed(region="us-west-2a"), "unknown-value", "region"),
        (changed(os="ubuntu2004"), "os-not-supported", "os"),
        (changed(os="alinux2"), "os-not-supported", "os"),
        (changed(os="centos7"), "unknown-value", "os"),
        (changed(os="ubuntu2404", pcluster={"version": "3.12.0"}), "os-not-supported", "os"),
        (changed(os="rocky9"), "os-needs-image", "os"),
        (changed(neuron_sdk="2.99.0"), "unknown-value", "neuron_sdk"),
        (changed(os="ubuntu2204"), "sdk-os-mismatch", "os"),
        (changed(bucket="b-1", neuron_sdk="2.28.1"), "sdk-not-established", "neuron_sdk"),
        (changed(platform="kubernetes"), "unknown-value", "platform"),
        (changed(pcluster={"version": "2.11.9"}), "pcluster-version", "pcluster.version"),
        (changed(image={"ami": "ami-123"}), "ami-id", "image.ami"),
        (changed(bucket="s3://b-1"), "bucket-name", "bucket"),
        (changed(head_node={"key_name": "k"}), "no-way-in", "head_node.ssh_from"),
        (changed(head_node={"key_name": "k", "ssh_from": []}), "no-way-in", "head_node.ssh_from"),
        (changed(head_node={"ssh_from": ["10.0.0.0/8"]}), "no-key", "head_node.key_name"),
        (changed(head_node={"key_name": "k", "ssh_from": ["::/0"]}), "cidr", "head_node.ssh_from[0]"),
        (changed(head_node={"key_name": "k", "ssh_from": ["192.0.2.0/24", "198.51.100.0/24"]}), "ssh-from-several",
         "head_node.ssh_from"),
        (changed(head_node={"ssm": True, "instance_type": "c5.large"},
                 queues=[{"name": "q", "compute_resources": [{"instance_type": "trn1.2xlarge", "max_count": 90}]}]),
         "head-node-memory", "head_node.instance_type"),
        (changed(iam={"permissions_boundary": "mine"}), "policy-arn", "iam.permissions_boundary"),
        (changed(iam={"policies": ["AmazonS3FullAccess"]}), "policy-arn", "iam.policies[0]"),
        (changed(iam={"resource_prefix": "x" * 31}), "resource-prefix", "iam.resource_prefix"),
        (changed(tags={"parallelcluster:x": "y"}), "tag-reserved", 'tags["parallelcluster:x"]'),
        (changed(tags={"AWS:x": "y"}), "tag-reserved", 'tags["AWS:x"]'),
        (changed(tags={"k" * 129: "y"}), "tag-length", f"tags.{'k' * 129}"),
        (changed(tags={"k": "y" * 257}), "tag-length", "tags.k"),
        (changed(tags={f"k{n}": "v" for n in range(41)}), "tag-limit", "tags"),
        (changed(custom_settings={"GresTypes": "neuron"}), "slurm-setting-denied", "custom_settings.GresTypes"),
        (changed(queues=[]), "no-queues", "queues"),
        (changed(custom_actions={"head": {"start": [{"script": "/home/x/a.sh"}]}}), "script-url",
         "custom_actions.head.start[0].script"),
        (changed(custom_actions={"head": {"start": [{"script": "http://x/a.sh"}]}}), "script-url",
         "custom_actions.head.start[0].script"),
        (changed(custom_actions={"compute": {"start": [{"script": "s3://b-1/a", "args": "x"}]}}), "wrong-type",
         "custom_actions.compute.start[0].args"),
        (changed(custom_actions={"compute": {"updated": []}}), "unknown-key", "custom_actions.compute.updated"),
        (changed(scaledown_idletime=-2), "out-of-range", "scaledown_idletime"),
        (changed(network={"head_subnet": "subnet-0aa11bb22cc33dd41", "compute_subnet": "subnet-0aa11bb22cc33dd42",
                          "security_groups": ["sg-0aa11bb2"], "additional_security_groups": ["sg-0aa11bb2"]}),
         "security-groups", "network.additional_security_groups"),
        (queue(name="Q"), "queue-name", "queues[0].name"),
        (queue(name="default"), "queue-name", "queues[0].name"),
        (queue(name="q" * 26), "queue-name", "queues[0].name"),
        (queue(subnet="s-1"), "subnet-id", "queues[0].subnet"),
        (queue(capacity="reserved"), "unknown-value", "queues[0].capacity"),
        (queue(capacity="reservation"), "capacity-without-id", "queues[0].capacity"),
        (queue(capacity={"reservation": "0aa11bb22cc33dd45"}), "cr-id", "queues[0].capacity.reservation"),
        (queue(capacity={}), "capacity-form", "queues[0].capacity"),
        (queue(ephemeral_mount="/tmp"), "mount-reserved", "queues[0].ephemeral_mount"),  # noqa: S108
        (queue(custom_settings={"OverSubscribe": "NO"}),
         "slurm-setting-denied", "queues[0].custom_settings.OverSubscribe"),
        (queue(root_gib=35), "out-of-range", "queues[0].root_gib"),
        (queue(compute_resources=[]), "no-compute-resources", "queues[0].compute_resources"),
        (queue(capacity={"capacity_block": "cr-0aa11bb22cc33dd45"}, compute_resources=None), "capacity-block-counts",
         "queues[0].capacity"),
        (resource(min_count=5, max_count=4), "counts", "queues[0].compute_resources[0].max_count"),
        (resource(min_count=-1), "out-of-range", "queues[0].compute_resources[0].min_count"),
        (resource(max_count=0), "out-of-range", "queues[0].compute_resources[0].max_count"),
        (resource(instance_type="trn1"), "instance-type-form", "queues[0].compute_resources[0].instance_type"),
        (resource(instance_type="trn1.2xlarge", efa=True), "efa-unsupported", "queues[0].compute_resources[0].efa"),
        (resource(efa=False), "efa-off-multi-node", "queues[0].compute_resources[0].efa"),
        (resource(efa={"enabled": True}), "wrong-type", "queues[0].compute_resources[0].efa"),
        (resource(efa="always"), "unknown-value", "queues[0].compute_resources[0].efa"),
        (resource(spot_price=1.5), "spot-price-without-spot", "queues[0].compute_resources[0].spot_price"),
    ],
)  # fmt: skip
def test_one_problem(text: str, code: str, path: str) -> None:
    errors = [(f.code, f.path) for f in findings(base=text) if f.level == "error"]
    assert errors == [(code, f"cluster.{path}")]


def capacity_block(least: int, most: int) -> str:
    nodes = [{"name": "i1", "instance_type": "trn1.32xlarge", "min_count": least, "max_count": most}]
    return queue(capacity={"capacity_block": "cr-0aa11bb22cc33dd45"}, compute_resources=nodes)


def test_a_capacity_block_is_always_on() -> None:
    assert load(base=capacity_block(4, 4)).queues[0].placement_group is False
    for least, most in ((0, 4), (3, 4)):
        assert [f.code for f in findings(base=capacity_block(least, most))] == ["capacity-block-counts"]


def test_names_must_differ() -> None:
    one = {"name": "a", "compute_resources": [{"name": "i", "instance_type": "trn1.32xlarge"}] * 2}
    found = [(f.code, f.path) for f in findings(base=changed(queues=[one, {"name": "a"}]))]
    assert found == [
        ("duplicate-name", "cluster.queues[0].compute_resources[1]"),
        ("duplicate-name", "cluster.queues[1]"),
    ]


@pytest.mark.parametrize(("head", "sources"), [
    (["203.0.113.0/25", "203.0.113.128/25"], ("203.0.113.0/24",)),
    (["203.0.113.0/24", "203.0.113.7/32"], ("203.0.113.0/24",)),
    (["pl-0aa11bb22cc33dd50"], ("pl-0aa11bb22cc33dd50",)),
    (["0.0.0.0/0"], ("0.0.0.0/0",)),
])  # fmt: skip
def test_networks_that_are_one_are_joined_and_never_widened(head: list[str], sources: tuple[str, ...]) -> None:
    assert load(base=changed(head_node={"key_name": "k", "ssh_from": head})).head_node.ssh_from == sources


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (changed(head_node={"key_name": "k", "ssh_from": ["0.0.0.0/0"]}), "ssh-from-anywhere"),
        (changed(os="ubuntu2204", image={"ami": "ami-0aa11bb22cc33dd46"}), "os-without-neuron"),
        (changed(os="alinux2023"), "os-without-neuron"),
        (changed(os="rhel9"), "os-without-neuron"),
        (changed(neuron_sdk="2.32.0"), "sdk-without-xla-training"),
        (changed(neuron_sdk="2.33.0"), "sdk-unproven"),
        (changed(neuron_sdk="2.33.1"), "sdk-unproven"),
        (changed(pcluster={"version": "3.2.0"}), "pcluster-old"),
        (resource(instance_type="trn1.32xlarg"), "instance-type-unknown"),
        (resource(instance_type="c5.4xlarge"), "no-accelerator"),
        (changed(head_node={"ssm": True, "key_name": "k", "instance_type": "c5.huge"}), "instance-type-unknown"),
        (changed(head_node={"ssm": True}), "no-key"),
        (changed(name="research-llm-pretrain-west2", queues=[{"name": "trn1-pretrain"}]), "node-name-long"),
        (
            queue(capacity={"reservation": "cr-0aa11bb22cc33dd45"}, placement_group=True),
            "placement-group-with-reservation",
        ),
    ],
)
def test_what_is_allowed_but_said(text: str, code: str) -> None:
    assert [(f.code, f.level) for f in findings(base=text)] == [(code, "warning")]


def test_the_second_generation_needs_no_old_sdk() -> None:
    base = yaml.safe_load(resource(instance_type="trn2.48xlarge"))
    base["cluster"]["neuron_sdk"] = "2.33.1"
    assert findings(base=yaml.safe_dump(base)) == []


# ------------------------------------------------------------------------------------------------ storage


def storage(*items: str) -> str:
    return "storage:\n" + "".join(f"- {item}\n" for item in items)


@pytest.mark.parametrize(("deployment", "throughput", "sizes"), [
    ("SCRATCH_1", None, (1200, 2400, 3600, 7200)),
    ("SCRATCH_2", None, (1200, 2400, 4800)),
    ("PERSISTENT_1", 100, (1200, 2400)),
    ("PERSISTENT_2", 1000, (1200, 4800)),
])  # fmt: skip
def test_fsx_sizes_that_exist(deployment: str, throughput: int | None, sizes: tuple[int, ...]) -> None:
    more = f", throughput: {throughput}" if throughput else ""
    for size in sizes:
        text = storage(f"fsx: {{mount: /fsx, capacity_gib: {size}, deployment: {deployment}{more}}}")
        assert load(text).storage[0].gib == size


@pytest.mark.parametrize(
    ("item", "code", "path"),
    [
        ("fsx: {mount: /fsx, capacity_gib: 3600}", "fsx-capacity", "fsx.capacity_gib"),
        ("fsx: {mount: /fsx, capacity_gib: 4800, deployment: SCRATCH_1}", "fsx-capacity", "fsx.capacity_gib"),
        ("fsx: {mount: /fsx, capacity_gib: -2400}", "out-of-range", "fsx.capacity_gib"),
        ("fsx: {mount: /fsx, capacity_gib: 1.2TB}", "wrong-type", "fsx.capacity_gib"),
        ("fsx: {mount: /fsx}", "missing-key", "fsx.capacity_gib"),
        ("fsx: {mount: /fsx, capacity_gib: 1200, deployment: PERSISTENT_2}", "fsx-throughput", "fsx.throughput"),
        ("fsx: {mount: /fsx, capacity_gib: 1200, deployment: PERSISTENT_2, throughput: 100}",
         "fsx-throughput", "fsx.throughput"),
        ("fsx: {mount: /fsx, capacity_gib: 1200, throughput: 250}", "fsx-throughput", "fsx.throughput"),
        ("fsx: {mount: /fsx, capacity_gib: 1200, deployment: SCRATCH_3}", "unknown-value", "fsx.deployment"),
        ("fsx: {mount: /fsx, capacity_gib: 1200, on_delete: keep}", "unknown-value", "fsx.on_delete"),
        ("fsx: {mount: /fsx, file_system_id: fs-1}", "fs-id", "fsx.file_system_id"),
        ("fsx: {mount: /fsx, file_system_id: fs-0aa11bb22cc33dd48, capacity_gib: 1200}",
         "storage-exists", "fsx.capacity_gib"),
        ("fsx: {mount: fsx, capacity_gib: 1200}", "mount-directory", "fsx.mount"),
        ("fsx: {mount: /a b, capacity_gib: 1200}", "mount-directory", "fsx.mount"),
        ("fsx: {mount: /fsx/, capacity_gib: 1200}", "mount-directory", "fsx.mount"),
        ("fsx: {mount: /../etc, capacity_gib: 1200}", "mount-directory", "fsx.mount"),
        ('fsx: {mount: "/a\\nb", capacity_gib: 1200}', "control-character", "fsx.mount"),
        ("fsx: {mount: /opt/slurm, capacity_gib: 1200}", "mount-reserved", "fsx.mount"),
        ("fsx: {mount: /proc/x, capacity_gib: 1200}", "mount-reserved", "fsx.mount"),
        ("fsx: {mount: /fsx, name: default, capacity_gib: 1200}", "storage-name", "fsx.name"),
        ("fsx: {mount: /local_storage, capacity_gib: 1200}", "mount-overlap", ""),
        ("fsx: {mount: /local_storage/x, capacity_gib: 1200}", "mount-overlap", ""),
        ('fsx: {mount: /fsx, capacity_gib: 1200, s3: [{path: /x, uri: "https://x"}]}', "s3-uri", "fsx.s3[0].uri"),
        ('fsx: {mount: /fsx, capacity_gib: 1200, s3: [{path: x, uri: "s3://b-1"}]}',
         "mount-directory", "fsx.s3[0].path"),
        ('fsx: {mount: /fsx, capacity_gib: 1200, s3: [{path: /x, uri: "s3://b-1"}, {path: /x/y, uri: "s3://b-2"}]}',
         "fsx-links", "fsx.s3"),
        ('fsx: {mount: /fsx, capacity_gib: 1200, deployment: SCRATCH_1, s3: [{path: /x, uri: "s3://b-1"}]}',
         "fsx-links", "fsx.s3"),
        ("ebs: {mount: /ebs}", "missing-key", "ebs.size_gib"),
        ("ebs: {mount: /ebs, size_gib: 100, volume_type: st1}", "ebs-size", "ebs.size_gib"),
        ("ebs: {mount: /ebs, volume_id: fs-0aa11bb22cc33dd48}", "vol-id", "ebs.volume_id"),
        ("efs: {mount: /efs, file_system_id: fs-0aa11bb2, encrypted: true}", "storage-exists", "efs.encrypted"),
        ("{}", "storage-kind", ""),
        ("{fsx: {mount: /a, capacity_gib: 1200}, efs: {mount: /b}}", "storage-kind", ""),
    ],
)  # fmt: skip
def test_one_problem_of_storage(item: str, code: str, path: str) -> None:
    found = [(f.code, f.path) for f in findings(storage(item))]
    assert found == [(code, f"cluster.storage[0]{'.' if path else ''}{path}")]


def test_at_most_one_new_file_system_of_a_kind_but_many_existing() -> None:
    new = "fsx: {mount: /fsx%d, capacity_gib: 1200}"
    assert [(f.code, f.path) for f in findings(storage(new % 1, new % 2))] == [
        ("too-many-new-file-systems", "cluster.storage[1]")
    ]
    existing = "fsx: {mount: /fsx%d, file_system_id: fs-0aa11bb22cc33dd4%d}"
    assert len(load(storage(new % 1, existing % (2, 2), existing % (3, 3))).storage) == 3


def test_mounts_beside_each_other_only() -> None:
    items = ("efs: {mount: /a}", "ebs: {mount: /a/b, size_gib: 10}", "ebs: {mount: /ab, size_gib: 10}")
    assert [(f.code, f.path) for f in findings(storage(*items))] == [("mount-overlap", "cluster.storage[1]")]


def test_a_new_fsx_is_for_one_subnet() -> None:
    other = "queues:\n- {name: a}\n- {name: b, subnet: subnet-0aa11bb22cc33dd44}\n"
    assert [f.code for f in findings(other + storage("fsx: {mount: /fsx, capacity_gib: 1200}"))] == [
        "fsx-several-subnets"
    ]
    assert findings(other + storage("fsx: {mount: /fsx, file_system_id: fs-0aa11bb22cc33dd48}")) == []


def test_s3_links() -> None:
    (one,) = load(storage('fsx: {mount: /fsx, capacity_gib: 1200, s3: [{path: /x, uri: "s3://b-1/p"}]}')).storage
    assert one.s3 == (S3Link("/x", "s3://b-1/p"),)


# ------------------------------------------------------------------------------------------------ ttl

WITH_BUCKET = "bucket: my-bucket\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ttl: 12h", Ttl(12)),
        ("ttl: 90m", Ttl(1.5)),
        ("ttl: 2d", Ttl(48)),
        ('ttl: "2026-12-01T18:00Z"', Ttl(at=datetime(2026, 12, 1, 18, tzinfo=UTC))),
        ('ttl: {at: "2026-12-01T20:00+02:00"}', Ttl(at=datetime(2026, 12, 1, 18, tzinfo=UTC))),
        ("ttl: {idle: 6h, end_jobs: true}", Ttl(6, end_jobs=True)),
        ("", None),
    ],
)
def test_a_ttl(text: str, expected: Ttl | None) -> None:
    assert load(WITH_BUCKET + text).ttl == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ttl: soon", "ttl"),
        ('ttl: "2026-12-01T18:00"', "ttl"),
        ("ttl: {}", "ttl"),
        ("ttl: {idle: 12}", "not-text"),
        ("ttl: {idle: 12 hours}", "duration"),
        ("idle_alert: often", "duration"),
    ],
)
def test_a_ttl_that_says_no_time(text: str, code: str) -> None:
    assert code in [finding.code for finding in findings(WITH_BUCKET + text)]


def test_a_ttl_needs_the_node_scripts() -> None:
    assert [finding.code for finding in findings("ttl: 12h")] == ["ttl-without-scripts"]


def test_idling_is_an_alert_after_hours_or_never() -> None:
    assert load().idle_alert_hours == 4
    assert load("idle_alert: 90m").idle_alert_hours == 1.5
    assert load("idle_alert: never").idle_alert_hours == 0
