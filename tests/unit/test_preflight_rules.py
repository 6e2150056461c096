"""One change to a good configuration, and exactly the finding that it deserves, at the line where it stands."""

from __future__ import annotations

import pytest

from trnctl.codes import CODES
from trnctl.findings import Finding
from trnctl.preflight.judge import judge
from trnctl.preflight.known_issues import MEETS
from trnctl.specs.pcluster_faults import FAULTS

BASE = """\
Region: us-west-2
Image: {Os: ubuntu2404}
HeadNode:
  InstanceType: c5.4xlarge
  Networking: {SubnetId: subnet-0aa11bb22cc33dd41}
  Ssh: {KeyName: demo-ed25519, AllowedIps: 203.0.113.0/24}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
  - Name: trn1
    CapacityType: ONDEMAND
    JobExclusiveAllocation: true
    ComputeResources:
    - {Name: t32, InstanceType: trn1.32xlarge, MinCount: 0, MaxCount: 4, Efa: {Enabled: true}}
    Networking:
      SubnetIds: [subnet-0aa11bb22cc33dd42]
      PlacementGroup: {Enabled: true}
    ComputeSettings: {LocalStorage: {RootVolume: {Size: 512}}}
  - Name: cpu
    ComputeResources:
    - {Name: any, Instances: [{InstanceType: c5.large}, {InstanceType: m5.large}], MaxCount: 4}
    Networking: {SubnetIds: [subnet-0aa11bb22cc33dd42]}
SharedStorage:
- Name: fsx
  MountDir: /fsx
  StorageType: FsxLustre
  FsxLustreSettings: {StorageCapacity: 1200, DeploymentType: PERSISTENT_2, PerUnitStorageThroughput: 250, DeletionPolicy: Retain}
"""
ALWAYS = {"storage-kept"}  # of BASE


def found(text: str, version: str = "3.16.1", cluster: str = "demo") -> list[Finding]:
    findings = judge(text, "launch.yaml", version=version, cluster=cluster).findings
    return [finding for finding in findings if finding.code not in ALWAYS]


def changed(old: str, new: str) -> str:
    assert BASE.count(old) == 1, old
    return BASE.replace(old, new)


def test_the_base_is_good() -> None:
    assert found(BASE) == []


