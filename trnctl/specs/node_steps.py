"""The steps in which a node gets its software: names, exit codes and remedies, for the scripts and for who reads them.

ParallelCluster tells of a script that failed only its exit code ("Failed to execute OnNodeConfigured script 1, return
code: 26."), so that each step has its own. Codes are never reused for another step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Role = Literal["head", "compute"]
LOG = "/var/log/trnctl-node.log"


@dataclass(frozen=True)
class NodeStep:
    """One step: `code` is the script's exit code when it fails, `failure` says what failed, `roles` who takes it.

    Two are no steps of their own but ways in which any may fail: `lock` and `time`.
    """

    name: str
    code: int
    failure: str
    remedy: str
    roles: tuple[Role, ...] = ("head", "compute")


STEPS: tuple[NodeStep, ...] = (
    NodeStep(
        "start", 20, "the node scripts cannot run here",
        "Let ParallelCluster run them, as root, on the Ubuntu system that the cluster file names.",
    ),
    NodeStep(
        "lock", 21, "another process kept the lock of apt or dpkg",
        "Build the software into an image (trnctl image build), or take away what else installs packages at boot.", (),
    ),
    NodeStep(
        "time", 22, "the time for a node's set-up ran out",
        f"See {LOG} for what took so long; a slow mirror or a missing NAT gateway does. An image with the software "
        "(trnctl image build) needs no time.", (),
    ),
    NodeStep(
        "upgrades", 23, "unattended upgrades could not be kept from the kernel",
        f"See {LOG}; check that the root volume is not full.",
    ),
    NodeStep(
        "dpkg", 24, "an interrupted installation could not be finished",
        f"See {LOG} for the package that fails; leave out what installs it, or use a clean image.",
    ),
    NodeStep(
        "repository", 25, "Neuron's package repository could not be used",
        "Check the way to the internet (NAT gateway) and that the repository serves this Ubuntu release.",
    ),
    NodeStep(
        "headers", 26, "there are no headers of the running kernel",
        "Use ParallelCluster's own image, or one whose kernel is in Ubuntu's repository (trnctl image build).",
    ),
    NodeStep(
        "driver", 27, "the Neuron driver is not there or does not load",
        f"See {LOG} and /var/lib/dkms/aws-neuronx/*/build/make.log; another kernel or SDK may be needed.",
    ),
    NodeStep(
        "packages", 28, "Neuron's runtime, collectives or tools could not be installed",
        f"See {LOG}; choose a neuron_sdk whose packages the repository has.",
    ),
    NodeStep("hosts", 29, "/etc/hosts could not be corrected", f"See {LOG}; check that the root volume is not full."),
    NodeStep(
        "limits", 30, "the limit of open files could not be raised",
        f"See {LOG}; check that the root volume is not full.",
    ),
    NodeStep(
        "efa", 31, "not all Elastic Fabric Adapters are there",
        "Replace the node; if all nodes fail, check `efa` of the compute resource and the image's EFA software.",
        ("compute",),
    ),
    NodeStep(
        "environment", 32, "the Python environment with compiler and PyTorch is not there",
        f"See {LOG}; check the way to the pip repositories and the room on the shared file system.",
    ),
    NodeStep(
        "hooks", 33, "the head node's timer could not be installed",
        f"See {LOG} and `systemctl status trnctl.timer`.", ("head",),
    ),
    NodeStep(
        "fleet", 34, "what counts the nodes' time could not be put on the head node",
        f"See {LOG}; check that the root volume is not full.", ("head",),
    ),
)  # fmt: skip

BY_CODE: Mapping[int, NodeStep] = {step.code: step for step in STEPS}


def steps_of(role: Role) -> tuple[NodeStep, ...]:
    """The steps of one kind of node, in order."""
    return tuple(step for step in STEPS if role in step.roles)
