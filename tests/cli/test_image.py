"""`trnctl image`: from Neuron's own image to the AMI in the cluster file, with the real pcluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.fault_story import said, strike, told
from tests.cli.trnctl_runner import EXAMPLES, SIXTEEN, Trnctl, sandbox

NAME = "trn-2-31-1-ubuntu2404-3-16-1"
PARENT = "ami-0d1a5000000000003"


def test_a_name_that_cannot_be_is_refused_before_anything_is_asked(nowhere: Trnctl) -> None:
    ended = nowhere.of(SIXTEEN)("image", "build", "--name", "2.31", code=2, target="aws")
    assert "cannot name an image" in ended.talk


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trnctl]:
    """A sandbox, and a cluster file that may be changed."""
    file = tmp_path_factory.mktemp("image") / "trnctl.yaml"
    file.write_text((EXAMPLES / "trn1-16-nodes.yaml").read_text())
    with sandbox(file) as trnctl:
        yield trnctl


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.fault("image-build-failed")
def test_from_neurons_image_to_the_ami_in_the_file(built: Trnctl, tmp_path: Path) -> None:
    assert built.config is not None
    before = built.config.read_text()
    asked = built("image", "build", code=2)
    assert f"{PARENT} Deep Learning AMI Neuron PyTorch 2.9 (Ubuntu 24.04) 20260813" in asked.talk
    assert "$0.68 an hour" in asked.talk
    assert "add -y" in asked.talk
    dry = built.json("image", "build", "--dry-run")
    assert (dry["image"], dry["parent"], f'ParentImage: "{PARENT}"' in dry["configuration"]) == (NAME, PARENT, True)
    assert "has Neuron 2.32.0" in built("image", "build", "--parent", "ami-0d1a5000000000005", "-y", code=3).talk

    strike(built, "image-build-failed")
    failed = built("image", "build", "-y", code=4, timeout=240)
    assert "the image could not be built: it failed in the state BUILDING" in failed.talk
    assert "evidence stack-event" in failed.talk
    said(failed, told(built, "image-build-failed", "cluster", "--cluster", NAME))
    assert f"/aws/imagebuilder/ParallelClusterImage-{NAME}" in failed.talk
    assert [(one["state"], one["ami"]) for one in built.json("image", "list")["images"]] == [("failed", None)]
    assert built.config.read_text() == before

    built("sandbox", "fault", "slow-stack")
    with built.start("image", "build", "-y") as running:
        running.until(lambda one: "  building " in one.err, "the build is under way", 180)
        built("sandbox", "fault", "clear")
        running.interrupt()
        ended = running.end()
    assert (ended.code, "trnctl image build takes it up" in ended.talk) == (130, True)
    ended = built("image", "build", "-o", "json", timeout=120)  # nothing new is made: nothing to confirm
    ami = ended.json["ami"]
    assert ended.json == {"image": NAME, "ami": ami, "region": "us-west-2", "file": str(built.config), "findings": []}
    changed = built.config.read_text()
    assert [line for line in changed.splitlines() if line not in before.splitlines()] == [f"  image: {{ami: {ami}}}"]
    assert f'CustomAmi: "{ami}"' in built("cluster", "render").out
    built("cluster", "validate", "--online", timeout=120)
    [row] = built.json("image", "list")["images"]
    assert (row["image"], row["state"], row["ami"], row["os"]) == (NAME, "available", ami, "ubuntu2404")
    assert (row["neuron_sdk"], row["version"], row["age_s"] >= 0) == ("2.31.1", "3.16.1", True)