FSX = "StorageCapacity: 1200, DeploymentType: PERSISTENT_2, PerUnitStorageThroughput: 250"
QUEUE = "    CapacityType: ONDEMAND\n"
TYPE = "InstanceType: trn1.32xlarge"
MOUNT = "MountDir: /fsx"
HEAD = "  InstanceType: c5.4xlarge\n"
END = "DeletionPolicy: Retain}\n"
ARN = "arn:aws:secretsmanager:us-west-2:111122223333:secret:x"
STORE = "- {Name: more, MountDir: /more, StorageType: "
ACTION = "{OnNodeConfigured: {Script: s3://demo-bkt/i.sh"
ROWS: tuple[tuple[str, str, str], ...] = (
    # ---------------------------------------------------------------------------------------- the form of the file
    ("Os: ubuntu2404", "Os: ubuntu2004", "os-not-supported"),
    ("Os: ubuntu2404", "Os: centos7", "os-not-supported"),
    ("Os: ubuntu2404", "Os: rocky9", "os-needs-image os-without-neuron pcluster-known-issue"),
    ("Os: ubuntu2404", "Os: ubuntu2204", "os-without-neuron"),
    ("Os: ubuntu2404", "Os: 24", "not-text"),
    ("Image: {Os: ubuntu2404}", "Image:", "empty-value"),
    ("Image: {Os: ubuntu2404}", "Imgae: {Os: ubuntu2404}", "unknown-key missing-key"),
    ("Region: us-west-2", "Region: <YOUR REGION>", "placeholder"),
    ("Region: us-west-2", "Region: us-west-9", "region-unknown"),
    ("Region: us-west-2", "Region: ap-southeast-4", "region-not-in-pcluster"),
    ("subnet-0aa11bb22cc33dd41", "subnet-<PUBLIC SUBNET ID>", "placeholder"),
    ("subnet-0aa11bb22cc33dd41", "'${SUBNET}'", "placeholder"),
    ("subnet-0aa11bb22cc33dd41", "subnet-41", "subnet-id"),
    ("SubnetId: subnet-0aa11bb22cc33dd41", "SubnetId: {HEAD_SUBNET}", "placeholder"),
    (f"{TYPE}, ", f"{TYPE}, CapacityReservationTarget: {{CapacityReservationId: '<cr-x>'}}, ", "placeholder placement-group-with-reservation"),
    ("Name: fsx\n", "Name: fsx-${project}\n", "placeholder"),
    ("SubnetId: subnet-0aa11bb22cc33dd41", "SubnetIds: [subnet-0aa11bb22cc33dd41]", "unknown-key missing-key"),
    ("203.0.113.0/24", "203.0.113.0", "cidr"),
    ("MaxCount: 4, Efa", "MaxCount: 4, MaxCount: 8, Efa", "duplicate-key"),
    ("MaxCount: 4, Efa", "MaxCount: 0, Efa", "out-of-range"),
    ("MaxCount: 4, Efa", "MaxCount: four, Efa", "wrong-type"),
    ("Efa: {Enabled: true}", "Efa: true", "wrong-type efa-off-multi-node"),
    ("Efa: {Enabled: true}", "Efa: {Enabled: maybe}", "wrong-type efa-off-multi-node"),
    (QUEUE, "    Efa: {Enabled: true}\n", "misplaced-key"),
    (QUEUE, "    PlacementGroup: {Enabled: true}\n", "misplaced-key"),
    (f"{TYPE}, ", f"{TYPE}, PlacementGroup: {{Enabled: true}}, ", "misplaced-key"),
    (f"{TYPE}, ", f"{TYPE}, JobExclusiveAllocation: true, ", "misplaced-key"),
    (QUEUE, f"    CustomActions: {ACTION}, Iam: {{S3Access: [{{BucketName: demo-bkt}}]}}}}}}\n", "misplaced-key s3-access-missing"),
    (QUEUE, "    capacity_type: SPOT\n", "unknown-key"),
    (QUEUE, "    CapacityType: spot\n", "unknown-value"),
    ("SubnetIds: [subnet-0aa11bb22cc33dd42]\n      P", "SubnetIds: subnet-0aa11bb22cc33dd42\n      P", "wrong-type"),
    ("  Scheduler: slurm\n", "  Scheduler: slurm\n  SlurmSettings: {MemoryBasedScheduling: true}\n", "unknown-key"),
    ("  Scheduler: slurm\n", "  Scheduler: awsbatch\n", "unknown-value"),
    ("Region: us-west-2\n", "Region: us-west-2\nTags: [{Key: keep, Value: true}]\n", "not-text"),
    # ------------------------------------------------------------------------------------------------- cluster
    ("Region: us-west-2\n", "Region: us-west-2\nTags: [{Key: 'parallelcluster:x', Value: y}]\n", "tag-reserved"),
    ("Region: us-west-2\n", "Region: us-west-2\nTags: [{Key: 'aws:x', Value: y}]\n", "tag-reserved"),
    ("Region: us-west-2\n", "Region: us-west-2\nTags: [{Key: x, Value: y}, {Key: x, Value: z}]\n", "duplicate-tag"),
    ("Region: us-west-2\n", "Region: us-west-2\nImds: {ImdsSupport: v1.0}\n", "imds-v1"),
    ("Region: us-west-2\n", "Region: us-west-2\nIam: {PermissionsBoundary: my-boundary}\n", "arn"),
    ("Region: us-west-2\n", f"Region: us-west-2\nIam: {{ResourcePrefix: {'p' * 31}}}\n", "resource-prefix"),
    ("Region: us-west-2\n", "Region: us-west-2\nMonitoring: {DetailedMonitoring: true}\n", "detailed-monitoring"),
    ("Region: us-west-2\n", "Region: us-west-2\nMonitoring: {Logs: {CloudWatch: {Enabled: false}}}\n", "logs-rotated-away"),
    ("Region: us-west-2\n", "Region: us-west-2\nAdditionalPackages: {IntelSoftware: {IntelHpcPlatform: true}}\n", "intel-packages"),
    (", AllowedIps: 203.0.113.0/24", "", "ssh-from-anywhere"),
    ("203.0.113.0/24", "0.0.0.0/0", "ssh-from-anywhere"),
    ("  Ssh: {KeyName: demo-ed25519, AllowedIps: 203.0.113.0/24}\n", "", "no-key"),
    (HEAD, "  InstanceType: t3.micro\n", "head-node-small"),
    (HEAD, "  InstanceType: t3.nano\n", "head-node-small head-node-memory"),
    (HEAD, "  InstanceType: m7g.xlarge\n", "architecture-mixed"),
    (HEAD, "  InstanceType: mac2.metal\n", ""),
    (HEAD, "  InstanceType: c5 4xlarge\n", "instance-type-form"),
    (HEAD, f"{HEAD}  SharedStorageEfsSettings: {{Encrypted: true}}\n", "head-node-efs"),
    (HEAD, f"{HEAD}  Dcv: {{Enabled: true}}\n", "dcv-from-anywhere"),
    (HEAD, f"{HEAD}  Image: {{}}\n", "missing-key"),
    (HEAD, f"{HEAD}  Iam: {{InstanceRole: 'arn:aws:iam::1:role/x', S3Access: [{{BucketName: x}}]}}\n", "iam-together"),
    (HEAD, f"{HEAD}  Iam: {{S3Access: [{{BucketName: 's3://demo'}}]}}\n", "bucket-name"),
    (HEAD, f"{HEAD}  LocalStorage: {{RootVolume: {{Size: 100, VolumeType: gp2, Iops: 3000}}}}\n", "ebs-iops"),
    ("  Scheduler: slurm\n", f"  Scheduler: slurm\n  SlurmSettings: {{Database: {{Uri: 'mysql://x', UserName: u, PasswordSecretArn: '{ARN}'}}}}\n", "database-uri"),
    ("  Scheduler: slurm\n", "  Scheduler: slurm\n  SlurmSettings: {ExternalSlurmdbd: {Host: x}}\n", "munge-key-missing"),
    ("  Scheduler: slurm\n", f"  Scheduler: slurm\n  SlurmSettings: {{MungeKeySecretArn: '{ARN}', ExternalSlurmdbd: {{Host: x}}, Database: {{Uri: x, UserName: u, PasswordSecretArn: '{ARN}'}}}}\n", "accounting-twice"),
    (END, f"{END}DirectoryService: {{DomainName: 'a b', DomainAddr: 'ldaps://x', PasswordSecretArn: '{ARN}', DomainReadOnlyUser: u}}\n", "domain-name"),
    (END, f"{END}DirectoryService: {{DomainName: a, DomainAddr: 'ldap://x', PasswordSecretArn: '{ARN}', DomainReadOnlyUser: u}}\n", "ldap-unencrypted"),
    (END, f"{END}DirectoryService: {{DomainName: a, DomainAddr: 'ldaps://x', PasswordSecretArn: '{ARN}', DomainReadOnlyUser: u, LdapTlsReqCert: never, AdditionalSssdConfigs: {{id_provider: ad}}}}\n", "ldap-certificate sssd-reserved"),
    (END, f"{END}DirectoryService: {{DomainName: a, DomainAddr: 'ldaps://x', PasswordSecretArn: 'arn:aws:ssm:us-west-2:1:parameter/x', DomainReadOnlyUser: u}}\n", "arn"),
    ("  Scheduler: slurm\n", "  Scheduler: slurm\n  SlurmSettings: {MungeKeySecretArn: my-key}\n", "arn"),
    ("  Scheduler: slurm\n", "  Scheduler: slurm\n  SlurmSettings: {MungeKeySecretArn: '<munge key>'}\n", "placeholder"),
    ("  Scheduler: slurm\n", "  Scheduler: slurm\n  SlurmSettings: {CustomSlurmSettingsIncludeFile: /etc/slurm.conf}\n", "url"),
    (END, f"{END}DevSettings: {{ClusterTemplate: 'file:///x', NodePackage: 's3://a/b', Cookbook: {{ChefCookbook: 'https://a/b'}}}}\n", "url"),
    # ----------------------------------------------------------------------------------- queues and capacity
    ("Name: trn1\n", "Name: Trn1\n", "queue-name"),
    ("Name: trn1\n", f"Name: {'q' * 26}\n", "queue-name"),
    ("Name: trn1\n", "Name: default\n", "queue-name"),
    ("Name: cpu\n", "Name: trn1\n", "duplicate-name"),
    ("MinCount: 0, MaxCount: 4", "MinCount: 5, MaxCount: 4", "counts"),
    (f"{TYPE}, ", "", "instance-type-missing"),
    (f"{TYPE}, ", f"{TYPE}, Instances: [{{InstanceType: trn1.32xlarge}}], ", "instance-type-or-instances"),
    ("{InstanceType: m5.large}", "{InstanceType: c5.large}", "duplicate-instance-type"),
    ("{InstanceType: m5.large}", "{InstanceType: m5.xlarge}", "instances-differ"),
    ("{InstanceType: m5.large}", "{InstanceType: m5.metal}", ""),
    ("{InstanceType: m5.large}", "{InstanceType: m6g.large}", "architecture-mixed"),
    ("{Name: any, Instances", "{Name: any, DisableSimultaneousMultithreading: true, Instances", ""),
    ("  - Name: cpu\n", "  - Name: cpu\n    CapacityType: CAPACITY_BLOCK\n", "capacity-block-type capacity-block-counts capacity-without-id"),
    (QUEUE, "    CapacityType: CAPACITY_BLOCK\n", "capacity-block-counts capacity-without-id placement-group-with-reservation"),
    (f"{TYPE}, ", f"{TYPE}, CapacityReservationTarget: {{CapacityReservationId: cr-1}}, ", "cr-id placement-group-with-reservation"),
    (f"{TYPE}, ", f"{TYPE}, CapacityReservationTarget: {{}}, ", "reservation-target"),
    (f"{TYPE}, ", f"{TYPE}, CapacityReservationTarget: {{CapacityReservationResourceGroupArn: cr-0aa11bb22cc33dd51}}, ", "arn"),
    (f"{TYPE}, ", f"{TYPE}, CapacityReservationTarget: {{CapacityReservationResourceGroupArn: 'arn:aws:resource-groups:us-west-2:1:group/x'}}, ", ""),
    ("{Name: any, ", "{Name: any, CapacityReservationTarget: {CapacityReservationId: cr-0aa11bb22cc33dd51}, ", "reservation-with-instances"),
    (f"{TYPE}, ", f"{TYPE}, SpotPrice: 3, ", "spot-price-without-spot"),
    ("  - Name: cpu\n", "  - Name: cpu\n    AllocationStrategy: capacity-optimized\n", "allocation-strategy"),
    ("    Networking: {SubnetIds: [subnet-0aa11bb22cc33dd42]}", "    Networking: {SubnetIds: [subnet-0aa11bb22cc33dd42, subnet-0aa11bb22cc33dd42]}", "duplicate-subnet"),
    ("      SubnetIds: [subnet-0aa11bb22cc33dd42]\n", "      SubnetIds: [subnet-0aa11bb22cc33dd42, subnet-0aa11bb22cc33dd43]\n", "several-subnets efa-several-subnets placement-group-several-subnets fsx-several-subnets"),
    (f"{TYPE}, ", f"{TYPE}, SchedulableMemory: 600000, ", "schedulable-memory memory-not-scheduled"),
    (f"{TYPE}, ", f"{TYPE}, DynamicNodePriority: 1, StaticNodePriority: 5, ", ""),
    ("MinCount: 0,", "MinCount: 1, DynamicNodePriority: 1, StaticNodePriority: 5,", "node-priorities"),
    ("    JobExclusiveAllocation: true\n", "", "jobs-share-nodes"),
    ("RootVolume: {Size: 512}", "RootVolume: {Size: 45}", "root-volume-small"),
    ("RootVolume: {Size: 512}", "RootVolume: {Size: 512, VolumeType: gp9}", "unknown-value"),
    (QUEUE, "    CustomSlurmSettings: {OverSubscribe: 'NO'}\n", "slurm-setting-denied"),
    (f"{TYPE}, ", f"{TYPE}, CustomSlurmSettings: {{Gres: 'neuron:32'}}, ", "slurm-setting-denied"),
    ("  Scheduler: slurm\n", "  Scheduler: slurm\n  SlurmSettings: {CustomSlurmSettings: [{GresTypes: neuron}]}\n", "slurm-setting-denied"),
    ("  Scheduler: slurm\n", "  Scheduler: slurm\n  SlurmSettings: {CustomSlurmSettings: [{NodeName: a-dy-b, CPUs: 2}]}\n", "slurm-node-name"),
    ("  Scheduler: slurm\n", "  Scheduler: slurm\n  SlurmSettings: {CustomSlurmSettings: [{MaxNodes: 2}], CustomSlurmSettingsIncludeFile: 's3://a/b'}\n", "slurm-settings-twice"),
    # ------------------------------------------------------------------------------------------ EFA, addresses
    (TYPE, "InstanceType: trn1.2xlarge", "efa-unsupported"),
    (TYPE, "InstanceType: trn1.16xlarge", "instance-type-unknown"),
    (", Efa: {Enabled: true}", "", "efa-off-multi-node"),
    (f"{TYPE}, MinCount: 0, MaxCount: 4, Efa: {{Enabled: true}}", f"{TYPE}, MinCount: 0, MaxCount: 1", "efa-off"),
    ("Efa: {Enabled: true}", "Efa: {GdrSupport: true}", "efa-off-multi-node gdr-without-efa"),
    ("      PlacementGroup: {Enabled: true}\n", "", "placement-group-unstated"),
    ("PlacementGroup: {Enabled: true}", "PlacementGroup: {Enabled: false}", "placement-group-off"),
    ("PlacementGroup: {Enabled: true}", "PlacementGroup: {Enabled: true, Name: a, Id: b}", "placement-group-names"),
    ("PlacementGroup: {Enabled: true}", "PlacementGroup: {Enabled: false, Name: a}", "placement-group-names placement-group-off"),
    ("      PlacementGroup", "      AssignPublicIp: true\n      PlacementGroup", "public-ip-multi-nic"),
    ("      PlacementGroup", "      SecurityGroups: [sg-0aa11bb22cc33dd45]\n      PlacementGroup", "security-groups-mixed"),
    ("      PlacementGroup", "      AdditionalSecurityGroups: [sg-0aa11bb22cc33dd45]\n      PlacementGroup", "efa-additional-groups"),
    # ---------------------------------------------------------------------------------------------- scripts
    (HEAD, f"{HEAD}  CustomActions: {ACTION}}}}}\n", "s3-access-missing"),
    (HEAD, f"{HEAD}  Iam: {{S3Access: [{{BucketName: 'demo-*', KeyName: 'a/*'}}]}}\n  CustomActions: {ACTION}}}}}\n", "s3-access-missing"),
    (HEAD, f"{HEAD}  Iam: {{S3Access: [{{BucketName: 'demo-*'}}]}}\n  CustomActions: {ACTION}}}}}\n", ""),
    (HEAD, f"{HEAD}  CustomActions: {{OnNodeStart: {{Script: /home/me/a.sh}}}}\n", "script-url"),
    (HEAD, f"{HEAD}  CustomActions: {{OnNodeStart: {{Script: 'https://x.tgz'}}}}\n", "script-url"),
    (HEAD, f"{HEAD}  CustomActions: {{OnNodeStart: {{Script: 'https://x/y', Args: neuron}}}}\n", "wrong-type"),
    (HEAD, f"{HEAD}  CustomActions: {{OnNodeStart: {{Script: 'https://x/y', Sequence: [{{Script: 'https://x/y'}}]}}}}\n", "script-and-sequence"),
    (HEAD, f"{HEAD}  CustomActions: {{OnNodeStart: {{Args: [a], Sequence: [{{Script: 'https://x/y'}}]}}}}\n", "ignored-key"),
    (QUEUE, "    CustomActions: {OnNodeUpdated: {Script: 'https://x/y'}}\n", "misplaced-key"),
    # ---------------------------------------------------------------------------------------------- storage
    (FSX, "StorageCapacity: -2400, DeploymentType: PERSISTENT_2, PerUnitStorageThroughput: 250", "fsx-capacity"),
    (FSX, "StorageCapacity: 1300, DeploymentType: PERSISTENT_2, PerUnitStorageThroughput: 250", "fsx-capacity"),
    (FSX, "DeploymentType: PERSISTENT_2, PerUnitStorageThroughput: 250", "fsx-capacity"),
    (FSX, "StorageCapacity: 1.2TB, DeploymentType: PERSISTENT_2, PerUnitStorageThroughput: 250", "wrong-type"),
    (FSX, "StorageCapacity: 2400, DeploymentType: PERSISTENT_2", "fsx-throughput"),
    (FSX, "StorageCapacity: 2400, DeploymentType: PERSISTENT_2, PerUnitStorageThroughput: 200", "fsx-throughput"),
    (FSX, "StorageCapacity: 2400, DeploymentType: SCRATCH_2, StorageType: SSD, PerUnitStorageThroughput: 125", "fsx-throughput fsx-scratch-no-replication"),
    (FSX, "StorageCapacity: 3600, DeploymentType: SCRATCH_2", "fsx-capacity fsx-scratch-no-replication"),
    (FSX, "StorageCapacity: 3600, DeploymentType: SCRATCH_1", "fsx-scratch-no-replication"),
    (FSX, "StorageCapacity: 6000, DeploymentType: PERSISTENT_2, PerUnitStorageThroughput: 12, StorageType: HDD", "fsx-capacity fsx-disk-type"),
    (FSX, f"{FSX}, DriveCacheType: READ", "fsx-disk-type"),
    (FSX, f"{FSX}, ExportPath: 's3://a/b'", "fsx-links"),
    (FSX, f"{FSX}, ImportPath: /data", "s3-uri fsx-links"),
    (FSX, f"{FSX}, ImportPath: 's3://a'", "fsx-links"),
    (FSX, f"{FSX}, ImportPath: 's3://${{BUCKET}}'", "placeholder"),
    (FSX, f"{FSX}, CopyTagsToBackups: true", "fsx-backups"),
    (FSX, f"{FSX}, DataCompressionType: ZSTD", "unknown-value"),
    (FSX, "FileSystemId: fs-0aa11bb22cc33dd61", "storage-exists"),
    (FSX, "FileSystemId: fs-0aa11bb2", "fs-id storage-exists"),
    (", DeletionPolicy: Retain", "", "storage-deleted-with-cluster"),
    (MOUNT, "MountDir: /opt/slurm", "mount-reserved"),
    (MOUNT, "MountDir: /scratch", "ephemeral-clash"),
    (MOUNT, "MountDir: /scratch/fsx", "mount-overlap"),
    (MOUNT, "MountDir: /fsx/", "mount-directory"),
    ("StorageType: FsxLustre", "StorageType: Efs", "storage-settings"),
    ("Name: fsx\n", "Name: a name\n", "storage-name"),
    (END, f"{END}{STORE}FsxLustre, FsxLustreSettings: {{StorageCapacity: 1200, DeploymentType: SCRATCH_2, DeletionPolicy: Retain}}}}\n", "too-many-new-file-systems fsx-scratch-no-replication"),
    (END, f"{END}- {{Name: more, MountDir: /fsx/data, StorageType: Ebs}}\n", "mount-overlap"),
    (END, f"{END}- {{Name: fsx, MountDir: /more, StorageType: Ebs}}\n", "duplicate-name"),
    (END, f"{END}{STORE}Ebs, EbsSettings: {{Size: 100, VolumeType: st1}}}}\n", "ebs-size"),
    (END, f"{END}{STORE}Ebs, EbsSettings: {{VolumeType: st1}}}}\n", "ebs-size"),
    (END, f"{END}{STORE}Ebs, EbsSettings: {{VolumeType: io1, Iops: 2000}}}}\n", "ebs-iops"),
    (END, f"{END}{STORE}Ebs, EbsSettings: {{Size: 100, Throughput: 900}}}}\n", "ebs-throughput"),
    (END, f"{END}{STORE}Ebs, EbsSettings: {{Size: 100, Encrypted: false, KmsKeyId: k}}}}\n", "kms-without-encryption"),
    (END, f"{END}{STORE}Efs, EfsSettings: {{ThroughputMode: provisioned, DeletionPolicy: Retain}}}}\n", "efs-throughput"),
    (END, f"{END}{STORE}Efs, EfsSettings: {{FileSystemId: fs-0aa11bb2, IamAuthorization: true}}}}\n", "efs-encryption"),
    (END, f"{END}{STORE}Efs, EfsSettings: {{AccessPointId: fsap-0aa11bb22cc33dd44, EncryptionInTransit: true, DeletionPolicy: Retain}}}}\n", "efs-access-point"),
    (END, f"{END}{STORE}FsxOntap}}\n", "storage-settings"),
    (END, f"{END}- {{Name: c, MountDir: /home, StorageType: FileCache, FileCacheSettings: {{FileCacheId: fc-0aa11bb22}}}}\n", "mount-home-cache"),
)  # fmt: skip


