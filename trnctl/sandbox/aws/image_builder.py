"""EC2 Image Builder, as far as `pcluster build-image` meets it: an AMI comes out of a stack, and the stack goes.

On AWS an instance of the parent image runs the components for a while. Here nothing runs: the AMI is made at the end of
the time that the resource takes, with the tags of the template.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trnctl.sandbox.aws.backends import Backends
from trnctl.sandbox.aws.plain import Plain, Properties
from trnctl.sandbox.aws.seeds import ACCOUNT

IMAGE = "AWS::ImageBuilder::Image"
# How many times as long as any other resource an image takes: of all that a build does it is the part that is long.
PATIENCE = 40.0
_DATE = "{{ imagebuilder:buildDate }}"
# ParallelCluster's word for a system by what stands in the names of Neuron's images; on AWS a component that runs on
# the instance reads /etc/os-release and puts this tag on the image (parallelcluster_tag.yaml in its package).
_SYSTEMS = {
    "Ubuntu 24.04": "ubuntu2404",
    "Ubuntu 22.04": "ubuntu2204",
    "Amazon Linux 2023": "alinux2023",
    "ubuntu-2404": "ubuntu2404",
    "ubuntu-2204": "ubuntu2204",
    "amzn2023": "alinux2023",
}


class Part(Plain):
    """A component, a recipe, or where and how to build: what a Ref gives is its ARN."""

    kind = ""

    @classmethod
    def make(cls, name: str, properties: Properties, account: str, region: str) -> Part:
        written = f"{properties['Name']}/{properties['Version']}" if "Version" in properties else properties["Name"]
        arn = f"arn:aws:imagebuilder:{region}:{account}:{cls.kind}/{written.lower()}"
        made = cls(arn, properties, account, region)
        _parts(region)[arn] = properties
        return made

    def delete(self, account: str, region: str) -> None:
        _parts(region).pop(self.id, None)


class Component(Part):
    """A script that the instance of the build would run."""

    kind = "component"


class Recipe(Part):
    """The parent and the components."""

    kind = "image-recipe"


class Infrastructure(Part):
    """On what instance, and where."""

    kind = "infrastructure-configuration"


class Distribution(Part):
    """Name and tags of what comes out."""

    kind = "distribution-configuration"


class Image(Plain):
    """The image itself. Deleting it with its stack leaves the AMI, as on AWS."""

    @classmethod
    def make(cls, name: str, properties: Properties, account: str, region: str) -> Image:
        parts, ec2 = _parts(region), Backends(region).ec2
        recipe = parts[properties["ImageRecipeArn"]]
        wanted = parts[properties["DistributionConfigurationArn"]]["Distributions"][0]["AmiDistributionConfiguration"]
        parent = ec2.describe_images(ami_ids=[recipe["ParentImage"]])[0]
        ami = ec2.register_image(wanted["Name"].replace(_DATE, "2026-01-01T00-00-00.000Z"), "")
        for attribute in ("architecture", "virtualization_type", "hypervisor", "root_device_type", "root_device_name"):
            setattr(ami, attribute, getattr(parent, attribute))
        system = next((word for part, word in _SYSTEMS.items() if part in parent.name), "")
        ami.add_tags({**wanted["AmiTags"], **({"parallelcluster:os": system} if system else {})})
        arn = f"arn:aws:imagebuilder:{region}:{account}:image/{recipe['Name'].lower()}/{recipe['Version']}/1"
        made = cls(arn, {**properties, "ParentImage": recipe["ParentImage"], "Ami": ami.id}, account, region)
        parts[arn] = made.properties
        return made

    def delete(self, account: str, region: str) -> None:
        _parts(region).pop(self.id, None)


MODELS: Mapping[str, type[Plain]] = {
    IMAGE: Image,
    "AWS::ImageBuilder::Component": Component,
    "AWS::ImageBuilder::DistributionConfiguration": Distribution,
    "AWS::ImageBuilder::ImageRecipe": Recipe,
    "AWS::ImageBuilder::InfrastructureConfiguration": Infrastructure,
    "AWS::SNS::Subscription": Plain,
}

_PARTS: dict[str, dict[str, Properties]] = {}


def empty() -> None:
    """Forget everything: an emulator begins with an empty account."""
    _PARTS.clear()


def _parts(region: str) -> dict[str, Properties]:
    """The properties of what there is, by ARN."""
    return _PARTS.setdefault(region, {})


def finish(stack: Any) -> bool:
    """Do what the Lambda function of a build does when its image is available: mark the AMI. Whether the stack is one
    of a build, which is then to be deleted."""
    images = [made for made in stack.resource_map._parsed_resources.values() if isinstance(made, Image)]
    for made in images:
        marks = {
            "parallelcluster:build_status": "available",
            "parallelcluster:parent_image": made.properties["ParentImage"],
        }
        Backends(stack.region_name).ec2.amis[made.properties["Ami"]].add_tags(marks)
    return bool(images)


def get_image(region: str, arn: str) -> Mapping[str, object] | None:
    """Image Builder's GetImage, as far as pcluster reads it; None when there is no such image."""
    found = _parts(region).get(arn)
    if found is None:
        return None
    amis = [{"image": found["Ami"], "region": region, "accountId": ACCOUNT}]
    return {"image": {"arn": arn, "state": {"status": "AVAILABLE"}, "outputResources": {"amis": amis}}}
