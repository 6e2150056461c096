"""The node scripts as texts, where they lie in the bucket, and who runs them when."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.conftest import Snapshot
from tests.oracles import load_in_pcluster
from tests.unit.test_render_cluster import QUEUE, RESOURCE, SPEC
from tests.unit.test_render_job import judged
from trnctl.render import templates
from trnctl.render.cluster import cluster_document
from trnctl.render.node import node_documents, node_script, own_actions, pip_packages
from trnctl.specs.cluster import ClusterSpec, ComputeResource, CustomActions, Queue, Storage
from trnctl.specs.loading import load_cluster_file
from trnctl.specs.node_steps import BY_CODE, STEPS, Role, steps_of
from trnctl.specs.sdk import ROWS, SdkRow, row

CLUSTER = replace(SPEC, bucket="my-bucket")
EXAMPLE = Path(__file__).parents[2] / "examples" / "custom-actions.yaml"
PARTS = [name for name in templates.names("node/") if name.endswith(".sh")]


def keys(spec: ClusterSpec) -> list[str]:
    return [document.name for document in node_documents(spec)]


def settings(spec: ClusterSpec, role: Role, *names: str) -> list[str]:
    """Settings of a script, as bash reads them."""
    script = node_script(spec, role).partition("# ----")[0]
    show = "\n".join(f'printf "%s\\n" "${{{name}}}"' for name in names)
    done = subprocess.run(
        ["bash", "-u"], input=f"{script}\n{show}", capture_output=True, text=True, timeout=20, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("role", ["head", "compute"])
def test_the_whole_script(role: Role, snapshot: Snapshot) -> None:
    spec = load_cluster_file(EXAMPLE.read_bytes(), EXAMPLE.name).cluster
    script = node_script(spec, role)
    snapshot(f"node/{EXAMPLE.stem}.{role}.sh", script)
    assert judged(script) == ""


@pytest.mark.parametrize("name", PARTS)
def test_each_part_is_clean_by_itself(name: str) -> None:
    # What other parts define and use is unknown to one part alone.
    argv = ["shellcheck", "-s", "bash", "-e", "SC2034,SC2154,SC2153", "-"]
    done = subprocess.run(argv, input=templates.read(name), capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""


@pytest.mark.parametrize("one", [one for one in ROWS if one.packaged], ids=lambda one: one.version)
def test_each_release_that_can_be_installed_makes_clean_settings(one: SdkRow) -> None:
    spec = replace(CLUSTER, neuron_sdk=one.version)
    assert settings(spec, "head", "DRIVER", "TOOLS") == [one.driver, one.tools]


def test_pcluster_takes_the_actions_and_nodes_may_read_the_bucket() -> None:
    text = cluster_document(CLUSTER, own_actions=own_actions(CLUSTER))
    loaded = load_in_pcluster(CLUSTER.name, text)
    head, compute = loaded.head_node, loaded.scheduling.queues[0]
    fixed, updated, for_compute = (f"s3://my-bucket/{key}" for key in keys(CLUSTER))
    assert head.custom_actions.on_node_configured.script == fixed
    assert head.custom_actions.on_node_updated.script == updated
    assert compute.custom_actions.on_node_configured.script == for_compute
    for node in (head, compute):
        assert [access.bucket_name for access in node.iam.s3_access] == ["my-bucket"]


def test_a_change_is_seen_by_its_key() -> None:
    first, second = keys(CLUSTER), keys(replace(CLUSTER, neuron_sdk="2.30.0"))
    assert first[0] == second[0] == "trnctl/ultra1/head.sh"
    assert first[1:] != second[1:]
    assert re.fullmatch(r"trnctl/ultra1/[0-9a-f]{16}/head\.sh", first[1])
    assert re.fullmatch(r"trnctl/ultra1/[0-9a-f]{16}/compute\.sh", first[2])
    assert keys(CLUSTER) == first


def test_what_changes_no_software_changes_no_key() -> None:
    """ParallelCluster lets a queue be added while the fleet runs, but not a queue's script change."""
    more = (*CLUSTER.queues, Queue("second", (ComputeResource("i2", "trn1n.32xlarge", efa=False),)))
    assert keys(replace(CLUSTER, queues=more)) == keys(CLUSTER)
    assert keys(replace(CLUSTER, tags={"team": "research"})) == keys(CLUSTER)
    with_fsx = replace(CLUSTER, storage=(Storage("fsx", "/fsx", "fsx", 1200),))
    assert keys(with_fsx)[2] != keys(CLUSTER)[2], "the environment moves"


def test_no_update_is_refused_for_the_head_nodes_first_run() -> None:
    """ParallelCluster's policy for HeadNode/CustomActions/OnNodeConfigured is UNSUPPORTED: any change is refused."""
    from pcluster.config.update_policy import UpdatePolicy
    from pcluster.schemas.cluster_schema import HeadNodeCustomActionsSchema

    policy = HeadNodeCustomActionsSchema().fields
    assert policy["on_node_configured"].metadata["update_policy"] is UpdatePolicy.UNSUPPORTED
    assert policy["on_node_updated"].metadata["update_policy"] is UpdatePolicy.SUPPORTED
    documents = [
        yaml.safe_load(cluster_document(spec, own_actions=own_actions(spec)))["HeadNode"]["CustomActions"]
        for spec in (CLUSTER, replace(CLUSTER, neuron_sdk="2.30.0"))
    ]
    assert documents[0]["OnNodeConfigured"] == documents[1]["OnNodeConfigured"]
    assert documents[0]["OnNodeUpdated"] != documents[1]["OnNodeUpdated"]


