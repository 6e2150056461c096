"""An image from Neuron's own: which one, what is asked of ParallelCluster, how it goes on and how it fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conftest import Snapshot
from tests.fakes import World
from tests.oracles import load_image_in_pcluster
from tests.unit.test_submit import example
from trnctl.actions.image import ImageWish, build_image, default_name, leftover_stack, list_images, plan_image
from trnctl.errors import RefusedError, ToolError, UsageError, WaitedTooLong
from trnctl.plan.dlami import parent_findings, parent_of
from trnctl.ports import BuiltImage, MachineImage
from trnctl.render.image import SDK_TAG, image_document
from trnctl.specs.cluster import ClusterSpec, Iam
from trnctl.specs.editing import with_ami
from trnctl.specs.loading import load_cluster_file

EXAMPLES = Path(__file__).parents[2] / "examples"
PYTORCH, PLAIN = "Deep Learning AMI Neuron PyTorch 2.9 (Ubuntu 24.04)", "Deep Learning AMI Neuron (Ubuntu 24.04)"


def dlami(number: int, name: str, sdk: str, date: str = "20260813", *, architecture: str = "x86_64") -> MachineImage:
    """One of Neuron's images."""
    made = datetime.strptime(date, "%Y%m%d").replace(tzinfo=UTC)
    text = f"PyTorch 2.9.0 with AWS Neuron SDK {sdk}." if sdk else ""
    return MachineImage(f"ami-0{number}", f"{name} {date}", text, architecture, made)


FITTING = dlami(3, PYTORCH, "2.31.1")
IMAGES = [
    dlami(1, PYTORCH, "2.30.0", "20260522"),
    dlami(2, PYTORCH, "2.31.1", "20260812"),
    FITTING,
    dlami(4, PLAIN, "2.31.1", "20260901"),
    dlami(5, "Deep Learning AMI Neuron PyTorch Inference vLLM 0.24 (Ubuntu 24.04)", "2.31.1", "20260901"),
    dlami(6, PYTORCH.replace("24.04", "22.04"), "2.31.1", "20260901"),
    dlami(7, PYTORCH, "2.31.1", "20260902", architecture="arm64"),
    dlami(8, PLAIN, "2.32.0", "20260818"),
]


@pytest.fixture
def spec() -> ClusterSpec:
    return example()


@pytest.fixture
def world() -> World:
    """An account that sees Neuron's images."""
    world = World()
    world.account.all_images["amazon"] = IMAGES
    return world


def test_the_newest_training_image_of_the_release_is_the_parent(spec: ClusterSpec) -> None:
    assert parent_of(IMAGES, spec) == FITTING
    assert parent_of(IMAGES, replace(spec, neuron_sdk="2.32.0")) == IMAGES[-1]
    assert parent_of(IMAGES, replace(spec, neuron_sdk="2.33.0")) is None
    assert parent_of(IMAGES, replace(spec, os="ubuntu2204")) == IMAGES[5]


@pytest.mark.parametrize(
    ("image", "codes"),
    [
        (FITTING, []),
        (IMAGES[0], ["image-parent-sdk"]),
        (IMAGES[5], ["image-parent-os"]),
        (IMAGES[6], ["image-parent-architecture"]),
        (MachineImage("ami-9", "mine", "with 2.9.0 of torch", "x86_64"), ["image-parent-unproven"]),
        (dlami(9, PYTORCH, ""), ["image-parent-unproven"]),
    ],
)
def test_what_speaks_against_a_parent(spec: ClusterSpec, image: MachineImage, codes: list[str]) -> None:
    assert [one.code for one in parent_findings(image, spec)] == codes


def test_the_configuration(spec: ClusterSpec, snapshot: Snapshot) -> None:
    boundary = "arn:aws:iam::123456789012:policy/edge"
    full = replace(spec, iam=Iam(permissions_boundary=boundary), tags={"team": "a: b'\""})
    text = image_document(
        full, name=default_name(full), parent="ami-0aa11bb22cc33dd99", instance_type="c5.4xlarge",
        subnet="subnet-0aa11bb22cc33dd42", security_group="sg-0aa11bb22cc33dd43",
    )  # fmt: skip
    loaded = load_image_in_pcluster(text)
    assert (loaded.build.parent_image, loaded.build.update_os_packages.enabled) == ("ami-0aa11bb22cc33dd99", False)
    assert {tag.key: tag.value for tag in loaded.image.tags} == {"team": "a: b'\"", SDK_TAG: spec.neuron_sdk}
    assert loaded.build.iam.permissions_boundary == boundary
    snapshot("images/everything.yaml", text)
    plain = load_image_in_pcluster(image_document(spec, name="i", parent="ami-1", instance_type="c5.xlarge"))
    assert plain.build.subnet_id is None


