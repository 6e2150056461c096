"""The least policy: a shape that IAM takes, names that belong to the cluster, and nothing that no one needs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from tests.oracles import cfn_lint
from trnctl.render.policy import LONGEST, LONGEST_INLINE, least_policy, size
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.loading import load_cluster_file

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
SIXTEEN = next(path for path in EXAMPLES if path.stem == "trn1-16-nodes")
# IAM's actions that are not called after an operation of the interface.
NO_OPERATION = {"iam:PassRole", "lambda:InvokeFunction", "s3:ListBucket", "route53:ListQueryLoggingConfigs"}
SERVICES = {"elasticfilesystem": "efs", "servicequotas": "service-quotas"}


def spec_of(path: Path) -> ClusterSpec:
    """The cluster of an example."""
    return load_cluster_file(path.read_text(), str(path)).cluster


def statements(spec: ClusterSpec | None) -> dict[str, Any]:
    """The statements by their Sid."""
    made: Any = least_policy(spec)["Statement"]
    return {one["Sid"]: one for one in made}


@pytest.mark.parametrize("spec", [None, *map(spec_of, EXAMPLES)], ids=["any", *(path.stem for path in EXAMPLES)])
def test_the_shape_is_iams(spec: ClusterSpec | None) -> None:
    policy: Any = least_policy(spec)
    assert policy["Version"] == "2012-10-17"
    sids = [one["Sid"] for one in policy["Statement"]]
    assert len(sids) == len(set(sids))
    for one in policy["Statement"]:
        assert set(one) <= {"Sid", "Effect", "Action", "Resource", "Condition"}
        assert re.fullmatch("[A-Za-z0-9]+", one["Sid"])
        assert one["Effect"] == "Allow"
        assert all(re.fullmatch(r"[a-z0-9-]+:[A-Za-z]*\*?", action) for action in one["Action"])
        assert len(one["Action"]) == len(set(one["Action"]))
        resources = [one["Resource"]] if isinstance(one["Resource"], str) else one["Resource"]
        assert all(name == "*" or re.fullmatch(r"arn:[^:]+:[a-z0-9]+:[^:]*:[^:]*:.+", name) for name in resources)
    assert json.loads(json.dumps(policy)) == policy


def test_cfn_lint_takes_it_for_a_policy(tmp_path: Path) -> None:
    made = {
        f"Policy{number}": {
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {"PolicyDocument": least_policy(spec)},
        }
        for number, spec in enumerate([None, *map(spec_of, EXAMPLES)])
    }
    path = tmp_path / "policies.json"
    path.write_text(json.dumps({"Resources": made}))
    assert cfn_lint(path) == ""


def test_every_action_is_an_operation_of_its_service() -> None:
    session = botocore.session.Session()
    operations: dict[str, set[str]] = {}
    unknown = set()
    for spec in (None, *map(spec_of, EXAMPLES)):
        for one in statements(spec).values():
            for action in one["Action"]:
                service, name = action.split(":")
                if service not in operations:
                    model = session.get_service_model(SERVICES.get(service, service))
                    # Lambda's operations carry a date: GetFunction20150331v2; so do none of the others.
                    operations[service] = {re.sub(r"\d{8}(v\d)?$", "", each) for each in model.operation_names}
                if not name.endswith("*") and name not in operations[service]:
                    unknown.add(action)
    assert unknown <= NO_OPERATION | {"lambda:InvokeFunction"}


def test_what_one_cluster_needs_is_about_that_cluster() -> None:
    made = statements(spec_of(SIXTEEN))
    assert made["Stacks"]["Resource"] == [
        "arn:aws:cloudformation:us-west-2:*:stack/ultra1/*",
        "arn:aws:cloudformation:us-west-2:*:stack/ultra1-*/*",
    ]
    assert made["FleetTable"]["Resource"] == "arn:aws:dynamodb:us-west-2:*:table/parallelcluster-ultra1*"
    assert made["Ec2"]["Condition"] == {"StringEquals": {"aws:RequestedRegion": "us-west-2"}}


def test_the_bucket_is_opened_below_the_clusters_own_prefix() -> None:
    spec = replace(spec_of(SIXTEEN), bucket="my-trnctl-bucket")
    made = statements(spec)
    assert made["BucketObjects"]["Resource"] == "arn:aws:s3:::my-trnctl-bucket/trnctl/ultra1/*"
    assert not any("my-trnctl-bucket" in json.dumps(one) for one in statements(replace(spec, bucket=None)).values())


def test_what_the_file_does_not_use_is_not_allowed() -> None:
    spec = replace(spec_of(SIXTEEN), storage=())
    made = statements(spec)
    assert made["Fsx"]["Action"] == ["fsx:Describe*"]
    assert made["Efs"]["Action"] == ["elasticfilesystem:Describe*"]
    assert {"FsxLinkedRole", "Session", "Network"}.isdisjoint(made)
    assert {"FsxLinkedRole", "Session", "Network"} <= statements(None).keys()
    ssm = replace(spec, head_node=replace(spec.head_node, ssm=True))
    assert statements(ssm)["Session"]["Condition"]["StringLike"] == {
        "ssm:resourceTag/parallelcluster:cluster-name": "ultra1"
    }


def test_a_permissions_boundary_binds_the_roles_that_are_made() -> None:
    boundary = "arn:aws:iam::123456789012:policy/limit"
    spec = spec_of(SIXTEEN)
    made = statements(replace(spec, iam=replace(spec.iam, permissions_boundary=boundary)))
    assert made["IamRolesWrite"]["Condition"] == {"StringEquals": {"iam:PermissionsBoundary": boundary}}
    assert "Condition" not in statements(spec)["IamRolesWrite"]


def test_roles_are_passed_to_ec2_and_lambda_alone() -> None:
    made = statements(spec_of(SIXTEEN))["PassRole"]
    assert made["Condition"]["StringEquals"]["iam:PassedToService"] == ["ec2.amazonaws.com", "lambda.amazonaws.com"]
    assert made["Resource"] == ["arn:aws:iam::*:role/parallelcluster/*"]


@pytest.mark.parametrize(
    ("prefix", "path"),
    [(None, "/parallelcluster/*"), ("lab-", "/parallelcluster/*"), ("/lab/ml/", "/lab/ml/*"), ("/lab/ml-", "/lab/*")],
)
def test_roles_stand_where_the_resource_prefix_puts_them(prefix: str | None, path: str) -> None:
    spec = spec_of(SIXTEEN)
    made = statements(replace(spec, iam=replace(spec.iam, resource_prefix=prefix)))
    assert made["IamRoles"]["Resource"] == [f"arn:aws:iam::*:role{path}"]
    assert made["IamProfiles"]["Resource"] == [f"arn:aws:iam::*:instance-profile{path}"]


def test_other_partitions() -> None:
    spec = replace(spec_of(SIXTEEN), region="us-gov-west-1")
    assert statements(spec)["PassRole"]["Resource"] == ["arn:aws-us-gov:iam::*:role/parallelcluster/*"]


def test_the_walk_throughs_policy_fits_into_a_managed_policy() -> None:
    assert size(least_policy(spec_of(SIXTEEN))) <= LONGEST
    assert size(least_policy(None)) <= LONGEST_INLINE
