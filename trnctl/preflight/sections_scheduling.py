"""ParallelCluster's sections of queues, compute resources and shared storage."""

from __future__ import annotations

from collections.abc import Mapping

from trnctl.preflight.schema import NEED, Key, Section, flag, integer, number, section, sections, text, texts

_BATCH_ENDS = (3, 16)
_GROUPS = texts(form="security-group")
_VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "st1", "sc1", "gp3")
_POLICIES = ("Delete", "Retain")
_CAPACITY_TYPES = ("ONDEMAND", "SPOT", "CAPACITY_BLOCK")
_STRATEGIES = ("lowest-price", "capacity-optimized", "price-capacity-optimized")
_IMPORTS = ("NEW", "CHANGED", "DELETED")
_PRIORITY = integer(minimum=1, maximum=4294967295)

SCHEDULING: Mapping[str, Section] = {
    "Scheduling": {
        "Scheduler": (
            text(NEED, choices=("slurm", "awsbatch"), until=_BATCH_ENDS),
            text(NEED, choices=("slurm",), since=_BATCH_ENDS),
        ),
        "ScalingStrategy": text(choices=("all-or-nothing", "best-effort", "greedy-all-or-nothing")),
        "SlurmSettings": section("SlurmSettings"),
        "SlurmQueues": (sections("SlurmQueue", until=_BATCH_ENDS), sections("SlurmQueue", NEED, since=_BATCH_ENDS)),
        "AwsBatchQueues": sections("AwsBatchQueue", fewest=1, most=1, until=_BATCH_ENDS),
        "AwsBatchSettings": section("AwsBatchSettings", until=_BATCH_ENDS),
    },
    "SlurmSettings": {
        "ScaledownIdletime": integer(minimum=-1),
        "Dns": section("Dns"),
        "QueueUpdateStrategy": text(choices=("DRAIN", "COMPUTE_FLEET_STOP", "TERMINATE")),
        "EnableMemoryBasedScheduling": flag(),
        "Database": section("Database"),
        "ExternalSlurmdbd": section("ExternalSlurmdbd"),
        "MungeKeySecretArn": text(),
        "CustomSlurmSettings": Key("tables"),
        "CustomSlurmSettingsIncludeFile": text(),
    },
    "Dns": {"DisableManagedDns": flag(), "HostedZoneId": text(), "UseEc2Hostnames": flag()},
    "Database": {
        "Uri": text(NEED),
        "UserName": text(NEED),
        "PasswordSecretArn": text(NEED, form="secret-manager"),
        "DatabaseName": text(form="database-name"),
    },
    "ExternalSlurmdbd": {"Host": text(NEED), "Port": integer()},
    # ------------------------------------------------------------------------------------------------ queues
    "SlurmQueue": {
        "Name": text(NEED),
        "CapacityType": text(choices=_CAPACITY_TYPES),
        "CapacityReservationTarget": section("CapacityReservationTarget"),
        "AllocationStrategy": (
            text(choices=_STRATEGIES, until=(3, 14)),
            text(choices=(*_STRATEGIES, "prioritized", "capacity-optimized-prioritized"), since=(3, 14)),
        ),
        "JobExclusiveAllocation": flag(),
        "ComputeResources": sections("SlurmComputeResource"),
        "ComputeSettings": section("ComputeSettings"),
        "Networking": section("SlurmQueueNetworking", NEED),
        "CustomActions": section("QueueCustomActions"),
        "CustomSlurmSettings": Key("table"),
        "HealthChecks": section("HealthChecks"),
        "Iam": section("NodeIam"),
        "Image": section("NodeImage"),
        "Tags": sections("Tag"),
    },
    "SlurmQueueNetworking": {
        "SubnetIds": texts(NEED, form="subnet", fewest=1),
        "AssignPublicIp": flag(),
        "SecurityGroups": _GROUPS,
        "AdditionalSecurityGroups": _GROUPS,
        "PlacementGroup": section("PlacementGroup"),
        "Proxy": section("Proxy"),
    },
    "PlacementGroup": {"Enabled": flag(), "Id": text(), "Name": text()},
    "CapacityReservationTarget": {"CapacityReservationId": text(), "CapacityReservationResourceGroupArn": text()},
    "ComputeSettings": {"LocalStorage": section("QueueLocalStorage")},
    "QueueLocalStorage": {"RootVolume": section("QueueRootVolume"), "EphemeralVolume": section("EphemeralVolume")},
    "QueueRootVolume": {
        "Size": integer(),
        "Encrypted": flag(),
        "VolumeType": text(),
        "Iops": integer(),
        "Throughput": integer(),
    },
    "HealthChecks": {"Gpu": section("Switch")},
    "SlurmComputeResource": {
        "Name": text(NEED),
        "InstanceType": text(),
        "Instances": sections("InstanceType"),
        "MinCount": integer(minimum=0),
        "MaxCount": integer(minimum=1),
        "SpotPrice": number(minimum=0),
        "Efa": section("Efa"),
        "DisableSimultaneousMultithreading": flag(),
        "SchedulableMemory": integer(),
        "CapacityReservationTarget": section("CapacityReservationTarget"),
        "Networking": section("SlurmComputeResourceNetworking"),
        "HealthChecks": section("HealthChecks"),
        "CustomSlurmSettings": Key("table"),
        "Tags": sections("Tag"),
        "StaticNodePriority": _PRIORITY,
        "DynamicNodePriority": _PRIORITY,
        "LaunchTemplateOverrides": section("LaunchTemplateOverrides", since=(3, 15)),
    },
    "InstanceType": {"InstanceType": text(NEED)},
    "Efa": {"Enabled": flag(), "GdrSupport": flag()},
    "SlurmComputeResourceNetworking": {"PlacementGroup": section("PlacementGroup")},
    "LaunchTemplateOverrides": {"LaunchTemplateId": text(NEED), "Version": integer(NEED, minimum=1)},
    # --------------------------------------------------------------------------------- AWS Batch, until 3.15
    "AwsBatchSettings": {},
    "AwsBatchQueue": {
        "Name": text(NEED),
        "CapacityType": text(choices=_CAPACITY_TYPES),
        "Networking": section("AwsBatchQueueNetworking", NEED),
        "ComputeResources": sections("AwsBatchComputeResource", fewest=1, most=1),
    },
    "AwsBatchQueueNetworking": {
        "SubnetIds": texts(NEED, form="subnet", fewest=1, most=1),
        "AssignPublicIp": flag(),
        "SecurityGroups": _GROUPS,
        "AdditionalSecurityGroups": _GROUPS,
    },
    "AwsBatchComputeResource": {
        "Name": text(NEED),
        "InstanceTypes": texts(NEED),
        "MinvCpus": integer(minimum=0),
        "DesiredvCpus": integer(minimum=0),
        "MaxvCpus": integer(minimum=1),
        "SpotBidPercentage": integer(minimum=0, maximum=100),
    },
}