def test_a_build_to_the_end_and_again(spec: ClusterSpec, world: World) -> None:
    services = world.services()
    plan = plan_image(spec, ImageWish(), services)
    assert (plan.name, plan.parent, plan.asks) == ("trn-2-31-1-ubuntu2404-3-16-1", FITTING, True)
    assert plan.hour_usd == pytest.approx(0.68)
    steps = list(build_image(plan, services))
    assert [one.image.state for one in steps if one.image][:1] == ["building"]
    assert [one.image.ami for one in steps if one.image][-1] == "ami-0aa11bb22cc33dd99"
    assert 1800 <= steps[-1].elapsed_s < 1830
    assert world.provisioner.documents[plan.name] == plan.document
    again = plan_image(spec, ImageWish(), services)
    assert (again.asks, again.parent) == (False, None)
    assert [step.image.state for step in build_image(again, services) if step.image] == ["available"]


def leave_the_stack(world: World, name: str) -> None:
    """The stack of a build that could not delete itself, as one that ParallelCluster 3.16.1 left."""
    for one, status, reason in (
        (name, "CREATE_COMPLETE", ""),
        (name, "DELETE_IN_PROGRESS", ""),
        ("DeleteStackFunctionExecutionRole", "DELETE_FAILED", "Internal Failure"),
        (name, "DELETE_FAILED", "The following resource(s) failed to delete"),
    ):
        kind = "AWS::CloudFormation::Stack" if one == name else "AWS::IAM::Role"
        world.cloud.happens(name, one, kind, status, reason)


def test_a_stack_that_could_not_delete_itself_is_told_when_the_image_is_there(spec: ClusterSpec, world: World) -> None:
    services = world.services()
    list(build_image(plan_image(spec, ImageWish(), services), services))
    assert plan_image(spec, ImageWish(), services).findings == ()
    leave_the_stack(world, default_name(spec))
    [left] = plan_image(spec, ImageWish(), services).findings
    assert (left.code, left.level) == ("image-stack-leftover", "warning")
    assert "DeleteStackFunctionExecutionRole: Internal Failure" in left.message
    assert f"--stack-name {default_name(spec)} --retain-resources DeleteStackFunctionExecutionRole" in left.remedy
    world.cloud.happens(default_name(spec), default_name(spec), "AWS::CloudFormation::Stack", "DELETE_COMPLETE")
    assert leftover_stack(default_name(spec), "us-west-2", services) is None


def test_a_stack_that_stays_ends_the_next_try_with_the_way_out(spec: ClusterSpec, world: World) -> None:
    services, world.provisioner.build_fails = world.services(), "no such thing"
    with pytest.raises(ToolError, match="no such thing"):
        list(build_image(plan_image(spec, ImageWish(), services), services))
    leave_the_stack(world, default_name(spec))
    with pytest.raises(ToolError, match="could not delete itself") as caught:
        list(build_image(plan_image(spec, ImageWish(), services), services))
    assert "--retain-resources DeleteStackFunctionExecutionRole" in caught.value.remedy


def test_a_build_that_is_under_way_is_watched(spec: ClusterSpec, world: World) -> None:
    services = world.services()
    first = build_image(plan_image(spec, ImageWish(), services), services)
    next(first)
    plan = plan_image(spec, ImageWish(), services)
    assert not plan.asks
    assert list(build_image(plan, services))[-1].elapsed_s >= 1800


def test_a_failure_says_why_and_where_and_is_cleared_by_the_next_try(spec: ClusterSpec, world: World) -> None:
    services, world.provisioner.build_fails = world.services(), "failure message = 'Document … failed!'"
    with pytest.raises(ToolError, match=r"ParallelClusterImage .* failed: failure message = 'Document") as caught:
        list(build_image(plan_image(spec, ImageWish(), services), services))
    assert "/aws/imagebuilder/ParallelClusterImage-trn-2-31-1" in caught.value.remedy
    world.provisioner.build_fails = ""
    plan = plan_image(spec, ImageWish(), services)
    assert plan.asks
    assert plan.standing is not None
    states = [step.image.state if step.image else None for step in build_image(plan, services)]
    assert (states[0], None in states, states[-1]) == ("deleting", True, "available")


