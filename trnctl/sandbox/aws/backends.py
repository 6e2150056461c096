"""The doors to moto's backends, in one place, so that no other module needs to know how moto files them."""

from __future__ import annotations

from typing import Any

from moto.cloudformation.models import cloudformation_backends
from moto.core.base_backend import BackendDict
from moto.dynamodb.models import dynamodb_backends
from moto.ec2.models import ec2_backends
from moto.efs.models import efs_backends
from moto.fsx.models import fsx_backends
from moto.logs.models import logs_backends
from moto.route53.models import route53_backends
from moto.s3.models import s3_backends
from moto.utilities.utils import get_partition

from trnctl.sandbox.aws.seeds import ACCOUNT


class Backends:
    """The backends of one region; moto has no types, so each is `Any`. S3 and Route 53 are kept per partition."""

    def __init__(self, region: str) -> None:
        partition = get_partition(region)
        self.region = region
        self.ec2: Any = ec2_backends[ACCOUNT][region]
        self.cloudformation: Any = cloudformation_backends[ACCOUNT][region]
        self.dynamodb: Any = dynamodb_backends[ACCOUNT][region]
        self.fsx: Any = fsx_backends[ACCOUNT][region]
        self.efs: Any = efs_backends[ACCOUNT][region]
        self.logs: Any = logs_backends[ACCOUNT][region]
        self.s3: Any = s3_backends[ACCOUNT][partition]
        self.route53: Any = route53_backends[ACCOUNT][partition]

    def instances(self, cluster: str, node_type: str) -> list[Any]:
        """The living instances of a cluster by ParallelCluster's node-type tag (HeadNode, Compute, LoginNode)."""
        wanted = {"parallelcluster:cluster-name": cluster, "parallelcluster:node-type": node_type}
        return [
            instance
            for instance in self.ec2.all_instances()
            if instance.state not in ("terminated", "shutting-down")
            and wanted.items() <= {tag["key"]: tag["value"] for tag in instance.get_tags()}.items()
        ]


def empty_account() -> None:
    """Forget everything: moto keeps its backends per process, and a process may hold one emulator after another."""
    BackendDict.reset()
