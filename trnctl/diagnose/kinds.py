"""Which log, dump or script a file is, told by its content and, failing that, by its name."""

from __future__ import annotations

import re

SOURCES = (
    "stack-event", "describe-cluster", "clustermgtd", "slurm-resume", "slurmctld", "cfn-init", "cloud-init", "chef",
    "compute-console", "job-log", "kernel", "squeue", "sinfo", "scontrol", "fleet", "instance", "config",
    "sbatch-script", "unknown",
)  # fmt: skip

# The first row that fits wins, so what is unmistakable comes first.
_BY_CONTENT: tuple[tuple[str, str], ...] = (
    ("sbatch-script", r"\A#![^\n]*\b(?:ba|z|k)?sh\b"),
    ("stack-event", r'"(?:L|l)ogicalResourceId"|"ResourceStatusReason"|^\S+\s+(?:CREATE|UPDATE|DELETE)_FAILED\b'),
    ("describe-cluster", r'"(?:cloudFormationStackStatus|computeFleetStatus|clusterStatus)"'),
    ("slurm-resume", r"\[slurm_plugin\.resume:"),
    ("clustermgtd", r"\[slurm_plugin\.\w+:|clustermgtd"),
    ("slurmctld", r"^\[\d{4}-\d\d-\d\dT[\d:.]+\] (?:error|slurmctld|sched|debug|_|Node )|slurmctld version"),
    ("chef", r"(?:INFO|ERROR|FATAL|WARN): .*(?:Chef|cinc)|\* \w+\[[^\]]+\] action |Recipe: aws-parallelcluster"),
    ("cfn-init", r"\[(?:INFO|ERROR|DEBUG)\] .*(?:cfn-init|Command chef|CloudFormation client|Running configSets)"),
    ("cloud-init", r"Cloud-init v\.|cloud-init\[\d+\]|cc_scripts_user"),
    ("compute-console", r"Console output for Instance ID"),
    ("kernel", r"^\[ *\d+\.\d{6}\] |kernel: |NEURON_HW_ERR="),
    ("scontrol", r"^\s*JobId=\d+ |^NodeName=\S+ "),
    ("squeue", r"^\s*JOBID +PARTITION|^ *\d+ +\S+ +\S+ +\S+ +(?:PD|CF|R|CG|S) +[\d:-]+ +\d+ "),
    ("sinfo", r"^PARTITION +AVAIL|^REASON +USER|^\S+ +(?:up|inact|down|drain) +\S+ +\d+ "),
    ("config", r"^(?:Scheduling|HeadNode|SharedStorage):|^cluster:\s*$"),
    (
        "job-log",
        r"\|\|NEURON_|\bNRT:|\bNCCL\b|torchrun|^srun: |slurmstepd|Traceback \(most recent call last\)|\bstep[ =:]",
    ),
)  # fmt: skip
_RULES = tuple((source, re.compile(pattern, re.MULTILINE | re.IGNORECASE)) for source, pattern in _BY_CONTENT)
_BY_NAME = (
    ("clustermgtd", "clustermgtd"), ("slurm_resume", "slurm-resume"), ("slurmctld", "slurmctld"),
    ("compute_console", "compute-console"), ("cfn-init", "cfn-init"), ("cloud-init", "cloud-init"),
    ("bootstrap_error", "chef"), ("chef", "chef"), ("dmesg", "kernel"), ("squeue", "squeue"), ("sinfo", "sinfo"),
    ("scontrol", "scontrol"), ("slurm-", "job-log"), ("train", "job-log"), ("compile", "job-log"),
    ("prepare", "job-log"), (".sbatch", "sbatch-script"),
)  # fmt: skip
SNIFFED = 64 * 1024  # bytes at the start of a file that are enough to know it


def kind_of(head: str, name: str = "") -> str:
    """The source that a file is; `head` is how it begins, `name` its name. `unknown` when neither tells."""
    for source, pattern in _RULES:
        if pattern.search(head):
            return source
    base = name.rsplit("/", 1)[-1].lower()
    return next((source for part, source in _BY_NAME if part in base), "unknown")
