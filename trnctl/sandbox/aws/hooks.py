"""Where moto's CloudFormation is led into the engine of `stacks` and `updates`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from moto.cloudformation.models import CloudFormationBackend, Stack
from moto.cloudformation.responses import CloudFormationResponse
from moto.ec2.models.elastic_block_store import EBSBackend
from moto.efs.models import EFSBackend

from trnctl.sandbox.aws.stacks import Stacks
from trnctl.sandbox.aws.updates import Updates

# moto's own, taken once, so that installing again never wraps a wrapper.
_respond_to_create = CloudFormationResponse.create_stack
_delete_efs = EFSBackend.delete_file_system
_delete_volume = EBSBackend.delete_volume


def install_stacks(stacks: Stacks, updates: Updates) -> None:
    """CreateStack, UpdateStack and DeleteStack are accepted by moto and carried out by the engine."""

    def create(self: Any) -> None:
        stacks.begin_create(self)

    def update(self: Any, template: Any, role_arn: Any = None, parameters: Any = None, tags: Any = None) -> None:
        updates.begin(self, template, parameters, tags)

    def delete(self: Any, name_or_id: str) -> None:
        # A stack that does not exist is no error, as on AWS.
        for stack in list(self.stacks.values()):
            if name_or_id in (stack.name, stack.stack_id):
                stacks.begin_delete(stack)

    def respond_to_create(self: Any) -> Any:
        # moto does not read DisableRollback; the engine's thread cannot read it before this request is over.
        answer = _respond_to_create(self)
        stack = self.cloudformation_backend.get_stack(answer.result["StackId"])
        stack.disable_rollback = (
            self._get_bool_param("DisableRollback", False) or self._get_param("OnFailure") == "DO_NOTHING"
        )
        return answer

    Stack.create_resources, Stack.update = create, update
    # moto reads exports when a stack is accepted, which would create what they refer to; the engine publishes them.
    Stack.exports = property(lambda self: [])
    CloudFormationBackend.delete_stack = delete
    CloudFormationResponse.create_stack = respond_to_create


def install_file_systems(deleted: Callable[[str], None]) -> None:
    """Tell `deleted` the id of each EFS and of each EBS volume of a stack that is deleted."""

    def delete_efs(self: Any, file_system_id: str) -> Any:
        answer = _delete_efs(self, file_system_id)
        deleted(file_system_id)
        return answer

    def delete_volume(self: Any, volume_id: str) -> Any:
        tags = {tag["key"] for tag in self.describe_tags({"resource-id": [volume_id]})}
        answer = _delete_volume(self, volume_id)
        if "aws:cloudformation:logical-id" in tags:  # root volumes hold no shared data
            deleted(volume_id)
        return answer

    EFSBackend.delete_file_system, EBSBackend.delete_volume = delete_efs, delete_volume


def aside(act: Callable[[str], None]) -> Callable[[str], None]:
    """The same act in a thread of its own, for callers that hold the account's lock."""
    return lambda name: threading.Thread(target=act, args=(name,), daemon=True).start()