@pytest.mark.parametrize(("old", "new", "codes"), ROWS)
def test_a_change_has_its_finding(old: str, new: str, codes: str) -> None:
    assert {finding.code for finding in found(changed(old, new))} == set(codes.split())


def test_every_finding_stands_at_a_line_with_its_path_and_remedy() -> None:
    for old, new, _ in ROWS:
        for finding in found(changed(old, new)):
            assert finding.file == "launch.yaml"
            assert finding.line, finding
            assert finding.remedy, finding
            assert finding.code in CODES


# ------------------------------------------------------------------------------------------- in so many words


def test_line_column_and_the_place_where_a_key_belongs() -> None:
    text = changed(
        QUEUE, f"    CustomActions:\n      OnNodeConfigured:\n        Script: https://x/y\n        Iam: {{}}\n{QUEUE}"
    )
    [finding] = found(text)
    assert finding.place == "launch.yaml:14:9"
    assert finding.path == "Scheduling.SlurmQueues[0].CustomActions.OnNodeConfigured.Iam"
    assert finding.remedy == "Move it to Scheduling.SlurmQueues[].Iam."


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (f"{TYPE}, ", f"{TYPE}, PlacementGroup: {{Enabled: true}}, ", "ComputeResources[].Networking.PlacementGroup"),
        (QUEUE, "    PlacementGroup: {Enabled: true}\n", "SlurmQueues[].Networking.PlacementGroup"),
        (QUEUE, "    Efa: {Enabled: true}\n", "SlurmQueues[].ComputeResources[].Efa"),
        (HEAD, f"{HEAD}  S3Access: []\n", "HeadNode.Iam.S3Access"),
        (HEAD, f"{HEAD}  KeyName: x\n", "HeadNode.Ssh.KeyName"),
        ("SubnetId: subnet", "SubnetIds: subnet", "Did you mean SubnetId?"),
        (HEAD, f"{HEAD}  InternalSharedStorageType: Efs\n", "Did you mean SharedStorageType?"),
        ("Os: ubuntu2404", "Os: `ubuntu2404`", "Remove the backticks"),
        ("Efa: {Enabled: true}", "Efa: yes", "Efa: {Enabled: true}"),
        ("MaxCount: 4, Efa", "MaxCount: 8 nodes, Efa", "plain value"),
        ("Os: ubuntu2404", "Os: ubuntu2004", "Write `Os: ubuntu2404`"),
        (FSX, "StorageCapacity: 1300, DeploymentType: SCRATCH_2", "the nearest is 1200"),
    ],
)
def test_the_remedy_names_the_way_out(old: str, new: str, words: str) -> None:
    assert any(words in finding.remedy for finding in found(changed(old, new)))