@pytest.mark.parametrize(
    "without",
    [replace(CLUSTER, bucket=None), replace(CLUSTER, os="alinux2023"), replace(CLUSTER, neuron_sdk="2.33.1")],
    ids=["bucket", "ubuntu", "established versions"],
)
def test_there_is_nothing_without(without: ClusterSpec) -> None:
    assert node_documents(without) == ()
    assert own_actions(without) == CustomActions()


def test_the_versions_are_those_of_the_release() -> None:
    assert settings(CLUSTER, "compute", "SDK", "CODENAME", "DRIVER", "RUNTIME", "COLLECTIVES", "TOOLS") == [
        "2.31.1", "noble", "2.29.0.0", "2.33.10.0", "2.33.10.0", "2.31.15.0",
    ]  # fmt: skip
    assert settings(replace(CLUSTER, os="ubuntu2204", neuron_sdk="2.29.1"), "head", "CODENAME") == ["jammy"]


def test_the_environment_lies_on_shared_storage_and_changes_with_its_packages() -> None:
    with_fsx = replace(CLUSTER, storage=(Storage("fsx", "/fsx", "fsx", 1200),))
    (place,) = settings(with_fsx, "head", "ENVIRONMENT")
    assert re.fullmatch(r"/fsx/trnctl/environments/neuron-2\.31\.1-[0-9a-f]{8}", place)
    assert settings(with_fsx, "compute", "ENVIRONMENT") == [place]
    assert settings(with_fsx, "head", "ENVIRONMENT_LINK") == ["/opt/aws_neuronx_venv_pytorch_2_9"]


@pytest.mark.parametrize(
    ("sdk", "system", "instance_type", "packages", "link"),
    [
        ("2.31.1", "ubuntu2404", "trn1.32xlarge",
         ["neuronx-cc==2.26.6360.0", "torch-neuronx==2.9.0.2.15.32035", "neuronx_distributed==0.19.28492"],
         "/opt/aws_neuronx_venv_pytorch_2_9"),
        ("2.33.0", "ubuntu2404", "trn2.48xlarge", ["neuronx-cc==2.28.7631.0", "torch-neuronx==2.14.3.0"],
         "/opt/aws_neuronx_venv_torch_neuronx_2_14_0"),
        ("2.33.0", "ubuntu2404", "trn1.32xlarge", ["neuronx-cc==2.28.7631.0", "torch-neuronx==2.9.0.2.15.32035"],
         "/opt/aws_neuronx_venv_pytorch_2_9"),
        ("2.32.0", "ubuntu2404", "trn1.32xlarge", [], ""),
        ("2.28.0", "ubuntu2204", "trn1n.32xlarge",
         ["neuronx-cc==2.23.6484.0", "torch-neuronx==2.9.0.2.12.*", "neuronx_distributed==0.17.26814"],
         "/opt/aws_neuronx_venv_pytorch_2_9"),
    ],
)  # fmt: skip
def test_what_pip_installs(sdk: str, system: str, instance_type: str, packages: list[str], link: str) -> None:
    queue = replace(QUEUE, compute_resources=(replace(RESOURCE, instance_type=instance_type),))
    release = row(sdk)
    assert release is not None
    made = pip_packages(replace(CLUSTER, neuron_sdk=sdk, os=system, queues=(queue,)), release)
    assert made == (tuple(packages), link)


def test_what_each_type_of_node_must_have() -> None:
    resources = (RESOURCE, ComputeResource("i2", "trn1n.32xlarge", efa=False))
    spec = replace(CLUSTER, queues=(replace(QUEUE, compute_resources=resources),))
    devices = ("DEVICES[trn1.32xlarge]", "DEVICES[trn1.2xlarge]", "DEVICES[trn2.48xlarge]", "DEVICES[c5.4xlarge]:-none")
    assert settings(spec, "compute", *devices) == ["16", "1", "16", "none"]
    adapters = ("ADAPTERS[trn1.32xlarge]", "ADAPTERS[trn1n.32xlarge]:-none", "ADAPTERS[trn1.2xlarge]:-none")
    assert settings(spec, "compute", *adapters) == ["8", "none", "none"]


def test_exit_codes_are_distinct_and_no_other_programs() -> None:
    assert len(BY_CODE) == len(STEPS)
    # 1 and 2 are bash's and anyone's, 100 is apt's, 124 is timeout's, above 125 are the shell's and signals.
    assert all(20 <= code < 100 for code in BY_CODE)
    assert all(step.remedy.endswith(".") and step.failure for step in STEPS)


@pytest.mark.parametrize("role", ["head", "compute"])
def test_the_script_has_every_step_of_its_role(role: Role) -> None:
    script = node_script(CLUSTER, role)
    assert [step.name for step in steps_of(role) if f"\nstep_{step.name}() {{" not in script] == []
    refused = set(re.findall(r"refuse (\w+) ", script)) - {"KIND"}
    assert refused <= {step.name for step in STEPS}


def test_a_compute_node_waits_for_no_python_packages() -> None:
    assert "hooks" not in [step.name for step in steps_of("compute")]
    assert "efa" not in [step.name for step in steps_of("head")]
    assert settings(CLUSTER, "compute", "ROLE") == ["compute"]


def test_the_script_asks_nobody_and_its_address_is_no_users_word() -> None:
    # A cluster's name and mounts are checked by the loader; a spec made otherwise is quoted all the same.
    hostile = replace(CLUSTER, storage=(Storage("fsx", "/a b'$(touch /tmp/x)", "fsx", 1200),))
    (place,) = settings(hostile, "head", "ENVIRONMENT")
    assert place.startswith("/a b'$(touch /tmp/x)/trnctl/environments/")
    assert judged(node_script(hostile, "head")) == ""