STORAGE: Mapping[str, Section] = {
    "SharedStorage": {
        "Name": text(NEED),
        "MountDir": text(NEED, form="mount"),
        "StorageType": text(NEED, choices=("Ebs", "Efs", "FsxLustre", "FsxOpenZfs", "FsxOntap", "FileCache")),
        "EbsSettings": section("EbsSettings"),
        "EfsSettings": section("EfsSettings"),
        "FsxLustreSettings": section("FsxLustreSettings"),
        "FsxOpenZfsSettings": section("FsxVolumeSettings"),
        "FsxOntapSettings": section("FsxVolumeSettings"),
        "FileCacheSettings": section("FileCacheSettings"),
    },
    "EbsSettings": {
        "VolumeType": text(choices=_VOLUME_TYPES),
        "Size": integer(),
        "Iops": integer(),
        "Throughput": integer(),
        "Encrypted": flag(),
        "KmsKeyId": text(),
        "SnapshotId": text(form="snapshot"),
        "VolumeId": text(form="volume"),
        "DeletionPolicy": text(choices=(*_POLICIES, "Snapshot")),
        "Raid": section("Raid"),
    },
    "Raid": {"Type": integer(NEED, choices=(0, 1)), "NumberOfVolumes": integer(minimum=2, maximum=5)},
    "EfsSettings": {
        "FileSystemId": text(form="file-system"),
        "AccessPointId": text(form="access-point"),
        "Encrypted": flag(),
        "KmsKeyId": text(),
        "PerformanceMode": text(choices=("generalPurpose", "maxIO")),
        "ThroughputMode": text(choices=("provisioned", "bursting")),
        "ProvisionedThroughput": integer(minimum=1, maximum=1024),
        "EncryptionInTransit": flag(),
        "IamAuthorization": flag(),
        "DeletionPolicy": text(choices=_POLICIES),
    },
    "FsxLustreSettings": {
        "FileSystemId": text(form="lustre-file-system"),
        "StorageCapacity": integer(),
        "DeploymentType": text(choices=("SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2")),
        "PerUnitStorageThroughput": integer(),
        "StorageType": text(choices=("HDD", "SSD")),
        "DriveCacheType": text(choices=("READ",)),
        "DataCompressionType": text(choices=("LZ4",)),
        "KmsKeyId": text(),
        "ImportPath": text(),
        "ExportPath": text(),
        "ImportedFileChunkSize": integer(minimum=1, maximum=512000),
        "AutoImportPolicy": text(choices=("NEW", "NEW_CHANGED", "NEW_CHANGED_DELETED")),
        "DataRepositoryAssociations": sections("DataRepositoryAssociation"),
        "WeeklyMaintenanceStartTime": text(form="weekly-time"),
        "DailyAutomaticBackupStartTime": text(form="daily-time"),
        "AutomaticBackupRetentionDays": (
            integer(minimum=0, maximum=35, until=(3, 16)),
            integer(minimum=0, maximum=90, since=(3, 16)),
        ),
        "CopyTagsToBackups": flag(),
        "BackupId": text(form="backup"),
        "DeletionPolicy": text(choices=_POLICIES),
    },
    "DataRepositoryAssociation": {
        "Name": text(NEED),
        "DataRepositoryPath": text(NEED),
        "FileSystemPath": text(NEED, form="file-system-path"),
        "BatchImportMetaDataOnCreate": flag(),
        "ImportedFileChunkSize": integer(minimum=1, maximum=512000),
        "AutoImportPolicy": texts(choices=_IMPORTS, most=3),
        "AutoExportPolicy": texts(choices=_IMPORTS, most=3),
    },
    "FsxVolumeSettings": {"VolumeId": text(NEED, form="fsx-volume")},
    "FileCacheSettings": {"FileCacheId": text(NEED, form="file-cache")},
}