@pytest.mark.parametrize(
    ("cluster", "queue", "resource", "code"),
    [
        ("research-llm-pretrain-west2", "trn1-pretrain", "t32-a", "fqdn-near-limit"),  # 62 characters, 68 with a port
        ("research-llm-pretrain-west2", "trn1-pretraining", "trn1-32xl-a", "fqdn-too-long"),  # 71
        ("demo", "trn1", "t32", ""),
    ],
)
def test_names_that_neuron_cannot_resolve(cluster: str, queue: str, resource: str, code: str) -> None:
    text = changed("Name: trn1\n", f"Name: {queue}\n").replace("Name: t32", f"Name: {resource}")
    text = text.replace("MaxCount: 4, Efa", "MaxCount: 16, Efa")
    assert [finding.code for finding in found(text, cluster=cluster)] == [code] * bool(code)


def test_the_longest_name_is_that_of_the_largest_index() -> None:
    text = changed("Name: t32", "Name: t32-abcdefghijklmn").replace("Name: trn1\n", "Name: trn1-abcdefghij\n")
    few, many = (
        found(text.replace("MaxCount: 4, Efa", f"MaxCount: {count}, Efa"), cluster="demo12") for count in (9, 1000)
    )
    assert (few, [finding.code for finding in many]) == ([], ["fqdn-near-limit"])


