"""Judges from outside: ParallelCluster's own schema, and cfn-lint for CloudFormation templates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml


def load_in_pcluster(name: str, text: str) -> Any:
    """The document as `pcluster` 3.16.1 loads it; raises marshmallow's ValidationError when its schema refuses it.

    The schema asks for a region, and a queue with a reservation asks AWS for its instance type: it gets neither
    credentials nor the way to an instance's metadata, and goes on without.
    """
    from pcluster.schemas.cluster_schema import ClusterSchema

    before = dict(os.environ)
    os.environ |= {
        "AWS_DEFAULT_REGION": "us-west-2",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_CONFIG_FILE": os.devnull,
    }
    for secret in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        os.environ.pop(secret, None)
    try:
        return ClusterSchema(name).load(yaml.load(text, Loader=_loader()))  # noqa: S506  # a SafeLoader's child
    finally:
        os.environ.clear()
        os.environ.update(before)


def _loader() -> type[yaml.SafeLoader]:
    """The way in which `pcluster` reads YAML, which knows neither keys that stand twice nor merges; on a loader of its
    own, as its own function changes PyYAML's for the whole process."""
    from pcluster.utils import yaml_no_duplicates_constructor
    from yaml.resolver import BaseResolver

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor(BaseResolver.DEFAULT_MAPPING_TAG, yaml_no_duplicates_constructor)
    return Loader


def load_image_in_pcluster(text: str) -> Any:
    """A build configuration as `pcluster` 3.16.1 loads it; raises marshmallow's ValidationError when refused."""
    from pcluster.schemas.imagebuilder_schema import ImageBuilderSchema

    return ImageBuilderSchema().load(yaml.safe_load(text))


def cfn_lint(template: Path, region: str = "us-west-2") -> str:
    """What cfn-lint says of a template, warnings included; '' when it is content."""
    argv = [str(Path(sys.executable).with_name("cfn-lint")), "--regions", region, "--template", str(template)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr, done.stderr
    return done.stdout if done.returncode else ""
