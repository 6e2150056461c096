"""The least IAM policy for whoever runs trnctl and pcluster, as a value that json can write.

Derived, not tried against AWS: from the policies that aws-parallelcluster publishes for its command line
(cloudformation/policies/parallelcluster-policies.yaml), narrowed to what one cluster file needs, and from the calls in
trnctl's own adapters. The account is `*` in each name: a policy reaches no further than its own account anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.known import partition

Statement = dict[str, object]
Condition = Mapping[str, object]
BASIS = (
    "derived from the policies that aws-parallelcluster publishes and from trnctl's own calls; not tried against AWS"
)
# Characters without white space that IAM takes in one managed policy, and in the inline policies of a role together.
LONGEST, LONGEST_INLINE = 6144, 10240


def least_policy(spec: ClusterSpec | None, region: str | None = None) -> dict[str, object]:
    """What creating, watching and deleting the file's cluster needs. Without a file: any cluster of the region (or of
    any), and `trnctl network` and `trnctl image` as well."""
    names = _Names(spec, region)
    statements = [
        *_ec2(names),
        *([] if spec else [_network(names), *_images(names)]),
        *_stacks(names),
        *_iam(names, spec),
        *_buckets(names, spec),
        *_monitoring(names),
        *_storage(names, spec),
        *(_session(names) if spec is None or spec.head_node.ssm else ()),
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def size(policy: Mapping[str, object]) -> int:
    """Its length as IAM counts it: without white space."""
    return len("".join(json.dumps(policy, separators=(",", ":")).split()))


class _Names:
    """The ARNs of one cluster's things; `*` for what is not known."""

    def __init__(self, spec: ClusterSpec | None, region: str | None) -> None:
        self.region = (spec.region if spec else region) or "*"
        self.cluster = spec.name if spec else "*"
        self.partition = partition(self.region) if self.region != "*" else "*"
        self.prefix = (spec.iam.resource_prefix if spec else None) or ""

    def arn(self, service: str, name: str, *, regional: bool = True, account: str = "*") -> str:
        """`arn:aws:SERVICE:REGION:ACCOUNT:NAME`."""
        return f"arn:{self.partition}:{service}:{self.region if regional else ''}:{account}:{name}"

    def bucket(self, name: str, key: str = "") -> str:
        """A bucket, or with `key` its objects."""
        return self.arn("s3", f"{name}/{key}" if key else name, regional=False, account="")

    @property
    def here(self) -> Condition | None:
        """The condition that a request is for the region; None when any will do."""
        return None if self.region == "*" else {"StringEquals": {"aws:RequestedRegion": self.region}}

    def roles(self, kind: str = "role") -> list[str]:
        """ParallelCluster's roles (or instance profiles): below its own path, or that of `resource_prefix`, which it
        parts at the last slash; a prefix without one changes names only."""
        path = self.prefix[: self.prefix.rfind("/") + 1] or "/parallelcluster/"
        return [self.arn("iam", f"{kind}{path}*", regional=False)]


