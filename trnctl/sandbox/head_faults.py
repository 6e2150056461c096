"""Head nodes that fail to boot: what CloudFormation then says, what has reached CloudWatch, what the console shows.

Messages are AWS's and ParallelCluster's own as far as they are published; names, ids and times are made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class HeadFault:
    """One way in which a head node fails. `reason` is what it signals ('' for one that stays silent until the wait
    condition times out), `logs` the streams that have reached CloudWatch, `console` what EC2 shows, `why` the code of
    the cause that they tell."""

    happens: str
    why: str
    reason: str = ""
    logs: Mapping[str, str] = field(default_factory=dict)
    console: str = ""

    def rule(self) -> dict[str, object]:
        """The rule of the emulated account."""
        said = {"reason": self.reason} if self.reason else {}
        return {"kind": "boot", **said, "logs": dict(self.logs), "console": self.console}


_SIGNALLED = "the next head node fails to boot, and the stack rolls back: "
_SILENT = "the next head node never reports back, and the stack rolls back: "
_CHEF_FAILED = """\
[2026-10-01T09:12:01+00:00] FATAL: Stacktrace dumped to /etc/chef/local-mode-cache/cache/cinc-stacktrace.out
[2026-10-01T09:12:01+00:00] FATAL: Mixlib::ShellOut::ShellCommandFailed: {resource} had an error
"""
HEAD_FAULTS: Mapping[str, HeadFault] = {
    "head-bootstrap-timeout": HeadFault(
        _SILENT + "it says nothing, and nothing of it is left to read", why="headnode-bootstrap-timeout"
    ),
    "head-no-route": HeadFault(
        _SILENT + "it does not reach AWS, which its console says",
        why="endpoint-missing",
        console="[   41.532100] cloud-init[1207]: botocore.exceptions.ConnectTimeoutError: Connect timeout on endpoint"
        ' URL: "https://cloudformation.us-west-2.amazonaws.com/"\n',
    ),
    "head-image-unbaked": HeadFault(
        _SILENT + "its image was not made for ParallelCluster, which its console says",
        why="invalid-ami",
        console="[   33.120045] cloud-init[1188]: This AMI was not baked by ParallelCluster. Please use pcluster"
        " build-image command to create an AMI by providing your AMI as parent image.\n",
    ),
    "head-recipe-failed": HeadFault(
        _SIGNALLED + "a recipe of ParallelCluster fails, because a package cannot be fetched",
        why="package-index-failed",
        reason="Failed to run chef recipe aws-parallelcluster-slurm::config_head_node line 42. Please check"
        " /var/log/chef-client.log in the head node, or check the chef-client.log in CloudWatch logs.",
        logs={
            "chef-client": "E: Failed to fetch http://mirror.example.com/ubuntu/pool/main/m/munge/"
            "munge_0.5.15.deb  503  Service Unavailable\n"
            + _CHEF_FAILED.format(resource="apt_package[munge] (aws-parallelcluster-slurm::config_head_node line 42)"),
        },
    ),
    "head-script-failed": HeadFault(
        _SIGNALLED + "the script OnNodeConfigured ends with an error, because the Neuron driver does not load",
        why="driver-not-loaded",
        reason="Failed to execute OnNodeConfigured script 1 s3://my-trnctl-bucket/trnctl/head.sh, return code: 27."
        " Please check /var/log/cfn-init.log in the head node, or check the cfn-init.log in CloudWatch logs.",
        logs={
            "cfn-init": "2026-10-01T09:11:00Z trnctl-node: step driver\n"
            "modprobe: FATAL: Module neuron not found in directory /lib/modules/6.14.0-1015-aws\n"
            "2026-10-01T09:12:01Z trnctl-node: failed: the Neuron driver is not there or does not load (status 1)\n"
            "2026-10-01T09:12:01Z trnctl-node: step driver: failed after 61 s; exit code 27\n"
            "2026-10-01 09:12:01,123 [ERROR] Command runpostinstall (fetch_and_run) failed\n",
        },
    ),
    "head-script-missing": HeadFault(
        _SIGNALLED + "the script OnNodeConfigured cannot be fetched",
        why="custom-action-download-failed",
        reason="Failed to download OnNodeConfigured script 1 s3://my-trnctl-bucket/trnctl/head.sh using aws s3, cause:"
        " An error occurred (403) when calling the HeadObject operation: Forbidden.",
    ),
    "head-image-mismatch": HeadFault(
        _SIGNALLED + "its image was made for another ParallelCluster",
        why="ami-version-mismatch",
        reason="This AMI was created with aws-parallelcluster-cookbook-3.12.0, but is trying to be used with"
        " aws-parallelcluster-cookbook-3.16.1. Please either use an AMI created with"
        " aws-parallelcluster-cookbook-3.16.1 or change your ParallelCluster to 3.12.0",
    ),
    "head-mount-failed": HeadFault(
        _SIGNALLED + "the file system cannot be mounted, because the kernel has no Lustre client",
        why="lustre-kernel-mismatch",
        reason="Failed to mount FSX. Please check /var/log/chef-client.log in the head node, or check the"
        " chef-client.log in CloudWatch logs.",
        logs={
            "chef-client": "modprobe: FATAL: Module lustre not found in directory /lib/modules/6.14.0-1015-aws\n"
            "mount.lustre: mount fs-0aa11bb22cc33dd44.fsx.us-west-2.amazonaws.com@tcp:/abcdefgh at /fsx failed: No such"
            " device\nAre the lustre modules loaded?\n"
            + _CHEF_FAILED.format(resource="lustre[mount fsx] (aws-parallelcluster-environment::fsx line 20)"),
        },
    ),
}
