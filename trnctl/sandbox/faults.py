"""What can be made to fail on demand: `trnctl sandbox fault NAME`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from trnctl.errors import ToolError, UsageError
from trnctl.sandbox.home import Sandbox, read
from trnctl.sandbox.lifecycle import ask
from trnctl.sandbox.neuron.emulation import FAULTS as TOOL_FAULTS

CLEAR = "clear"


@dataclass(frozen=True)
class Fault:
    """One way to fail. `rule` is a fault of the account, which strikes so many times; without one, `path` is the
    world's control route for it, and what it sets stays until it is cleared."""

    happens: str
    rule: Mapping[str, object] = field(default_factory=dict)
    path: str = "/_sandbox/faults"


_DEPENDENT = (
    'Resource handler returned message: "resource sg-0aa11bb22cc33dd71 has a dependent object '
    '(Service: Ec2, Status Code: 400)" (HandlerErrorCode: InvalidRequest)'
)
# Of the account: AWS's own codes and wordings, as far as they are published.
_ACCOUNT_FAULTS = {
    "insufficient-capacity": Fault("EC2 refuses to launch the next compute nodes", {"kind": "launch"}),
    "head-bootstrap-timeout": Fault("the next head node never reports back; the stack rolls back", {"kind": "boot"}),
    "throttling": Fault(
        "CloudFormation answers its next call with Throttling (boto3 itself tries three times)",
        {"kind": "api", "service": "cloudformation", "code": "Throttling", "message": "Rate exceeded"},
    ),
    "expired-token": Fault(
        "AWS's next call is refused because the credentials have expired",
        {
            "kind": "api",
            "code": "ExpiredToken",
            "message": "The security token included in the request is expired",
            "status": 403,
        },
    ),
    "delete-failed": Fault(
        "a security group cannot be deleted; the stack ends as DELETE_FAILED",
        {"kind": "resource", "op": "DELETE", "type": "AWS::EC2::SecurityGroup", "reason": _DEPENDENT},
    ),
}
FAULTS: Mapping[str, Fault] = {
    **{name: Fault(happens, path="/_sandbox/tool-faults") for name, happens in TOOL_FAULTS.items()},
    **_ACCOUNT_FAULTS,
    "node-death": Fault(
        "a compute node of each cluster dies, one that runs a job if any does", path="/_sandbox/node-death"
    ),
}


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
        ask(sandbox, "POST", fault.path, {**fault.rule, "times": times})
    elif name == "node-death":
        if not ask(sandbox, "POST", fault.path, {})["nodes"]:
            raise ToolError("No compute node is up that could die.", remedy="Submit a job, which powers nodes up.")
    else:
        ask(sandbox, "POST", fault.path, {"add": name})


def clear_faults(home: Path) -> None:
    """Nothing fails any more. What has failed stays so. ToolError when the sandbox is not up."""
    sandbox = _running(home)
    ask(sandbox, "DELETE", "/_sandbox/faults")
    ask(sandbox, "POST", "/_sandbox/tool-faults", {"clear": True})


def _running(home: Path) -> Sandbox:
    found = read(home)
    if found is None or not found.alive:
        raise ToolError("The sandbox is not up.", remedy="Start it with trnctl sandbox up.")
    return found
