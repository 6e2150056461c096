"""IAM's simulation of policies, which moto lacks: in the emulated account everything is allowed."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.iam.responses import IamResponse


def install() -> None:
    """Let moto answer SimulatePrincipalPolicy; a second call changes nothing."""
    IamResponse.simulate_principal_policy = _all_allowed


def _all_allowed(response: Any) -> ActionResult:
    actions = response._get_param("ActionNames", [])
    rows = [{"EvalActionName": action, "EvalResourceName": "*", "EvalDecision": "allowed"} for action in actions]
    return ActionResult({"EvaluationResults": rows, "IsTruncated": False})
