"""What can be made to fail on demand: `trnctl sandbox fault NAME`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from trnctl.errors import ToolError, UsageError
from trnctl.sandbox.head_faults import HEAD_FAULTS
from trnctl.sandbox.home import Sandbox, read
from trnctl.sandbox.lifecycle import ask
from trnctl.sandbox.neuron.emulation import FAULTS as TOOL_FAULTS

CLEAR = "clear"


@dataclass(frozen=True)
class Fault:
    """One way to fail. `why` is the code of the cause that `trnctl why` then names, '' where nothing is left to find.
    `rule` is a fault of the account, which strikes so many times; without one, `path` is the world's control route for
    it, and what it sets stays until it is cleared."""

    happens: str
    why: str
    rule: Mapping[str, object] = field(default_factory=dict)
    path: str = "/_sandbox/faults"


_DEPENDENT = (
    'Resource handler returned message: "resource sg-0aa11bb22cc33dd71 has a dependent object '
    '(Service: Ec2, Status Code: 400)" (HandlerErrorCode: InvalidRequest)'
)
# Of the account: AWS's own codes and wordings, as far as they are published.
_ACCOUNT_FAULTS = {
    "insufficient-capacity": Fault(
        "EC2 refuses to launch the next compute nodes", "insufficient-capacity", {"kind": "launch"}
    ),
    "partial-capacity": Fault(
        "EC2 has two compute nodes more, and no others", "insufficient-capacity", {"kind": "launch", "capacity": 2}
    ),
    "slow-stack": Fault("every resource of a stack takes ten times as long", "stack-under-way", {"kind": "slow"}),
    "throttling": Fault(
        "CloudFormation answers its next call with Throttling (boto3 itself tries three times)",
        "ec2-throttled",
        {"kind": "api", "service": "cloudformation", "code": "Throttling", "message": "Rate exceeded"},
    ),
    "expired-token": Fault(
        "AWS's next call is refused because the credentials have expired",
        "credentials-expired",
        {
            "kind": "api",
            "code": "ExpiredToken",
            "message": "The security token included in the request is expired",
            "status": 403,
        },
    ),
    "delete-failed": Fault(
        "a security group cannot be deleted; the stack ends as DELETE_FAILED",
        "dependent-object",
        {"kind": "resource", "op": "DELETE", "type": "AWS::EC2::SecurityGroup", "reason": _DEPENDENT},
    ),
}
_ACCOUNT_FAULTS["image-build-failed"] = Fault(
    "Image Builder fails while it builds the next image",
    "image-build-failed",
    {
        "kind": "resource", "op": "CREATE", "type": "AWS::ImageBuilder::Image",
        "reason": "Resource handler returned message: \"Error occurred during operation 'SSM execution"
        " '0aa11bb2-2cc3-3dd4-4ee5-5ff66aa77bb8' failed for image arn:"
        " 'arn:aws:imagebuilder:us-west-2:123456789012:image/parallelclusterimage-demo/3.16.1/1' with status = 'Failed'"
        " in state = 'BUILDING' and failure message = 'Document arn:aws:imagebuilder:us-west-2:123456789012:component/"
        "parallelclusterimage/3.16.1/1 failed!''.\" (HandlerErrorCode: GeneralServiceException)",
    },
)  # fmt: skip
# Of the head node and the fleet of each cluster that is up: they happen at once.
_CLUSTER_FAULTS = {
    "slurmctld-down": ("Slurm's controller dies, and stays down until somebody restarts it", "slurmctld-down"),
    "node-boot-failure": (
        "no compute node that boots can be set up: each shuts down, and only its log in CloudWatch tells why",
        "package-index-failed",
    ),
    "ssh-drop": ("every ssh connection to the head node breaks now", ""),
    "zombie-node": (
        "Slurm loses an idle node, and its instance runs on and costs, until it is cleared",
        "instances-orphaned",
    ),
    "protected-mode": (
        "nodes have failed to boot ten times, and the fleet is in protected mode; trnctl cluster fleet start ends it",
        "apt-lock",
    ),
}
# Of the emulated Neuron tools, which say themselves what happens.
_TOOL_WHYS = {
    "compile-failure": "compile-partial",
    "compile-failure-exit-0": "compile-partial",
    "compile-killed": "compile-host-oom",
    "training-crash": "hbm-oom",
    "hardware-error": "neuron-hw-error",
    "full-disk": "disk-full",
    "hung-collective": "hung-collective",
    "missing-device": "node-failed-health",
    "slow-link": "node-failed-health",
    "hung-link": "node-failed-health",
    "old-driver": "node-failed-health",
}
_ACCOUNT_FAULTS["placement-group-in-use"] = Fault(
    "a placement group is still in use when the stack is deleted, as with nodes that terminate slowly",
    "retry-delete-later",
    {
        "kind": "resource", "op": "DELETE", "type": "AWS::EC2::PlacementGroup",
        "reason": "The placement group 'compute1-i1' is in use and may not be deleted.",
    },
)  # fmt: skip
FAULTS: Mapping[str, Fault] = {
    **{name: Fault(happens, _TOOL_WHYS[name], path="/_sandbox/tool-faults") for name, happens in TOOL_FAULTS.items()},
    **_ACCOUNT_FAULTS,
    **{name: Fault(head.happens, head.why, head.rule()) for name, head in HEAD_FAULTS.items()},
    **{name: Fault(happens, why, path="/_sandbox/cluster-faults") for name, (happens, why) in _CLUSTER_FAULTS.items()},
    "node-death": Fault(
        "a compute node of each cluster dies, the last that runs a job if any does",
        "node-not-responding",
        path="/_sandbox/node-death",
    ),
    "first-node-death": Fault(
        "the same, but the first, and with it the job's batch script dies",
        "node-not-responding",
        path="/_sandbox/node-death",
    ),
}


_A_CLUSTER = "Create a cluster first: trnctl cluster create."
_WHAT_IT_NEEDS = {"zombie-node": "An idle node must be up: trnctl ssh -- srun -N 1 true powers one up."}


def list_faults() -> Mapping[str, str]:
    """Every fault by name, with what happens; `clear` among them."""
    return {**{name: fault.happens for name, fault in FAULTS.items()}, CLEAR: "nothing fails any more"}


def set_fault(home: Path, name: str, *, times: int = 1) -> None:
    """Make it fail. `times` counts for faults of the account: how often they strike; those of the Neuron tools stay
    until they are cleared. UsageError for an unknown name, ToolError when the sandbox is not up."""
    fault = FAULTS.get(name)
    if fault is None:
        near = get_close_matches(name, FAULTS, n=1)
        raise UsageError(
            f"There is no fault {name}.",
            remedy=f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(FAULTS)}.",
        )
    sandbox = _running(home)
    if fault.rule:
        # What stands until it is cleared is not counted.
        counted = {} if {"capacity", "factor"} & set(fault.rule) or fault.rule["kind"] == "slow" else {"times": times}
        ask(sandbox, "POST", fault.path, {**fault.rule, **counted})
    elif name in _CLUSTER_FAULTS:
        if not ask(sandbox, "POST", fault.path, {"add": name})["struck"]:
            raise ToolError("Nothing is there that it could strike.", remedy=_WHAT_IT_NEEDS.get(name, _A_CLUSTER))
    elif name in {"node-death", "first-node-death"}:
        if not ask(sandbox, "POST", fault.path, {"first": name == "first-node-death"})["nodes"]:
            raise ToolError("No compute node is up that could die.", remedy="Submit a job, which powers nodes up.")
    else:
        ask(sandbox, "POST", fault.path, {"add": name})


def clear_faults(home: Path) -> None:
    """Nothing fails any more. What has failed stays so. ToolError when the sandbox is not up."""
    sandbox = _running(home)
    ask(sandbox, "DELETE", "/_sandbox/faults")
    ask(sandbox, "POST", "/_sandbox/tool-faults", {"clear": True})
    ask(sandbox, "POST", "/_sandbox/cluster-faults", {"clear": True})


def _running(home: Path) -> Sandbox:
    found = read(home)
    if found is None or not found.alive:
        raise ToolError("The sandbox is not up.", remedy="Start it with trnctl sandbox up.")
    return found
