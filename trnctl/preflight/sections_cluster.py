"""ParallelCluster's outermost section, and those beside nodes, queues and storage."""

from __future__ import annotations

from collections.abc import Mapping

from trnctl.preflight.schema import NEED, Key, Section, Version, flag, integer, section, sections, text, texts
from trnctl.specs.known import pcluster_systems

_RETENTION_DAYS = (0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827, 3653)
_POLICIES = ("Delete", "Retain")
# The versions at which the list of operating systems changed, each with the next change.
_OS_CHANGES: tuple[tuple[Version, Version | None], ...] = (
    ((3, 0), (3, 6)), ((3, 6), (3, 7)), ((3, 7), (3, 8)), ((3, 8), (3, 9)), ((3, 9), (3, 10)), ((3, 10), (3, 13)),
    ((3, 13), (3, 14)), ((3, 14), (3, 16)), ((3, 16), None),
)  # fmt: skip

CLUSTER: Mapping[str, Section] = {
    "Cluster": {
        "Region": text(),
        "Image": section("Image", NEED),
        "HeadNode": section("HeadNode", NEED),
        "Scheduling": section("Scheduling", NEED),
        "LoginNodes": section("LoginNodes", since=(3, 7)),
        "SharedStorage": sections("SharedStorage"),
        "Monitoring": section("Monitoring"),
        "Iam": section("ClusterIam"),
        "Imds": section("ClusterImds", since=(3, 3)),
        "Tags": sections("Tag"),
        "DirectoryService": section("DirectoryService", since=(3, 1)),
        "AdditionalPackages": section("AdditionalPackages"),
        "AdditionalResources": text(),
        "CustomS3Bucket": text(),
        "DeploymentSettings": section("DeploymentSettings", since=(3, 4)),
        "DevSettings": section("DevSettings"),
    },
    "Image": {
        "Os": tuple(
            text(NEED, choices=pcluster_systems(f"{since[0]}.{since[1]}"), since=since, until=until)
            for since, until in _OS_CHANGES
        ),
        "CustomAmi": text(form="ami"),
    },
    "ClusterImds": {"ImdsSupport": text(choices=("v1.0", "v2.0"))},
    "ClusterIam": {
        "Roles": section("Roles"),
        "PermissionsBoundary": text(form="policy"),
        "ResourcePrefix": text(since=(3, 4)),
    },
    "Roles": {"LambdaFunctionsRole": text()},
    "Tag": {"Key": text(NEED, most=128), "Value": text(NEED, most=256)},
    # -------------------------------------------------------------------------------------------- monitoring
    "Monitoring": {
        "DetailedMonitoring": flag(),
        "Logs": section("Logs"),
        "Dashboards": section("Dashboards"),
        "Alarms": section("Switch", since=(3, 8)),
    },
    "Logs": {"CloudWatch": section("CloudWatchLogs"), "Rotation": section("Switch", since=(3, 6))},
    "CloudWatchLogs": {
        "Enabled": flag(),
        "RetentionInDays": (
            integer(choices=_RETENTION_DAYS[1:], until=(3, 9)),
            integer(choices=_RETENTION_DAYS, since=(3, 9)),
        ),
        "DeletionPolicy": text(choices=_POLICIES),
    },
    "Dashboards": {"CloudWatch": section("Switch")},
    "Switch": {"Enabled": flag()},
    # ------------------------------------------------------------------------------------------------- users
    "DirectoryService": {
        "DomainName": text(NEED),
        "DomainAddr": text(NEED),
        "PasswordSecretArn": text(NEED, form="secret"),
        "DomainReadOnlyUser": text(NEED),
        "LdapTlsCaCert": text(),
        "LdapTlsReqCert": text(choices=("never", "allow", "try", "demand", "hard")),
        "LdapAccessFilter": text(),
        "GenerateSshKeysForUsers": flag(),
        "AdditionalSssdConfigs": Key("table"),
    },
    # ------------------------------------------------------------------------------------- packages, settings
    "AdditionalPackages": {"IntelSoftware": section("IntelSoftware")},
    "IntelSoftware": {"IntelHpcPlatform": flag()},
    "DeploymentSettings": {
        "LambdaFunctionsVpcConfig": section("LambdaFunctionsVpcConfig"),
        "DisableSudoAccessForDefaultUser": flag(since=(3, 9)),
        "DefaultUserHome": text(choices=("Shared", "Local"), since=(3, 9)),
    },
    "LambdaFunctionsVpcConfig": {
        "SecurityGroupIds": texts(NEED, form="security-group", fewest=1, most=5),
        "SubnetIds": texts(NEED, form="subnet", fewest=1, most=16),
    },
    "DevSettings": {
        "Cookbook": section("Cookbook"),
        "NodePackage": text(),
        "AwsBatchCliPackage": text(until=(3, 16)),
        "ClusterTemplate": text(),
        "AmiSearchFilters": section("AmiSearchFilters"),
        "InstanceTypesData": text(),
        "Timeouts": section("Timeouts", since=(3, 2)),
        "ComputeStartupTimeMetricEnabled": flag(since=(3, 7)),
        "EfaInterfaceType": text(since=(3, 15)),
    },
    "Cookbook": {"ChefCookbook": text(), "ExtraChefAttributes": text(form="json")},
    "AmiSearchFilters": {"Tags": sections("Tag"), "Owner": text(), "NamePrefix": text(since=(3, 15))},
    "Timeouts": {
        "HeadNodeBootstrapTimeout": integer(minimum=1),
        "ComputeNodeBootstrapTimeout": integer(minimum=1),
        "ComputeInstanceInfoTimeout": integer(minimum=1, since=(3, 16)),
    },
}