def test_several_interfaces_follow_the_version() -> None:
    """Since 3.15 a single card with EFA has two interfaces; before, and on request, one."""
    text = changed(TYPE, "InstanceType: trn2.3xlarge").replace(
        "      Placement", "      AssignPublicIp: true\n      Placement"
    )
    legacy = text + "DevSettings: {EfaInterfaceType: efa}\n"
    codes = [{one.code for one in found(*words)} for words in ((text,), (legacy,), (text, "3.14.0"))]
    assert codes == [{"public-ip-multi-nic"}, set(), {"pcluster-known-issue"}]


def test_too_many_of_anything() -> None:
    tags = "Tags: [" + ", ".join(f"{{Key: k{number}, Value: v}}" for number in range(41)) + "]\n"
    assert {one.code for one in found(tags + BASE)} == {"tag-limit"}
    queue = "  - {{Name: q{0}, Networking: {{SubnetIds: [subnet-0aa11bb22cc33dd42]}}, ComputeResources: [{{Name: c, InstanceType: c5.large, MaxCount: 1}}]}}\n"
    queues = "".join(queue.format(number) for number in range(50))
    assert {one.code for one in found(changed("  SlurmQueues:\n", "  SlurmQueues:\n" + queues))} == {"too-many-queues"}
    volumes = "".join(f"- {{Name: e{n}, MountDir: /e{n}, StorageType: Ebs}}\n" for n in range(6))
    assert {one.code for one in found(BASE + volumes)} == {"too-many-volumes"}
    many = changed("MaxCount: 4, Efa", "MaxCount: 600, Efa")
    assert {one.code for one in found(many.replace("c5.4xlarge", "c5.large"))} == {"head-node-memory"}


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("3.14.0", {"#7601", "#7095"}), ("3.14.1", {"#7601"}), ("3.16.0", {"#7601"}), ("3.16.1", set())],
)
def test_known_faults_of_a_release(version: str, numbers: set[str]) -> None:
    text = changed("MaxCount: 4, Efa", "MaxCount: 64, Efa")
    said = found(text, version=version)
    assert {one.code for one in said} <= {"pcluster-known-issue"}
    assert {one.evidence.split()[-1] for one in said} == numbers


