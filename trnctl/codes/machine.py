"""Codes of findings on the machine that trnctl runs on."""

from __future__ import annotations

from trnctl.findings import Level

MACHINE: tuple[tuple[str, Level, str, str], ...] = (
    ("pcluster-missing", "error", "There is no pcluster on PATH, nor where cluster.pcluster.executable points.", "Install it: pip install trnctl[pcluster], or the version that the cluster file names."),
    ("pcluster-broken", "error", "pcluster is there and does not tell its version: its installation is broken.", "Install it anew, in a virtual environment of its own."),
    ("pcluster-other-version", "error", "pcluster is not the version that the cluster file asks for; a cluster belongs to the version that made it.", "Install that version, point cluster.pcluster.executable to it, or change the file."),
    ("node-missing", "error", "There is no node.js, with which pcluster builds its CloudFormation template.", "Install node.js 20 or newer and put it first on PATH."),
    ("node-broken", "error", "node.js is there and does not tell its version.", "Install node.js 20 or newer and put it first on PATH."),
    ("node-old", "warning", "node.js is older than is maintained; before 10.13 pcluster refuses it.", "Install node.js 20 or newer and put it first on PATH."),
    ("ssh-missing", "error", "There is no ssh on PATH.", "Install OpenSSH's client."),
    ("aws-cli-missing", "error", "There is no aws on PATH, and `head_node.ssm` goes through it.", "Install AWS's command line, version 2."),
    ("session-manager-plugin-missing", "error", "There is no session-manager-plugin on PATH, and `head_node.ssm` goes through it.", "Install AWS's Session Manager plugin."),
    ("aws-credentials", "error", "AWS does not accept the credentials, or there are none.", "Run aws configure or aws sso login, or name a profile: --profile."),
    ("aws-unreachable", "warning", "AWS could not be reached, so that nothing was asked of it.", "Check the network, a proxy, and AWS_ENDPOINT_URL."),
    ("no-region", "warning", "Nothing names a region: neither an option nor a file nor the environment.", "Use --region, set AWS_REGION, or write a cluster file."),
    ("trn1-stack-frozen", "info", "Trn1 trains with PyTorch/XLA, whose support by Neuron ended with 2.30.", "Keep the SDK pinned; Trn2 and Trn3 move to TorchNeuron."),
)  # fmt: skip
