"""ParallelCluster's outermost section, and those beside nodes, queues and storage."""

from __future__ import annotations

from collections.abc import Mapping

from trnctl.preflight.schema import NEED, Key, Section, Version, flag, integer, section, sections, text, texts
from trnctl.specs.known import systems

_RETENTION_DAYS = (0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827, 3653)
_POLICIES = ("Delete", "Retain")
# The versions at which the list of operating systems changed, each with the next change.
_OS_CHANGES: tuple[tuple[Version, Version | None], ...] = (
    ((3, 11), (3, 13)), ((3, 13), (3, 14)), ((3, 14), (3, 16)), ((3, 16), None),
)  # fmt: skip

CLUSTER: Mapping[str, Section] = {
    "Cluster": {
        "Region": text(),
        "Image": section("Image", NEED),
        "HeadNode": section("HeadNode", NEED),
        "Scheduling": section("Scheduling", NEED),
        "LoginNodes": section("LoginNodes"),
        "SharedStorage": sections("SharedStorage"),
        "Monitoring": section("Monitoring"),
        "Iam": section("ClusterIam"),
        "Imds": section("ClusterImds"),
        "Tags": sections("Tag"),
        "DirectoryService": section("DirectoryService"),
        "AdditionalPackages": section("AdditionalPackages"),
        "AdditionalResources": text(),
        "CustomS3Bucket": text(),
        "DeploymentSettings": section("DeploymentSettings"),
        "DevSettings": section("DevSettings"),
    },
    "Image": {
        "Os": tuple(
            text(NEED, choices=systems(f"{since[0]}.{since[1]}"), since=since, until=until)
            for since, until in _OS_CHANGES
        ),
        "CustomAmi": text(form="ami"),
    },
    "ClusterImds": {"ImdsSupport": text(choices=("v1.0", "v2.0"))},
    "ClusterIam": {
        "Roles": section("Roles"),
        "PermissionsBoundary": text(form="policy"),
        "ResourcePrefix": text(),
    },
    "Roles": {"LambdaFunctionsRole": text()},
    "Tag": {"Key": text(NEED, most=128), "Value": text(NEED, most=256)},
    # -------------------------------------------------------------------------------------------- monitoring
    "Monitoring": {
        "DetailedMonitoring": flag(),
        "Logs": section("Logs"),
        "Dashboards": section("Dashboards"),
        "Alarms": section("Switch"),
    },
    "Logs": {"CloudWatch": section("CloudWatchLogs"), "Rotation": section("Switch")},
    "CloudWatchLogs": {
        "Enabled": flag(),
        "RetentionInDays": integer(choices=_RETENTION_DAYS),
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
        "DisableSudoAccessForDefaultUser": flag(),
        "DefaultUserHome": text(choices=("Shared", "Local")),
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
        "Timeouts": section("Timeouts"),
        "ComputeStartupTimeMetricEnabled": flag(),
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