def test_every_fault_asks_for_something_that_the_rules_know() -> None:
    assert {fault.of for fault in FAULTS} == set(MEETS)


@pytest.mark.parametrize(("count", "refused"), [(8, False), (9, True)])  # beside the two that stand there
def test_queues_were_fewer_before_3_6(count: int, refused: bool) -> None:
    queue = "  - {{Name: q{0}, Networking: {{SubnetIds: [subnet-0aa11bb22cc33dd42]}}, ComputeResources: [{{Name: c, InstanceType: c5.large, MaxCount: 1}}]}}\n"
    queues = "".join(queue.format(number) for number in range(count))
    text = changed("  SlurmQueues:\n", "  SlurmQueues:\n" + queues)
    codes = {one.code for one in found(text.replace("ubuntu2404", "ubuntu2004"), version="3.5.1")}
    assert ("too-many-queues" in codes) is refused


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("", "file-empty", None),
        ("# nothing but a comment\n", "file-empty", None),
        ("- a\n- b\n", "wrong-type", 1),
        ("Image: {Os: ubuntu2404\n", "yaml-syntax", 2),
        ("Image:\n\tOs: x\n", "yaml-syntax", 2),
        ("Image:\n  Os: {{ os }}\n", "template-not-rendered", 2),
        ("Region: us-west-2\n{% if x %}\nImage: {}\n{% endif %}\n", "template-not-rendered", 2),
    ],
)
def test_a_text_that_is_no_configuration(text: str, code: str, line: int | None) -> None:
    verdict = judge(text, "launch.yaml")
    assert [(finding.code, finding.line) for finding in verdict.findings][:1] == [(code, line)]
    assert verdict.config is None