def test_a_build_that_never_ends(spec: ClusterSpec, world: World) -> None:
    world.provisioner.build_s = 1e6
    with pytest.raises(WaitedTooLong, match="still not there after 4 hours"):
        list(build_image(plan_image(spec, ImageWish(), world.services()), world.services()))


@pytest.mark.parametrize(
    ("wish", "kind", "promised"),
    [
        (ImageWish(name="2bad"), UsageError, "cannot name an image"),
        (ImageWish(subnet="subnet-1"), UsageError, "only with a security group"),
        (ImageWish(parent="ami-nothing"), RefusedError, "no available image ami-nothing"),
        (ImageWish(parent="ami-01"), RefusedError, "has Neuron 2.30.0"),
    ],
)
def test_refusals(spec: ClusterSpec, world: World, wish: ImageWish, kind: type[Exception], promised: str) -> None:
    with pytest.raises(kind, match=promised):
        plan_image(spec, wish, world.services())


def test_no_image_of_the_release_names_the_newest(spec: ClusterSpec, world: World) -> None:
    with pytest.raises(RefusedError, match=r"names release 2\.33\.0; the newest is ami-03") as caught:
        plan_image(replace(spec, neuron_sdk="2.33.0"), ImageWish(), world.services())
    assert "--parent" in caught.value.remedy
    with pytest.raises(RefusedError, match="no image of its own for rocky9"):
        plan_image(replace(spec, os="rocky9"), ImageWish(), world.services())


@pytest.mark.parametrize(
    ("standing", "promised"),
    [
        (BuiltImage("x", "deleting", "3.16.1"), "is being deleted"),
        (BuiltImage("x", "available", "3.15.0", "ami-1"), "with ParallelCluster 3.15.0"),
        (BuiltImage("x", "available", "3.16.1", "ami-1", tags={"parallelcluster:os": "alinux2023"}), "with os alinux"),
        (BuiltImage("x", "available", "3.16.1", "ami-1", tags={SDK_TAG: "2.30.0"}), r"with Neuron 2\.30\.0"),
    ],
)
def test_what_has_the_name_must_fit(spec: ClusterSpec, world: World, standing: BuiltImage, promised: str) -> None:
    world.provisioner.built["x"] = standing
    with pytest.raises(RefusedError, match=promised):
        plan_image(spec, ImageWish(name="x"), world.services())


def test_the_list_knows_what_ec2_says(world: World) -> None:
    tags = {"parallelcluster:image_id": "b", "parallelcluster:os": "ubuntu2404"}
    world.account.all_images["self"] = [replace(FITTING, id="ami-2", tags=tags), replace(FITTING, id="ami-3")]
    world.provisioner.built = {
        "a": BuiltImage("a", "building", "3.16.1"),
        "b": BuiltImage("b", "available", "3.16.1", "ami-2"),
    }
    rows = list_images(world.services())
    assert [(row.built.name, row.ami.tags if row.ami else None) for row in rows] == [("b", tags), ("a", None)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  name: a\n  image: {}   # later\n", "  name: a\n  image: {ami: ami-9}   # later\n"),
        ("  name: a\n  image:  # later\n", "  name: a\n  image: {ami: ami-9}  # later\n"),
        ("  name: a\n  image: null\n", "  name: a\n  image: {ami: ami-9}\n"),
        ("  name: a\n  image: {ami: }\n", "  name: a\n  image: {ami: ami-9 }\n"),
        ("  name: a\n  image:\n    ami: ami-1  # old\n", "  name: a\n  image:\n    ami: ami-9  # old\n"),
        ("  # first\n  name: a\n", "  # first\n  image: {ami: ami-9}\n  name: a\n"),
    ],
)
def test_the_file_gets_the_ami_and_keeps_all_else(before: str, after: str) -> None:
    assert with_ami(f"# top\ncluster:\n{before}", "ami-9") == f"# top\ncluster:\n{after}"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("trn*.yaml")), ids=lambda path: path.stem)
def test_every_example_can_get_one(path: Path) -> None:
    text, ami = path.read_text(), "ami-0aa11bb22cc33dd99"
    changed = with_ami(text, ami)
    assert load_cluster_file(changed, "x").cluster.ami == ami
    assert set(text.splitlines()) - set(changed.splitlines()) == set()
    assert with_ami(changed, ami) == changed


def test_a_file_without_a_cluster() -> None:
    with pytest.raises(UsageError, match="no `cluster:`"):
        with_ami("workloads: {}\n", "ami-9")
