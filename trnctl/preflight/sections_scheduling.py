"""ParallelCluster's sections of queues, compute resources and shared storage."""

from __future__ import annotations

from collections.abc import Mapping

from trnctl.preflight.schema import NEED, Key, Section, flag, integer, number, section, sections, table, text, texts

_BATCH_ENDS = (3, 16)
_GROUPS = texts(form="security-group")
_VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "st1", "sc1", "gp3")
_POLICIES = ("Delete", "Retain")
_CAPACITY_TYPE = (
    text(choices=("ONDEMAND", "SPOT"), until=(3, 8)),
    text(choices=("ONDEMAND", "SPOT", "CAPACITY_BLOCK"), since=(3, 8)),
)
_STRATEGIES = ("lowest-price", "capacity-optimized", "price-capacity-optimized")
_PLUGIN = Key("any", since=(3, 1), until=(3, 7))  # a scheduler of one's own; left again, and not looked into
_IMPORTS = ("NEW", "CHANGED", "DELETED")
_PRIORITY = integer(minimum=1, maximum=4294967295, since=(3, 7))
_STORAGE_TYPES = ("Ebs", "Efs", "FsxLustre", "FsxOpenZfs", "FsxOntap", "FileCache")

SCHEDULING: Mapping[str, Section] = {
    "Scheduling": {
        "Scheduler": (
            text(NEED, choices=("slurm", "awsbatch"), until=(3, 1)),
            text(NEED, choices=("slurm", "awsbatch", "plugin"), since=(3, 1), until=(3, 7)),
            text(NEED, choices=("slurm", "awsbatch"), since=(3, 7), until=_BATCH_ENDS),
            text(NEED, choices=("slurm",), since=_BATCH_ENDS),
        ),
        "ScalingStrategy": text(choices=("all-or-nothing", "best-effort", "greedy-all-or-nothing"), since=(3, 8)),
        "SlurmSettings": section("SlurmSettings"),
        "SlurmQueues": (sections("SlurmQueue", until=_BATCH_ENDS), sections("SlurmQueue", NEED, since=_BATCH_ENDS)),
        "AwsBatchQueues": sections("AwsBatchQueue", fewest=1, most=1, until=_BATCH_ENDS),
        "AwsBatchSettings": section("AwsBatchSettings", until=_BATCH_ENDS),
        "SchedulerQueues": _PLUGIN,
        "SchedulerSettings": _PLUGIN,
    },
    "SlurmSettings": {
        "ScaledownIdletime": (integer(until=(3, 7)), integer(minimum=-1, since=(3, 7))),
        "Dns": section("Dns"),
        "QueueUpdateStrategy": text(choices=("DRAIN", "COMPUTE_FLEET_STOP", "TERMINATE"), since=(3, 2)),
        "EnableMemoryBasedScheduling": flag(since=(3, 2)),
        "Database": section("Database", since=(3, 3)),
        "ExternalSlurmdbd": section("ExternalSlurmdbd", since=(3, 10)),
        "MungeKeySecretArn": text(since=(3, 8)),
        "CustomSlurmSettings": Key("tables", since=(3, 6)),
        "CustomSlurmSettingsIncludeFile": text(since=(3, 6)),
    },
    "Dns": {"DisableManagedDns": flag(), "HostedZoneId": text(), "UseEc2Hostnames": flag(since=(3, 1))},
    "Database": {
        "Uri": text(NEED),
        "UserName": text(NEED),
        "PasswordSecretArn": text(NEED, form="secret-manager"),
        "DatabaseName": text(form="database-name", since=(3, 8)),
    },
    "ExternalSlurmdbd": {"Host": text(NEED), "Port": integer()},
    # ------------------------------------------------------------------------------------------------ queues
    "SlurmQueue": {
        "Name": text(NEED),
        "CapacityType": _CAPACITY_TYPE,
        "CapacityReservationTarget": section("CapacityReservationTarget", since=(3, 3)),
        "AllocationStrategy": (
            text(choices=_STRATEGIES[:2], since=(3, 3), until=(3, 10)),
            text(choices=_STRATEGIES, since=(3, 10), until=(3, 14)),
            text(choices=(*_STRATEGIES, "prioritized", "capacity-optimized-prioritized"), since=(3, 14)),
        ),
        "JobExclusiveAllocation": flag(since=(3, 7)),
        "ComputeResources": sections("SlurmComputeResource"),
        "ComputeSettings": section("ComputeSettings"),
        "Networking": section("SlurmQueueNetworking", NEED),
        "CustomActions": section("QueueCustomActions"),
        "CustomSlurmSettings": table(since=(3, 6)),
        "HealthChecks": section("HealthChecks", since=(3, 6)),
        "Iam": section("NodeIam"),
        "Image": section("NodeImage"),
        "Tags": sections("Tag", since=(3, 6)),
    },
    "SlurmQueueNetworking": {
        "SubnetIds": (
            texts(NEED, form="subnet", fewest=1, most=1, until=(3, 4)),
            texts(NEED, form="subnet", fewest=1, since=(3, 4)),
        ),
        "AssignPublicIp": flag(),
        "SecurityGroups": _GROUPS,
        "AdditionalSecurityGroups": _GROUPS,
        "PlacementGroup": section("PlacementGroup"),
        "Proxy": section("Proxy"),
    },
    "PlacementGroup": {"Enabled": flag(), "Id": text(), "Name": text(since=(3, 3))},
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
        "InstanceType": (text(NEED, until=(3, 3)), text(since=(3, 3))),
        "Instances": sections("InstanceType", since=(3, 3)),
        "MinCount": integer(minimum=0),
        "MaxCount": integer(minimum=1),
        "SpotPrice": number(minimum=0),
        "Efa": section("Efa"),
        "DisableSimultaneousMultithreading": flag(),
        "SchedulableMemory": integer(since=(3, 2)),
        "CapacityReservationTarget": section("CapacityReservationTarget", since=(3, 3)),
        "Networking": section("SlurmComputeResourceNetworking", since=(3, 3)),
        "HealthChecks": section("HealthChecks", since=(3, 6)),
        "CustomSlurmSettings": table(since=(3, 6)),
        "Tags": sections("Tag", since=(3, 6)),
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
        "CapacityType": _CAPACITY_TYPE,
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
        "StorageType": (
            text(NEED, choices=_STORAGE_TYPES[:3], until=(3, 2)),
            text(NEED, choices=_STORAGE_TYPES[:5], since=(3, 2), until=(3, 7)),
            text(NEED, choices=_STORAGE_TYPES, since=(3, 7)),
        ),
        "EbsSettings": section("EbsSettings"),
        "EfsSettings": section("EfsSettings"),
        "FsxLustreSettings": section("FsxLustreSettings"),
        "FsxOpenZfsSettings": section("FsxVolumeSettings", since=(3, 2)),
        "FsxOntapSettings": section("FsxVolumeSettings", since=(3, 2)),
        "FileCacheSettings": section("FileCacheSettings", since=(3, 7)),
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
        "AccessPointId": text(form="access-point", since=(3, 11)),
        "Encrypted": flag(),
        "KmsKeyId": text(),
        "PerformanceMode": text(choices=("generalPurpose", "maxIO")),
        "ThroughputMode": text(choices=("provisioned", "bursting")),
        "ProvisionedThroughput": integer(minimum=1, maximum=1024),
        "EncryptionInTransit": flag(since=(3, 4)),
        "IamAuthorization": flag(since=(3, 4)),
        "DeletionPolicy": text(choices=_POLICIES, since=(3, 3)),
    },
    "FsxLustreSettings": {
        "FileSystemId": text(form="lustre-file-system"),
        "StorageCapacity": integer(),
        "DeploymentType": (
            text(choices=("SCRATCH_1", "SCRATCH_2", "PERSISTENT_1"), until=(3, 2)),
            text(choices=("SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"), since=(3, 2)),
        ),
        "PerUnitStorageThroughput": (integer(choices=(12, 40, 50, 100, 200), until=(3, 2)), integer(since=(3, 2))),
        "StorageType": text(choices=("HDD", "SSD")),
        "DriveCacheType": text(choices=("READ",)),
        "DataCompressionType": text(choices=("LZ4",)),
        "KmsKeyId": text(),
        "ImportPath": text(),
        "ExportPath": text(),
        "ImportedFileChunkSize": integer(minimum=1, maximum=512000),
        "AutoImportPolicy": (
            text(choices=("NEW", "NEW_CHANGED"), until=(3, 1)),
            text(choices=("NEW", "NEW_CHANGED", "NEW_CHANGED_DELETED"), since=(3, 1)),
        ),
        "DataRepositoryAssociations": sections("DataRepositoryAssociation", since=(3, 8)),
        "WeeklyMaintenanceStartTime": text(form="weekly-time"),
        "DailyAutomaticBackupStartTime": text(form="daily-time"),
        "AutomaticBackupRetentionDays": (
            integer(minimum=0, maximum=35, until=(3, 16)),
            integer(minimum=0, maximum=90, since=(3, 16)),
        ),
        "CopyTagsToBackups": flag(),
        "BackupId": text(form="backup"),
        "DeletionPolicy": text(choices=_POLICIES, since=(3, 3)),
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