def test_braces_in_quotes_are_an_argument_like_any_other() -> None:
    action = "CustomActions: {OnNodeStart: {Script: 'https://x/y', Args: ['{{ x }}', '<y>', '${HOME}']}}"
    assert found(changed(HEAD, f"{HEAD}  {action}\n")) == []


# ------------------------------------------------------------------------------------ what only words can tell


def test_a_server_without_a_script_is_a_warning_and_a_path_of_this_machine_an_error() -> None:
    for address, level in (("https://x.tgz", "warning"), ("file:///x.sh", "error")):
        [finding] = found(changed(HEAD, f"{HEAD}  CustomActions: {{OnNodeStart: {{Script: '{address}'}}}}\n"))
        assert (finding.code, finding.level) == ("script-url", level)


def test_features_could_not_be_set_before_3_15() -> None:
    text = changed(f"{TYPE}, ", f"{TYPE}, CustomSlurmSettings: {{Features: fast}}, ")
    refused = {
        version: {one.code for one in found(text, version) if one.level == "error"} for version in ("3.14.0", "3.16.1")
    }
    assert refused == {"3.14.0": {"slurm-setting-denied"}, "3.16.1": set()}


def test_a_password_may_be_a_parameter_where_there_is_nothing_else() -> None:
    users = "DirectoryService: {DomainName: a, DomainAddr: 'ldaps://x', DomainReadOnlyUser: u, PasswordSecretArn: 'arn:aws-iso-b:ssm:us-isob-east-1:1:parameter/x'}\n"
    text = changed(END, f"{END}{users}").replace("us-west-2\n", "us-isob-east-1\n", 1)
    assert "arn" not in {finding.code for finding in found(text)}