def _allow(
    sid: str, actions: Sequence[str], resources: str | Sequence[str] = "*", *, when: Condition | None = None
) -> Statement:
    made: Statement = {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": resources}
    return made | ({"Condition": when} if when else {})


def _of(service: str, *words: str) -> list[str]:
    return [f"{service}:{word}" for line in words for word in line.split()]


def _ec2(names: _Names) -> Iterator[Statement]:
    yield _allow(
        "Ec2",
        _of(
            "ec2",
            "Describe* AllocateAddress AssociateAddress DisassociateAddress ReleaseAddress RunInstances",
            "TerminateInstances CreateFleet CreateTags DeleteTags CreateLaunchTemplate CreateLaunchTemplateVersion",
            "ModifyLaunchTemplate DeleteLaunchTemplate CreateNetworkInterface AttachNetworkInterface",
            "ModifyNetworkInterfaceAttribute DeleteNetworkInterface CreatePlacementGroup DeletePlacementGroup",
            "CreateSecurityGroup DeleteSecurityGroup AuthorizeSecurityGroupIngress AuthorizeSecurityGroupEgress",
            "RevokeSecurityGroupIngress RevokeSecurityGroupEgress CreateVolume ModifyVolume ModifyVolumeAttribute",
            "DeleteVolume CreateSnapshot GetConsoleOutput",
        ),
        when=names.here,
    )
    asked = [*_of("servicequotas", "GetServiceQuota ListServiceQuotas"), "pricing:GetProducts"]
    yield _allow("Quotas", asked)  # and prices: one statement, because a managed policy has only so many characters
    yield _allow("ReservationGroups", _of("resource-groups", "ListGroupResources GetGroupConfiguration"))


def _network(names: _Names) -> Statement:
    return _allow(
        "Network",
        _of(
            "ec2",
            "CreateVpc DeleteVpc ModifyVpcAttribute CreateSubnet DeleteSubnet ModifySubnetAttribute",
            "CreateInternetGateway DeleteInternetGateway AttachInternetGateway DetachInternetGateway CreateNatGateway",
            "DeleteNatGateway CreateRouteTable DeleteRouteTable AssociateRouteTable DisassociateRouteTable CreateRoute",
            "DeleteRoute CreateVpcEndpoint ModifyVpcEndpoint DeleteVpcEndpoints",
        ),
        when=names.here,
    )


def _images(names: _Names) -> Iterator[Statement]:
    """What `pcluster build-image` does beside what a cluster needs; its stack deletes itself with a role of its own."""
    yield _allow("ImageEc2", _of("ec2", "DeregisterImage DeleteSnapshot"), when=names.here)
    kinds = ("Component", "ImageRecipe", "InfrastructureConfiguration", "DistributionConfiguration", "Image")
    words = " ".join(f"{verb}{kind}" for kind in kinds for verb in ("Create", "Get", "Delete"))
    yield _allow("ImageBuilder", _of("imagebuilder", words, "TagResource CancelImageCreation"), when=names.here)
    topic = names.arn("sns", "ParallelClusterImage-*")
    yield _allow(
        "ImageTopic",
        _of("sns", "CreateTopic DeleteTopic GetTopicAttributes TagResource Subscribe Unsubscribe"),
        topic,
    )
    yield _allow(
        "ImageLambda",
        _of("lambda", "CreateFunction DeleteFunction GetFunction AddPermission RemovePermission TagResource"),
        names.arn("lambda", "function:ParallelClusterImage-*"),
    )
    builder = [
        names.arn("iam", f"policy/{name}", regional=False, account="aws")
        for name in ("EC2InstanceProfileForImageBuilder", "AmazonSSMManagedInstanceCore")
    ]
    yield _allow(
        "ImageRoles",
        _of("iam", "AttachRolePolicy DetachRolePolicy"),
        names.roles(),
        when={"ArnLike": {"iam:PolicyARN": builder}},
    )
    yield _allow(
        "ImageLinkedRole",
        _of("iam", "CreateServiceLinkedRole"),
        when={"StringEquals": {"iam:AWSServiceName": "imagebuilder.amazonaws.com"}},
    )


def _stacks(names: _Names) -> Iterator[Statement]:
    ours = [names.arn("cloudformation", f"stack/{names.cluster}/*")]
    if names.cluster != "*":
        ours.append(names.arn("cloudformation", f"stack/{names.cluster}-*/*"))  # the nested stacks of the queues
    yield _allow(
        "Stacks",
        _of(
            "cloudformation",
            "CreateStack UpdateStack DeleteStack DescribeStackEvents DescribeStackResource DescribeStackResources",
            "GetTemplate",
        ),
        ours,
    )
    yield _allow("StackLists", _of("cloudformation", "DescribeStacks ListStacks"))
    yield _allow(
        "FleetTable",
        _of(
            "dynamodb",
            "CreateTable DeleteTable DescribeTable DescribeContinuousBackups GetItem PutItem UpdateItem Query",
            "ListTagsOfResource TagResource UntagResource",
        ),
        names.arn("dynamodb", f"table/parallelcluster-{names.cluster}*".replace("**", "*")),
    )
    yield _allow(
        "Lambda",
        _of(
            "lambda",
            "CreateFunction DeleteFunction GetFunction GetFunctionConfiguration InvokeFunction AddPermission",
            "RemovePermission UpdateFunctionConfiguration UpdateFunctionCode ListTags TagResource UntagResource",
        ),
        [names.arn("lambda", f"function:{prefix}-*") for prefix in ("parallelcluster", "pcluster")],
    )
    yield _allow(
        "NodeNames",
        _of(
            "route53",
            "CreateHostedZone DeleteHostedZone GetHostedZone GetChange ListHostedZones ListResourceRecordSets",
            "ListQueryLoggingConfigs ChangeResourceRecordSets ChangeTagsForResource",
        ),
    )


def _iam(names: _Names, spec: ClusterSpec | None) -> Iterator[Statement]:
    boundary = spec.iam.permissions_boundary if spec else None
    bound = {"StringEquals": {"iam:PermissionsBoundary": boundary}} if boundary else None
    yield _allow(
        "IamRead",
        _of("iam", "GetRole GetRolePolicy GetPolicy GetInstanceProfile ListRoles ListRoleTags SimulatePrincipalPolicy"),
    )
    yield _allow("IamRolesWrite", _of("iam", "CreateRole PutRolePolicy DeleteRolePolicy"), names.roles(), when=bound)
    yield _allow("IamRoles", _of("iam", "DeleteRole TagRole UntagRole"), names.roles())
    policies = [names.arn("iam", name, regional=False, account="aws") for name in _managed_policies(spec)]
    attached = [*policies, *(spec.iam.policies if spec else ())]
    yield _allow(
        "IamPolicies",
        _of("iam", "AttachRolePolicy DetachRolePolicy"),
        names.roles(),
        when={"ArnLike": {"iam:PolicyARN": attached}},
    )
    yield _allow(
        "IamProfiles",
        _of(
            "iam", "CreateInstanceProfile DeleteInstanceProfile AddRoleToInstanceProfile RemoveRoleFromInstanceProfile"
        ),
        names.roles("instance-profile"),
    )
    services = ["ec2.amazonaws.com", "lambda.amazonaws.com"]
    yield _allow(
        "PassRole",
        _of("iam", "PassRole"),
        names.roles(),
        when={"StringEquals": {"iam:PassedToService": services}},
    )


def _managed_policies(spec: ClusterSpec | None) -> list[str]:
    """What ParallelCluster itself attaches to its roles."""
    found = ["policy/CloudWatchAgentServerPolicy", "policy/service-role/AWSLambdaBasicExecutionRole"]
    return [*found, "policy/AmazonSSMManagedInstanceCore"] if spec is None or spec.head_node.ssm else found


def _buckets(names: _Names, spec: ClusterSpec | None) -> Iterator[Statement]:
    """ParallelCluster's own bucket, its public one, and the cluster's."""
    own = "parallelcluster-*-v1-do-not-delete"
    yield _allow("PclusterBucket", ["s3:*"], [names.bucket(own), names.bucket(own, "*")])
    public = f"{names.region}-aws-parallelcluster*".replace("**", "*")
    yield _allow("PclusterFiles", _of("s3", "GetObject ListBucket"), [names.bucket(public), names.bucket(public, "*")])
    if spec is None or spec.bucket is None:
        return
    yield _allow("Bucket", _of("s3", "ListBucket GetBucketLocation"), names.bucket(spec.bucket))
    yield _allow(
        "BucketObjects",
        _of("s3", "GetObject PutObject DeleteObject"),
        names.bucket(spec.bucket, f"trnctl/{spec.name}/*"),
    )


def _monitoring(names: _Names) -> Iterator[Statement]:
    yield _allow(
        "Monitoring",
        [
            *_of("cloudwatch", "PutDashboard GetDashboard DeleteDashboards ListDashboards PutMetricAlarm"),
            *_of("cloudwatch", "PutCompositeAlarm DescribeAlarms DeleteAlarms"),
            *_of("logs", "CreateLogGroup DeleteLogGroup DescribeLogGroups DescribeLogStreams FilterLogEvents"),
            *_of("logs", "GetLogEvents PutRetentionPolicy PutMetricFilter DeleteMetricFilter DescribeMetricFilters"),
            *_of("logs", "ListTagsForResource TagResource UntagResource"),
        ],
        when=names.here,
    )


def _storage(names: _Names, spec: ClusterSpec | None) -> Iterator[Statement]:
    """File systems are looked for by every teardown; those that a cluster makes must be made as well."""
    kinds = {"fsx", "efs"} if spec is None else {one.kind for one in spec.storage}
    words = {
        "fsx": "CreateFileSystem UpdateFileSystem DeleteFileSystem TagResource UntagResource ListTagsForResource "
        "CreateDataRepositoryAssociation DeleteDataRepositoryAssociation",
        "efs": "CreateFileSystem DeleteFileSystem CreateMountTarget DeleteMountTarget TagResource UntagResource "
        "PutLifecycleConfiguration PutFileSystemPolicy PutBackupPolicy ListTagsForResource",
    }
    services = {"fsx": "fsx", "efs": "elasticfilesystem"}
    for kind, service in services.items():
        actions = ["Describe*", *(words[kind].split() if kind in kinds else ())]
        yield _allow(kind.capitalize(), _of(service, *actions))
    if "fsx" in kinds:
        linked = ["fsx.amazonaws.com", "s3.data-source.lustre.fsx.amazonaws.com"]
        yield _allow(
            "FsxLinkedRole",
            _of("iam", "CreateServiceLinkedRole"),
            when={"StringEquals": {"iam:AWSServiceName": linked}},
        )
    yield from _linked_data(names, spec)


def _linked_data(names: _Names, spec: ClusterSpec | None) -> Iterator[Statement]:
    """The buckets that FSx for Lustre is linked to; FSx's role for them is made with the caller's rights."""
    links = [link.uri for storage in (spec.storage if spec else ()) for link in storage.s3]
    if not links:
        return
    buckets = sorted({uri.removeprefix("s3://").partition("/")[0] for uri in links})
    resources = [arn for name in buckets for arn in (names.bucket(name), names.bucket(name, "*"))]
    yield _allow("FsxData", _of("s3", "Get* List* PutObject"), resources)
    role = "role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"
    yield _allow("FsxDataRole", _of("iam", "AttachRolePolicy PutRolePolicy"), names.arn("iam", role, regional=False))


def _session(names: _Names) -> Iterator[Statement]:
    """A shell through Session Manager: on the cluster's instances only, found by their tag."""
    tag = {"StringLike": {"ssm:resourceTag/parallelcluster:cluster-name": names.cluster}}
    yield _allow("Session", _of("ssm", "StartSession"), names.arn("ec2", "instance/*"), when=tag)
    document = names.arn("ssm", "document/AWS-StartSSHSession", account="")
    yield _allow("SessionDocument", _of("ssm", "StartSession"), document)
    own = names.arn("ssm", "session/${aws:userid}-*")
    yield _allow("SessionEnd", _of("ssm", "TerminateSession ResumeSession"), own)
