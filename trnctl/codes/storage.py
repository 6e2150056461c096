"""Codes of findings on shared storage and volumes."""

from __future__ import annotations

from trnctl.findings import Level

STORAGE: tuple[tuple[str, Level, str, str], ...] = (
    ("storage-kind", "error", "An item of `storage` is exactly one of fsx, efs and ebs.", "Write it as in `- fsx: {mount: /fsx, capacity_gib: 1200}`."),
    ("storage-settings", "error", "The settings do not go with the StorageType.", "Keep the one section that the type asks for."),
    ("storage-name", "error", "The text cannot name shared storage.", "Use letters, digits, hyphens and underscores, at most 30 characters, and not `default`."),
    ("storage-exists", "error", "What describes a new file system stands beside the id of one that exists.", "Remove it: an existing file system keeps what it has."),
    ("duplicate-storage", "error", "One file system is mounted twice.", "Remove one."),
    ("storage-deleted-with-cluster", "warning", "The file system and its data are deleted with the cluster.", "Write DeletionPolicy: Retain, or use a file system that exists."),
    ("storage-kept", "info", "The file system stays when the cluster goes, and goes on costing.", "Delete it when you no longer need it: trnctl teardown --delete-storage."),
    ("too-many-new-file-systems", "error", "ParallelCluster makes at most one new file system of a kind.", "Make the others yourself and name them by id."),
    ("too-many-file-systems", "error", "ParallelCluster mounts at most 20 existing file systems of a kind.", "Mount fewer."),
    ("too-many-volumes", "error", "ParallelCluster takes at most 5 EBS volumes.", "Use fewer, or a file system."),
    ("mount-reserved", "error", "The mount directory belongs to the operating system or to ParallelCluster.", "Choose a directory of its own, as in /fsx."),
    ("mount-overlap", "error", "Two mount directories are the same, or one lies in the other.", "Choose directories beside each other."),
    ("mount-home-cache", "error", "A file cache cannot hold the home directories.", "Choose another kind of storage for /home."),
    ("ephemeral-clash", "warning", "Shared storage and the nodes' own disks would be mounted at one place (by default /scratch).", "Choose another MountDir, or ComputeSettings.LocalStorage.EphemeralVolume.MountDir."),
    # ------------------------------------------------------------------------------------------- FSx, EFS
    ("fsx-capacity", "error", "FSx for Lustre sells no such size; a missing or negative one, too.", "Write 1200, or a multiple of 2400 (SCRATCH_1: 1200, 2400 or a multiple of 3600)."),
    ("fsx-throughput", "error", "PERSISTENT file systems need a throughput of their list, SCRATCH ones take none. (ParallelCluster 3.16.1 crashes on the latter.)", "Write PerUnitStorageThroughput with a value of the list, or remove it."),
    ("fsx-disk-type", "error", "HDD and its cache go with PERSISTENT_1 only.", "Write DeploymentType: PERSISTENT_1, or remove StorageType and DriveCacheType."),
    ("fsx-key", "error", "SCRATCH file systems take no encryption key of yours.", "Remove KmsKeyId: they are always encrypted."),
    ("fsx-links", "error", "The links to S3 do not go together.", "Use DataRepositoryAssociations, eight at most, or ImportPath with its options."),
    ("fsx-backups", "error", "Automatic backups go with PERSISTENT file systems without links to S3.", "Remove the backup options, or write AutomaticBackupRetentionDays."),
    ("fsx-several-subnets", "error", "A new FSx file system lives in one subnet, and the queues are in several.", "Put all queues into one subnet, or make the file system yourself and name it by id."),
    ("fsx-scratch-no-replication", "warning", "Scratch data is lost if a file server fails.", "Use PERSISTENT_2 for checkpoints, or copy them to S3."),
    ("efs-throughput", "error", "A throughput of EFS and `ThroughputMode: provisioned` go together.", "Write both, or none."),
    ("efs-encryption", "error", "IAM authorization and access points of EFS need encryption on the way.", "Write EncryptionInTransit: true."),
    ("efs-access-point", "error", "An access point belongs to an EFS that exists.", "Write FileSystemId as well."),
    # -------------------------------------------------------------------------------------------- volumes
    ("ebs-size", "error", "EBS sells no such size of this kind of volume.", "Write a size within the bounds that the finding names."),
    ("ebs-iops", "error", "EBS sells no such Iops for this kind and size of volume.", "Write Iops within the bounds, or leave it out."),
    ("ebs-throughput", "error", "A gp3 volume has 125 to 1000 MB/s, and a quarter of its Iops at most.", "Write less, or more Iops."),
    ("ebs-shared-by-many", "warning", "EBS is shared through the head node, whose network more than 100 nodes would wait for.", "Use FSx for Lustre or EFS."),
    ("kms-without-encryption", "error", "An encryption key is given, but encryption is not on.", "Write Encrypted: true."),
)  # fmt: skip