def test_the_size_that_a_volume_gets_unasked_is_named() -> None:
    [finding] = found(changed(END, f"{END}{STORE}Ebs, EbsSettings: {{VolumeType: sc1}}}}\n"))
    assert "35 GiB" in finding.message
    assert "500" in finding.remedy


def test_a_key_for_a_file_system_that_exists_is_not_to_be_encrypted_after_all() -> None:
    mounted = f"{END}{STORE}Efs, EfsSettings: {{FileSystemId: fs-0aa11bb2, KmsKeyId: k}}}}\n"
    assert [finding.code for finding in found(changed(END, mounted))] == ["storage-exists"]


def test_a_merge_key_stands_at_its_own_line() -> None:
    text = changed("  - Name: cpu\n", "  - &cpu\n    Name: cpu\n").replace(
        "SharedStorage:", "  - <<: *cpu\n    Name: more\nSharedStorage:"
    )
    [finding] = found(text)
    assert (finding.code, finding.path) == ("merge-key", "Scheduling.SlurmQueues[2]")
    assert text.splitlines()[(finding.line or 0) - 1].strip() == "- <<: *cpu"
    assert "merge-key" not in {one.code for one in found(text, "3.4.0")}


def test_a_section_that_stands_twice_is_judged_whole() -> None:
    placement = "      PlacementGroup: {Enabled: true}\n"
    text = changed(placement, "").replace("    Networking:\n", f"    Networking:\n{placement}    Networking:\n", 1)
    assert [finding.code for finding in found(text)] == ["duplicate-key"]
